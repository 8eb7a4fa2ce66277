"""What a run's messages cost in privacy."""

import math
from dataclasses import dataclass
from typing import Literal

Protected = Literal["labels", "columns", "records"]  # what neighbours differ in: a label, a person's columns, a record


@dataclass(frozen=True)
class Spent:
    """(epsilon, delta) differential privacy; the run's statements say of what, and what is not covered."""

    epsilon: float
    delta: float  # 0: pure
    protects: Protected = "records"


def at_most(epsilon: float) -> str:
    """An epsilon in words: rounded up, never down, to three decimals or as many as a small one needs."""
    digits = 3 if epsilon >= 0.01 or not epsilon else 2 - math.floor(math.log10(epsilon))
    return f"{math.ceil(epsilon * 10**digits) / 10**digits:.{digits}f}"
