"""Isotropic Gaussian noise, as a share of the largest row. Li et al., ICLR 2022, as FedHSSL uses it.

It makes guessing harder and guarantees nothing: its size follows from the very values it hides, and no epsilon goes
with it. So it is drawn from the party's own random numbers, and a run with it can be repeated.
"""

import math

import torch
from torch import Tensor


def isotropic_noise(values: Tensor, ratio: float) -> Tensor:
    """The values (rows, ...), with noise whose norm a row is about `ratio` times the largest row's.

    Its standard deviation is ratio * the largest row norm / sqrt(numbers a row). A vector is one row.
    """
    if not ratio:
        return values
    rows = values.flatten(1) if values.dim() > 1 else values[None]
    deviation = ratio * rows.norm(dim=1).max() / math.sqrt(rows.shape[1])
    noisy: Tensor = values + deviation * torch.randn_like(values)
    return noisy
