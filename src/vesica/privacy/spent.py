"""What a run's messages cost in privacy."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Spent:
    """(epsilon, delta) differential privacy; the run's statements say of what, and what is not covered."""

    epsilon: float
    delta: float  # 0: pure
