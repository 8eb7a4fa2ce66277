"""What an encoder is trained with where there are no labels: the networks behind it and the loss of two views."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from vesica.errors import InputError, nearest
from vesica.nn.models import MLP, Predictor, Projector
from vesica.nn.objectives import MoCo, Pair, Scarf, SimCLR, SimSiam
from vesica.training.ema import MovingAverage
from vesica.training.recording import quick_precision
from vesica.training.resume import Stateful

SelfSupervision = Literal["simsiam", "byol", "simclr", "moco", "scarf"]


class Tower(nn.Module):
    """An encoder, its projector and, where there is one, a predictor."""

    def __init__(self, encoder: nn.Module, projector: nn.Module, *, predictor: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.projector = projector
        self.predictor = predictor

    def project(self, view: Tensor) -> Tensor:
        projected: Tensor = self.projector(self.encoder(view))
        return projected

    @torch.no_grad()
    def guide(self, one: Tensor, two: Tensor) -> Pair:
        """The projections of two views, for another tower to be alike to; whoever asks puts it into evaluation mode."""
        with quick_precision(one.device):
            return self.project(one), self.project(two)


class Pretext(Tower):
    """A tower and its objective: what the predictions of two views are to agree with.

    With `ema` the other side of the agreement is a moving average of encoder and projector, which does not learn.
    """

    def __init__(
        self, encoder: nn.Module, projector: nn.Module, *, predictor: nn.Module, objective: nn.Module, ema: float | None
    ) -> None:
        super().__init__(encoder, projector, predictor=predictor)
        self.objective = objective
        self.target = None if ema is None else MovingAverage(nn.Sequential(encoder, projector).train(), decay=ema)

    def forward(self, one: Tensor, two: Tensor, guides: Pair | None = None, *, gamma: float = 0.0) -> Tensor:
        """The loss. Each view is a batch of its own to batch norm, as in FedHSSL.

        With `guides` each prediction is to agree with its own view's guide too, `gamma` times as much (FedHSSL, Eq. 4).
        """
        with quick_precision(one.device):
            projections = self.project(one), self.project(two)
            predictions = self.predictor(projections[0]), self.predictor(projections[1])
            others = projections
            if self.target is not None:
                others = self.target.module(one), self.target.module(two)
        guided = None if guides is None else self._disagreement(predictions, guides)
        loss: Tensor = self.objective(predictions, others)
        return loss if guided is None else loss + gamma * guided

    def _disagreement(self, predictions: Pair, guides: Pair) -> Tensor:
        """Turned round, the objective compares each view with its own guide. No bank is to hold one."""
        judge = self.objective.loss if isinstance(self.objective, MoCo) else self.objective
        guided: Tensor = judge(predictions, guides[::-1])
        return guided

    def follow(self) -> None:
        """After a step: the moving average goes after the weights."""
        if self.target is not None:
            self.target.update()

    def parts(self) -> dict[str, Stateful]:
        """All that a checkpoint keeps of it."""
        parts: dict[str, Stateful] = {"pretext": self}
        return parts if self.target is None else {**parts, "target": self.target}


def pretext(
    ssl: SelfSupervision,
    encoder: nn.Module,
    *,
    dim: int,
    width: int,
    ema: float,
    device: torch.device,
    tau: float = 1.0,
) -> Pretext:
    """What trains an encoder of `dim` outputs, with projections of `width`; `tau` is Scarf's temperature."""
    if ssl not in get_args(SelfSupervision):
        raise InputError(f"there is no self-supervision '{ssl}'{nearest(ssl, get_args(SelfSupervision))}")
    if ssl == "scarf":  # no batch norm: VFLHLP's parties have few rows
        return Pretext(
            encoder,
            MLP(dim, (width,), width).to(device),
            predictor=nn.Identity(),
            objective=Scarf(temperature=tau),
            ema=None,
        )
    objective = SimCLR() if ssl == "simclr" else MoCo(width).to(device) if ssl == "moco" else SimSiam()
    return Pretext(
        encoder,
        Projector(dim, width).to(device),
        predictor=nn.Identity() if ssl in ("simclr", "moco") else Predictor(width).to(device),
        objective=objective,
        ema=ema if ssl in ("byol", "moco") else None,
    )


def cross_tower(ssl: SelfSupervision, encoder: nn.Module, *, dim: int, width: int, device: torch.device) -> Tower:
    """What trains an encoder of `dim` outputs on the projections of other parties, in FedHSSL."""
    predictor = nn.Identity() if ssl == "moco" else Predictor(width).to(device)
    return Tower(encoder, Projector(dim, width).to(device), predictor=predictor)
