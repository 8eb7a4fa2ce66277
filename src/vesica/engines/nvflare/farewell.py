"""What a party still says once its run is finished: that it is, to those that do not know."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable

from vesica.engines.nvflare import patience
from vesica.engines.nvflare.mailbox import Call
from vesica.engines.nvflare.note import NO_LIFE, Note, State
from vesica.errors import ProtocolError


class Farewell:
    """Who was killed at the end has all but the host's word; others of the run hear that they are left out."""

    def __init__(self, run: bytes, guests: Iterable[str]) -> None:
        self.waiting = set(guests)
        self._run, self._guests = run, frozenset(self.waiting)
        self._life, self._said = secrets.token_bytes(len(NO_LIFE)), 0
        self._changed = threading.Condition()

    def answer(self, caller: str, data: bytes) -> bytes:
        note = Note.unpack(data, peer=caller)
        if note.run != self._run:
            raise ProtocolError(f"'{caller}' made a call of another run than the one that is finished here")
        state = State.FINISHED if caller in self._guests else State.LEFT_OUT
        with self._changed:
            if note.state is State.FINISHED:
                self.waiting.discard(caller)
                self._changed.notify_all()
            self._said += 1
            return Note(self._run, state, life=self._life, number=self._said).pack()

    def stay(self, seconds: float) -> None:
        """Until all of them have ended, or so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self.waiting, timeout=seconds)


def report_end(call: Call, host: str, run: bytes, *, seconds: float) -> bool:
    """At a guest that was killed when it had finished, and could not say so; whether its host has heard it now."""
    word = Note(run, State.FINISHED, life=secrets.token_bytes(len(NO_LIFE)), number=1).pack()
    end = time.monotonic() + seconds
    while call(host, word, patience.SLOWEST_ANSWER) is None:
        if time.monotonic() > end:
            return False
        time.sleep(patience.TICK / 2)
    return True
