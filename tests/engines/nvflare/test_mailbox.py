"""Mailboxes that call each other directly: what is lost, repeated, late, restarted or foreign."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vesica.engines.nvflare.farewell import Farewell
from vesica.engines.nvflare.mailbox import Mailbox
from vesica.engines.nvflare.note import NO_RUN, OVER, Note, State
from vesica.engines.nvflare.patience import Patience
from vesica.engines.nvflare.peer import AHEAD, Peer
from vesica.errors import InputError, LateError, ProtocolError, RunFolderError
from vesica.protocol.journal import Journal

HOST = "bank"


class Wires:
    """Calls from mailbox to mailbox. Whoever is in `away` cannot be reached; of the others, some answers are lost."""

    def __init__(self) -> None:
        self.boxes: dict[str, Mailbox] = {}
        self.away: set[str] = set()
        self.lose = 0  # every so many-th answer; 0: none
        self.calls = 0

    def call(self, caller: str, peer: str, note: bytes) -> bytes | None:
        if {caller, peer} & self.away or peer not in self.boxes:
            return None
        self.calls += 1
        answer = self.boxes[peer].answer(caller, note)
        return None if self.lose and self.calls % self.lose == 0 else answer


class Party:
    """A mailbox with its journal, and what a link does with both."""

    def __init__(self, wires: Wires, name: str, folder: Path, *peers: str, liveness: float = 5.0) -> None:
        self.name, self.wires = name, wires
        self.journal = Journal(folder, list(peers))
        self.box = Mailbox(
            name, HOST, peers, lambda peer, note, _: wires.call(name, peer, note), liveness=liveness, patience=30.0
        )
        self.box.patience.tick = 0.02
        wires.boxes[name] = self.box

    def join(self) -> Party:
        self.box.resume(self.journal)
        return self

    def send(self, peer: str, sequence: int, text: str) -> None:
        if self.journal.sent(peer, sequence) is None:
            self.journal.record_sent(peer, sequence, memoryview(text.encode()), payload=0)
            self.box.deliver(self.name, peer, sequence, memoryview(text.encode()))

    def receive(self, peer: str, sequence: int, *, within: float | None = None) -> str:
        frame = self.journal.received(peer, sequence)
        if frame is None:
            frame = self.box.collect(self.name, peer, sequence, "gradients", within=within)
            self.journal.record_received(peer, sequence, frame)
        return bytes(frame).decode()

    def note(self, peer: str, run: bytes, state: State, **fields: Any) -> bytes:
        """What its mailbox would say next to a peer, but for what it says."""
        with self.box._changed:
            return replace(self.box._signed(Note(run, state), self.box._peers[peer]), **fields).pack()

    def die(self) -> None:
        """As by kill -9: what is in memory is gone."""
        del self.wires.boxes[self.name]
        self.box._call = lambda peer, note, seconds: None
        self.box._state = State.FAILED


@pytest.fixture
def wires() -> Iterator[Wires]:
    wires = Wires()
    yield wires
    for box in wires.boxes.values():
        box._state = State.FAILED


def pair(wires: Wires, folder: Path, *, liveness: float = 5.0) -> tuple[Party, Party]:
    bank = Party(wires, "bank", folder / "bank", "shop", liveness=liveness)
    return bank.join(), Party(wires, "shop", folder / "shop", "bank", liveness=liveness).join()


@pytest.mark.parametrize("lose", [0, 2, 3])
def test_frames_come_in_order_and_once_whatever_is_lost(lose: int, wires: Wires, tmp_path: Path) -> None:
    wires.lose = lose
    bank, shop = pair(wires, tmp_path)
    for sequence in range(1, 6):
        bank.send("shop", sequence, f"down {sequence}")
        assert shop.receive("bank", sequence) == f"down {sequence}"
        shop.send("bank", sequence, f"up {sequence}")
        assert bank.receive("shop", sequence) == f"up {sequence}"
    assert shop.journal.received_through("bank") == bank.journal.received_through("shop") == 5


def test_a_frame_that_comes_twice_counts_once(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    shop.send("bank", 1, "up")
    assert bank.receive("shop", 1) == "up"
    again = shop.note("bank", bank.box._run, State.RUNNING, sequence=1, frame=b"up")
    assert Note.unpack(bank.box.answer("shop", again), peer="bank").arrived == 1
    assert bank.box._peers["shop"].inbox == {}


def test_frames_wait_for_a_peer_that_comes_later(wires: Wires, tmp_path: Path) -> None:
    bank = Party(wires, "bank", tmp_path / "bank", "shop").join()
    bank.send("shop", 1, "hello")
    shop = Party(wires, "shop", tmp_path / "shop", "bank").join()
    assert shop.receive("bank", 1) == "hello"


def test_a_party_that_was_killed_gets_what_its_journal_has_not(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    for sequence in (1, 2, 3):
        bank.send("shop", sequence, str(sequence))
    assert shop.receive("bank", 1) == "1"
    until(lambda: bank.box._peers["shop"].there == 3)  # 2 and 3 lie unread in its memory
    shop.die()
    again = Party(wires, "shop", tmp_path / "shop", "bank").join()
    assert [again.receive("bank", sequence) for sequence in (1, 2, 3)] == ["1", "2", "3"]


def test_a_host_that_was_killed_sends_what_had_not_arrived(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    shop.send("bank", 1, "up")
    assert bank.receive("shop", 1) == "up"
    wires.away.add("shop")
    bank.send("shop", 1, "down")
    bank.die()
    wires.away.clear()
    again = Party(wires, "bank", tmp_path / "bank", "shop").join()
    assert shop.receive("bank", 1) == "down"
    assert again.journal.sent_through("shop") == 1
    shop.send("bank", 2, "more")
    assert again.receive("shop", 2) == "more"


def test_what_a_peer_holds_for_good_is_learned(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    bank.send("shop", 1, "x")
    shop.receive("bank", 1)
    assert bank.journal._acknowledged["shop"]() == 0
    shop.journal.sync()
    until(lambda: bank.journal._acknowledged["shop"]() == 1)


def test_a_party_out_of_reach_is_named_and_nobody_hangs(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path, liveness=0.3)
    wires.away.add("shop")
    with pytest.raises(ProtocolError, match=r"'shop' has been out of reach for .* and 'gradients' is missing"):
        bank.receive("shop", 1)
    with pytest.raises(ProtocolError, match="'bank' has been out of reach"):
        shop.receive("bank", 1)


def test_a_party_that_is_busy_for_long_is_not_out_of_reach(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path, liveness=1.0)
    threading.Timer(2.0, lambda: shop.send("bank", 1, "at last")).start()
    assert bank.receive("shop", 1) == "at last"


def test_a_message_that_is_late_is_late(wires: Wires, tmp_path: Path) -> None:
    bank, _ = pair(wires, tmp_path)
    with pytest.raises(LateError, match="'shop' did not send 'gradients' in time"):
        bank.receive("shop", 1, within=0.1)
    bank.box.patience.message = 0.1
    with pytest.raises(
        ProtocolError, match=r"'shop' did not send 'gradients' within 0.1 s, and nothing goes on without it"
    ):
        bank.receive("shop", 1)


def test_a_party_that_failed_or_ended_is_waited_for_no_longer(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    shop.box.close(State.FAILED)
    with pytest.raises(ProtocolError, match="'shop' has stopped"):
        bank.receive("shop", 1)
    bank.box._peers["shop"].late = True
    bank.box.settle()
    again = Party(wires, "shop", tmp_path / "shop", "bank").join()
    bank.box.close(State.FINISHED)
    with pytest.raises(ProtocolError, match="'bank' has ended the run without this party"):
        again.receive("bank", 1)


@pytest.mark.parametrize("new", ["bank", "shop"])
def test_a_party_in_another_run_is_refused(new: str, wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    shop.send("bank", 1, "up")
    bank.receive("shop", 1)
    bank.die()
    shop.die()
    folders = {name: tmp_path / ("new" if name == new else "") / name for name in ("bank", "shop")}
    Party(wires, "bank", folders["bank"], "shop").join()
    again = Party(wires, "shop", folders["shop"], "bank").join()
    with pytest.raises(RunFolderError, match="'bank' is in another run than the one in"):
        again.receive("bank", 1)


def test_a_guest_stays_until_the_host_has_everything_in_its_journal(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    shop.send("bank", 1, "the last")
    settled = threading.Thread(target=shop.box.settle)
    settled.start()
    until(lambda: 1 in bank.box._peers["shop"].inbox)
    settled.join(0.2)
    assert settled.is_alive()  # it has arrived, but a kill would lose it
    bank.receive("shop", 1)
    settled.join(5)
    assert not settled.is_alive()


def test_a_host_stays_until_its_guests_have_ended(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    bank.box.settle()
    closing = threading.Thread(target=bank.box.close, args=[State.FINISHED])
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    shop.die()
    again = Party(wires, "shop", tmp_path / "shop", "bank").join()
    again.box.settle()
    again.box.close(State.FINISHED)
    closing.join(5)
    assert not closing.is_alive()


def test_the_next_run_hears_nothing_of_one_that_is_over(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    until(lambda: shop.box._run != NO_RUN)
    closing = threading.Thread(target=bank.box.close, args=[State.FINISHED])
    closing.start()
    shop.box.close(State.FINISHED)
    closing.join(5)
    assert not any(post.is_alive() for box in (bank.box, shop.box) for post in box._posts.values())
    fresh = Party(wires, "shop", tmp_path / "next" / "shop", "bank").join()
    for state in OVER:
        fresh.box.answer("bank", bank.note("shop", bank.box._run, state))
    assert fresh.box._run == NO_RUN
    wires.boxes["bank"] = Party(wires, "bank", tmp_path / "next" / "bank", "shop").join().box
    fresh.send("bank", 1, "up")
    until(lambda: fresh.box._run == wires.boxes["bank"]._run)
    assert fresh.box._run != bank.box._run


def test_calls_of_others_and_frames_out_of_order_are_refused(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    until(lambda: shop.box._run != NO_RUN)
    with pytest.raises(ProtocolError, match="'mallory' made a call and has no part"):
        bank.box.answer("mallory", Note(NO_RUN, State.RUNNING).pack())
    early = shop.note("bank", bank.box._run, State.RUNNING, sequence=2, frame=b"x")
    assert Note.unpack(bank.box.answer("shop", early), peer="bank").arrived == 0
    elsewhere = shop.note("bank", b"f" * 16, State.RUNNING, sequence=1, frame=b"x")
    assert Note.unpack(bank.box.answer("shop", elsewhere), peer="bank").state is State.REFUSING
    assert bank.box._peers["shop"].inbox == {}


def test_a_peer_cannot_fill_the_memory(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    for sequence in range(1, AHEAD + 10):
        shop.send("bank", sequence, "x")
    until(lambda: len(bank.box._peers["shop"].inbox) == AHEAD)
    time.sleep(0.1)
    assert len(bank.box._peers["shop"].inbox) == AHEAD
    for sequence in range(1, AHEAD + 10):
        bank.receive("shop", sequence)


def until(reached: object) -> None:
    """Within ten seconds, or it never does."""
    assert callable(reached)
    for _ in range(1000):
        if reached():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")


def test_a_note_that_was_overtaken_changes_nothing(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    bank.journal.begin_step()
    until(lambda: shop.box._run != NO_RUN)
    slow = shop.note("bank", shop.box._run, State.RUNNING)  # nothing has arrived yet, it says
    for sequence in (1, 2, 3):
        bank.send("shop", sequence, str(sequence))
        shop.receive("bank", sequence)
    shop.journal.sync()
    until(lambda: bank.box._peers["shop"].durable == 3)
    bank.journal.end_segment()  # a checkpoint drops what 'shop' holds for good
    bank.box.answer("shop", slow)
    assert bank.box._peers["shop"].there == 3
    bank.send("shop", 4, "and on")
    assert shop.receive("bank", 4) == "and on"


def test_a_frame_that_was_overtaken_is_taken(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    until(lambda: shop.box._run != NO_RUN)
    slow = shop.note("bank", shop.box._run, State.RUNNING, sequence=1, frame=b"up")
    bank.box.answer("shop", shop.note("bank", shop.box._run, State.RUNNING))
    bank.box.answer("shop", slow)
    assert bank.receive("shop", 1) == "up"


def test_whoever_has_finished_stays_so_whatever_comes_late(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    until(lambda: shop.box._run != NO_RUN)
    slow = shop.note("bank", shop.box._run, State.RUNNING)
    bank.box.settle()
    shop.box.close(State.FINISHED)
    until(lambda: bank.box._peers["shop"].state is State.FINISHED)
    bank.box.answer("shop", slow)
    assert bank.box._peers["shop"].state is State.FINISHED


def test_nothing_counts_that_was_said_before_a_party_was_killed(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    until(lambda: shop.box._run != NO_RUN and bank.box._peers["shop"].life == shop.box._life)
    slow = shop.note("bank", shop.box._run, State.FAILED, sequence=1, frame=b"of a life before")
    shop.die()
    again = Party(wires, "shop", tmp_path / "shop", "bank").join()
    until(lambda: bank.box._peers["shop"].life == again.box._life)
    bank.box.answer("shop", slow)
    assert bank.box._peers["shop"].state is State.RUNNING
    assert bank.box._peers["shop"].inbox == {}
    again.send("bank", 1, "up")
    assert bank.receive("shop", 1) == "up"


def test_large_frames_cannot_fill_the_memory_either(
    wires: Wires, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vesica.engines.nvflare.peer.AHEAD_BYTES", 100)
    bank, shop = pair(wires, tmp_path)
    for sequence in range(1, 10):
        shop.send("bank", sequence, "x" * 60)
    until(lambda: len(bank.box._peers["shop"].inbox) == 2)
    time.sleep(0.1)
    assert len(bank.box._peers["shop"].inbox) == 2
    for sequence in range(1, 10):
        bank.receive("shop", sequence)


def test_a_frame_that_is_too_large_is_refused_before_it_is_sent(
    wires: Wires, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vesica.engines.nvflare.mailbox.LARGEST", 100)
    bank, _ = pair(wires, tmp_path)
    with pytest.raises(InputError, match="a message to 'shop' has 101 bytes and may have 100"):
        bank.send("shop", 1, "x" * 101)


def test_a_call_that_hangs_holds_nobody_up_for_longer_than_the_liveness(wires: Wires, tmp_path: Path) -> None:
    _, shop = pair(wires, tmp_path, liveness=0.5)
    until(lambda: shop.box._run != NO_RUN)
    hanging, asked = threading.Event(), []

    def hang(peer: str, note: bytes, seconds: float) -> None:
        asked.append(seconds)
        hanging.wait(60)

    shop.box._call = hang
    wires.away.add("bank")
    shop.send("bank", 1, "x" * 10_000_000)
    with pytest.raises(ProtocolError, match="'bank' has been out of reach"):
        shop.receive("bank", 1)
    closing = threading.Thread(target=shop.box.close, args=[State.FAILED])
    closing.start()
    closing.join(10)
    assert not closing.is_alive()
    assert asked
    assert max(asked) <= 0.5
    hanging.set()


def test_a_call_has_time_for_its_bytes(wires: Wires, tmp_path: Path) -> None:
    bank, _ = pair(wires, tmp_path, liveness=300)
    peer = bank.box._peers["shop"]
    peer.met = True
    assert bank.box.patience.of_call(peer, 0) == 15
    assert bank.box.patience.of_call(peer, 10_000_000) == 115
    assert bank.box.patience.of_call(peer, 1_000_000_000) == 300


def test_a_frame_is_on_the_disk_before_it_leaves(wires: Wires, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bank, shop = pair(wires, tmp_path)
    synced: list[int] = []
    sync = bank.journal.sync
    monkeypatch.setattr(bank.journal, "sync", lambda: (synced.append(bank.journal.sent_through("shop")), sync()))
    bank.send("shop", 1, "down")
    assert synced == [1]
    assert shop.receive("bank", 1) == "down"


def test_nothing_is_read_from_a_journal_that_may_be_gone(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    bank.send("shop", 1, "down")
    shop.receive("bank", 1)
    bank.box.settle()
    bank.journal.undelivered = None  # type: ignore[assignment,method-assign]
    shop.die()
    again = shop.note("bank", bank.box._run, State.RUNNING, arrived=0, life=b"another.")
    bank.box.answer("shop", again)
    assert not bank.box._due(bank.box._peers["shop"])


def test_a_guest_that_has_finished_tells_its_host_again_until_it_is_heard(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    until(lambda: bank.box._peers["shop"].state is State.RUNNING)
    bank.box.settle()
    shop.box.settle()
    wires.away.add("bank")
    closing = threading.Thread(target=shop.box.close, args=[State.FINISHED])
    closing.start()
    closing.join(0.3)
    assert closing.is_alive()
    wires.away.clear()
    closing.join(5)
    assert not closing.is_alive()
    assert bank.box._peers["shop"].state is State.FINISHED


def test_a_guest_tells_nothing_again_to_a_host_that_has_finished_and_left(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path, liveness=60)
    until(lambda: shop.box._run != NO_RUN)
    wires.away.add("bank")
    shop.box.answer("bank", bank.note("shop", bank.box._run, State.FINISHED))
    closing = threading.Thread(target=shop.box.close, args=[State.FINISHED])
    closing.start()
    closing.join(5)
    assert not closing.is_alive()


def test_what_is_safe_with_a_peer_stays_so_and_one_given_up_need_only_have_got_it() -> None:
    peer = Peer("shop")
    peer.learn(Note(NO_RUN, State.RUNNING, arrived=3, taken=3, durable=2))
    peer.learn(Note(NO_RUN, State.RUNNING, arrived=2, taken=2, durable=1))
    assert (peer.taken, peer.durable) == (3, 2)
    assert peer.has(3)
    peer.learn(Note(NO_RUN, State.RUNNING, arrived=4, taken=3, durable=2))
    assert not peer.has(4)
    peer.late = True
    assert peer.has(4)


def test_who_calls_while_it_is_called_in_vain_can_be_reached() -> None:
    peer, told = Peer("shop"), list[str]()
    began = time.monotonic()
    peer.hear(told.append)
    peer.miss(told.append, since=began)
    assert told == ["'shop' is here"]
    peer.miss(told.append, since=peer.heard + 1)
    assert told == ["'shop' is here", "'shop' cannot be reached; trying again"]


def test_silence_counts_from_when_the_run_begins(wires: Wires, tmp_path: Path) -> None:
    bank = Party(wires, "bank", tmp_path / "bank", "shop")
    bank.box._peers["shop"].heard -= 1000
    bank.join()
    assert bank.box._peers["shop"].silence < 100


def test_after_close_no_call_is_under_way(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    until(lambda: shop.box._run != NO_RUN)
    answer, under_way = bank.box.answer, threading.Event()

    def slowly(caller: str, note: bytes) -> bytes:
        under_way.set()
        time.sleep(0.3)
        return answer(caller, note)

    bank.box.answer = slowly  # type: ignore[method-assign]
    assert under_way.wait(5)
    shop.box.close(State.FAILED)
    assert not any(post.is_alive() for post in shop.box._posts.values())


def test_the_time_to_prepare_does_not_count_as_a_wait(wires: Wires, tmp_path: Path) -> None:
    bank = Party(wires, "bank", tmp_path / "bank", "shop").join()
    bank.box.patience.message = 1.0
    shop = Party(wires, "shop", tmp_path / "shop", "bank")
    until(lambda: bank.box._peers["shop"].met)

    def prepare_for_long() -> None:
        time.sleep(2.0)
        shop.join().send("bank", 1, "ready")

    threading.Thread(target=prepare_for_long).start()
    assert bank.receive("shop", 1) == "ready"


def test_a_host_that_was_killed_does_not_wait_again_for_who_has_ended(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path, liveness=60)
    bank.send("shop", 1, "down")
    shop.receive("bank", 1)
    shop.box.settle()
    shop.box.close(State.FINISHED)
    until(lambda: bank.box._peers["shop"].state is State.FINISHED)
    bank.die()
    shop.die()
    again = Party(wires, "bank", tmp_path / "bank", "shop", liveness=60).join()
    assert again.box.unended == set()
    settling = threading.Thread(target=again.box.settle)
    settling.start()
    settling.join(5)
    assert not settling.is_alive()


def test_a_host_that_has_finished_lets_a_guest_end_that_was_killed(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    shop.journal.begin_step()
    shop.send("bank", 1, "up")
    bank.receive("shop", 1)
    bank.journal.sync()
    until(lambda: shop.box._peers["bank"].durable == 1)
    shop.journal.end_segment()  # a checkpoint: what the host holds for good cannot be sent again
    bank.send("shop", 1, "down")
    shop.receive("bank", 1)
    run = bank.box._run
    shop.die()
    bank.die()
    farewell = Farewell(run, ["shop"])
    wires.boxes["bank"] = farewell  # type: ignore[assignment]
    with pytest.raises(ProtocolError, match="'shop' made a call of another run"):
        farewell.answer("shop", Note(b"f" * 16, State.FINISHED).pack())
    assert farewell.waiting == {"shop"}
    again = Party(wires, "shop", tmp_path / "shop", "bank")
    again.journal.reach({"bank": (1, 0)})  # what the checkpoint says
    again.join()
    until(lambda: again.box._peers["bank"].state is State.FINISHED)
    time.sleep(0.1)
    assert again.receive("bank", 1) == "down"
    again.send("bank", 2, "which the host can do without")
    again.box.settle()
    again.box.close(State.FINISHED)
    farewell.stay(5)
    assert farewell.waiting == set()


def test_a_host_that_stays_for_another_tells_a_guest_that_it_was_left_out(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    until(lambda: shop.box._run != NO_RUN)
    bank.die()
    farewell = Farewell(bank.box._run, ["clinic"])
    wires.boxes["bank"] = farewell  # type: ignore[assignment]
    with pytest.raises(
        ProtocolError, match="'bank' has ended the run without this party, which waited for 'gradients'"
    ):
        shop.receive("bank", 1)
    assert shop.box.is_left_out
    assert farewell.waiting == {"clinic"}
    wires.boxes = {"shop": shop.box}


def test_who_is_left_out_is_not_awaited_and_hears_of_it_at_the_end_alone(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    until(lambda: bank.box._peers["shop"].state is State.RUNNING)
    assert bank.box.awaited == {"shop"}
    bank.box.leave_out(["shop"])
    assert (bank.box.unended, bank.box.awaited) == ({"shop"}, set())
    shop.box.answer("bank", bank.box._note(bank.box._peers["shop"]).pack())
    assert not shop.box.is_left_out  # nobody has ended yet
    bank.box.settle()
    bank.box.close(State.FINISHED)
    until(lambda: shop.box.is_left_out)
    assert shop.box._peers["bank"].state is State.FINISHED


def test_patience_is_short_with_who_was_given_up_or_was_never_there() -> None:
    patience, peer = Patience(300.0, arrive=60.0, message=None), Peer("shop")
    assert patience.tick == 2
    assert patience.of_call(peer, 10_000_000) == 4  # it may not be listening, and will call
    peer.met = True
    assert patience.of_call(peer, 0) == 15
    peer.heard -= 7
    assert not patience.ends_with(peer)
    peer.late = True
    assert patience.ends_with(peer)
    peer.heard += 2
    assert not patience.ends_with(peer)
    peer.late, peer.heard = False, peer.heard - 300
    assert patience.ends_with(peer)


def test_who_calls_during_a_call_that_fails_is_not_said_to_be_out_of_reach(wires: Wires, tmp_path: Path) -> None:
    bank, shop = pair(wires, tmp_path)
    until(lambda: shop.box._run != NO_RUN and bank.box._peers["shop"].met)
    told, failed = list[str](), threading.Event()

    def fail_while_it_calls(peer: str, note: bytes, seconds: float) -> None:
        bank.box.answer("shop", shop.note("bank", bank.box._run, State.RUNNING))
        failed.set()

    bank.box._tell, bank.box._call = told.append, fail_while_it_calls
    assert failed.wait(10)
    failed.clear()
    assert failed.wait(10)  # the first of these calls has been judged by now
    assert told == []
    wires.away.add("shop")
    bank.box._call = lambda peer, note, seconds: None
    until(lambda: told == ["'shop' cannot be reached; trying again"])


def test_of_ten_thousand_mutated_calls_only_the_next_frame_of_this_run_is_taken(wires: Wires, tmp_path: Path) -> None:
    bank, draw = Party(wires, "bank", tmp_path / "bank", "shop").join(), random.Random(0)
    peer, header, taken = bank.box._peers["shop"], 69, 0
    for _ in range(10_000):
        due = peer.arrived + 1
        note = Note(bank.box._run, State.RUNNING, sequence=due, frame=b"up", life=draw.randbytes(8), number=1)
        data = bytearray(note.pack())
        for _ in range(draw.randint(0, 2)):
            data[draw.randrange(header)] ^= 1 << draw.randrange(8)
        if draw.random() < 0.1:
            data[4:20] = draw.randbytes(16)  # as in another run
        with contextlib.suppress(ProtocolError):
            bank.box.answer("shop", bytes(data))
        if peer.arrived >= due:
            assert bytes(data[4:20]) == bank.box._run
            assert int.from_bytes(data[37:45], "little") == peer.arrived == due
            assert bank.receive("shop", due) == "up"
            taken += 1
    assert 1000 < taken < 9000
    bank.box.check()
