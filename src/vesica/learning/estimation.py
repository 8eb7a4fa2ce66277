"""Estimating what another party would say of a row that it does not have."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_ROWS_AT_ONCE = 4096


def estimate(queries: Tensor, keys: Tensor, values: Sequence[Tensor]) -> list[Tensor]:
    """Scaled dot-product attention: the values of the rows whose keys are like the queries (Eq. 10).

    `queries` (rows, dim) and `keys` (aligned, dim) are one party's representations; each of `values` (aligned, ...) is
    another party's, of the same aligned rows.
    """
    found: list[list[Tensor]] = [[] for _ in values]
    for some in queries.split(_ROWS_AT_ONCE):
        weights = (some @ keys.T / math.sqrt(keys.shape[1])).softmax(dim=1)
        for parts, value in zip(found, values, strict=True):
            parts.append(weights @ value)
    return [torch.cat(parts) for parts in found]


def gate(local: Tensor, joint: Tensor, *, threshold: float) -> Tensor:
    """How likely each row may be given a pseudo-label (Eq. 9).

    From probabilities (rows, classes): those of the party's own classifier and of the joint one. Zero unless both name
    the same class and both are surer than the threshold; then as likely as the joint one is sure.
    """
    local_sure, local_class = local.max(dim=1)
    joint_sure, joint_class = joint.max(dim=1)
    agree = (local_class == joint_class) & (local_sure > threshold) & (joint_sure > threshold)
    return joint_sure * agree
