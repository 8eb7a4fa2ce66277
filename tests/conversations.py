"""Two or more parties in one process, for tests of the protocol."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vesica.engines import InProcess
from vesica.protocol import Budget, Ledger, Link
from vesica.protocol.budget import Meter
from vesica.protocol.journal import Journal
from vesica.protocol.link import Conversation

Program = Callable[[Mapping[str, Link]], Any]


class HandClock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def work(self, seconds: float) -> None:
        """As whoever has the turn does."""
        self.seconds += seconds


class Talk:
    """A host and its guests, each a function of its links."""

    def __init__(
        self,
        parties: Sequence[str],
        *,
        budget: Budget = Budget(),
        wire: str = "float32",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = InProcess(parties, clock=clock)
        self.parties = list(parties)
        host, *guests = parties
        meter = Meter(budget)
        self.talks = {}
        for party in parties:
            journal = Journal(None, guests if party == host else [host])
            self.talks[party] = Conversation(party, self.engine, journal, Ledger(party, host=host), meter, wire)
            meter.ledgers.append(self.talks[party].ledger)

    def links(self, party: str) -> dict[str, Link]:
        host, *guests = self.parties
        return {peer: Link(peer, self.talks[party]) for peer in (guests if party == host else [host])}

    def run(self, programs: Mapping[str, Program]) -> dict[str, Any]:
        bound = {party: (lambda party=party: programs[party](self.links(party))) for party in self.parties}
        return self.engine.run(bound, dict.fromkeys(self.parties, 1))

    def ledger(self, party: str) -> Ledger:
        return self.talks[party].ledger


def journals_in(folder: Path, parties: Sequence[str]) -> dict[str, Journal]:
    host, *guests = parties
    return {party: Journal(folder / party, guests if party == host else [host]) for party in parties}
