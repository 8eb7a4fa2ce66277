"""FedBCD. Liu et al., "FedBCD: A Communication-Efficient Collaborative Learning Framework for Distributed Features",
2019, Algorithms 1 and 2, with a head over all representations as Sun et al., ICCV 2023, use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, TypeVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from vesica.methods.label_claims import protected
from vesica.methods.label_defences import LabelDefences
from vesica.nn.models import Head
from vesica.protocol import Guest, Host, Message
from vesica.protocol.end_to_end import Augment, Batch, Descent, EndToEnd
from vesica.protocol.message import Scalar
from vesica.training.draws import random_state, set_random_state

Order = Literal["parallel", "sequential"]
Given = TypeVar("Given")


@dataclass(frozen=True)
class FedBCD(LabelDefences):
    """Split-nn with several updates for each exchange: every party goes on from the same batch and stale parts.

    A guest encodes its rows anew and uses the same gradients again. The host keeps the guests' parts as they came and
    computes its own anew. In `parallel` order all parties do so at once. In `sequential` order the host goes first,
    then one guest after another, each with gradients that know what those before it have learned.
    """

    stops_at_bytes: ClassVar[bool] = True

    epochs: int = 100
    patience: int = 20
    batch_size: int = 32
    learning_rate: float = 3e-4  # of five updates in a row; `tune-messages` and `tune-baselines` compared
    weight_decay: float = 1e-5
    hidden: tuple[int, ...] = (64,)
    join: str = "concat"
    augment: Augment = "none"  # as split-nn has it; the updates of a batch see the same views
    local_steps: int = 5  # Q
    order: Order = "parallel"
    descent: Descent = "adam"  # the paper's is plain "sgd", whose updates shrink with the gradients that they repeat
    proximal: float = 0.0  # mu: how strongly a party is held near to where it stood before the updates of a batch

    def guest(self, me: Guest) -> None:
        self.training().follow(me, step="training")

    def host(self, me: Host) -> None:
        me.head = Head(me.dims, me.task.outputs, hidden=self.hidden, join=self.join).to(me.device)
        training = self.training()
        with self.hiding(me):
            training.lead(me, me.labels, step="training")
        me.conversation.statements += protected(training.protect)

    def training(self) -> LocalUpdates:
        return LocalUpdates(
            epochs=self.epochs,
            patience=self.patience,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            augment=self.augment,
            descent=self.descent,
            protect=self.protection(),
            local_steps=self.local_steps,
            order=self.order,
            proximal=self.proximal,
        )


@dataclass(frozen=True)
class LocalUpdates(EndToEnd):
    """End-to-end training with `local_steps` updates of every party for each batch."""

    local_steps: int = 1
    order: Order = "parallel"
    proximal: float = 0.0

    def twice(self, me: Host) -> Sequence[str]:
        return list(me.guests)[:-1] if self.order == "sequential" else ()

    def follow_batch(self, me: Guest, seen: Tensor, optimiser: Optimizer) -> Message:
        encoder = me.encoder
        assert encoder is not None
        anchors, again = weights_of(optimiser), Again()
        gradients = super().follow_batch(me, seen, optimiser)
        self.update(
            optimiser, lambda: again(encoder, seen).backward(gradients.tensor), anchors, times=self.local_steps - 1
        )
        if self.order == "sequential" and me.name != me.parties[-1]:
            with torch.no_grad():
                me.host.send("representations", again(encoder, seen))
        return gradients

    def lead_batch(
        self, me: Host, received: list[Tensor], batch: Batch, optimiser: Optimizer, *, scalars: Mapping[str, Scalar]
    ) -> None:
        anchors, stale, again = weights_of(optimiser), [part.detach() for part in received], Again()
        if self.order == "sequential":
            self.update(optimiser, lambda: batch.loss(stale).backward(), anchors, times=1)
        else:
            super().lead_batch(me, received, batch, optimiser, scalars=scalars)
        batch = replace(batch, loss=partial(again, batch.loss))
        self.update(optimiser, lambda: batch.loss(stale).backward(), anchors, times=self.local_steps - 1)
        if self.order == "sequential":
            self.pass_on(me, stale, batch, scalars=scalars)

    def update(
        self, optimiser: Optimizer, backward: Callable[[], object], anchors: list[Tensor], *, times: int
    ) -> None:
        """Make some updates; the gradient of mu / 2 ||theta - anchor||^2 is added to that of the loss.

        It is zero in the first update of a batch, which therefore needs nothing of this.
        """
        for _ in range(times):
            optimiser.zero_grad()
            backward()
            for parameter, anchor in zip(parameters_of(optimiser), anchors, strict=True):
                if self.proximal and parameter.grad is not None:
                    parameter.grad.add_(parameter.detach() - anchor, alpha=self.proximal)
            optimiser.step()

    def pass_on(self, me: Host, parts: list[Tensor], batch: Batch, *, scalars: Mapping[str, Scalar]) -> None:
        """One guest after another: its gradients as things stand now, then its fresh part of the same batch."""
        for number, (name, link) in enumerate(me.guests.items()):
            leaf = parts[number].requires_grad_()
            (gradients,) = torch.autograd.grad(batch.loss([*parts[:number], leaf, *parts[number + 1 :]]), leaf)
            self.give(link, gradients, labels=batch.labels, scalars=scalars)
            if name != me.parties[-1]:
                parts[number] = link.receive("representations", shape=leaf.shape).tensor


class Again:
    """Calls a function with the random numbers that torch would have drawn when this was made: the same dropout.

    Gradients that came for one part of a network say nothing of the units that they found dropped. What else is drawn,
    before and after, goes on as if these calls were not: noise must never come twice.
    """

    def __init__(self) -> None:
        self._draws = random_state()

    def __call__(self, function: Callable[[Given], Tensor], given: Given) -> Tensor:
        others = random_state()
        set_random_state(self._draws)
        try:
            return function(given)
        finally:
            set_random_state(others)


def parameters_of(optimiser: Optimizer) -> list[Tensor]:
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]


def weights_of(optimiser: Optimizer) -> list[Tensor]:
    """A copy of all that it changes, as it is now."""
    return [parameter.detach().clone() for parameter in parameters_of(optimiser)]
