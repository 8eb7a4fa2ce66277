"""FedOnce. Wu, Li and He, "Practical Vertical Federated Learning with Unsupervised Representation Learning", IEEE
Transactions on Big Data 2022, Algorithms 1 and 2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from vesica.augmentations import views_of
from vesica.errors import InputError
from vesica.learning.training import evaluate, train
from vesica.learning.unsupervised import noise_as_targets, principal_components
from vesica.models import EncoderSpec, Head, LinearEncoder
from vesica.models.head import Fill
from vesica.protocol import Guest, Host
from vesica.protocol.end_to_end import Augment, EndToEnd

Representation = Literal["nat", "pca"]


@dataclass(frozen=True)
class FedOnce:
    """One message a guest: it learns a representation of its rows without labels, and sends it.

    The host trains its own encoder and a head over all parts. With `more_epochs` all of these are then trained on end
    to end, as in split-nn.

    A guest that is late is left out. With `party_dropout` the host learns to do without any of its guests, a `fill`
    in their place; "zero" without it is the paper's way (Appendix C).
    """

    representation: Representation = "nat"
    guest_epochs: int = 30
    frequency: int = 3  # every third epoch shares the points out anew
    guest_augment: Augment = "none"
    guest_learning_rate: float = 1e-3
    guest_weight_decay: float = 1e-5
    batch_size: int = 128
    host_epochs: int = 100
    host_patience: int = 20
    host_learning_rate: float = 1e-3
    host_weight_decay: float = 1e-5
    hidden: tuple[int, ...] = (64,)
    more_epochs: int = 0
    more_learning_rate: float = 1e-4
    party_dropout: float = 0.0  # a guest's part of a row is missing with this probability, in the host's training
    fill: Fill = "learned"

    def __post_init__(self) -> None:
        if not self.party_dropout < 1:
            raise InputError(f"party_dropout of fedonce is {self.party_dropout}: give a probability below 1")
        if self.party_dropout and self.more_epochs:
            raise InputError("fedonce trains more_epochs with every guest there: leave these or party_dropout out")

    @property
    def stands_missing(self) -> bool:
        """Whether a guest may be late: more rounds need all of them, every time."""
        return not self.more_epochs

    @property
    def title(self) -> str:
        """What a table calls its result, beside that of one message alone."""
        return "fedonce, more rounds" if self.more_epochs else "fedonce"

    def guest(self, me: Guest) -> None:
        self.learn(me)
        me.host.send("representations", me.represent(me.rows.labelled))
        if self.more_epochs:
            me.milestone("fedonce")
            self.more_rounds().follow(me, step="more-rounds")

    def host(self, me: Host) -> None:
        came = me.gather_in_time(len(me.rows.labelled))
        me.head = head = Head(
            {name: dim for name, dim in me.dims.items() if name not in me.missing},
            me.task.outputs,
            hidden=self.hidden,
            optional=tuple(came) if self.party_dropout or self.fill == "zero" else (),
            fill=self.fill,
            party_dropout=self.party_dropout,
        ).to(me.device)
        modules: dict[str, nn.Module] = {"head": head}
        if me.encoder is not None:
            modules["encoder"] = me.encoder

        def forward(rows: Tensor, *, without: str | None = None) -> Tensor:
            own = [] if me.encoder is None else [me.encode(me.rows.labelled[rows])]
            outputs: Tensor = head([*own, *(None if name == without else part[rows] for name, part in came.items())])
            return outputs

        labels, held_out = me.labels[me.rows.labelled], torch.isin(me.rows.labelled, me.rows.validation)
        validation = torch.nonzero(held_out).squeeze(1)
        train(
            modules,
            forward,
            labels,
            rows=torch.nonzero(~held_out).squeeze(1),
            validation=validation,
            task=me.task,
            epochs=self.host_epochs,
            patience=self.host_patience,
            batch_size=self.batch_size,
            learning_rate=self.host_learning_rate,
            weight_decay=self.host_weight_decay,
            resume=me.resumable("host-model"),
        )

        def judge(without: str | None = None) -> tuple[float, float]:
            return evaluate(modules, partial(forward, without=without), labels, rows=validation, task=me.task)

        if len(head.parties) > 1:
            say_cost(me, judge()[0], {name: judge(without=name)[0] for name in head.optional})
        if self.more_epochs:
            me.milestone("fedonce")
            before = judge()
            self.more_rounds().lead(me, me.labels, step="more-rounds", before=before)

    def learn(self, me: Guest) -> None:
        """The guest's representation, of all its own training rows, aligned or not."""
        assert me.encoder_spec is not None
        own = me.inputs[torch.cat([me.rows.aligned, me.rows.unaligned])]
        schema = me.encoder_spec.schema
        if self.representation == "pca":
            me.use(EncoderSpec("linear", me.encoder_spec.dim, schema))
            assert isinstance(me.encoder, LinearEncoder)
            principal_components(me.encoder, own, schema)
            return
        assert me.encoder is not None
        noise_as_targets(
            me.encoder,
            own,
            dim=me.encoder_spec.dim,
            view=views_of(schema, own).weak if self.guest_augment == "weak" else None,
            epochs=self.guest_epochs,
            frequency=self.frequency,
            batch_size=self.batch_size,
            learning_rate=self.guest_learning_rate,
            weight_decay=self.guest_weight_decay,
            resume=me.resumable("representation"),
        )

    def more_rounds(self) -> EndToEnd:
        return EndToEnd(
            epochs=self.more_epochs,
            patience=self.more_epochs,
            batch_size=self.batch_size,
            learning_rate=self.more_learning_rate,
            weight_decay=self.host_weight_decay,
            augment="none",
        )


def say_cost(me: Host, value: float, without: Mapping[str, float]) -> None:
    """What predicting without each guest would cost, as the validation rows tell."""
    for name, less in without.items():
        if math.isfinite(less):
            me.conversation.statements.append(
                f"Without '{name}' a prediction is still possible: {me.task.metric} on the validation rows is then "
                f"{abs(less):.4f} instead of {abs(value):.4f}."
            )
