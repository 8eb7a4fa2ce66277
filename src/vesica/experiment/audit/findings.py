"""What an audit found: one line an attack, with its interval and what would be guessed without knowing anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata
from torch import Tensor

from vesica.training.cluster import majority_classes, matched_classes, mean_recall, purity

RESAMPLES = 200


@dataclass(frozen=True)
class Measured:
    """A share or an AUC, with its 95 % interval over rows, and what knowing nothing gives."""

    value: float
    low: float
    high: float
    nothing: float
    told_apart: bool  # from knowing nothing

    def beyond(self, other: float) -> float:
        """From 0, no more was learned than that, to 1, everything was; below 0 the guess is worse."""
        return (self.value - other) / (1 - other) if other < 1 else 0.0


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
    at_home: float | None = None  # the best that the attacker can do anyway, without this run
    bound: float | None = None  # what a guarantee of this run lets any attack reach
    detail: str = ""
    pictures: tuple[tuple[str, str], ...] = ()  # of some rows: how they are, and as they were guessed; PNG in base64

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        return {**values.pop("measured"), "beyond": self.beyond, **values}

    @property
    def beyond(self) -> float:
        """How much was learned that neither knowing nothing gives nor what can be done without the run."""
        return self.measured.beyond(max(self.measured.nothing, self.at_home or 0.0))

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


Outcome = Finding | str  # or what was not tried, and why
Metric = Callable[[Tensor, Tensor], float]  # of guesses and the truth


def measure(metric: Metric, guess: Tensor, truth: Tensor, *, nothing: float, seed: int) -> Measured:
    """A metric with its interval by resampling rows; told apart from nothing where all of it lies above."""
    low, high = interval(metric, guess, truth, seed=seed)
    return Measured(metric(guess, truth), low, high, nothing, low > nothing)


@dataclass(frozen=True)
class UpToRenaming:
    """A metric that names guesses as well as can be: it finds something in noise, too."""

    metric: Metric
    name: Callable[[Tensor, Tensor], Tensor]  # the guesses, named once and for all
    of_named: Metric

    def measure(self, guess: Tensor, truth: Tensor, *, seed: int) -> Measured:
        """What knowing nothing gives is the mean for truth in random order; told apart: more than 39 in 40 of these.

        The interval is for names that are kept: resampled rows would be named anew, and better than they are.
        """
        random = np.random.default_rng([seed, 7])
        value = self.metric(guess, truth)
        shuffled = [self.metric(guess, truth[random.permutation(len(truth))]) for _ in range(RESAMPLES)]
        low, high = interval(self.of_named, self.name(guess, truth), truth, seed=seed)
        above = value > float(np.quantile(shuffled, 0.975))
        return Measured(value, min(low, value), max(high, value), float(np.mean(shuffled)), above)


def interval(metric: Metric, guess: Tensor, truth: Tensor, *, seed: int) -> tuple[float, float]:
    """95 %, by resampling rows."""
    random, rows = np.random.default_rng([seed, 1]), len(truth)
    drawn = [random.integers(rows, size=rows) for _ in range(RESAMPLES)]
    low, high = np.nanquantile([metric(guess[some], truth[some]) for some in drawn], [0.025, 0.975])
    return float(low), float(high)


def area(scores: Tensor, truth: Tensor) -> float:
    """Under the curve: the share of pairs of the classes 0 and 1 that the scores put in order, a tie half.

    Not a number where there are not both, or others too. By ranks: a library's checks would take most of an audit's
    time, which asks for hundreds of areas of few rows.
    """
    positive = truth.numpy() == 1
    above, below = int(positive.sum()), int((truth == 0).sum())
    if not above or not below or above + below < len(truth):
        return float("nan")
    ranks = rankdata(scores.numpy(), nan_policy="raise")
    return float((ranks[positive].sum() - above * (above + 1) / 2) / (above * below))


def area_either_way(scores: Tensor, truth: Tensor) -> float:
    """Under the curve, whichever of the two classes the high scores mean."""
    found = area(scores, truth)
    return max(found, 1 - found)


def oriented(scores: Tensor, truth: Tensor) -> Tensor:
    return scores if area(scores, truth) >= 0.5 else -scores


def share_right(guess: Tensor, truth: Tensor) -> float:
    return float((guess == truth).double().mean())


def recall(guess: Tensor, truth: Tensor) -> float:
    """The share of a class that is guessed right, the mean over classes."""
    return float(np.mean([share_right(guess[truth == each], truth[truth == each]) for each in truth.unique()]))


PURITY = UpToRenaming(purity, majority_classes, share_right)
MEAN_RECALL = UpToRenaming(mean_recall, matched_classes, recall)
EITHER_WAY = UpToRenaming(area_either_way, oriented, area)
