"""Mailboxes that call each other directly: what is lost, repeated, late, restarted or foreign."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vesica.engines.nvflare.mailbox import AHEAD, Mailbox
from vesica.engines.nvflare.note import NO_RUN, Note, State
from vesica.errors import LateError, ProtocolError, RunFolderError
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
        self.box.tick = 0.02
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
    again = Note(bank.box._run, State.RUNNING, sequence=1, frame=b"up").pack()
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
    bank, shop = pair(wires, tmp_path, liveness=0.3)
    threading.Timer(1.0, lambda: shop.send("bank", 1, "at last")).start()
    assert bank.receive("shop", 1) == "at last"


def test_a_message_that_is_late_is_late(wires: Wires, tmp_path: Path) -> None:
    bank, _ = pair(wires, tmp_path)
    with pytest.raises(LateError, match="'shop' did not send 'gradients' in time"):
        bank.receive("shop", 1, within=0.1)
    bank.box.patience = 0.1
    with pytest.raises(ProtocolError, match=r"'shop' did not send 'gradients' within 0.1 s, and the method needs it"):
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
    for state in (State.FINISHED, State.FAILED):
        fresh.box.answer("bank", Note(bank.box._run, state).pack())
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
    early = Note(bank.box._run, State.RUNNING, sequence=2, frame=b"x").pack()
    assert Note.unpack(bank.box.answer("shop", early), peer="bank").arrived == 0
    elsewhere = Note(b"f" * 16, State.RUNNING, sequence=1, frame=b"x").pack()
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
