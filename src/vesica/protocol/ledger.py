"""The ledger: every message one party sent or received, with its round and its bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One message. Round 0 is the agreement, which stands before round 1 and is counted apart."""

    round: int
    sender: str
    receiver: str
    kind: str
    payload: int  # bytes of the values
    wire: int  # bytes of the whole encoded frame

    def to_json(self, phase: str) -> dict[str, Any]:
        return {
            "phase": phase if self.round else "agreement",
            "round": self.round,
            "from": self.sender,
            "to": self.receiver,
            "kind": self.kind,
            "payload": self.payload,
            "wire": self.wire,
        }


class Ledger:
    """A party's messages in one conversation, in its own order.

    A round is one direction of traffic: it changes when the direction does. Every link ends at the host, so
    the host's ledger is the run's.
    """

    def __init__(self, party: str, *, host: str, phase: str = "training") -> None:
        self.party = party
        self.host = host
        self.phase = phase
        self.restore(())

    def restore(self, entries: Iterable[Entry]) -> None:
        """Start over from these entries."""
        self.entries: list[Entry] = []
        self.rounds = 0
        self.wire = 0  # bytes, sent and received
        self.sent_bytes = 0
        self._upwards: bool | None = None
        self.extend(entries)

    def extend(self, entries: Iterable[Entry]) -> None:
        """Add the entries of an earlier life of the run."""
        for entry in entries:
            self._add(entry)

    def round_of(self, receiver: str) -> int:
        """The round a message to `receiver` would belong to, were it the next."""
        changes = self._upwards is None or self._upwards != (receiver == self.host)
        return self.rounds + changes

    def record(self, sender: str, receiver: str, kind: str, *, payload: int, wire: int) -> None:
        number = 0 if kind == "agreement" else self.round_of(receiver)
        self._add(Entry(number, sender, receiver, kind, payload, wire))

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)
        if entry.round:
            self.rounds = entry.round
            self._upwards = entry.receiver == self.host
            self.wire += entry.wire
            self.sent_bytes += entry.wire if entry.sender == self.party else 0

    @property
    def messages(self) -> list[Entry]:
        """The messages of the conversation proper, the agreement left out."""
        return [entry for entry in self.entries if entry.round]

    @property
    def payload(self) -> int:
        return sum(entry.payload for entry in self.messages)

    @property
    def up(self) -> int:
        """Wire bytes to the host."""
        return sum(entry.wire for entry in self.messages if entry.receiver == self.host)

    @property
    def down(self) -> int:
        """Wire bytes from the host."""
        return sum(entry.wire for entry in self.messages if entry.receiver != self.host)

    def to_json(self) -> list[dict[str, Any]]:
        return [entry.to_json(self.phase) for entry in self.entries]
