"""Marvell: the noise that tells two classes' gradients apart least, for its power. Li et al., "Label Leakage and
Protection in Two-party Split Learning", ICLR 2022, Theorems 1 and 2.

It guarantees nothing: its bound holds for gradients that are Gaussian in each class, seen once. So it is drawn from the
party's own random numbers, and a run with it can be repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_FEWEST = 2  # rows of a class, or it has no variance
_POINTS, _ZOOMS = 301, 5  # of the grid on which the best noise is looked for, and how often it is made finer
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Class:
    """A class in a batch: its share of the rows, and how far their gradients scatter in each direction."""

    share: float
    variance: float


@dataclass(frozen=True)
class Noise:
    """On one class: its variance along the line between the means, and in each direction across it."""

    along: float
    across: float


@dataclass(frozen=True)
class Solution:
    """The noise on each class, and what is left between them: KL(P0 || P1) + KL(P1 || P0)."""

    negative: Noise
    positive: Noise
    sum_kl: float


@dataclass(frozen=True)
class Noised:
    """Gradients that may leave; `sum_kl` is None where a class had too few rows to measure it."""

    gradients: Tensor
    sum_kl: float | None


def marvell_noise(gradients: Tensor, labels: Tensor, *, power: float) -> Noised:
    """The gradients (rows, dim) of a batch of classes 0 and 1, with noise of expected squared norm P a row.

    P is `power` times the squared distance of the classes' means. Where a class has fewer than two rows, noise of the
    same power is alike in all directions and for both; where it has none, the longest row stands for the distance.
    """
    positive = labels == 1
    ones, zeros = gradients[positive].double(), gradients[~positive].double()
    if min(len(ones), len(zeros)) < _FEWEST:
        apart = ones.mean(0) - zeros.mean(0) if len(ones) and len(zeros) else gradients.double().norm(dim=1).max()
        deviation = apart.norm() * math.sqrt(power / gradients.shape[1])
        return Noised(gradients + deviation.to(gradients) * torch.randn_like(gradients), None)
    apart = ones.mean(0) - zeros.mean(0)
    distance, dim = float(apart.square().sum()), gradients.shape[1]
    found = solve(
        *(Class(len(rows) / len(gradients), float(rows.var(0, correction=0).mean())) for rows in (zeros, ones)),
        distance=distance,
        dim=dim,
        power=power * distance,
    )
    direction = apart / max(math.sqrt(distance), torch.finfo(torch.float64).tiny)
    noise = draw(found, positive[:, None], direction.to(gradients))
    return Noised(gradients + noise, found.sum_kl)


def draw(found: Solution, positive: Tensor, direction: Tensor) -> Tensor:
    """(rows, dim), for rows of which `positive` (rows, 1) says the class."""

    def of_rows(negatives: float, positives: float) -> Tensor:
        return torch.where(positive, math.sqrt(positives), math.sqrt(negatives)).to(direction)

    zero, one = found.negative, found.positive
    along = of_rows(zero.along - zero.across, one.along - one.across)  # what is across goes in all directions
    across = of_rows(zero.across, one.across)
    drawn = torch.randn(len(positive), len(direction) + 1, dtype=direction.dtype, device=direction.device)
    return along * drawn[:, :1] * direction + across * drawn[:, 1:]


def solve(negative: Class, positive: Class, *, distance: float, dim: int, power: float) -> Solution:
    """Theorem 2: the covariances that leave the least sumKL, their traces weighed by the shares being `power`.

    `distance` is between the means, squared. Across the line between them only the class that scatters less is noised.
    """
    if negative.variance > positive.variance:
        turned = solve(positive, negative, distance=distance, dim=dim, power=power)
        return replace(turned, negative=turned.positive, positive=turned.negative)
    quiet, loud = negative, positive
    low, high = quiet.variance, min(loud.variance, quiet.variance + power / (quiet.share * dim))
    for _ in range(_ZOOMS):
        across = np.linspace(low, high, _POINTS)
        quiet_along, loud_along = _along(across, quiet, loud, distance=distance, dim=dim, power=power)
        left = (
            (dim - 1) * (_over(across, loud.variance) + _over(loud.variance, across))
            + _over(quiet_along + distance, loud_along)
            + _over(loud_along + distance, quiet_along)
        ) / 2 - dim
        best = int(left.argmin())
        low, high = across[max(best - 1, 0)], across[min(best + 1, _POINTS - 1)]
    wide = float(across[best] - quiet.variance)
    return Solution(
        Noise(max(float(quiet_along[best] - quiet.variance), wide), wide),
        Noise(max(float(loud_along[best] - loud.variance), 0.0), 0.0),
        max(float(left[best]), 0.0),
    )


def _along(
    across: Values, quiet: Class, loud: Class, *, distance: float, dim: int, power: float
) -> tuple[Values, Values]:
    """Both classes' variances along the line, the noise in them, where the quiet one has `across` in the others.

    What power is left all goes there. With q for quiet and l = c - k q for loud, what is to be least is convex in q,
    and least where q^2 (c + k distance) = l^2 (c + distance); or at an end of what is allowed.
    """
    left = power - quiet.share * (dim - 1) * (across - quiet.variance)
    k = quiet.share / loud.share
    c = loud.variance + left / loud.share + k * quiet.variance
    of_quiet, of_loud = np.sqrt(c + k * distance), np.sqrt(c + distance)
    free = c * _over(of_loud, of_quiet + k * of_loud)
    along = np.clip(free, across, np.maximum(quiet.variance + left / quiet.share, across))
    return along, np.maximum(c - k * along, loud.variance)


def _over(above: Values | float, below: Values | float) -> Values:
    """Their ratio; two zeros are alike."""
    above, below = np.broadcast_arrays(np.asarray(above, np.float64), np.asarray(below, np.float64))
    return np.divide(above, below, out=np.where(above == 0, 1.0, np.inf), where=below > 0)


def auc_bound(sum_kl: float) -> float:
    """Theorem 1: the largest AUC that anyone can tell two classes apart with that are so near to each other."""
    near = min(sum_kl, 4.0)
    return 0.5 + math.sqrt(near) / 2 - near / 8
