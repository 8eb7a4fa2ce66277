"""Losses of two views of the same rows that need no labels: SimSiam's and BYOL's, SimCLR's, MoCo's, and Scarf's.

Each takes what the model makes of the two views and what it should be alike to, a pair each: (rows, dim).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from vesica.nn.objectives.nat import points_on_sphere

Pair = tuple[Tensor, Tensor]
_LEAST = 1e-12


def negative_cosine(predictions: Tensor, targets: Tensor) -> Tensor:
    """The mean over rows of minus the cosine; no gradient goes into the targets."""
    some, others = predictions.float(), targets.detach().float()
    lengths = (some.norm(dim=1) * others.norm(dim=1)).clamp(min=_LEAST)
    cosines: Tensor = (some * others).sum(dim=1) / lengths
    return -cosines.mean()


def info_nce(queries: Tensor, keys: Tensor, *, temperature: float) -> Tensor:
    """How badly each query tells its own key from the other rows' keys, by cosines: the mean over rows."""
    logits = _unit(queries) @ _unit(keys).T / temperature
    return functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


class SimSiam(nn.Module):
    """The prediction of each view is to point where the other view's projection does (Chen and He, 2021).

    With projections of a moving average it is BYOL's loss (Grill et al., 2020), but for a factor and a constant.
    """

    def forward(self, predictions: Pair, projections: Pair) -> Tensor:
        one, two = (negative_cosine(*each) for each in zip(predictions, reversed(projections), strict=True))
        return (one + two) / 2


class Scarf(nn.Module):
    """Each row is to be told from the others by its corrupted view (Bahri et al., 2022).

    One way, and both views learn. The paper's mean in the denominator, here a sum, only adds log(rows).
    """

    def __init__(self, *, temperature: float = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, projections: Pair, others: Pair) -> Tensor:
        return info_nce(projections[0], others[1], temperature=self.temperature)


class SimCLR(nn.Module):
    """Each view is to be told its row's other view from all views of the other rows (Chen et al., 2020)."""

    def __init__(self, *, temperature: float = 0.2) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, projections: Pair, others: Pair) -> Tensor:
        views = _unit(torch.cat(projections))
        alike = views @ views.T / self.temperature
        itself = torch.eye(len(views), dtype=torch.bool, device=views.device)
        counterparts = torch.arange(len(views), device=views.device).roll(len(views) // 2)
        return functional.cross_entropy(alike.masked_fill(itself, -torch.inf), counterparts)


class MoCo(nn.Module):
    """Each query is to be told its own key, that of the other view, from keys of earlier rows (He et al., 2020).

    As FedHSSL has it: a bank for the keys of either view, full of random points at first. The banks and the place
    where the next keys go are buffers: they are saved with a step, and a recorded one sees them change.
    """

    bank: Tensor  # (views, size, dim), each key a unit vector
    place: Tensor

    def __init__(self, dim: int, *, size: int = 4096, temperature: float = 0.5) -> None:
        super().__init__()
        self.temperature = temperature
        points = points_on_sphere(2 * size, dim, device=torch.device("cpu"))
        self.register_buffer("bank", points.view(2, size, dim))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))

    def forward(self, queries: Pair, keys: Pair) -> Tensor:
        loss = self.loss(queries, keys)
        self.remember(keys)
        return loss

    def loss(self, queries: Pair, keys: Pair) -> Tensor:
        """The loss alone: for keys that the banks are not to hold."""
        some, own = _unit(torch.stack(queries)), _keys(keys).flip(0)
        negatives = self.bank.flip(0)  # a copy, so that the gradient finds it as it was
        alike = torch.cat([(some * own).sum(dim=2, keepdim=True), some @ negatives.mT], dim=2)
        logits = alike.flatten(0, 1) / self.temperature
        return functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))

    @torch.no_grad()
    def remember(self, keys: Pair) -> None:
        """The keys take the places of the oldest ones."""
        size = self.bank.shape[1]
        latest = _keys(keys)[:, -size:]
        count = latest.shape[1]
        places = (self.place + torch.arange(count, device=latest.device)) % size
        self.bank.index_copy_(1, places, latest)
        self.place.add_(count).remainder_(size)


def _keys(keys: Pair) -> Tensor:
    return _unit(torch.stack(keys).detach())


def _unit(vectors: Tensor) -> Tensor:
    return functional.normalize(vectors.float(), dim=-1)
