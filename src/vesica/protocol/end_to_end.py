"""End-to-end training across parties, a batch at a time: representations go up and gradients down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from vesica.augmentations import views_of
from vesica.learning.resume import Stateful
from vesica.learning.training import Stopping, batches
from vesica.metrics import standing
from vesica.protocol.party import Guest, Host, Party

Augment = Literal["none", "weak"]


@dataclass(frozen=True)
class EndToEnd:
    """Split-nn's training, with which other methods go on from the models they have.

    After each epoch the host scores the validation rows and tells the guests whether to keep it and whether to stop.
    """

    epochs: int
    patience: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    augment: Augment

    def follow(self, me: Guest, *, step: str) -> None:
        """Go on from the encoder that the guest has."""
        assert me.encoder is not None
        encode, optimiser = self._encode(me), self._adam(me.encoder)
        stopping = Stopping({"encoder": me.encoder}, patience=self.patience)
        stopping.take(better=True)  # as it is now, should the host find no epoch better
        parts: dict[str, Stateful] = {"encoder": me.encoder, "optimiser": optimiser, "stopping": stopping}
        for epoch in me.resumable(step).steps(self.epochs, parts):
            order = me.public_random(f"batches of epoch {epoch}")
            for batch in batches(len(me.rows.train), self.batch_size, generator=order):
                representations = encode(me.rows.train[batch])
                me.host.send("representations", representations)
                gradients = me.host.receive("gradients", shape=representations.shape).tensor
                optimiser.zero_grad()
                representations.backward(gradients)
                optimiser.step()
            me.host.send("representations", me.represent(me.rows.validation))
            verdict = me.host.receive("verdict")
            stopping.take(better=verdict.scalar("better", bool))
            if verdict.scalar("stop", bool):
                break
        stopping.restore_best()

    def lead(self, me: Host, labels: Tensor, *, step: str, before: tuple[float, float] | None = None) -> None:
        """Go on from the head and the encoder that the host has, with these labels, one a row of the host.

        Only an epoch that is better than `before` on the validation rows is kept.
        """
        assert me.head is not None
        mine: dict[str, nn.Module] = {"head": me.head}
        if me.encoder is not None:
            mine["encoder"] = me.encoder
        encode, optimiser = self._encode(me), self._adam(*mine.values())
        stopping = Stopping(mine, patience=self.patience)
        if before is not None:
            stopping.judge(before)
        parts: dict[str, Stateful] = {**mine, "optimiser": optimiser, "stopping": stopping}
        for epoch in me.resumable(step).steps(self.epochs, parts):
            order = me.public_random(f"batches of epoch {epoch}")
            for batch in batches(len(me.rows.train), self.batch_size, generator=order):
                rows = me.rows.train[batch]
                received = [part.requires_grad_() for part in me.gather_representations(len(rows))]
                own = [] if me.encoder is None else [encode(rows)]
                optimiser.zero_grad()
                me.task.loss(me.head([*own, *received]), labels[rows]).backward()
                optimiser.step()
                for link, part in zip(me.guests.values(), received, strict=True):
                    link.send("gradients", part.grad)
            value = self._validate(me, labels)
            better = stopping.judge(value)
            me.conversation.note(value[0])
            me.tell("verdict", scalars={"better": better, "stop": stopping.stop})
            if stopping.stop:
                break
        stopping.restore_best()

    @torch.no_grad()
    def _validate(self, me: Host, labels: Tensor) -> tuple[float, float]:
        assert me.head is not None
        rows = me.rows.validation
        own = [] if me.encoder is None else [me.represent(rows)]
        outputs = me.head([*own, *me.gather_representations(len(rows))])
        return standing(me.task, outputs, labels[rows])

    def _encode(self, me: Party) -> Callable[[Tensor], Tensor]:
        """From rows to what the party's encoder makes of them in training."""
        if self.augment == "none" or me.encoder_spec is None:
            return me.encode
        own = torch.cat([me.rows.aligned, me.rows.unaligned])
        views = views_of(me.encoder_spec.schema, me.inputs[own])
        return lambda rows: me.encode(rows, view=views.weak)

    def _adam(self, *modules: nn.Module) -> torch.optim.Adam:
        parameters = [parameter for module in modules for parameter in module.parameters()]
        return torch.optim.Adam(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)
