"""Whether a model was trained on a row: membership inference (Carlini et al., IEEE S&P 2022), scored and bounded."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.stats import beta, binom
from torch import Tensor

from vesica.errors import InputError

SMALLEST_VARIANCE = 1e-12  # shadow models that all say the same
POINTS = 500  # of a distribution, each as likely


def confidence(outputs: Tensor, labels: Tensor) -> Tensor:
    """How sure a model is of each row's own class, from its logits or log-probabilities: log(p / (1 - p)), (rows,).

    A row that was trained on tends to have a high one. It ranks rows as their loss does, with an even spread.
    """
    if outputs.ndim != 2 or outputs.shape[1] < 2 or len(labels) != len(outputs):
        raise InputError(
            f"a confidence needs outputs (rows, two or more classes) and a label a row and got {tuple(outputs.shape)} "
            f"and {tuple(labels.shape)}: give both for the same rows"
        )
    if not outputs.isfinite().all():
        raise InputError("a confidence needs finite outputs and some are not: give logits and not probabilities of 0")
    values, own = outputs.detach().double(), labels[:, None]
    others = values.scatter(1, own, -math.inf).logsumexp(dim=1)  # never 1 - p: it is 0 where p is almost 1
    return values.gather(1, own).squeeze(1) - others


def likelihood_ratio(target: Tensor, shadows: Tensor, *, trained: Tensor) -> Tensor:
    """LiRA: the log of how much likelier a row's confidence is if it was trained on than if it was not, (rows,).

    `target` (rows,) is the confidence of the model under attack, `shadows` (models, rows) those of models of the
    attacker's own, and `trained` (models, rows) says which of these were trained on which row. Each row has a mean of
    its own on either side, and all rows share one variance a side: few models do not tell more. A row that has models
    on one side only is given the mean step between the sides. Where no shadow model was trained on any row, the
    score is how many standard deviations a confidence lies above what is usual for its row (the offline attack).
    """
    _check_shadows(target, shadows, trained)
    values, inside = shadows.double(), trained.bool()
    mean_in, mean_out = _row_means(values, inside), _row_means(values, ~inside)
    variance_in, variance_out = _shared_variance(values, inside), _shared_variance(values, ~inside)
    if not inside.any():
        return (target.double() - mean_out) / math.sqrt(variance_out)
    step = (mean_in - mean_out).nanmean()
    if step.isnan():
        raise InputError("no row has shadow models on both sides: train each on a random half of the rows")
    mean_in = torch.where(mean_in.isnan(), mean_out + step, mean_in)
    mean_out = torch.where(mean_out.isnan(), mean_in - step, mean_out)
    return _log_density(target, mean_in, variance_in) - _log_density(target, mean_out, variance_out)


@dataclass(frozen=True)
class Rate:
    """The share of members that pass a threshold, with a 95 % interval for the false-positive rate that was meant."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, hits: int, members: int, *, rank: int, outsiders: int, at: float) -> Rate:
        """Of a threshold that was drawn, too: others pass the `rank`-th highest of them with a beta-distributed rate.

        Members are taken to pass so many times as often as others. The interval lies above `at` just where so many of
        them would pass in less than one of forty draws if they scored like others, and likewise above the multiple of
        `at` that a guarantee allows. For any curve that is concave it is, if anything, too wide.
        """
        if not 0 <= hits <= members or not members or not 0 < rank <= outsiders:
            raise InputError(f"a rate is of one or more rows and not {hits} of {members}: give some rows")
        others = beta.ppf((np.arange(POINTS) + 0.5) / POINTS, rank, outsiders - rank + 1) / at

        def so_many(rate: float) -> float:
            return float(binom.sf(hits - 1, members, np.minimum(1, rate * others)).mean()) - 0.025

        def so_few(rate: float) -> float:
            return float(binom.cdf(hits, members, np.minimum(1, rate * others)).mean()) - 0.025

        low = brentq(so_many, 0, 1) if hits else 0.0
        high = brentq(so_few, 0, 1) if so_few(1) < 0 else 1.0
        return cls(hits / members, low, high)


def true_positive_rate(scores: Tensor, members: Tensor, *, at: float = 0.01) -> Rate | None:
    """The share of members that score above a threshold which one more non-member passes with probability `at` or less.

    The threshold is the score of a non-member: the k-th highest of n of them is passed with probability k / (n + 1).
    Equal scores do not pass. None where there are no members or too few others (for .1 %, fewer than 999).
    """
    members = members.bool()
    if scores.shape != members.shape or scores.ndim != 1 or scores.isnan().any() or not 0 < at < 1:
        raise InputError(
            f"a true-positive rate needs a score and a membership a row, and a false-positive rate within 0..1, "
            f"not {tuple(scores.shape)}, {tuple(members.shape)} and {at}: give such, with no NaN"
        )
    outsiders, inside = scores[~members], scores[members]
    rank = math.floor(at * (len(outsiders) + 1) + 1e-9)  # .29 * 100 is a little below 29
    if not rank or not len(inside):
        return None
    threshold = outsiders.sort(descending=True).values[rank - 1]
    return Rate.of(int((inside > threshold).sum()), len(inside), rank=rank, outsiders=len(outsiders), at=at)


def bound(epsilon: float, delta: float, *, at: float) -> float:
    """The largest true-positive rate at a false-positive rate of `at` that (epsilon, delta) lets any attack have.

    Kairouz, Oh and Viswanath, ICML 2015.
    """
    if not (epsilon >= 0 and 0 <= delta <= 1 and 0 <= at <= 1):
        raise InputError(f"a bound needs epsilon from 0 on, delta and at in 0..1, not {epsilon}, {delta} and {at}")
    if epsilon == math.inf:
        return 1.0
    from_false_positives = math.exp(min(epsilon, 700)) * at + delta
    from_false_negatives = 1 - math.exp(-epsilon) * (1 - delta - at)
    return min(1.0, from_false_positives, from_false_negatives)


def _row_means(values: Tensor, chosen: Tensor) -> Tensor:
    """Over the chosen models, (rows,); NaN where there is none."""
    return torch.where(chosen, values, torch.nan).nanmean(dim=0)


def _shared_variance(values: Tensor, chosen: Tensor) -> float:
    """Around each row's own mean, over all rows that have two chosen models or more."""
    counts = chosen.sum(dim=0)
    freedom = int((counts - 1).clamp(min=0).sum())
    if not freedom:
        return _shared_variance(values, ~chosen)
    squares = torch.where(chosen, (values - _row_means(values, chosen)).square(), 0)
    return max(float(squares.sum()) / freedom, SMALLEST_VARIANCE)


def _log_density(values: Tensor, mean: Tensor, variance: float) -> Tensor:
    """Of a normal distribution, without the constant."""
    return -0.5 * ((values.double() - mean).square() / variance + math.log(variance))


def _check_shadows(target: Tensor, shadows: Tensor, trained: Tensor) -> None:
    if target.ndim != 1 or shadows.shape[1:] != target.shape or trained.shape != shadows.shape or not shadows.numel():
        raise InputError(
            f"a likelihood ratio needs (rows,), (models, rows) and (models, rows), not {tuple(target.shape)}, "
            f"{tuple(shadows.shape)} and {tuple(trained.shape)}: give the same rows in all"
        )
    if not (target.isfinite().all() and shadows.isfinite().all()):
        raise InputError("a likelihood ratio needs finite confidences and some are not: leave those models out")
    inside = trained.bool()
    if max(int(inside.sum(dim=0).max()), int((~inside).sum(dim=0).max())) < 2:
        raise InputError("the likelihood ratio needs two shadow models on one side of some row: train more of them")
