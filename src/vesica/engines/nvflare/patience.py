"""How long a mailbox waits for a peer: to come, to show that it lives, to send a message, to answer a call."""

from __future__ import annotations

from vesica.engines.nvflare.peer import Peer
from vesica.errors import ProtocolError

TICK = 2.0  # seconds between two calls that only say how things stand
LIVENESS = 300.0  # seconds without any call after which a party is out of reach
SLOWEST_ANSWER, SLOWEST_RATE = 15.0, 1e5  # seconds without progress a call may take, and bytes a second on top


class Patience:
    """A peer that trains for hours still answers calls; one that answers none for `liveness` seconds is out of reach.

    One that was never there has `arrive` seconds to come. Where there is a time for a `message`, nobody waits longer
    for one, however alive its sender is.
    """

    def __init__(self, liveness: float, *, arrive: float | None, message: float | None) -> None:
        self.liveness, self.message, self.tick = liveness, message, min(TICK, liveness / 5)
        self.arrive = liveness if arrive is None else arrive

    def check(self, peer: Peer, what: str, waited: float = 0.0) -> None:
        """Stop waiting in vain, and name who is missing."""
        why = peer.why_in_vain(what, liveness=self.liveness if peer.met else self.arrive)
        if why is None and self.message is not None and waited > self.message:
            late = f"'{peer.name}' did not send {what} within {self.message:g} s"
            why = f"{late}, and nothing goes on without it: wait longer"
        if why is not None:
            raise ProtocolError(why)

    def ends_with(self, guest: Peer) -> bool:
        """Whether a host that has all it needs has waited long enough for a guest that is silent."""
        return guest.silence > (3 * self.tick if guest.late else self.liveness)

    def of_call(self, peer: Peer, size: int) -> float:
        """How long a call may make no progress: never longer than a peer may be silent."""
        if not peer.met:  # it may not be listening yet, and will call
            return 2 * self.tick
        return min(SLOWEST_ANSWER + size / SLOWEST_RATE, self.liveness)

    @property
    def of_goodbye(self) -> float:
        """The last calls, one of which may hang."""
        return 3 * self.tick + min(SLOWEST_ANSWER, self.liveness)
