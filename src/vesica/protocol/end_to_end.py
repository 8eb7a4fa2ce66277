"""End-to-end training across parties, a batch at a time: representations go up and gradients down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from vesica.errors import InputError, ProtocolError
from vesica.metrics import standing
from vesica.nn.augmentations import views_of
from vesica.privacy import GradientProtection
from vesica.protocol.byte_limit import THENS, ByteLimit, Then
from vesica.protocol.link import Link
from vesica.protocol.message import Message, Scalar, has_scalars
from vesica.protocol.party import Guest, Host, Party
from vesica.training.resume import Stateful
from vesica.training.supervised import Stopping, batches

Augment = Literal["none", "weak"]
Descent = Literal["adam", "sgd"]
View = Callable[[Tensor], Tensor]  # from rows to what an encoder sees of them
Loss = Callable[[Sequence[Tensor]], Tensor]  # of a batch, from the guests' parts of it
Penalty = Callable[[], Tensor]


@dataclass(frozen=True)
class Batch:
    """One of training, as the host has it."""

    labels: Tensor
    loss: Loss


@dataclass(frozen=True)
class EndToEnd:
    """Split-nn's training, with which other methods go on from the models they have.

    After each epoch the host scores the validation rows and tells the guests whether to keep it and whether to stop.
    Where the run stops at a number of bytes, it also tells them with the gradients of every batch what follows.
    What happens in one batch, `follow_batch` and `lead_batch`, a method may replace, and at the guests which rows that
    is (`rows_of`, `scored`); with what a batch then takes (`most_beside`, `twice`).
    """

    epochs: int
    patience: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    augment: Augment
    descent: Descent = "adam"
    protect: GradientProtection = field(default_factory=GradientProtection)  # the gradients that leave the host

    def follow(self, me: Guest, *, step: str) -> None:
        """Go on from the encoder that the guest has."""
        assert me.encoder is not None
        if me.released is not None:
            raise InputError(f"{me.name}: end-to-end training sends rows as they are and has no noise for them")
        view, optimiser = self.view(me), self.optimiser_of(me.encoder)
        stopping = Stopping({"encoder": me.encoder}, patience=self.patience)
        stopping.take(better=True)  # as it is now, should the host find no epoch better
        parts: dict[str, Stateful] = {"encoder": me.encoder, "optimiser": optimiser, "stopping": stopping}
        for epoch in me.resumable(step).steps(self.epochs, parts):
            then = self._follow_batches(me, epoch, view, optimiser)
            if then == "train":
                continue
            if then != "close":
                me.host.send("representations", me.represent(self.scored(me)))
            verdict = me.host.receive("verdict", check=has_scalars(better=bool, stop=bool))
            stopping.take(better=verdict.scalar("better", bool))
            if verdict.scalar("stop", bool):
                break
        stopping.restore_best()

    def _follow_batches(self, me: Guest, epoch: int, view: View, optimiser: Optimizer) -> Then:
        """An epoch, or what fits of it; returns what follows."""
        for batch in self.batches_of(me, epoch):
            gradients = self.follow_batch(me, view(me.about(self.rows_of(me, batch))), optimiser)
            if me.conversation.stop_at_bytes is not None and what_follows(gradients) != "train":
                return what_follows(gradients)
        return "score" if me.conversation.stop_at_bytes is None else "train"

    def rows_of(self, me: Party, batch: Tensor) -> Tensor:
        """The rows that a party encodes for a batch of training."""
        return me.rows.train[batch]

    def scored(self, me: Party) -> Tensor:
        """The rows that it encodes after an epoch."""
        return me.rows.validation

    @property
    def most_beside(self) -> int:
        """How many rows of its own a guest may add to a batch."""
        return 0

    def twice(self, me: Host) -> Sequence[str]:
        """The guests that send a batch's representations once more when they have learned from it."""
        return ()

    def follow_batch(self, me: Guest, seen: Tensor, optimiser: Optimizer) -> Message:
        """Give the representations of what the encoder sees, and learn from the gradients, which are returned."""
        assert me.encoder is not None
        representations: Tensor = me.encoder(seen)
        me.host.send("representations", representations)
        gradients = me.host.receive(
            "gradients",
            shape=representations.shape,
            check=None if me.conversation.stop_at_bytes is None else what_follows,
        )
        optimiser.zero_grad()
        representations.backward(gradients.tensor)
        optimiser.step()
        return gradients

    def lead(
        self,
        me: Host,
        labels: Tensor,
        *,
        step: str,
        before: tuple[float, float] | None = None,
        rows_after: int = 0,
        penalty: Penalty | None = None,
    ) -> None:
        """Go on from the head and the encoder that the host has, with these labels, one a row of the host.

        Only an epoch that is better than `before` on the validation rows is kept. A limit of bytes leaves room for the
        representations of `rows_after` rows, which the guests send when this has ended. A `penalty` on the host's own
        weights is added to the loss of every batch; what the guests get does not depend on it.
        """
        assert me.head is not None
        mine: dict[str, nn.Module] = {"head": me.head}
        if me.encoder is not None:
            mine["encoder"] = me.encoder
        view, optimiser = self.view(me), self.optimiser_of(*mine.values())
        stopping = Stopping(mine, patience=self.patience)
        if before is not None:
            stopping.judge(before)
        limit = self.limit(me, must_score=before is not None, rows_after=rows_after)
        parts: dict[str, Stateful] = {**mine, "optimiser": optimiser, "stopping": stopping}
        if self.protect.marvell:
            parts["leaks"] = self.protect.leaks

        def loss(rows: Tensor, seen: Tensor, received: Sequence[Tensor]) -> Tensor:
            assert me.head is not None
            own = [] if me.encoder is None else [me.encoder(seen)]
            of_rows = me.task.loss(me.head([*own, *received]), labels[rows])
            return of_rows if penalty is None else of_rows + penalty()

        for epoch in me.resumable(step).steps(self.epochs, parts):
            then = self._lead_batches(
                me, epoch, lambda rows: Batch(labels[rows], partial(loss, rows, view(rows))), optimiser, limit
            )
            if then == "train":
                continue
            verdict = self._judge(me, labels, stopping, then)
            me.tell("verdict", scalars=verdict)
            if verdict["stop"]:
                break
        stopping.restore_best()

    def _lead_batches(
        self, me: Host, epoch: int, batch_of: Callable[[Tensor], Batch], optimiser: Optimizer, limit: ByteLimit | None
    ) -> Then:
        """An epoch, or what fits of it; returns what follows."""
        for number, batch in enumerate(self.batches_of(me, epoch)):
            rows = me.rows.train[batch]
            received = me.gather_representations(rows)
            then = None if limit is None else limit.after(number, last_epoch=epoch + 1 == self.epochs)
            self.lead_batch(me, received, batch_of(rows), optimiser, scalars={} if then is None else {"then": then})
            if then not in (None, "train"):
                return then
        return "score" if limit is None else "train"

    def lead_batch(
        self, me: Host, received: list[Tensor], batch: Batch, optimiser: Optimizer, *, scalars: Mapping[str, Scalar]
    ) -> None:
        """Learn from a batch, and give every guest the gradients of its part."""
        leaves = [part.requires_grad_() for part in received]
        optimiser.zero_grad()
        batch.loss(leaves).backward()
        optimiser.step()
        for link, leaf in zip(me.guests.values(), leaves, strict=True):
            self.give(link, leaf.grad, labels=batch.labels, scalars=scalars)

    def give(
        self, link: Link, gradients: Tensor | None, *, labels: Tensor, scalars: Mapping[str, Scalar] | None = None
    ) -> None:
        assert gradients is not None
        link.send("gradients", self.protect(gradients, labels), scalars=scalars)

    def _judge(self, me: Host, labels: Tensor, stopping: Stopping, then: Then) -> dict[str, bool]:
        """The verdict on the models as they are now: whether to keep them, and whether to stop."""
        if then == "close":
            me.conversation.statements.append(
                "The bytes left no room to score the validation rows: the last state of the models is kept, unseen."
            )
            return {"better": True, "stop": True}
        value = self._validate(me, labels)
        better = stopping.judge(value)
        me.conversation.note(value[0])
        return {"better": better, "stop": stopping.stop or then == "final"}

    def batches_of(self, me: Party, epoch: int) -> Iterator[Tensor]:
        """Positions in the training rows, which every party draws alike."""
        order = me.public_random(f"batches of epoch {epoch}")
        return batches(len(me.rows.train), self.batch_size, generator=order)

    def limit(self, me: Host, *, must_score: bool, rows_after: int = 0) -> ByteLimit | None:
        stop_at_bytes = me.conversation.stop_at_bytes
        if stop_at_bytes is None:
            return None
        return ByteLimit(
            me,
            stop_at_bytes,
            [len(batch) for batch in self.batches_of(me, 0)],  # the same in every epoch
            scored=len(self.scored(me)),
            must_score=must_score,
            rows_after=rows_after,
            beside=self.most_beside,
            twice=self.twice(me),
        )

    @torch.no_grad()
    def _validate(self, me: Host, labels: Tensor) -> tuple[float, float]:
        assert me.head is not None
        rows = me.rows.validation
        own = [] if me.encoder is None else [me.represent(rows)]
        outputs = me.head([*own, *me.gather_representations(rows)])
        return standing(me.task, outputs, labels[rows])

    def view(self, me: Party) -> View:
        """From rows to what the party's encoder sees of them in training."""
        if self.augment == "none" or me.encoder_spec is None:
            return lambda rows: me.inputs[rows]
        own = torch.cat([me.rows.aligned, me.rows.unaligned])
        views = views_of(me.encoder_spec.schema, me.inputs[own])
        return lambda rows: views.weak(me.inputs[rows])

    def optimiser_of(self, *modules: nn.Module) -> Optimizer:
        parameters = [parameter for module in modules for parameter in module.parameters()]
        kind = torch.optim.Adam if self.descent == "adam" else torch.optim.SGD
        return kind(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)


def what_follows(gradients: Message) -> Then:
    """The host's word for it, where a run stops at a number of bytes."""
    said = gradients.scalar("then", str)
    for word in THENS:
        if word == said:
            return word
    raise ProtocolError(f"message 'gradients': expected 'then' as one of {', '.join(THENS)}; got {said!r}")
