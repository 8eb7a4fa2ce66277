"""What a host still says once its run is finished: that it is, to guests that were killed before they knew."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable

from vesica.engines.nvflare.note import NO_LIFE, Note, State
from vesica.errors import ProtocolError


class Farewell:
    """Their journals have all they need; what is missing there is the host's word that it has everything of theirs."""

    def __init__(self, run: bytes, guests: Iterable[str]) -> None:
        self.waiting = set(guests)
        self._run, self._guests = run, frozenset(self.waiting)
        self._life, self._said = secrets.token_bytes(len(NO_LIFE)), 0
        self._changed = threading.Condition()

    def answer(self, caller: str, data: bytes) -> bytes:
        note = Note.unpack(data, peer=caller)
        if caller not in self._guests or note.run != self._run:
            raise ProtocolError(f"'{caller}' made a call and is not awaited in this run, which is finished")
        with self._changed:
            if note.state is State.FINISHED:
                self.waiting.discard(caller)
                self._changed.notify_all()
            self._said += 1
            return Note(self._run, State.FINISHED, life=self._life, number=self._said).pack()

    def stay(self, seconds: float) -> None:
        """Until all of them have ended, or so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self.waiting, timeout=seconds)
