"""What FedHSSL and its parts have in common: epochs of training without labels, then split training from there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.methods import fedhssl_claims as claims
from vesica.methods.label_claims import protected
from vesica.methods.label_defences import LabelDefences
from vesica.nn.augmentations import views_of
from vesica.nn.models import Head
from vesica.protocol import Guest, Host
from vesica.protocol.averaging import GuestAveraging, HostAveraging
from vesica.protocol.end_to_end import EndToEnd
from vesica.protocol.party import Party
from vesica.training.pretext import Tower, cross_tower, pretext
from vesica.training.resume import Stateful
from vesica.training.self_supervised import half_cosine
from vesica.training.towers import CrossTower, LocalTower

Ssl = Literal["simsiam", "byol", "moco"]


class Received(list[list[Tensor]]):
    """What the others have shown of the rows of some batches, a list a batch, until it is learned from."""

    def state_dict(self) -> dict[str, Any]:
        return {"batches": list(self)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self[:] = state["batches"]


@dataclass
class Pretraining:
    """A party's part of it: its towers, what is to be learned from later, with whom it averages the local one's top."""

    cross: CrossTower | None = None
    local: LocalTower | None = None
    received: Received = field(default_factory=Received)
    averaging: GuestAveraging | HostAveraging | None = None

    def parts(self) -> dict[str, Stateful]:
        """All that a checkpoint keeps of it."""
        towers = [tower for tower in (self.cross, self.local) if tower is not None]
        return {"received": self.received} | {name: part for tower in towers for name, part in tower.parts().items()}

    def join(self, me: Party, *, noise: float = 0.0) -> Pretraining:
        """Find out with whom to average; `noise` goes on what the host gives."""
        weights = None if self.local is None else self.local.shared()
        if isinstance(me, Host):
            self.averaging = HostAveraging(me, weights, noise=noise)
        else:
            assert isinstance(me, Guest)
            assert weights is not None
            self.averaging = GuestAveraging(me, weights)
        return self


@dataclass(frozen=True)
class Pretrained(LabelDefences, ABC):
    """A method says what it prepares, what an epoch of pre-training is and which encoder goes on.

    The learning rate of pre-training is the authors': SGD, falling from epoch to epoch as half a cosine.
    """

    stops_at_bytes: ClassVar[bool] = True

    ssl: Ssl = "simsiam"
    pretrain_epochs: int = 40
    batch_size: int = 512
    learning_rate: float = 0.05  # for every 256 rows of a batch
    width: int = 512  # of the projections
    finetune_epochs: int = 100
    finetune_patience: int = 20
    finetune_batch_size: int = 128
    finetune_learning_rate: float = 1e-3
    finetune_weight_decay: float = 1e-5
    hidden: tuple[int, ...] = ()  # of the head
    label_counts: tuple[int, ...] = ()  # of labelled rows to fine-tune with before all of them, a result each

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size < 2:
            raise InputError(f"batch_size of {self.name} is {self.batch_size}: projections take batches of 2 or more")
        if list(self.label_counts) != sorted(set(self.label_counts)):
            raise InputError(f"label_counts of {self.name} is {self.label_counts}: give counts that rise")

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    @property
    def rate(self) -> float:
        return self.learning_rate * self.batch_size / 256

    def guest(self, me: Guest) -> None:
        self.pretrain(me)
        self.finetune(me, lambda step: self.finetuning().follow(me, step=step))

    def host(self, me: Host) -> None:
        with self.hiding(me):
            me.conversation.statements += self.say(me, self.pretrain(me))
            self.finetune(me, lambda step: self.lead(me, step=step))

    def finetune(self, me: Party, go_on: Callable[[str], None]) -> None:
        """From the same pre-trained encoder for every count of labelled rows, the whole of them last."""
        for rows in me.rows.fewer:
            with me.apart(f"{len(rows.labelled)} labelled rows", rows):
                go_on(f"finetuning-{len(rows.labelled)}")
        go_on("finetuning")

    def lead(self, me: Host, *, step: str) -> None:
        me.head = Head(me.dims, me.task.outputs, hidden=self.hidden).to(me.device)
        training = self.finetuning()
        training.lead(me, me.labels, step=step)
        me.conversation.statements += protected(training.protect, "the gradients of fine-tuning")

    def pretrain(self, me: Party) -> Pretraining:
        held = self.prepare(me)
        for epoch in me.resumable("pre-training").steps(self.pretrain_epochs, held.parts()):
            self.epoch(me, held, epoch)
        self.settle(me)
        if me.encoder is not None:
            me.encoder.train().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        return held

    @abstractmethod
    def prepare(self, me: Party) -> Pretraining:
        """What this party holds in pre-training."""

    @abstractmethod
    def epoch(self, me: Party, held: Pretraining, epoch: int) -> None:
        """One of pre-training."""

    def settle(self, me: Party) -> None:
        """Take the encoder that goes on, where there is more than one."""

    def say(self, me: Host, held: Pretraining) -> list[str]:
        """What the messages show, and to whom."""
        said = [] if held.averaging is None else [claims.averaging(held.averaging)]
        if self.label_counts:
            said.append(claims.one_pretraining([*self.label_counts, len(me.rows.labelled)]))
        return said

    def share_of(self, epoch: int) -> float:
        """Of the learning rate."""
        return half_cosine(epoch / self.pretrain_epochs)

    def cross_tower(self, me: Party, encoder: nn.Module) -> CrossTower:
        assert me.encoder_spec is not None
        tower = cross_tower(self.ssl, laid_out(encoder), dim=me.encoder_spec.dim, width=self.width, device=me.device)
        return CrossTower(self.ssl, tower, learning_rate=self.rate, device=me.device)

    def local_tower(
        self,
        me: Party,
        encoder: nn.Module,
        *,
        ema: float,
        corrupted: float,
        guide: Tower | None = None,
        gamma: float = 0.0,
    ) -> LocalTower:
        assert me.encoder_spec is not None
        own = me.inputs[torch.cat([me.rows.aligned, me.rows.unaligned])]
        dim = me.encoder_spec.dim
        return LocalTower(
            self.ssl,
            pretext(self.ssl, laid_out(encoder), dim=dim, width=self.width, ema=ema, device=me.device),
            own,
            views=views_of(me.encoder_spec.schema, own, corrupted=corrupted),
            batch_size=self.batch_size,
            learning_rate=self.rate,
            guide=guide,
            gamma=gamma,
        )

    def finetuning(self) -> EndToEnd:
        return EndToEnd(
            epochs=self.finetune_epochs,
            patience=self.finetune_patience,
            batch_size=self.finetune_batch_size,
            learning_rate=self.finetune_learning_rate,
            weight_decay=self.finetune_weight_decay,
            augment="none",
            protect=self.protection(),
        )


def check_ema(method: Pretrained, ema: float) -> None:
    if not 0 <= ema < 1:
        raise InputError(f"ema of {method.name} is {ema}: give a number from 0 on and below 1")


Batches = Sequence[Tensor]  # of rows, by their positions


def swap(me: Party, rows: Batches, mine: Sequence[Tensor], *, host_first: bool) -> list[list[Tensor]]:
    """Give the projections of some batches; those of the same rows by everyone at the other ends, a list a batch."""
    if host_first == isinstance(me, Host):
        give(me, rows, mine)
        return take(me, rows, mine)
    theirs = take(me, rows, mine)
    give(me, rows, mine)
    return theirs


def give(me: Party, rows: Batches, mine: Sequence[Tensor]) -> None:
    for some, projections in zip(rows, mine, strict=True):
        me.about(some)
        for link in me.links.values():
            link.send("projections", projections)


def take(me: Party, rows: Batches, mine: Sequence[Tensor]) -> list[list[Tensor]]:
    received = []
    for some, own in zip(rows, mine, strict=True):
        me.about(some)
        received.append([link.receive("projections", shape=own.shape).tensor for link in me.links.values()])
    return received


def laid_out(encoder: nn.Module) -> nn.Module:
    """Images are much faster with their channels last."""
    return encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
