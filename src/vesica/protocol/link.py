"""A link: one party's end of the line to another, which counts, journals and checks what crosses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from vesica.errors import InputError, LateError, ProtocolError
from vesica.privacy import Spent
from vesica.protocol.budget import Meter
from vesica.protocol.journal import Journal
from vesica.protocol.ledger import Ledger
from vesica.protocol.message import Message, Scalar, Wire, decode, encode, payload_bytes
from vesica.training.meeting import Meet, alone

ANOTHERS = -1  # in place of a position in a party's own table
# The largest value that a message may hold. With larger ones a sender could make the receiver's outputs overflow or
# not, depending on the receiver's secret weights, and would see from the end of the run which of the two it was.
LARGEST = 1e15


class Transport(Protocol):
    """What an engine does: carry numbered frames from one party to another, in order."""

    def deliver(self, sender: str, receiver: str, sequence: int, frame: memoryview) -> None: ...

    def check(self) -> None:
        """Leave quietly if the run has ended elsewhere."""
        ...

    def collect(
        self, receiver: str, sender: str, sequence: int, kind: str, *, within: float | None = None
    ) -> memoryview:
        """Wait for a frame; `kind` says what the receiver hopes for, should it wait in vain.

        One that is not there within so many seconds is a LateError.
        """
        ...

    def now(self, party: str) -> float:
        """Seconds on a party's own clock, by which it counts what is late."""
        ...


Progress = Callable[[str, str, int, int], None]  # party, step, position, total
Check = Callable[[Message], object]  # raises a ProtocolError if a message is not what it should be


def silently(party: str, step: str, position: int, total: int) -> None:
    """No one watches."""


@dataclass
class Conversation:
    """One party's side of the talk: what all its links share."""

    party: str
    transport: Transport
    journal: Journal
    ledger: Ledger
    meter: Meter
    wire: Wire = "float32"
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    progress: Progress = silently
    curve: list[dict[str, float]] = field(default_factory=list)  # validation values as training went on
    steps: set[str] = field(default_factory=set)  # the long steps that were entered
    statements: list[str] = field(default_factory=list)  # what the messages give away, in plain words
    clock: Callable[[], float] = time.monotonic  # seconds since the run began, earlier lives included
    privacy: Spent | None = None  # what the messages cost, where a mechanism guarantees it
    meet: Meet = alone  # where parties of one process come together to train
    wait: float | None = None  # how many seconds a host gives its guests, where it can do without; None: for ever
    rows: Tensor | None = None  # of the party's own table, that its messages are about now,
    and_others: bool = False  # and behind them rows that are another's
    stop_at_bytes: int | None = None  # end-to-end training ends before it takes more; None: no limit
    folder: Path | None = None  # the party's own, for what must outlive a kill, and outlives the journal

    def note(self, value: float) -> None:
        """Put a validation value on the curve, where it stands in rounds and bytes; one that is undefined is not."""
        if math.isfinite(value):
            self.curve.append({"round": self.ledger.rounds, "bytes": self.ledger.wire, "value": value})


def form(shape: Sequence[int | None], dtype: torch.dtype) -> str:
    """A tensor's shape and type, in words."""
    return f"{tuple(shape)} of {str(dtype).removeprefix('torch.')}".replace("None", "any")


def fits(tensor: Tensor, shape: Sequence[int | None], dtype: torch.dtype) -> bool:
    """Whether a tensor is of this shape and type; None is a dimension of any size."""
    if tensor.dtype != dtype or tensor.dim() != len(shape):
        return False
    return all(wanted in (None, size) for wanted, size in zip(shape, tensor.shape, strict=True))


def fault_of(tensors: Mapping[str, Tensor]) -> str | None:
    """What is wrong with the values of a message, or None: NaN, infinity, or a value beyond LARGEST."""
    for tensor in tensors.values():
        if not tensor.is_floating_point() or not tensor.numel():
            continue
        low, high = (float(value) for value in tensor.detach().aminmax())
        if not (math.isfinite(low) and math.isfinite(high)):  # aminmax passes NaN on
            return "not finite"
        if max(-low, high) > LARGEST:
            return f"beyond {LARGEST:.0e}"
    return None


class Link:
    """The line from `me` to one peer. Messages are numbered from 1 in each direction."""

    def __init__(self, peer: str, conversation: Conversation) -> None:
        self.peer = peer
        self.sent = 0
        self.received = 0
        self.given_up = False  # the peer was late: nothing more is received from it
        self._talk = conversation

    def send(
        self,
        kind: str,
        tensors: Tensor | Mapping[str, Tensor] | None = None,
        *,
        scalars: Mapping[str, Scalar] | None = None,
        wire: Wire | None = None,
    ) -> None:
        """Send named tensors and small typed scalars; a single tensor needs no name.

        `wire` overrides the run's, for values that must not be rounded.
        """
        talk = self._talk
        self.sent += 1
        size = talk.journal.sent(self.peer, self.sent)
        if size is not None:  # it left in an earlier life of this run
            talk.ledger.record(talk.party, self.peer, kind, payload=size.payload, wire=size.wire)
            return
        named = {"values": tensors} if isinstance(tensors, Tensor) else dict(tensors or {})
        if fault := fault_of(named):
            raise InputError(
                f"'{kind}' for '{self.peer}' has values that are {fault} and was not sent: "
                "lower the learning rate or correct the data, and start a new run"
            )
        frame = encode(Message(kind, named, dict(scalars or {})), wire=wire or talk.wire)
        talk.meter.allow(talk.ledger, self.peer, kind, wire=len(frame))
        payload = payload_bytes(frame)
        self._note_rows(self.sent, named, sent=True)  # first: a message that is in the journal has its rows there
        talk.journal.record_sent(self.peer, self.sent, frame, payload=payload)
        talk.ledger.record(talk.party, self.peer, kind, payload=payload, wire=len(frame))
        talk.transport.deliver(talk.party, self.peer, self.sent, frame)

    def receive(
        self,
        kind: str,
        *,
        shape: Sequence[int | None] | None = None,
        dtype: torch.dtype = torch.float32,
        within: float | None = None,
        check: Check | None = None,
    ) -> Message:
        """Wait for the next message of the peer, which must be of this kind, its values finite and not beyond LARGEST.

        With a `shape` it must hold one tensor of that shape and dtype; a dimension that is None may be any.
        `check` raises an error if the message is wrong in another way. A message enters the journal after all
        checks: one that is refused does not spoil this party's run, and another one is taken under its number. The
        peer's own journal holds what it sent, and sends the same bytes again.
        One that does not come `within` so many seconds is a LateError, and the peer is given up for this run.
        """
        talk, sequence = self._talk, self.received + 1
        kept = talk.journal.received(self.peer, sequence)
        frame = self._collect(kind, sequence, within=within) if kept is None else kept
        message = self._decode(frame, kind, sequence)
        if shape is not None and not fits(message.tensor, shape, dtype):
            got = form(message.tensor.shape, message.tensor.dtype)
            raise ProtocolError(f"'{kind}' from '{self.peer}' is {got}, expected {form(shape, dtype)}")
        if fault := fault_of(message.tensors):
            raise ProtocolError(
                f"'{kind}' from '{self.peer}' has values that are {fault}: lower its learning rate or correct its data"
            )
        if check is not None:
            check(message)
        if kept is None:
            talk.journal.record_received(self.peer, sequence, frame)
        self.received = sequence
        talk.ledger.record(self.peer, talk.party, kind, payload=payload_bytes(frame), wire=len(frame))
        self._note_rows(sequence, message.tensors, sent=False)
        return Message(
            kind, {name: tensor.to(talk.device) for name, tensor in message.tensors.items()}, message.scalars
        )

    def _decode(self, frame: memoryview, kind: str, sequence: int) -> Message:
        try:
            message = decode(frame)
        except ProtocolError as error:
            raise ProtocolError(f"message {sequence} from '{self.peer}', expected '{kind}': {error}") from error
        if message.kind != kind:
            raise ProtocolError(
                f"message {sequence} from '{self.peer}' is '{message.kind}', expected '{kind}': "
                "the two sides do not run the same method or version"
            )
        return message

    def _note_rows(self, sequence: int, tensors: Mapping[str, Tensor], *, sent: bool) -> None:
        """For who audits the run: which rows the values of a message belong to, one each."""
        journal, rows = self._talk.journal, self._talk.rows
        if not journal.keeps_messages or rows is None or len(tensors) != 1:
            return
        (values,) = tensors.values()
        more = len(values) - len(rows) if values.dim() else -1
        if more == 0 or (more > 0 and self._talk.and_others):
            positions = np.pad(rows.cpu().numpy(), (0, more), constant_values=ANOTHERS)
            journal.record_rows(self.peer, sequence, positions, sent=sent)

    def _collect(self, kind: str, sequence: int, *, within: float | None) -> memoryview:
        """The next frame of the peer, from the wire."""
        talk = self._talk
        if self.given_up:  # what it sent late would be taken for what comes next
            raise ProtocolError(f"'{self.peer}' was late and is given up: '{kind}' cannot be received from it")
        try:
            return talk.transport.collect(talk.party, self.peer, sequence, kind, within=within)
        except LateError:
            self.given_up = True
            raise
