"""Labels from the gradients a guest receives. Li et al., "Label Leakage and Protection in Two-party Split Learning",
ICLR 2022, for two classes; for more, k-means, which needs nothing but the gradients.

No label is known to these attacks, but for `cosines`. What they find is up to renaming the classes; of two classes the
rarer one is taken to be the second, as in fraud or default. Each row's gradients are averaged over the messages it was
in before anything else: noise that is drawn anew for each of them averages out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from vesica.training.cluster import cluster

Observed = Iterable[tuple[Tensor, Tensor]]  # the numbers of a message's rows, and a gradient each


def norm_scores(observed: Observed) -> tuple[Tensor, Tensor]:
    """Rows, and how long their gradients are for their batch: those of the rarer class are longer."""

    def of_batch(gradients: Tensor) -> Tensor:
        norms = gradients.norm(dim=1).clamp(min=torch.finfo(torch.float32).tiny).log()
        standard: Tensor = (norms - norms.mean()) / norms.std(correction=0).clamp(min=1e-9)
        return standard

    return _means(observed, of_batch)


def direction_scores(observed: Observed) -> tuple[Tensor, Tensor]:
    """Rows, and how far their gradients point one way: two classes pull apart. The fewer rows point up."""
    rows, means = _means(observed, _scaled)
    along = means @ torch.linalg.svd(means, full_matrices=False).Vh[0]
    return rows, -along if (along > 0).double().mean() > 0.5 else along


def cosines(observed: Observed, known: Tensor) -> tuple[Tensor, Tensor]:
    """Rows, and how alike their gradients are to those of rows known to be of the second class."""
    rows, means = _means(observed, _scaled)
    towards = _directions(means[torch.isin(rows, known)]).sum(dim=0)
    return rows, _directions(means) @ towards


def clusters(observed: Observed, classes: int) -> tuple[Tensor, Tensor]:
    """Rows, and the cluster of each by the direction of its mean gradient.

    Among as many main directions as there are classes: the rest is noise.
    """
    rows, means = _means(observed, _scaled)
    main = torch.linalg.svd(means, full_matrices=False).Vh[:classes]
    return rows, cluster(_directions(means @ main.T), classes)


def _scaled(gradients: Tensor) -> Tensor:
    """In units of their batch, in which a row of median length has 1: they shrink as training goes on."""
    scaled: Tensor = gradients / gradients.norm(dim=1).median().clamp(min=torch.finfo(torch.float32).tiny)
    return scaled


def _directions(gradients: Tensor) -> Tensor:
    """Of length 1, but for gradients that are zero."""
    directions: Tensor = gradients / gradients.norm(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
    return directions


def _means(observed: Observed, of_batch: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Each row's mean over the messages that it was in, by rising row; a message is forgotten before the next."""
    counts, sums = torch.zeros(0, dtype=torch.int64), torch.zeros(0)
    for rows, gradients in observed:
        if not len(rows):
            continue
        values = of_batch(gradients.flatten(1).double())
        more = max(0, int(rows.max()) + 1 - len(counts))
        counts = torch.cat([counts, counts.new_zeros(more)]).index_add_(0, rows, torch.ones_like(rows))
        sums = torch.cat([sums.reshape(-1, *values.shape[1:]).to(values), values.new_zeros(more, *values.shape[1:])])
        sums.index_add_(0, rows, values)
    rows = counts.nonzero().squeeze(1)
    return rows, sums[rows] / counts[rows].view(-1, *[1] * (sums.dim() - 1))
