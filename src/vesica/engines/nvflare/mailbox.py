"""A party's mailbox: numbered frames in short calls, sent again until the other side has them in its journal."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from vesica.engines.nvflare.note import LARGEST, NO_LIFE, NO_RUN, OVER, Note, State
from vesica.engines.nvflare.patience import LIVENESS, Patience
from vesica.engines.nvflare.peer import Peer, Tell
from vesica.engines.nvflare.run_file import keep_ended, keep_run, recall_ended, recall_run
from vesica.errors import InputError, LateError, PartyError, ProtocolError, RunFolderError, VesicaError
from vesica.protocol.journal import Journal

Call = Callable[[str, bytes, float], "bytes | None"]  # peer, note, seconds; None: it cannot be reached


def silently(sentence: str) -> None:
    """No one watches."""


class Mailbox:
    """Carries frames between this party and its peers by `call`, which makes one short call.

    The journal is the outbox: what a peer has not taken is read from there and sent again. Whoever waits for a peer
    that is out of reach stops; whoever has `patience` also where a message takes longer than so many seconds.
    """

    def __init__(
        self,
        me: str,
        host: str,
        peers: Sequence[str],
        call: Call,
        *,
        liveness: float = LIVENESS,
        arrive: float | None = None,
        patience: float | None = None,
        tell: Tell = silently,
    ) -> None:
        self.leads = me == host
        self.patience = Patience(liveness, arrive=arrive, message=patience)
        self._call, self._tell = call, tell
        self._changed = threading.Condition()
        self._peers = {name: Peer(name) for name in peers}
        self._posts = {p.name: threading.Thread(target=self._post, args=[p], daemon=True) for p in self._peers.values()}
        self._journal: Journal | None = None
        self._run, self._life = NO_RUN, secrets.token_bytes(len(NO_LIFE))
        self._state = State.RUNNING
        self._hurry = False  # to the end
        self._settled = False  # the journal may go
        self._failure: VesicaError | None = None

    @property
    def _outbox(self) -> Journal:
        assert self._journal is not None, "the line is not open"
        return self._journal

    @property
    def _folder(self) -> Path:
        assert self._outbox.folder is not None
        return self._outbox.folder

    # The carrier.

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def deliver(self, sender: str, receiver: str, sequence: int, frame: memoryview) -> None:
        self.check()
        if len(frame) > LARGEST:
            raise InputError(
                f"a message to '{receiver}' has {len(frame)} bytes and may have {LARGEST}: send fewer rows"
            )
        self._outbox.sync()  # what others get is never forgotten here
        with self._changed:
            self._changed.notify_all()

    def collect(
        self, receiver: str, sender: str, sequence: int, kind: str, *, within: float | None = None
    ) -> memoryview:
        peer, began = self._peers[sender], time.monotonic()
        with self._changed:
            while sequence not in peer.inbox:
                self.check()
                if within is None and peer.met and peer.state is State.PREPARING:
                    began = time.monotonic()  # it reads its table, for which patience is not meant
                waited = time.monotonic() - began
                if within is None:
                    self.patience.check(peer, f"'{kind}'", waited)
                elif waited >= within:
                    peer.late = True
                    raise LateError(f"'{sender}' did not send '{kind}' in time")
                tick = self.patience.tick
                self._changed.wait(tick if within is None else min(tick, within - waited))
            return peer.inbox.pop(sequence)

    def now(self, party: str) -> float:
        return time.monotonic()

    def resume(self, journal: Journal) -> None:
        """Open the line: the first call says where this party stands, and learns where the other does."""
        assert journal.folder is not None, "a run between organisations has a folder"
        with self._changed:
            self._journal, self._run = journal, recall_run(journal.folder)
            if self.leads and self._run == NO_RUN:
                self._take_name(secrets.token_bytes(len(NO_RUN)))
            for name in recall_ended(journal.folder) & self._peers.keys():
                self._peers[name].state = State.FINISHED
            for peer in self._peers.values():
                peer.arrived, peer.heard = journal.received_through(peer.name), time.monotonic()
                journal.acknowledge_by(peer.name, partial(getattr, peer, "durable"))
        for post in self._posts.values():
            post.start()

    # The end.

    @property
    def run(self) -> bytes:
        return self._run

    @property
    def unended(self) -> set[str]:
        """Peers that have not said that they have finished."""
        return {peer.name for peer in self._peers.values() if peer.state is not State.FINISHED}

    @property
    def awaited(self) -> set[str]:
        """Of these, the ones that the run was not finished without."""
        return {name for name in self.unended if not self._peers[name].left_out}

    @property
    def is_left_out(self) -> bool:
        """Whether the host has said that it finished without this party."""
        return any(peer.excludes for peer in self._peers.values())

    def leave_out(self, guests: Iterable[str]) -> None:
        """The run is finished without them, as the host's journal knows even if they were late in an earlier life."""
        with self._changed:
            for name in guests:
                self._peers[name].late = self._peers[name].left_out = True

    def settle(self) -> None:
        """Stay until the peers have in their journals what was sent: then this party's may go.

        To one that was given up it is enough to have sent it.
        """
        for peer in self._peers.values():
            self._stay(peer, partial(peer.has, self._outbox.sent_through(peer.name)))
        with self._changed:
            self._settled = True

    def close(self, state: State) -> None:
        """Tell the others how it ended. A host stays until its guests have ended too, who may have to start again.

        Then no call of this run is under way: the next run over the same line hears nothing of it.
        """
        if self.leads and state is State.FINISHED:
            for peer in self._peers.values():
                self._stay(peer, lambda peer=peer: peer.late)  # type: ignore[misc]
        with self._changed:
            self._state = state
            self._changed.notify_all()
        end = time.monotonic() + self.patience.of_goodbye
        for name, post in self._posts.items():
            if post.is_alive():
                insisting = self.patience.liveness if self._insists(self._peers[name]) else 0.0
                post.join(max(0.0, end + insisting - time.monotonic()))

    def _stay(self, peer: Peer, reached: Callable[[], bool]) -> None:
        """Until then, or until the peer has ended. A guest stops without its host; guests that have left have left."""
        with self._changed:
            self._hurry = True
            while not reached() and peer.state is not State.FINISHED:
                self.check()
                if not self.leads:
                    self.patience.check(peer, "its word that all has arrived")
                elif peer.state is State.FAILED or self.patience.ends_with(peer):
                    peer.late = True
                    return
                self._changed.wait(self.patience.tick / 20)

    # The calls.

    def answer(self, caller: str, data: bytes) -> bytes:
        """What a call is answered with; `caller` is who it proved to be."""
        note = Note.unpack(data, peer=caller)
        peer = self._peers.get(caller)
        if peer is None:
            raise ProtocolError(f"'{caller}' made a call and has no part in this run")
        with self._changed:
            peer.hear(self._tell)
            if self._journal is None:
                return self._signed(Note(NO_RUN, State.PREPARING), peer).pack()
            if self._learn(peer, note) and note.sequence == peer.arrived + 1 and peer.has_room:
                peer.inbox[note.sequence] = memoryview(bytearray(note.frame))
                peer.arrived += 1
            self._changed.notify_all()
            return self._note(peer).pack()

    def _post(self, peer: Peer) -> None:
        try:
            while self._send_once(peer):
                pass
        except Exception as error:  # whoever waits for something raises it
            with self._changed:
                self._failure = error if isinstance(error, VesicaError) else PartyError(f"the line failed: {error!r}")
                self._changed.notify_all()

    def _send_once(self, peer: Peer) -> bool:
        """The next frame for one peer, or a sign of life where there is none; False after the last one."""
        with self._changed:
            pause = self.patience.tick / (20 if self._hurry else 1)
            self._changed.wait_for(lambda: self._ended() or self._due(peer), timeout=pause)
            ended, note = self._ended(), self._note(peer)
            if ended and self.leads and peer.state is State.FINISHED:  # it has heard all it wanted
                return False
            sequence = (peer.there or 0) + 1 if self._due(peer) and not ended else 0
        if sequence:
            _, frame = next(self._outbox.undelivered(peer.name, sequence - 1))
            note = replace(note, sequence=sequence, frame=frame)
        began = time.monotonic()
        reply = self._call(peer.name, note.pack(), self.patience.of_call(peer, len(note.frame)))
        with self._changed:
            if reply is None:
                peer.miss(self._tell, since=began)
            else:
                peer.hear(self._tell)
                self._learn(peer, Note.unpack(reply, peer=peer.name))
                self._changed.notify_all()
            if reply is None or sequence > (peer.there or 0):  # it cannot be reached, or its inbox is full
                self._changed.wait_for(lambda: self._ended() and not ended, timeout=self.patience.tick / 2)
            return not ended or (reply is None and self._insists(peer))

    def _insists(self, host: Peer) -> bool:
        """A guest that has finished wants its host to know."""
        missing = host.state is not State.FINISHED and host.silence < self.patience.liveness
        return not self.leads and self._state is State.FINISHED and missing

    def _ended(self) -> bool:
        return self._state is not State.RUNNING

    def _due(self, peer: Peer) -> bool:
        unsent = peer.there is not None and self._outbox.sent_through(peer.name) > peer.there
        return unsent and not self._settled and peer.state is not State.FINISHED

    def _note(self, peer: Peer) -> Note:
        durable = self._outbox.durable_through(peer.name)  # first: it never overtakes what is read after it
        taken = self._outbox.received_through(peer.name)
        state = State.LEFT_OUT if peer.left_out and self._state is State.FINISHED else self._state
        state = State.REFUSING if peer.foreign else state
        return self._signed(Note(self._run, state, arrived=peer.arrived, taken=taken, durable=durable), peer)

    def _signed(self, note: Note, peer: Peer) -> Note:
        """Numbered, so that a peer knows which of two notes was said last."""
        peer.said += 1
        return replace(note, life=self._life, number=peer.said)

    def _learn(self, peer: Peer, note: Note) -> bool:
        """What a peer says of itself; False where it is not, or not yet, in this run."""
        if not peer.is_news(note):  # but a frame that comes with it may be
            return note.run == self._run and note.life not in peer.past
        if note.state is State.PREPARING:
            peer.state, peer.there = note.state, None
            return False
        new = self._run == NO_RUN and not self.leads
        if new and note.state in OVER:  # a run that is over is not the one that begins here
            return False
        in_this = (new or note.run == self._run) and note.state is not State.REFUSING
        if not in_this or not self._has_sent(peer, note.arrived):
            self._face_other_run(peer, note)
            return False
        if new:
            self._take_name(note.run)
        peer.learn(note)
        if self.leads and note.state is State.FINISHED and not self._settled:
            keep_ended(self._folder, self._peers.keys() - self.unended)
        return True

    def _has_sent(self, peer: Peer, frames: int) -> bool:
        """A peer that has more from here than this journal knows had it from another one."""
        return frames <= self._outbox.sent_through(peer.name)

    def _take_name(self, run: bytes) -> None:
        keep_run(self._folder, run)
        self._run = run

    def _face_other_run(self, peer: Peer, note: Note) -> None:
        if self.leads:  # a guest without a run is new, unless something of it is in the journal
            peer.foreign = note.run != NO_RUN or self._outbox.received_through(peer.name) > 0
        else:
            self._failure = RunFolderError(
                f"'{peer.name}' is in another run than the one in {self._folder}: give the folder of that run, "
                "or a new one at every party"
            )
