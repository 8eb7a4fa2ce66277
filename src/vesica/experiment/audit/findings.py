"""What an audit found: one line an attack, with its interval and what would be guessed without knowing anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from torch import Tensor

RESAMPLES = 200
PERMUTATIONS = 50


@dataclass(frozen=True)
class Measured:
    """A share or an AUC, with its 95 % interval over rows, and what knowing nothing gives."""

    value: float
    low: float
    high: float
    nothing: float

    @property
    def beyond_nothing(self) -> float:
        """From 0, nothing was learned, to 1, everything was; below 0 the guess is worse than none."""
        return (self.value - self.nothing) / (1 - self.nothing) if self.nothing < 1 else 0.0

    @property
    def told_apart(self) -> bool:
        """From knowing nothing, by its interval."""
        return self.low > self.nothing


@dataclass(frozen=True)
class Finding:
    """One attack of one party on what is another's."""

    attacker: str
    owner: str
    secret: str  # what was guessed, and of how many rows
    attack: str
    needs: str  # what the attacker has beside its own part of the run
    measure: str
    measured: Measured
    at_home: float | None = None  # the same attack without this run: what the attacker can do anyway
    bound: float | None = None  # what a guarantee of this run lets any attack reach
    detail: str = ""
    pictures: tuple[tuple[str, str], ...] = ()  # of some rows: how they are, and as they were guessed; PNG in base64

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        return {**values.pop("measured"), "beyond_nothing": self.measured.beyond_nothing, **values}

    @property
    def sentence(self) -> str:
        found = self.measured
        attacker = self.attacker if " " in self.attacker else f"'{self.attacker}'"
        said = (
            f"{attacker} {'guesses' if found.told_apart else 'cannot tell'} {self.secret} of '{self.owner}' "
            f"by {self.attack}: {self.measure} {found.value:.3f} (95 % interval {found.low:.3f} to {found.high:.3f}; "
            f"{found.nothing:.3f} without knowing anything"
        )
        if self.at_home is not None:
            said += f"; {self.at_home:.3f} without this run"
        if self.bound is not None:
            said += f"; at most {self.bound:.3f} by the guarantee"
        return f"{said}). Needed: {self.needs}.{' ' + self.detail if self.detail else ''}"


def measure(
    metric: Callable[[Tensor, Tensor], float], guess: Tensor, truth: Tensor, *, nothing: float | None = None, seed: int
) -> Measured:
    """A metric with its interval by resampling rows.

    `nothing` left out: the metric's mean for the same guesses given to the rows at random.
    """
    random = np.random.default_rng([seed, 1])
    rows = len(truth)
    if nothing is None:
        shuffled = [metric(guess[random.permutation(rows)], truth) for _ in range(PERMUTATIONS)]
        nothing = float(np.mean(shuffled))
    drawn = [random.integers(rows, size=rows) for _ in range(RESAMPLES)]
    low, high = np.nanquantile([metric(guess[some], truth[some]) for some in drawn], [0.025, 0.975])
    return Measured(metric(guess, truth), float(low), float(high), nothing)


def area(scores: Tensor, truth: Tensor) -> float:
    """Under the curve, of two classes; not a number where there is one only."""
    return float(roc_auc_score(truth, scores)) if len(truth.unique()) == 2 else float("nan")


def area_either_way(scores: Tensor, truth: Tensor) -> float:
    """Under the curve, whichever of the two classes the high scores mean."""
    found = area(scores, truth)
    return max(found, 1 - found)


def share_right(guess: Tensor, truth: Tensor) -> float:
    return float((guess == truth).double().mean())
