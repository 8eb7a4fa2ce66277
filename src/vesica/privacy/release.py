"""Rows that may be shown: clipped and noised, at an exact price. Balle and Wang, ICML 2018."""

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import log_ndtr
from torch import Tensor

from vesica.errors import InputError
from vesica.privacy.accounting import Mechanism, calibrate
from vesica.privacy.dp_sgd import Entropy

_FINER = 2**16  # a standard deviation of the noise, in steps of the grid
_LONGEST = math.sqrt(2 * 129 * math.log(2))  # that `long_tailed_normals` gives
_LEAST, _MOST = 1e-30, 1e30  # what float32 holds with room to spare
_CUT_OFF = 0.01  # at most so much of delta may lie beyond it


@dataclass(frozen=True)
class Release:
    """What is done to rows before they are shown: each is brought to the norm `clip` at most, and noise is added.

    Without a clip the rows may be of any length, and nothing is guaranteed.
    """

    sigma: float
    clip: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("noise on", self.sigma), ("clip of", self.clip)):
            if value is not None and not _LEAST <= value <= _MOST:
                raise InputError(f"the {name} released rows is {value}: give a number from {_LEAST:g} to {_MOST:g}")

    @classmethod
    def private(cls, epsilon: float, delta: float, *, clip: float) -> "Release":
        """One whose every row costs (epsilon, delta); neighbours are a row and any other in its place."""
        return cls(2 * clip * gaussian_noise(epsilon, delta), clip)

    @property
    def mechanism(self) -> Mechanism:
        """One row shown once, to be priced; replaced by another, a clipped row moves by twice the clip at most."""
        assert self.clip is not None, "rows that are not clipped have no price"
        return Mechanism(self.sigma / (2 * self.clip), sampling=1.0, steps=1)

    def __call__(self, rows: Tensor, *, entropy: Entropy = os.urandom) -> Tensor:
        """The rows (rows, dim) as they may be shown. The noise comes from the operating system.

        Whoever is shown them reads their last bits. So they are made in float64 and put on a grid that is coarser than
        its gaps and the same for all rows.
        """
        exact = rows.double()
        if not exact.isfinite().all():
            raise InputError("a value of the rows to release is not finite: check the columns and the learning rate")
        if self.clip is not None:
            exact = exact * (self.clip / exact.norm(dim=1, keepdim=True).clamp(min=self.clip))
        noise = long_tailed_normals(exact.numel(), entropy=entropy).to(exact).view_as(exact)
        grid = 2.0 ** math.floor(math.log2(self.sigma)) / _FINER
        return ((exact + self.sigma * noise) / grid).round().mul(grid).to(rows)


def gaussian_epsilon(mechanisms: Iterable[Mechanism], delta: float) -> float:
    """The exact price of Gaussian mechanisms that see every row, all of them together: they compose to one."""
    if not 0 < delta < 1:
        raise InputError(f"delta is {delta}: give a number between 0 and 1")
    squares = 0.0
    for each in mechanisms:
        if each.sampling != 1:
            raise InputError(f"a release has no sampling and this one has {each.sampling}: price it with pld_epsilon")
        squares += each.steps / each.noise**2
    shift = math.sqrt(squares)
    if not shift or gaussian_delta(shift, 0.0) <= delta:
        return 0.0
    enough = squares / 2 + shift * math.sqrt(-2 * math.log(delta))  # by Rényi divergences
    return float(brentq(lambda epsilon: gaussian_delta(shift, epsilon) - delta, 0.0, enough, xtol=1e-12))


def gaussian_delta(shift: float, epsilon: float) -> float:
    """Balle and Wang's Theorem 8, for Gaussians whose means are so many standard deviations apart."""
    near, far = log_ndtr(shift / 2 - epsilon / shift), log_ndtr(-shift / 2 - epsilon / shift)
    return float(-np.exp(near) * np.expm1(epsilon + far - near))


@cache  # every guest of a simulation asks
def gaussian_noise(epsilon: float, delta: float) -> float:
    """The least standard deviation that keeps one Gaussian mechanism of sensitivity 1 within (epsilon, delta)."""
    noise = calibrate(
        epsilon, delta, mechanisms_at=lambda noise: [Mechanism(noise, 1.0, 1)], accountant=gaussian_epsilon
    )
    if log_ndtr(1 / noise - _LONGEST) > math.log(_CUT_OFF * delta):
        raise InputError(f"epsilon {epsilon:g} at delta {delta:g} needs noise with longer tails: give a smaller one")
    return noise


def long_tailed_normals(count: int, *, entropy: Entropy = os.urandom) -> Tensor:
    """Box and Muller in float64: of 192 random bits a pair, 128 are for its radius (up to 13.4) and 64 for its angle.

    A row far from its neighbour would be known by noise that the neighbour's cannot reach, were the tails cut short.
    """
    words = np.frombuffer(entropy(24 * -(-count // 2)), dtype=np.uint64).reshape(-1, 3).astype(np.float64)
    uniforms = words[:, 0] * 2.0**-64 + (words[:, 1] + 0.5) * 2.0**-128
    radius, angle = np.sqrt(-2 * np.log(uniforms)), words[:, 2] * (2 * math.pi / 2**64)
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return torch.from_numpy(pairs.reshape(-1)[:count])
