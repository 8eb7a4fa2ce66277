"""The moments at which a party's process over NVFlare can be killed: counted, and one of them the last."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from vesica.engines.nvflare.line import Line
from vesica.engines.nvflare.mailbox import Mailbox
from vesica.engines.nvflare.note import Note
from vesica.protocol.journal import Journal

RECORD = "after-record"  # a message is in this party's journal, sent or received
CALL = "after-call"  # one has arrived at the other, which this party does not know yet
ARRIVAL = "before-record"  # one has arrived here, and is in no journal yet
STEP = "inside-training"  # before an optimiser's step
SETTLED = "after-settling"  # all is safe with the others, and nothing of the end is kept here yet
WHAT = (RECORD, CALL, ARRIVAL, STEP, SETTLED)


@dataclass(frozen=True)
class Moments:
    """How often each thing has happened in a party's process, and at which time it is killed by it."""

    fatal: Mapping[str, int] = field(default_factory=dict)
    counters: Mapping[str, Any] = field(default_factory=lambda: {what: multiprocessing.Value("q") for what in WHAT})

    @property
    def seen(self) -> dict[str, int]:
        return {what: counter.value for what, counter in self.counters.items()}

    def happens(self, what: str) -> bool:
        """Whether it is the last thing that happens."""
        counter = self.counters[what]
        with counter.get_lock():
            counter.value += 1
            return bool(counter.value == self.fatal.get(what))


def arm(moments: Moments) -> None:
    """From now on this process counts, and dies when it is time."""
    changes: list[tuple[Any, str, str, bool]] = [
        (Journal, "_append", RECORD, False),
        (Line, "call", CALL, False),
        (Journal, "record_received", ARRIVAL, True),
        (torch.optim.Adam, "step", STEP, True),
        (torch.optim.SGD, "step", STEP, True),
        (Mailbox, "settle", SETTLED, False),
    ]
    for owner, name, what, before in changes:
        setattr(owner, name, dying(getattr(owner, name), what, moments, before=before))


def dying(function: Callable[..., Any], what: str, moments: Moments, *, before: bool) -> Callable[..., Any]:
    """The function, but the process dies just before or just after a call: that of a certain number."""

    def wrapped(*args: Any, **named: Any) -> Any:
        if before and moments.happens(what):
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*args, **named)
        if not before and (what != CALL or has_frame(*args)) and moments.happens(what):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return wrapped


def has_frame(line: Line, peer: str, note: bytes, seconds: float) -> bool:
    """Other calls say only how things stand, every few seconds."""
    return Note.unpack(note, peer=peer).sequence > 0
