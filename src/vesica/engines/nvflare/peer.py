"""What a mailbox knows about one peer: whether it is there, how it is, and how far its frames have come."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from vesica.engines.nvflare.note import NO_LIFE, Note, State

AHEAD, AHEAD_BYTES = 64, 2**28  # so many frames of a peer may wait unread; but one frame may always

Tell = Callable[[str], None]  # a sentence for who watches


@dataclass
class Peer:
    name: str
    heard: float = field(default_factory=time.monotonic)
    met: bool = False  # some call came through
    present: bool = False  # the last call came through
    state: State = State.PREPARING
    foreign: bool = False  # it is in another run
    late: bool = False  # it was given up
    left_out: bool = False  # the run went on without it
    excludes: bool = False  # it has ended the run without this party
    there: int | None = None  # so many of our frames have arrived there; None: it has not said
    taken: int = 0  # so many are in its journal
    durable: int = 0  # so many are on its disk for good
    arrived: int = 0  # so many of its frames have arrived here
    inbox: dict[int, memoryview] = field(default_factory=dict)  # of these, the unread ones
    life: bytes = NO_LIFE  # of its process, as far as it is known,
    number: int = 0  # and of the last of its notes
    past: set[bytes] = field(default_factory=set)  # its lives before that
    said: int = 0  # so many notes were written to it

    def is_news(self, note: Note) -> bool:
        """Whether it was said after everything that has come so far: calls and answers overtake each other."""
        if note.life != self.life and note.life not in self.past:
            self.past.add(self.life)
            self.life, self.number = note.life, 0
        if note.life in self.past or note.number <= self.number:
            return False
        self.number = note.number
        return True

    def learn(self, note: Note) -> None:
        self.excludes = note.state is State.LEFT_OUT
        self.state = State.FINISHED if self.excludes else note.state
        self.there, self.foreign = note.arrived, False
        self.taken, self.durable = max(self.taken, note.taken), max(self.durable, note.durable)

    @property
    def has_room(self) -> bool:
        """For a frame of its: in bytes too, since one may be as large as it likes."""
        return len(self.inbox) < AHEAD and sum(map(len, self.inbox.values())) < AHEAD_BYTES

    def has(self, frames: int) -> bool:
        """Whether so many of our frames are safe there; for one that was given up, whether they have arrived."""
        return self.taken >= frames or (self.late and (self.there or 0) >= frames)

    def hear(self, tell: Tell) -> None:
        self.heard = time.monotonic()
        if not self.present:
            self.met = self.present = True
            tell(f"'{self.name}' is here")

    def miss(self, tell: Tell, *, since: float) -> None:
        """A call that began then did not come through, which says nothing if the peer has called meanwhile."""
        if self.present and self.heard < since:
            self.present = False
            if self.state is not State.FINISHED:
                tell(f"'{self.name}' cannot be reached; trying again")

    @property
    def silence(self) -> float:
        return time.monotonic() - self.heard

    def why_in_vain(self, what: str, *, liveness: float) -> str | None:
        """Why there is no use in waiting for something from it, if there is none."""
        goes_on = "the same command at each party goes on"
        if self.state is State.FAILED:
            reason = f"'{self.name}' has stopped, for a reason that it shows there"
            return f"{reason}, and {what} is missing: mend that, then {goes_on}"
        if self.state is State.FINISHED:
            return f"'{self.name}' has ended the run without this party, which waited for {what}"
        if self.silence > liveness:
            away = f"'{self.name}' has been out of reach for {self.silence:.0f} s"
            return f"{away}, and {what} is missing: start it there, then {goes_on}"
        return None
