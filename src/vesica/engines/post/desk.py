"""The carrier of the post engine: it writes into the outbox, and looks into the inbox."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from vesica.engines.post.envelope import Envelope, Header, Mark, PostError, file_name, seal
from vesica.engines.post.folder import DeskFolder
from vesica.engines.post.inbox import Inbox, Letter
from vesica.engines.post.keys import Card
from vesica.engines.post.notes import EVERYONE, Notes
from vesica.errors import LateError, RunFolderError, VesicaError
from vesica.protocol.files import write_atomically
from vesica.protocol.journal import Journal


class WaitingForFile(VesicaError):  # noqa: N818 - nothing is wrong
    """A file that this party cannot go on without is not there yet: bring it, and give the same command again."""


class Desk:
    """Carries the messages of one party in one run, whatever program it runs.

    A message belongs to a session, which the host draws when the run begins and a guest learns from the host's first
    message. A guest draws a number of its own, which the host's messages bear once it has heard it. So neither takes
    anything of an earlier run of the same name.
    Where a file is missing it leaves with WaitingForFile, or calls `linger` with that sentence and looks again.
    """

    def __init__(
        self,
        folder: DeskFolder,
        mark: Mark,
        cards: Mapping[str, Card],
        *,
        host: str,
        wait: float | None = None,
        keep_messages: bool = False,
        linger: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._mark, self._host = folder, mark, host
        self._wait = math.inf if wait is None else wait
        self._keep_messages = keep_messages
        self._linger = linger
        self._clock = clock
        self._me = folder.identity()
        self._peers = {name: cards[name] for name in (cards if self._me.name == host else [host])}
        self._peers.pop(self._me.name, None)
        self._dropped = dict.fromkeys(self._peers, 0)
        self._inbox = Inbox(folder, mark, self._me, senders=self._peers)
        self._session: str | None = None
        self._reached = 0.0  # the end of a wait that was in vain

    # The carrier.

    def resume(self, journal: Journal) -> None:
        """Learn from what has come how much each peer holds, and put the rest into the outbox again."""
        self._journal, self._notes = journal, Notes(journal.folder, self._clock)
        if self._me.name == self._host and self._notes.session is None:
            self._notes.begin(secrets.token_hex(32))
        self._session = self._notes.session
        if self._me.name != self._host and self._notes.fresh(self._me.name) is None:
            self._notes.hear(self._me.name, secrets.token_hex(32))
        self._inbox.look(next_of=self._next())
        for peer in self._peers:
            sent = range(1, journal.sent_through(peer) + 1)
            # A journal drops only what a peer held: so much it said before, in files that are gone by now.
            self._dropped[peer] = max((number for number in sent if journal.sent(peer, number) is None), default=0)
            self._check_held(peer)
            journal.acknowledge_by(peer, partial(self._held_by, peer))
            for number, frame in journal.undelivered(peer, self._held_by(peer)):
                if not self._is_posted(peer, number):
                    self._post(peer, number, frame)
        self._tidy()

    def deliver(self, sender: str, receiver: str, sequence: int, frame: memoryview) -> None:
        self._journal.sync()  # what others get must outlive a power cut here
        self._post(receiver, sequence, frame)

    def check(self) -> None:
        """Nobody can end this party's run from afar."""

    def collect(
        self, receiver: str, sender: str, sequence: int, kind: str, *, within: float | None = None
    ) -> memoryview:
        wanted = file_name(self._mark.run, sender, self._me.name, sequence)
        while True:
            self._inbox.look(next_of={**self._next(), sender: sequence})
            letter, stale = self._find(sender, sequence)
            if letter is not None:
                return self._inbox.open(letter)
            self._leave_if_late(sender, sequence, kind, within=within)
            missing = f"waiting for {wanted} ('{kind}') from '{sender}': put it into {self._folder.inbox}"
            reason = stale or self._inbox.fault_of(wanted) or WaitingForFile(missing)
            if self._linger is None:
                raise reason
            self._linger(str(reason))

    def now(self, party: str) -> float:
        """Stands still at when the host first asked all its guests, so that a restart begins no new wait."""
        return max(self._notes.asked(EVERYONE), self._reached)

    # What a person is told.

    def to_carry(self) -> list[Path]:
        """What is in the outbox and may not have arrived."""
        self._tidy()
        return list(self._folder.leaving(self._mark.run))

    def refused(self) -> list[str]:
        return self._inbox.refused()

    def clear(self) -> None:
        """The run has ended: its files in the inbox are of no more use."""
        self._tidy()
        self._remove_received(lambda letter: True)

    # What has come.

    def _next(self) -> dict[str, int]:
        """The number of the next message of each peer, as far as the journal knows."""
        return {peer: self._journal.received_through(peer) + 1 for peer in self._peers}

    def _find(self, sender: str, number: int) -> tuple[Letter | None, PostError | None]:
        """The message, if it is there; if not, what is wrong with one that is there in its stead."""
        letters = list(self._inbox.letters(sender, number))
        sessions = {letter.header.session for letter in letters}
        if self._session is None and sender == self._host and number == 1 and len(sessions) == 1:
            self._session = sessions.pop()
            self._notes.begin(self._session)
        fitting = [letter for letter in letters if self._fits(letter)]
        if letters and not fitting:
            files = " and ".join(str(letter.path) for letter in letters)
            return None, PostError(
                f"{files} of '{sender}' is of an earlier run that was also called '{self._mark.run}', or of one begun "
                "anew: remove what is old, or begin again under another name at all parties"
            )
        if fitting and self._me.name == self._host and self._notes.fresh(sender) is None:
            self._notes.hear(sender, fitting[0].header.fresh)
        return (fitting[0] if fitting else None), None

    def _fits(self, letter: Letter) -> bool:
        """Whether it is of this session, and of the guest's own beginning of it."""
        header = letter.header
        if header.session != self._session:
            return False
        if self._me.name == self._host:
            return header.fresh != "" and self._notes.fresh(header.sender) in (None, header.fresh)
        return header.fresh in ("", self._notes.fresh(self._me.name))

    def _held_by(self, peer: str) -> int:
        """How many of the messages to a peer it has for good, by its own word."""
        mine = [letter.header for letter in self._inbox.letters(peer) if self._fits(letter)]
        return max([self._dropped[peer], *(header.held for header in mine)])

    def _check_held(self, peer: str) -> None:
        held, sent = self._held_by(peer), self._journal.sent_through(peer)
        if held > sent:
            raise RunFolderError(
                f"{self._journal.folder} is torn ('{peer}' has {held} messages from here, and the journal knows "
                f"{sent}): start again under another name at all parties"
            )

    def _leave_if_late(self, sender: str, number: int, kind: str, *, within: float | None) -> None:
        """Late is counted from when this was first asked for, in whichever life of the run."""
        asked = self._notes.asked(f"{sender} {number}")
        began, wait = (asked, self._wait) if within is None else (self.now(self._me.name), within)
        if self._clock() < began + wait:
            return
        self._reached = began + wait
        again = "the same command goes on once the file is there"
        raise LateError(
            f"'{sender}' has not sent message {number} ('{kind}') of the run '{self._mark.run}' in time: ask it why; "
            f"{again if self._linger is None else 'then all parties begin again under another name'}"
        )

    # What goes out.

    def _post(self, receiver: str, number: int, frame: memoryview) -> None:
        if self._session is None:
            raise PostError(f"'{self._host}' has not begun the run '{self._mark.run}', so nothing can be sent to it")
        held = self._journal.durable_through(receiver)
        guest = receiver if self._me.name == self._host else self._me.name
        fresh = self._notes.fresh(guest) or ""
        mark = self._mark.between(self._me, self._peers[receiver])
        header = Header(mark, self._session, self._me.name, receiver, number, held, fresh)
        self._folder.outbox(receiver).mkdir(mode=0o700, parents=True, exist_ok=True)
        sealed = seal(frame, header, sender=self._me, receiver=self._peers[receiver])
        write_atomically(self._folder.outbox(receiver) / header.file_name, sealed)

    def _is_posted(self, receiver: str, number: int) -> bool:
        path = self._folder.outbox(receiver) / file_name(self._mark.run, self._me.name, receiver, number)
        try:
            return path.is_file() and Envelope.read(path).header.session == self._session
        except PostError:  # it is written anew
            return False

    def _tidy(self) -> None:
        """Remove what has arrived: from the inbox what the journal holds for good, from the outbox what peers do."""
        durable = self._journal.durable_through
        # The last of each peer stays: it says how much that peer holds.
        self._remove_received(lambda letter: letter.header.number < durable(letter.header.sender))
        for path in () if self._keep_messages else self._folder.leaving(self._mark.run):
            _, _, receiver, number, _ = path.name.split(".")
            if receiver in self._peers and int(number) <= self._held_by(receiver):
                path.unlink()

    def _remove_received(self, is_done: Callable[[Letter], bool]) -> None:
        for letter in () if self._keep_messages else list(self._inbox.letters()):
            if self._fits(letter) and is_done(letter):
                self._inbox.remove(letter)
