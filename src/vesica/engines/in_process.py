"""The in-process engine: one thread a party, one running at a time, in a fixed order."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from vesica.errors import DeadlockError, LateError, PartyError, RunFolderError, VesicaError, refused_by_system
from vesica.protocol.journal import Journal, check_each_other
from vesica.training.draws import random_state, set_random_state
from vesica.training.meeting import Work


class _Released(BaseException):
    """Unwinds a thread whose run has ended elsewhere."""


class _Sent(NamedTuple):
    frame: memoryview
    at: float  # by the sender's clock


class _Hope(NamedTuple):
    sender: str
    kind: str
    until: float  # by the receiver's clock


class _Visit(NamedTuple):
    work: Any
    together: Callable[[Sequence[Any]], None]


class InProcess:
    """Carries frames between threads. Frames are encoded and decoded as on a wire, so nothing else crosses.

    A party runs until it waits for a message that is not there; then the next one that can go on has its turn.
    Each party's random state is its own, put back with its turn, so a run does not depend on the interleaving.
    So is its clock, which runs in its own turns only: who comes late is decided as if all ran side by side.

    Parties that are about to do the same work may meet: once no other can go on, the first of them does it for all.
    """

    def __init__(self, parties: Sequence[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._parties = list(parties)
        self._clock = clock
        self._clocks = dict.fromkeys(parties, 0.0)  # without the turn that is under way
        self._turn: tuple[str, float] | None = None  # whose it is, and when it began
        self._inbox: dict[tuple[str, str], deque[_Sent]] = {}
        self._hopes: dict[str, _Hope] = {}  # what those who wait wait for
        self._meeting: dict[str, _Visit] = {}  # who waits until all have come who will
        self._finished: dict[str, Any] = {}
        self._turns = {party: threading.Semaphore(0) for party in parties}
        self._random: dict[str, Mapping[str, torch.Tensor]] = {}
        self._failure: BaseException | None = None
        self._over = threading.Event()
        self._journals: Mapping[str, Journal] = {}  # by party, where an earlier life of this run left some
        self.carried = 0  # bytes of the frames that went through

    # The transport.

    def check(self) -> None:
        if self._failure is not None:
            raise _Released

    def deliver(self, sender: str, receiver: str, sequence: int, frame: memoryview) -> None:
        self.check()
        if self._has_arrived(sender, receiver, sequence, frame):
            return
        self.carried += len(frame)
        self._inbox.setdefault((receiver, sender), deque()).append(_Sent(frame, self.now(sender)))

    def collect(
        self, receiver: str, sender: str, sequence: int, kind: str, *, within: float | None = None
    ) -> memoryview:
        inbox = self._inbox.setdefault((receiver, sender), deque())
        until = math.inf if within is None else self.now(receiver) + within
        if not inbox:
            self._hopes[receiver] = _Hope(sender, kind, until)
            self._wait_for_turn(receiver)
            del self._hopes[receiver]
        if not inbox or inbox[0].at > until:  # a late message stays where it is, unread
            self._advance(receiver, until)
            raise LateError(f"'{sender}' did not send '{kind}' in time")
        frame, at = inbox.popleft()
        self._advance(receiver, at)
        return frame

    def now(self, party: str) -> float:
        whose, began = self._turn or ("", 0.0)
        return self._clocks[party] + (self._clock() - began if party == whose else 0.0)

    def _advance(self, party: str, moment: float) -> None:
        """Nothing can be received before it was sent."""
        self._clocks[party] += max(0.0, moment - self.now(party))

    def _has_arrived(self, sender: str, receiver: str, sequence: int, frame: memoryview) -> bool:
        """Whether a message was received in an earlier life of this run, though its sender does not know that it left.

        So it is after a power cut took the end of the sender's journal: the sender's program has sent it once more.
        """
        journal = self._journals.get(receiver)
        if journal is None or sequence > journal.received_through(sender):
            return False
        before = journal.received(sender, sequence)
        if before not in (None, frame):
            raise RunFolderError(
                f"{journal.folder} has another message {sequence} from '{sender}' than the one that was sent again: "
                "start again in a new folder"
            )
        return True

    def redeliver(self, journals: Mapping[str, Journal], pairs: Sequence[tuple[str, str]]) -> None:
        """Put back what was on its way when an earlier life of this run ended."""
        check_each_other(journals, pairs)
        self._journals = journals
        for sender, receiver in pairs:
            for sequence, frame in journals[sender].undelivered(receiver, journals[receiver].received_through(sender)):
                self.deliver(sender, receiver, sequence, frame)
            kept = journals[receiver]
            journals[sender].acknowledge_by(receiver, partial(kept.durable_through, sender))

    # The meeting.

    def meet(self, party: str, work: Work, together: Callable[[Sequence[Work]], None]) -> None:
        """Wait until nobody else can go on; then one party does the work of all who came for the same."""
        self._meeting[party] = _Visit(work, together)
        self._wait_for_turn(party)
        if party not in self._meeting:
            return  # another has done it
        began = self.now(party)
        came = [other for other in self._parties if self._comes_for(other, together)]
        try:
            together([self._meeting[other].work for other in came])
        except Exception as error:
            failure = _named(" or ".join(came), error)  # whose work it was is not known here
            if failure is error:
                raise
            raise failure from error
        set_random_state(self._random[party])  # as the others, who were not there
        taken = self.now(party) - began
        for other in came:
            del self._meeting[other]
            if other != party:  # side by side it would have worked as long
                self._clocks[other] += taken

    def _comes_for(self, party: str, together: Callable[[Sequence[Any]], None]) -> bool:
        return party in self._meeting and self._meeting[party].together == together

    # The turns.

    def run(self, programs: Mapping[str, Callable[[], Any]], seeds: Mapping[str, int]) -> dict[str, Any]:
        """Run every party's program to its end; what they return, by party."""
        before = random_state()
        for party in self._parties:
            torch.manual_seed(seeds[party])
            self._random[party] = random_state()
        threads = [
            threading.Thread(target=self._live, args=(party, programs[party]), name=party, daemon=True)
            for party in self._parties
        ]
        try:
            for thread in threads:
                thread.start()
            self._turns[self._parties[0]].release()
            self._over.wait()
        except BaseException as interruption:  # Ctrl-C: the others leave at their next step, then it is passed on
            self._fail(interruption)
        try:
            for thread in threads:
                thread.join()
        finally:
            set_random_state(before)
        if self._failure is not None:
            raise self._failure
        return self._finished

    def _live(self, party: str, program: Callable[[], Any]) -> None:
        """A party's whole life, in its own thread."""
        self._turns[party].acquire()
        if self._failure is not None:
            return
        try:
            self._begin_turn(party)
            self._finished[party] = program()
        except _Released:
            return
        except BaseException as error:
            self._fail(_named(party, error))
        else:
            self._pass_turn(party)

    def _wait_for_turn(self, party: str) -> None:
        self._random[party] = random_state()
        self._pass_turn(party)
        self._turns[party].acquire()
        self.check()
        self._begin_turn(party)

    def _begin_turn(self, party: str) -> None:
        set_random_state(self._random[party])
        self._turn = party, self._clock()

    def _pass_turn(self, party: str) -> None:
        """Give the turn to the next party, in order, that can go on; else to those who meet; else to the one whose
        time is up first."""
        self._clocks[party], self._turn = self.now(party), None
        here = self._parties.index(party)
        for other in self._parties[here + 1 :] + self._parties[: here + 1]:
            if self._can_go_on(other):
                self._turns[other].release()
                return
        impatient = [other for other, hope in self._hopes.items() if hope.until < math.inf]
        if self._meeting:
            self._turns[min(self._meeting, key=self._parties.index)].release()
        elif len(self._finished) == len(self._parties):
            self._over.set()
        elif impatient:
            self._turns[min(impatient, key=lambda other: self._hopes[other].until)].release()
        else:
            self._fail(DeadlockError(self._who_waits()))

    def _can_go_on(self, party: str) -> bool:
        if party in self._finished or party in self._meeting:
            return False
        if party not in self._hopes:
            return True  # it has not begun
        return bool(self._inbox.get((party, self._hopes[party].sender)))

    def _who_waits(self) -> str:
        waits = [
            f"'{party}' waits for '{hope.kind}' from '{hope.sender}'"
            + (" (who has ended)" if hope.sender in self._finished else "")
            for party, hope in self._hopes.items()
        ]
        return f"no party can go on: {'; '.join(waits)}"

    def _fail(self, failure: BaseException) -> None:
        self._failure = self._failure or failure
        self._over.set()
        for turn in self._turns.values():
            turn.release()


def _named(party: str, error: BaseException) -> BaseException:
    """The error with the party's name on it."""
    if isinstance(error, VesicaError):
        error.party = error.party or party
        return error
    failure = refused_by_system(error) or PartyError(f"failed with {type(error).__name__}: {error}")
    failure.party = party
    failure.__cause__ = error
    return failure
