"""Noise on the gradients of a batch before they leave the host: it makes guessing labels harder and proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from vesica.errors import InputError
from vesica.privacy.iso import isotropic_noise
from vesica.privacy.marvell import auc_bound, marvell_noise


class Leaks:
    """What Marvell's noise left between the classes, over the messages so far."""

    def __init__(self) -> None:
        self.measured = 0
        self.unmeasured = 0  # with too few rows of a class
        self.total = 0.0  # of the bounds on an AUC
        self.largest = 0.5

    def add(self, sum_kl: float | None) -> None:
        if sum_kl is None:
            self.unmeasured += 1
            return
        bound = auc_bound(sum_kl)
        self.measured += 1
        self.total += bound
        self.largest = max(self.largest, bound)

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)


@dataclass(frozen=True)
class GradientProtection:
    """Isotropic noise, as a share of the largest row's norm, or Marvell's, in squared distances of the classes."""

    iso: float = 0.0
    marvell: float = 0.0
    leaks: Leaks = field(default_factory=Leaks, compare=False)

    def __post_init__(self) -> None:
        if self.iso and self.marvell:
            raise InputError("iso_gradients and marvell are two noises on the same gradients: give one of them")

    def __call__(self, gradients: Tensor, labels: Tensor) -> Tensor:
        """The gradients (rows, dim), as they may leave; Marvell's noise needs labels of two classes, 0 and 1."""
        if not self.marvell:
            return isotropic_noise(gradients, self.iso)
        noised = marvell_noise(gradients, labels, power=self.marvell)
        self.leaks.add(noised.sum_kl)
        return noised.gradients
