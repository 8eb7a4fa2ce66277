"""k-ary randomised response: labels that may be shown. Warner 1965; Kairouz, Bonawitz and Ramage, ICML 2016."""

import math
import secrets

import torch
from torch import Tensor

from vesica.errors import InputError

GRAINS = 2**53  # for each class
_ROUNDING = 8  # in GRAINS: more than `exp`, the sum and the division can be off together


def randomise(labels: Tensor, classes: int, *, epsilon: float) -> Tensor:
    """Each label, 0..classes-1, kept with probability e^epsilon / (e^epsilon + classes - 1), else any other alike.

    The draws come from the operating system, never from a seeded generator, and are whole numbers of grains. A label
    moves a few grains more often than the formula says, so that no rounding costs more than epsilon.
    """
    refuse_epsilon(epsilon)
    moving = moving_grains(classes, epsilon=epsilon)
    moves = [
        1 + secrets.randbelow(classes - 1) if secrets.randbelow(GRAINS * classes) < moving else 0
        for _ in range(len(labels))
    ]
    return (labels + torch.tensor(moves, dtype=labels.dtype, device=labels.device)) % classes


def moving_grains(classes: int, *, epsilon: float) -> int:
    """In how many of `GRAINS * classes` a label becomes another one: never so many that its own class is the rarest."""
    grains = math.ceil(moved_with(classes, epsilon=epsilon) * GRAINS) + _ROUNDING
    return min(grains * classes, GRAINS * (classes - 1))


def moved_with(classes: int, *, epsilon: float) -> float:
    """The probability that a label becomes another one."""
    others = (classes - 1) * math.exp(-epsilon)
    return others / (1 + others)


def refuse_epsilon(epsilon: float, *, name: str = "label_epsilon") -> None:
    if not isinstance(epsilon, int | float) or not 0 < epsilon < math.inf:
        raise InputError(f"{name} is {epsilon!r}: give a positive number, or leave it out for no label privacy")
