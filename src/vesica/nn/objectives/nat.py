"""Noise as targets (Bojanowski and Joulin, 2017), as FedOnce uses it: points on a sphere, one a row."""

from concurrent.futures import Executor
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional


def points_on_sphere(count: int, dim: int, *, device: torch.device) -> Tensor:
    """So many points (count, dim), each uniform on the unit sphere."""
    return functional.normalize(torch.randn(count, dim, device=device), dim=1)


def assign(outputs: Tensor, targets: Tensor) -> Tensor:
    """Which target each output gets, so that the squared distances add up to the least: positions in `targets`.

    All targets have one norm, so this is the assignment of the largest inner products.
    """
    inner = (outputs.detach() @ targets.T).float().cpu().numpy()
    return torch.from_numpy(_largest(inner)).to(targets.device)


def assign_each(outputs: Tensor, targets: Tensor, *, pool: Executor) -> Tensor:
    """The assignment of each of several batches, (batches, rows, dim), side by side: (batches, rows)."""
    inner = (outputs.detach() @ targets.mT).float().cpu().numpy()
    return torch.from_numpy(np.stack(list(pool.map(_largest, inner)))).to(targets.device)


def _largest(inner: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    _, chosen = linear_sum_assignment(inner, maximize=True)  # which lets other threads run meanwhile
    return cast("npt.NDArray[np.int64]", chosen)


def distance(outputs: Tensor, targets: Tensor) -> Tensor:
    """The squared distance of each output to its target: (rows,)."""
    return (outputs - targets).square().sum(dim=1)
