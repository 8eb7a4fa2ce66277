"""The two roles: a host, who has the labels, and its guests."""

from __future__ import annotations

import contextlib
import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from vesica.errors import InputError, LateError
from vesica.metrics import Task
from vesica.nn.models import AnyHead, EncoderSpec
from vesica.protocol.ledger import Entry
from vesica.protocol.link import Check, Conversation, Link
from vesica.protocol.message import Message, Scalar
from vesica.protocol.released_rows import ReleasedRows
from vesica.protocol.resumable import Resumable

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Rows:
    """Positions in a party's own table. All but `unaligned` are in the same order at every party."""

    aligned: Tensor
    unaligned: Tensor
    test: Tensor
    labelled: Tensor  # the aligned rows whose labels the host has
    validation: Tensor  # of these, for stopping and choosing
    fewer: tuple[Rows, ...] = ()  # the same with fewer labels, where a method learns from these as well

    @cached_property
    def train(self) -> Tensor:
        """The labelled aligned rows that are not for validation."""
        return self.labelled[~torch.isin(self.labelled, self.validation)]


class Came(dict[str, Tensor]):
    """What came in time, by party; a run that goes on finds it as it was, and does not decide again."""

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.update(state)


@dataclass(frozen=True)
class Milestone:
    """A party's models and messages at a moment of a method that goes on."""

    encoder: nn.Module | None
    head: AnyHead | None  # the host's
    rows: Rows  # that it was reached with
    entries: list[Entry]
    shared: int  # so many of the entries are the run's in the end
    curve: list[dict[str, float]]
    statements: list[str]


@dataclass
class Party:
    """One side of a conversation, with its own rows, its own model and its own random numbers."""

    name: str
    task: Task
    rows: Rows
    inputs: Tensor  # (rows, ...): the party's whole table, prepared
    encoder_spec: EncoderSpec | None  # None: a host with labels only
    conversation: Conversation
    links: Mapping[str, Link]
    agreed: bytes = b""  # a digest of what all parties agreed on, which public random numbers follow from
    encoder: nn.Module | None = None  # left out: a fresh one
    parties: tuple[str, ...] = ()  # everyone who takes part, the host first
    released: ReleasedRows | None = None  # what it has given away of its rows, where a method puts noise on them

    def __post_init__(self) -> None:
        self.milestones: dict[str, Milestone] = {}
        if self.encoder is None and self.encoder_spec is not None:
            self.use(self.encoder_spec)

    @property
    def device(self) -> torch.device:
        return self.inputs.device

    def use(self, spec: EncoderSpec) -> None:
        """Take a fresh encoder, drawn from this party's own random numbers."""
        self.encoder_spec = spec
        self.encoder = spec.build().to(self.device)

    def about(self, rows: Tensor, *, and_others: bool = False) -> Tensor:
        """Say, before messages with a value each for these own rows, that they are about them; the same rows.

        Where a message has more values, `and_others` says that these are of rows which another party has.
        """
        self.conversation.rows, self.conversation.and_others = rows, and_others
        return rows

    def encode(self, rows: Tensor) -> Tensor:
        """The representations of own rows, for training: the encoder's mode, with gradients."""
        assert self.encoder is not None, f"{self.name} has no features"
        return torch.as_tensor(self.encoder(self.inputs[rows]))

    @torch.no_grad()
    def represent(self, rows: Tensor) -> Tensor:
        """The representations of own rows, to give away: evaluation mode, no augmentation, no gradients.

        Where a method has noise for them they leave from here alone, in training and in prediction: end-to-end
        training, which sends what the encoder gives, refuses a party with noise.
        """
        self.about(rows)
        return self._represent(rows) if self.released is None else self.released(rows, self._represent)

    def _represent(self, rows: Tensor) -> Tensor:
        assert self.encoder is not None, f"{self.name} has no features"
        training = self.encoder.training
        self.encoder.eval()
        representations = torch.cat([self.encode(some) for some in rows.split(_ROWS_AT_ONCE)])
        self.encoder.train(training)
        return representations

    def milestone(self, name: str) -> None:
        """Remember how things stand: an earlier method's result, scored beside this one's in the end."""
        self.milestones[name] = self.keep()

    def keep(self) -> Milestone:
        talk, encoder = self.conversation, copy.deepcopy(self.encoder)
        entries, curve, statements = list(talk.ledger.entries), list(talk.curve), list(talk.statements)
        return Milestone(encoder, None, self.rows, entries, len(entries), curve, statements)

    @contextlib.contextmanager
    def apart(self, name: str, rows: Rows) -> Iterator[None]:
        """What can be reached from here with other rows: a milestone, after which everything stands as before.

        Its messages are counted with it, and not with what the run comes to.
        """
        talk, before = self.conversation, self.keep()
        self.rows = rows
        yield
        self.milestones[name] = replace(self.keep(), shared=before.shared)
        self.encoder, self.rows = before.encoder, before.rows
        talk.ledger.restore(before.entries)
        talk.curve[:], talk.statements[:] = before.curve, before.statements

    def public_random(self, purpose: str) -> torch.Generator:
        """Random numbers that every party of this run draws alike; they are no secret."""
        digest = hashlib.sha256(self.agreed + purpose.encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)

    def resumable(self, name: str) -> Resumable:
        """A long step under a name of its own, kept in this party's journal if there is one."""
        return Resumable(name, self.conversation, self.links)


@dataclass
class Guest(Party):
    """Has features only."""

    @property
    def host(self) -> Link:
        (link,) = self.links.values()
        return link


@dataclass
class Host(Party):
    """Has the labels, and perhaps features."""

    labels: Tensor = field(default_factory=lambda: torch.empty(0))  # (rows,): meaningful at the rows of `known`
    known: Tensor = field(default_factory=lambda: torch.empty(0))  # the rows whose labels it may train with
    dims: Mapping[str, int] = field(default_factory=dict)  # how long each party's representations are, its own first
    head: AnyHead | None = None  # what a method leaves, to predict with
    missing: tuple[str, ...] = ()  # the guests that were late, and are left out
    # Work with secrets that takes a time which shows them: done once every message, scoring included, is through.
    after_messages: list[Callable[[], None]] = field(default_factory=list)

    @property
    def guests(self) -> Mapping[str, Link]:
        return self.links

    def keep(self) -> Milestone:
        return replace(super().keep(), head=copy.deepcopy(self.head))

    def gather(self, kind: str, *, check: Check | None = None) -> dict[str, Message]:
        """One message from every guest: a round up."""
        return {name: link.receive(kind, check=check) for name, link in self.guests.items()}

    def gather_representations(self, rows: Tensor) -> list[Tensor]:
        """The guests' representations of these rows, in the order of the guests: a round up."""
        self.about(rows)
        return [
            link.receive("representations", shape=(len(rows), self.dims[name])).tensor
            for name, link in self.guests.items()
        ]

    def gather_in_time(self, rows: Tensor) -> dict[str, Tensor]:
        """The representations of these rows from the guests that send them in time: a round up, once a run.

        The others are left out for good, and the result says so.
        """
        came = Came()
        self.about(rows)
        for _ in self.resumable("who-was-there").steps(1, {"came": came}):
            self._receive_in_time(came, rows=len(rows))
        self._leave_out([name for name in self.guests if name not in came])
        return {name: part.to(self.device) for name, part in came.items()}

    def _receive_in_time(self, came: Came, *, rows: int) -> None:
        """One deadline for all, from now on."""
        wait, now = self.conversation.wait, self.conversation.transport.now
        until = None if wait is None else now(self.name) + wait
        for name, link in self.guests.items():
            within = None if until is None else max(0.0, until - now(self.name))
            with contextlib.suppress(LateError):  # who is not in `came` is left out, and that is said
                shape = (rows, self.dims[name])
                came[name] = link.receive("representations", shape=shape, within=within).tensor

    def _leave_out(self, guests: Sequence[str]) -> None:
        late = f"did not answer within {self.conversation.wait or 0:g} s"
        if guests and self.encoder is None and len(guests) == len(self.guests):
            raise InputError(f"{', '.join(guests)} {late} and the host has no features to learn from: wait longer")
        self.missing = tuple(guests)
        for name in guests:
            self.guests[name].given_up = True
            self.conversation.statements.append(
                f"'{name}' {late} and was left out: nothing was learned from its columns, and no prediction reads them."
            )

    def tell(self, kind: str, *, scalars: Mapping[str, Scalar]) -> None:
        """The same few words to every guest: a round down."""
        for link in self.guests.values():
            link.send(kind, scalars=scalars)
