"""FedOnce's level L1: guests and host train with DP-SGD, within one budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from vesica.methods.release_claims import total_claim
from vesica.nn.models import CNN1, EncoderSpec, Head
from vesica.nn.objectives import assign, distance, points_on_sphere
from vesica.privacy import (
    Division,
    Mechanism,
    Spent,
    Training,
    at_most,
    divide,
    pld_epsilon,
    rdp_epsilon,
    refuse_short_tails,
)
from vesica.privacy.dp_sgd import standard_normals
from vesica.protocol import Guest, Host
from vesica.protocol.party import Party
from vesica.schema import ImageSchema
from vesica.training.private_training import train_privately

TRAINED_PRIVATELY = ("fixed", "codebook", "heuristic-nat")
CODES = 256  # points of the public codebook


@dataclass(frozen=True, kw_only=True)
class PrivateTraining:
    """What takes the place of FedOnce's trainings where there is an epsilon.

    The paper's batch assignment lets a row's target depend on other rows, which its proof does not cover: a private
    guest takes targets that depend on its own row alone, `fixed` or the nearest of a public `codebook`, or `filters`
    that are not trained and cost nothing. `heuristic-nat` is the paper's variant; no epsilon is stated for it.
    """

    representation: str
    epsilon: float
    delta: float
    division: Literal["moments", "simple"]
    clip: float
    batch_size: int
    guest_epochs: int
    host_epochs: int
    learning_rate: float

    def shares(self, me: Party) -> Division:
        """Every party's noise, from what all of them know: nobody need say how much it spends."""
        aligned, labelled, batch = len(me.rows.aligned), len(me.rows.labelled), self.batch_size
        host, *guests = me.parties
        trainings = {host: Training(min(1.0, batch / labelled), math.ceil(self.host_epochs * labelled / batch))}
        if self.representation in TRAINED_PRIVATELY:
            steps = math.ceil(self.guest_epochs * aligned / batch)
            trainings |= dict.fromkeys(guests, Training(min(1.0, batch / aligned), steps))
        return _divided(self.division, tuple(trainings.items()), self.epsilon, self.delta)

    def take_few_weights(self, me: Party) -> None:
        """The noise of DP-SGD grows with the weights: the paper's small network for images, or filters without any."""
        spec = me.encoder_spec
        if spec is None:
            return
        if self.representation == "filters":
            me.use(EncoderSpec("filters", spec.dim, spec.schema))
        elif spec.name == "cnn" and isinstance(spec.schema, ImageSchema) and CNN1.fits(spec.schema):
            me.use(EncoderSpec("cnn1", spec.dim, spec.schema))

    def learn(self, me: Guest) -> None:
        """A guest of level L1: on its aligned rows, which are what the parties' budgets are divided for."""
        self.take_few_weights(me)
        assert me.encoder is not None
        assert me.encoder_spec is not None
        own = me.inputs[me.rows.aligned]
        targets = GuestTargets(self.representation, me.encoder, own, dim=me.encoder_spec.dim)
        train_privately(
            me.encoder,
            lambda batch: own[batch],
            targets,
            rows=len(own),
            loss=distance,
            mechanism=self.shares(me).mechanisms[me.name],
            clip=self.clip,
            learning_rate=self.learning_rate,
            resume=me.resumable("representation"),
            more_parts=None if targets.public else {"targets": targets},
        )

    def lead(self, me: Host, head: Head, came: Mapping[str, Tensor], labels: Tensor) -> None:
        """The host of level L1: a record is its own row, the guests' parts of it, and the label."""
        own = [] if me.encoder is None else [me.inputs[me.rows.labelled]]
        train_privately(
            Aggregation(me.encoder, head),
            lambda batch: [part[batch] for part in (*own, *came.values())],
            lambda batch: labels[batch],
            rows=len(labels),
            loss=me.task.losses,
            mechanism=self.shares(me).mechanisms[me.name],
            clip=self.clip,
            learning_rate=self.learning_rate,
            resume=me.resumable("host-model"),
        )

    def disclose(self, me: Party, *, releases: Sequence[Mechanism]) -> None:
        """Say what is guaranteed: every party can, from what all of them know."""
        say = me.conversation.statements.append
        if self.representation == "heuristic-nat":
            say(
                "DP-SGD with the paper's batch assignment: its proof does not cover that a row's target depends on "
                "other rows, so the guarantee is heuristic and no epsilon is stated."
            )
            return
        shares = self.shares(me)
        trainings = tuple(shares.mechanisms.values())
        me.conversation.privacy = shares.spent
        say(
            f"The weights of all models together are differentially private, epsilon {at_most(shares.spent.epsilon)} "
            f"at delta {self.delta:g} by Rényi accounting ({self.division} division), "
            f"{at_most(_tighter(trainings, self.delta))} by privacy loss distributions; neighbours differ in one "
            "person's whole record, there or not. "
            "Not covered: the representations that the guests gave the host, what the agreement says (the classes, "
            "which rows are labelled and which validate), predictions, how columns and labels are prepared (scales, "
            "medians, which categories have a code, which columns have gaps), how many rows there are, and the choice "
            "of settings."
        )
        if releases:
            everything = (*trainings, *releases)
            total = rdp_epsilon(everything, self.delta)
            me.conversation.privacy = Spent(max(total, shares.spent.epsilon), self.delta)
            say(total_claim(total, self.delta, tighter=_tighter(everything, self.delta)))


class GuestTargets:
    """The points that a guest's rows are drawn to.

    Those of `fixed` and of `codebook` depend on a row alone, and so does its gradient. Points of `fixed` go by a row's
    place, so they are drawn by the operating system and never shown: who knew them by the seed could tell a row that
    is gone by its successors' points, and as it is the points of the others are as likely with it as without.
    `heuristic-nat` shares the points of a batch out among its rows, for good.
    """

    def __init__(self, representation: str, encoder: nn.Module, own: Tensor, *, dim: int) -> None:
        self._representation = representation
        self._encoder = encoder
        self._own = own
        if representation == "fixed":
            self.points = functional.normalize(standard_normals(len(own) * dim).view(-1, dim), dim=1).to(own.device)
        else:
            self.points = points_on_sphere(CODES if self.public else len(own), dim, device=own.device)

    @property
    def public(self) -> bool:
        """Whether the seed gives them, and no row changes them; others are kept with a checkpoint."""
        return self._representation == "codebook"

    def __call__(self, batch: Tensor) -> Tensor:
        if self._representation == "fixed":
            return self.points[batch]
        outputs = self._encoder(self._own[batch]).detach()
        if self._representation == "codebook":
            return self.points[(outputs @ self.points.T).argmax(dim=1)]
        self.points[batch] = self.points[batch][assign(outputs, self.points[batch])]
        return self.points[batch]

    def state_dict(self) -> dict[str, Tensor]:
        return {"points": self.points}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.points.copy_(state["points"])


@cache  # every party of a simulation asks
def _divided(
    division: Literal["moments", "simple"],
    trainings: tuple[tuple[str, Training], ...],
    epsilon: float,
    delta: float,
) -> Division:
    shares = divide(division, dict(trainings), epsilon=epsilon, delta=delta)
    refuse_short_tails(shares.mechanisms.values(), delta)
    return shares


@cache  # as above; it takes a while
def _tighter(mechanisms: tuple[Mechanism, ...], delta: float) -> float:
    return pld_epsilon(mechanisms, delta)


class Aggregation(nn.Module):
    """The host's whole model, from its own row and the guests' parts: its branch first, then the head."""

    def __init__(self, encoder: nn.Module | None, head: Head) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        own = parts if self.encoder is None else [self.encoder(parts[0]), *parts[1:]]
        outputs: Tensor = self.head(own)
        return outputs
