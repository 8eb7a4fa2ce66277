"""What a mailbox knows about one peer: whether it is there, how it is, and how far its frames have come."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from vesica.engines.nvflare.note import Note, State

Tell = Callable[[str], None]  # a sentence for who watches


@dataclass
class Peer:
    name: str
    heard: float = field(default_factory=time.monotonic)
    present: bool = False  # the last call came through
    state: State = State.PREPARING
    foreign: bool = False  # it is in another run
    late: bool = False  # it was given up
    there: int | None = None  # so many of our frames have arrived there; None: it has not said
    taken: int = 0  # so many are in its journal
    durable: int = 0  # so many are on its disk for good
    arrived: int = 0  # so many of its frames have arrived here
    inbox: dict[int, memoryview] = field(default_factory=dict)  # of these, the unread ones

    def learn(self, note: Note) -> None:
        self.state, self.there, self.foreign = note.state, note.arrived, False
        self.taken, self.durable = max(self.taken, note.taken), max(self.durable, note.durable)

    def has(self, frames: int) -> bool:
        """Whether so many of our frames are safe there; for one that was given up, whether they have arrived."""
        return self.taken >= frames or (self.late and (self.there or 0) >= frames)

    def hear(self, tell: Tell) -> None:
        self.heard = time.monotonic()
        if not self.present:
            self.present = True
            tell(f"'{self.name}' is here")

    def miss(self, tell: Tell) -> None:
        if self.present:
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
