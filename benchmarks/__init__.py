"""What Vesica costs, each time beside a peer that is measured in the same run."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """The median cost of something, and that of its peer; `limit` is the largest ratio that is fine."""

    name: str
    cost: float
    peer: str
    peer_cost: float
    repeats: int
    limit: float | None = None
    unit: str = "s"

    @property
    def ratio(self) -> float:
        return self.cost / self.peer_cost

    @property
    def met(self) -> bool | None:
        return None if self.limit is None else self.ratio <= self.limit

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


def seconds_of(step: Callable[[], object], *, clock: Callable[[], float] = perf_counter) -> float:
    start = clock()
    step()
    return clock() - start


def time_in_turn(
    steps: Mapping[str, Callable[[], object]], repeats: int, *, clock: Callable[[], float] = perf_counter
) -> dict[str, float]:
    """The median seconds of each step; in turn, so that a slow moment of the machine meets them all."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats + 1):
        for name, step in steps.items():
            taken[name].append(seconds_of(step, clock=clock))
    return {name: median(times[1:]) for name, times in taken.items()}  # the first one warms up
