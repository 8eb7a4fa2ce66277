"""SplitNN, the vanilla vertical federated learning. Vepakomma et al., 2018, as Wu et al., TBD 2022, 2.3, use it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from vesica.learning.resume import Stateful
from vesica.learning.training import Stopping, batches
from vesica.metrics import standing
from vesica.models import Head
from vesica.protocol import Guest, Host


@dataclass(frozen=True)
class SplitNN:
    """Encoders at the parties, a head at the host; representations go up and gradients down for every batch.

    After each epoch the host scores the validation rows and tells the guests whether to keep it and whether to stop.
    """

    epochs: int = 100
    patience: int = 20
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    hidden: tuple[int, ...] = (64,)
    join: str = "concat"

    def guest(self, me: Guest) -> None:
        assert me.encoder is not None
        optimiser = self._adam(me.encoder)
        stopping = Stopping({"encoder": me.encoder}, patience=self.patience)
        parts: dict[str, Stateful] = {"encoder": me.encoder, "optimiser": optimiser, "stopping": stopping}
        for epoch in me.resumable("training").steps(self.epochs, parts):
            order = me.public_random(f"batches of epoch {epoch}")
            for batch in batches(len(me.rows.train), self.batch_size, generator=order):
                representations = me.encode(me.rows.train[batch])
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

    def host(self, me: Host) -> None:
        me.head = Head(me.dims, me.task.outputs, hidden=self.hidden, join=self.join).to(me.device)
        mine: dict[str, nn.Module] = {"head": me.head}
        if me.encoder is not None:
            mine["encoder"] = me.encoder
        optimiser = self._adam(*mine.values())
        stopping = Stopping(mine, patience=self.patience)
        parts: dict[str, Stateful] = {**mine, "optimiser": optimiser, "stopping": stopping}
        for epoch in me.resumable("training").steps(self.epochs, parts):
            order = me.public_random(f"batches of epoch {epoch}")
            for batch in batches(len(me.rows.train), self.batch_size, generator=order):
                rows = me.rows.train[batch]
                received = [part.requires_grad_() for part in me.gather_representations(len(rows))]
                own = [] if me.encoder is None else [me.encode(rows)]
                optimiser.zero_grad()
                me.task.loss(me.head([*own, *received]), me.labels[rows]).backward()
                optimiser.step()
                for link, part in zip(me.guests.values(), received, strict=True):
                    link.send("gradients", part.grad)
            value = self._validate(me)
            better = stopping.judge(value)
            me.conversation.note(value[0])
            me.tell("verdict", scalars={"better": better, "stop": stopping.stop})
            if stopping.stop:
                break
        stopping.restore_best()

    @torch.no_grad()
    def _validate(self, me: Host) -> tuple[float, float]:
        assert me.head is not None
        rows = me.rows.validation
        own = [] if me.encoder is None else [me.represent(rows)]
        outputs = me.head([*own, *me.gather_representations(len(rows))])
        return standing(me.task, outputs, me.labels[rows])

    def _adam(self, *modules: nn.Module) -> torch.optim.Adam:
        parameters = [parameter for module in modules for parameter in module.parameters()]
        return torch.optim.Adam(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)
