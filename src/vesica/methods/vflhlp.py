"""VFLHLP. Li et al., "Vertical Federated Learning Hybrid Local Pre-training", 2024, Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.methods.label_claims import protected
from vesica.methods.label_defences import LabelDefences
from vesica.nn.augmentations import views_of
from vesica.nn.models import Head
from vesica.protocol import Guest, Host
from vesica.protocol.end_to_end import EndToEnd
from vesica.training.self_supervised import self_supervised
from vesica.training.supervised import train

Start = Literal["fresh", "warm"]
HELD_OUT = 10  # every tenth of the host's unaligned labels says when it has learned enough alone
WIDTH = 64  # of Scarf's projections


@dataclass(frozen=True)
class SplitTraining(LabelDefences):
    """Step 3: representations go up and gradients down for every batch of the aligned rows."""

    stops_at_bytes: ClassVar[bool] = True

    epochs: int = 20
    patience: int = 0  # the last epoch is kept: a tenth of a few aligned rows tells too little to choose one by
    batch_size: int = 32
    eta_1: float = 3e-3  # the host's learning rate, of its encoder and the head
    eta_2: float = 1e-4  # the guests'
    weight_decay: float = 1e-5
    hidden: tuple[int, ...] = ()  # the paper's head is one linear layer

    def guest(self, me: Guest) -> None:
        self.training(self.eta_2).follow(me, step="training")

    def host(self, me: Host) -> None:
        me.head = Head(me.dims, me.task.outputs, hidden=self.hidden).to(me.device)
        training = self.training(self.eta_1)
        with self.hiding(me):
            self.lead(me, me.head, training)
        me.conversation.statements += protected(training.protect)

    def lead(self, me: Host, head: Head, training: EndToEnd) -> None:
        training.lead(me, me.labels, step="training")

    def training(self, learning_rate: float) -> EndToEnd:
        return EndToEnd(
            epochs=self.epochs,
            patience=self.patience,
            batch_size=self.batch_size,
            learning_rate=learning_rate,
            weight_decay=self.weight_decay,
            augment="none",
            protect=self.protection(),
        )


@dataclass(frozen=True)
class VFLHLPP(SplitTraining):
    """VFLHLP-P, the guests' half: each learns from all its rows by Scarf, and starts split training from there.

    For a fixed number of steps, over which the rate falls to 0.
    """

    name: ClassVar[str] = "vflhlp-p"

    guest_steps: int = 1000
    guest_batch_size: int = 256
    guest_learning_rate: float = 1e-3
    corruption: float = 0.6  # of a row's columns, taken from other rows; images have random views instead
    tau: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tau > 0:
            raise InputError(f"tau of {self.name} is {self.tau}: give a temperature above 0")
        if not 0 < self.corruption <= 1:
            raise InputError(
                f"corruption of {self.name} is {self.corruption}: give a share of the columns above 0, up to 1"
            )

    def guest(self, me: Guest) -> None:
        assert me.encoder is not None
        assert me.encoder_spec is not None
        own = me.inputs[torch.cat([me.rows.aligned, me.rows.unaligned])]
        self_supervised(  # (2)
            me.encoder,
            own,
            dim=me.encoder_spec.dim,
            ssl="scarf",
            views=views_of(me.encoder_spec.schema, own, corrupted=self.corruption),
            steps=self.guest_steps,
            learning_rate=self.guest_learning_rate,
            batch_size=self.guest_batch_size,
            width=WIDTH,
            tau=self.tau,
            resume=me.resumable("scarf"),
        )
        super().guest(me)  # (3)


@dataclass(frozen=True)
class VFLHLPA(SplitTraining):
    """VFLHLP-A, the host's half: it learns alone from all its labels, and split training is held near to that.

    As published the host's encoder and the head start fresh, and the constraint alone carries over what was learned; a
    `warm` start begins there. A host with labels only has nothing to learn alone.
    """

    beta: float = 1.0
    start: Start = "fresh"
    host_epochs: int = 100
    host_patience: int = 10
    host_batch_size: int = 128
    host_learning_rate: float = 1e-3
    host_weight_decay: float = 1e-5

    def lead(self, me: Host, head: Head, training: EndToEnd) -> None:
        if me.encoder is None:
            me.conversation.statements.append(
                "The host has labels only: it learned nothing alone, and split training had no constraint."
            )
            super().lead(me, head, training)
            return
        ours, prior = OwnModel(me.encoder, head), self.learn_alone(me)  # (1)
        if self.start == "warm":
            ours.start_from(prior)
        training.lead(  # (3), Eq. 7
            me, me.labels, step="training", penalty=lambda: self.beta * constraint(ours, prior)
        )

    def learn_alone(self, me: Host) -> OwnModel:
        """Theta^1 and Theta^0, of all rows that the host has a label for (Eq. 4)."""
        assert me.encoder_spec is not None
        encoder = me.encoder_spec.build().to(me.device)
        head = Head({me.name: me.dims[me.name]}, me.task.outputs, hidden=self.hidden).to(me.device)
        unaligned = me.known[~torch.isin(me.known, me.rows.aligned)]
        held_out = torch.cat([me.rows.validation, unaligned[::HELD_OUT]])
        train(
            {"encoder": encoder, "head": head},
            lambda rows: head([encoder(me.inputs[rows])]),
            me.labels,
            rows=me.known[~torch.isin(me.known, held_out)],
            validation=held_out,
            task=me.task,
            epochs=self.host_epochs,
            patience=self.host_patience,
            batch_size=self.host_batch_size,
            learning_rate=self.host_learning_rate,
            weight_decay=self.host_weight_decay,
            resume=me.resumable("host-model"),
        )
        if len(unaligned):
            me.conversation.statements.append(
                f"The host learned from the labels of {len(me.known)} rows, of which {len(unaligned)} are not aligned: "
                "methods that know the labels of aligned rows only have fewer."
            )
        return OwnModel(encoder, head)


@dataclass(frozen=True)
class VFLHLP(VFLHLPA, VFLHLPP):
    """Every party learns alone from all its rows, aligned or not, before the aligned rows are learned from together.

    (1) The host, `VFLHLPA.lead`, learns with its labels, (2) each guest, `VFLHLPP.guest`, by Scarf; nothing is sent.
    (3) Split training starts from the guests' encoders, and is held near to the host's model.
    """

    name: ClassVar[str] = "vflhlp"


@dataclass(frozen=True)
class OwnModel:
    """What the host could predict with alone: theta^1 and theta^0_s."""

    encoder: nn.Module
    head: Head  # its first columns read the host's representations

    def weights(self) -> list[Tensor]:
        """Those of the encoder and of the head, but for the columns that read the guests' parts."""
        first, *others = self.head.mlp.parameters()
        own = self.head.dims[self.head.parties[0]]
        return [*self.encoder.parameters(), first[:, :own], *others]

    @torch.no_grad()
    def start_from(self, other: OwnModel) -> None:
        self.encoder.load_state_dict(other.encoder.state_dict())
        for ours, theirs in zip(self.weights(), other.weights(), strict=True):
            ours.copy_(theirs)


def constraint(model: OwnModel, prior: OwnModel) -> Tensor:
    """Half the squared distance of the weights; the prior's stay where they are (Eq. 8)."""
    pairs = zip(model.weights(), prior.weights(), strict=True)
    return torch.stack([(ours - theirs.detach()).square().sum() for ours, theirs in pairs]).sum() / 2
