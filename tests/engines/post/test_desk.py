"""The carrier: what it takes from the inbox, what it puts into the outbox, and when it gives up."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from conversations import HandClock
from engines.post.desks import carry, make_desks, mark_of, receive, send, sit_down
from vesica.engines.post import inbox as inboxes
from vesica.engines.post.desk import Desk, WaitingForFile
from vesica.engines.post.envelope import Envelope, PostError
from vesica.engines.post.folder import DeskFolder
from vesica.errors import LateError, RunFolderError
from vesica.protocol.journal import Journal


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, DeskFolder]:
    return make_desks(tmp_path, "bank", "shop")


def names(folder: DeskFolder, receiver: str) -> list[str]:
    return sorted(path.name for path in folder.outbox(receiver).glob("*"))


def test_a_message_crosses_as_one_file(folders: dict[str, DeskFolder]) -> None:
    bank, shop = sit_down(folders["bank"]), sit_down(folders["shop"])
    send(bank, "shop", 1, b"hello")
    assert names(folders["bank"], "shop") == ["first.bank.shop.000001.post"]
    carry(folders["bank"], folders["shop"])
    assert receive(shop, "bank", 1) == b"hello"


def test_what_is_missing_is_named(folders: dict[str, DeskFolder]) -> None:
    bank = sit_down(folders["bank"])
    with pytest.raises(WaitingForFile, match=r"first\.shop\.bank\.000002\.post \('representations'\) from 'shop'"):
        receive(bank, "shop", 2)
    assert folders["bank"].state("first") == "under way"  # its journal is not where that of a member is


def test_files_come_twice_late_out_of_order_and_under_other_names(folders: dict[str, DeskFolder]) -> None:
    bank, shop = sit_down(folders["bank"]), sit_down(folders["shop"])
    for number in (1, 2, 3):
        send(bank, "shop", number, b"%d" % number)
    one, two, three = sorted(folders["bank"].outbox("shop").glob("*"))
    shutil.copy(three, folders["shop"].inbox / "c.eml")
    shutil.copy(one, folders["shop"].inbox / "a.eml")
    assert receive(shop, "bank", 1) == b"1"
    with pytest.raises(WaitingForFile):
        receive(shop, "bank", 2)
    shutil.copy(two, folders["shop"].inbox / "b.eml")
    shutil.copy(two, folders["shop"].inbox / "b again.eml")
    carry(folders["bank"], folders["shop"])
    assert [receive(shop, "bank", number) for number in (2, 3)] == [b"2", b"3"]


def test_a_bad_file_stops_whoever_waits_for_it_and_nobody_else(folders: dict[str, DeskFolder]) -> None:
    bank, shop = sit_down(folders["bank"]), sit_down(folders["shop"])
    send(bank, "shop", 1, b"hello")
    (copy,) = carry(folders["bank"], folders["shop"])
    data = bytearray(copy.read_bytes())
    data[-70] ^= 1
    copy.write_bytes(data)
    (folders["shop"].inbox / "notes.txt").write_text("buy milk")
    with pytest.raises(PostError, match=r"000001\.post is not signed by 'bank', or was changed"):
        receive(shop, "bank", 1)
    with pytest.raises(WaitingForFile):
        receive(shop, "bank", 2)
    assert len(shop.refused()) == 2
    assert "notes.txt is no message" in " ".join(shop.refused())
    carry(folders["bank"], folders["shop"])  # sent again, it replaces the bad one
    assert receive(shop, "bank", 1) == b"hello"
    assert (folders["shop"].inbox / "notes.txt").exists()


def test_who_has_no_folder_of_a_run_is_not_told_to_move_it_away(folders: dict[str, DeskFolder]) -> None:
    """An alignment keeps nothing, and may have got the name of a training run by mistake."""
    send(sit_down(folders["bank"]), "shop", 1, b"hello")
    carry(folders["bank"], folders["shop"])
    shop = folders["shop"]
    aligning = Desk(shop, mark_of(shop, method="align"), shop.cards(["bank", "shop"]), host="bank")
    aligning.resume(Journal(None, ["bank"]))
    with pytest.raises(PostError, match=r"of another method, than here: give all parties the same command$"):
        receive(aligning, "bank", 1)


def test_a_good_file_beside_a_bad_one_is_taken(folders: dict[str, DeskFolder]) -> None:
    bank, shop = sit_down(folders["bank"]), sit_down(folders["shop"])
    send(bank, "shop", 1, b"hello")
    (copy,) = carry(folders["bank"], folders["shop"])
    (folders["shop"].inbox / "a.eml").write_bytes(copy.read_bytes()[:-1])
    assert receive(shop, "bank", 1) == b"hello"


def test_a_replay_of_an_earlier_run_of_the_same_name_is_refused(folders: dict[str, DeskFolder]) -> None:
    for life in ("one", "two"):
        bank, shop = sit_down(folders["bank"], life=life), sit_down(folders["shop"], life=life)
        send(bank, "shop", 1, b"begin " + life.encode())
        carry(folders["bank"], folders["shop"])
        assert receive(shop, "bank", 1) == b"begin " + life.encode()
        if life == "one":
            send(shop, "bank", 1, b"old")
            carry(folders["shop"], folders["bank"])
    with pytest.raises(PostError, match="is of an earlier run that was also called 'first'"):
        receive(bank, "shop", 1)
    send(shop, "bank", 1, b"new")
    shutil.copytree(folders["shop"].outbox("bank"), folders["bank"].inbox / "unpacked")
    shutil.copy(folders["shop"].outbox("bank") / "first.shop.bank.000001.post", folders["bank"].inbox / "z.eml")
    assert receive(bank, "shop", 1) == b"new"


def test_a_replay_of_all_that_the_host_said_is_refused_at_the_guest(folders: dict[str, DeskFolder]) -> None:
    bank, shop = sit_down(folders["bank"], life="one"), sit_down(folders["shop"], life="one")
    send(bank, "shop", 1, b"begin")
    carry(folders["bank"], folders["shop"])
    receive(shop, "bank", 1)
    send(shop, "bank", 1, b"answer")
    carry(folders["shop"], folders["bank"])
    receive(bank, "shop", 1)
    send(bank, "shop", 2, b"positions")
    carry(folders["bank"], folders["shop"])
    assert receive(shop, "bank", 2) == b"positions"
    again = sit_down(folders["shop"], life="two")  # the same files, and a guest that begins anew
    assert receive(again, "bank", 1) == b"begin"
    with pytest.raises(PostError, match="is of an earlier run that was also called 'first'"):
        receive(again, "bank", 2)


def test_a_guest_that_begins_anew_in_the_middle_is_refused_at_the_host(folders: dict[str, DeskFolder]) -> None:
    bank = sit_down(folders["bank"])
    send(bank, "shop", 1, b"begin")
    carry(folders["bank"], folders["shop"])
    for life, number in (("one", 1), ("two", 2)):
        shop = sit_down(folders["shop"], life=life)
        receive(shop, "bank", 1)
        send(shop, "bank", number, life.encode())
        carry(folders["shop"], folders["bank"])
        if life == "one":
            assert receive(bank, "shop", 1) == b"one"
    with pytest.raises(PostError, match="or of one begun anew"):
        receive(bank, "shop", 2)


def test_whoever_lingers_waits_beside_a_stale_file(folders: dict[str, DeskFolder]) -> None:
    old = sit_down(folders["bank"], life="one")
    send(old, "shop", 1, b"old")
    carry(folders["bank"], folders["shop"])
    stale = folders["shop"].inbox / "first.bank.shop.000001.post"
    stale.rename(stale.with_name("old.eml"))
    new = sit_down(folders["bank"], life="two")
    send(new, "shop", 1, b"new")
    carry(folders["bank"], folders["shop"])
    said = []

    def take_away(sentence: str) -> None:
        said.append(sentence)
        (folders["shop"].inbox / "old.eml").unlink()
        shop._inbox._letters.pop(folders["shop"].inbox / "old.eml")

    shop = sit_down(folders["shop"], linger=take_away)
    assert receive(shop, "bank", 1) == b"new"
    assert len(said) == 1
    assert "is of an earlier run" in said[0]


def test_a_good_file_of_the_same_size_and_time_replaces_a_bad_one(folders: dict[str, DeskFolder]) -> None:
    bank, shop = sit_down(folders["bank"]), sit_down(folders["shop"])
    send(bank, "shop", 1, b"hello")
    (copy,) = carry(folders["bank"], folders["shop"])
    good, stat = copy.read_bytes(), copy.stat()
    copy.write_bytes(good[:-1] + b"x")
    os.utime(copy, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(PostError, match="was changed on its way"):
        receive(shop, "bank", 1)
    copy.unlink()
    copy.write_bytes(good)
    os.utime(copy, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert receive(shop, "bank", 1) == b"hello"


def test_a_guest_between_two_beginnings_does_not_guess(folders: dict[str, DeskFolder]) -> None:
    for life in ("one", "two"):
        send(sit_down(folders["bank"], life=life), "shop", 1, b"begin")
        for path in carry(folders["bank"], folders["shop"]):
            path.rename(path.with_name(f"{life}.eml"))
    with pytest.raises(PostError, match=r"one\.eml and .*two\.eml of 'bank' is of an earlier run"):
        receive(sit_down(folders["shop"]), "bank", 1)


def test_what_was_journaled_and_not_posted_is_posted_when_the_run_goes_on(folders: dict[str, DeskFolder]) -> None:
    bank = sit_down(folders["bank"])
    send(bank, "shop", 1, b"one")
    bank._journal.record_sent("shop", 2, memoryview(bytearray(b"two")), payload=3)  # killed here
    assert names(folders["bank"], "shop") == ["first.bank.shop.000001.post"]
    before = (folders["bank"].outbox("shop") / "first.bank.shop.000001.post").read_bytes()
    sit_down(folders["bank"])
    assert len(names(folders["bank"], "shop")) == 2
    assert (folders["bank"].outbox("shop") / "first.bank.shop.000001.post").read_bytes() == before
    carry(folders["bank"], folders["shop"])
    shop = sit_down(folders["shop"])
    assert [receive(shop, "bank", number) for number in (1, 2)] == [b"one", b"two"]


def test_a_stale_file_of_an_earlier_session_is_not_taken_for_what_is_to_leave(folders: dict[str, DeskFolder]) -> None:
    send(sit_down(folders["bank"], life="one"), "shop", 1, b"old")
    bank = sit_down(folders["bank"], life="two")
    bank._journal.record_sent("shop", 1, memoryview(bytearray(b"new")), payload=3)  # killed here
    sit_down(folders["bank"], life="two")
    carry(folders["bank"], folders["shop"])
    assert receive(sit_down(folders["shop"]), "bank", 1) == b"new"


def test_what_a_peer_holds_leaves_the_outbox_and_what_it_may_not_hold_stays(folders: dict[str, DeskFolder]) -> None:
    bank, shop = sit_down(folders["bank"]), sit_down(folders["shop"])
    for number in (1, 2):
        send(bank, "shop", number, b"x")
    carry(folders["bank"], folders["shop"])
    receive(shop, "bank", 1)
    send(shop, "bank", 1, b"answer")  # which says: one is held
    carry(folders["shop"], folders["bank"])
    bank = sit_down(folders["bank"])
    assert names(folders["bank"], "shop") == ["first.bank.shop.000002.post"]
    assert bank._journal._acknowledged["shop"]() == 1
    assert receive(bank, "shop", 1) == b"answer"


def test_what_a_peer_held_before_is_not_posted_again(folders: dict[str, DeskFolder]) -> None:
    """Its word was in a file that is gone; the journal has dropped what it spoke of."""
    bank, shop = sit_down(folders["bank"]), sit_down(folders["shop"])
    bank._journal.begin_step()
    send(bank, "shop", 1, b"x")
    carry(folders["bank"], folders["shop"])
    receive(shop, "bank", 1)
    send(shop, "bank", 1, b"answer")
    carry(folders["shop"], folders["bank"])
    receive(bank, "shop", 1)
    bank._journal.end_segment()
    assert bank._journal.sent("shop", 1) is None
    bank._journal.reach({"shop": (1, 1)})
    for folder in (folders["bank"].inbox, folders["bank"].outbox("shop")):
        shutil.rmtree(folder)
    again = sit_down(folders["bank"])
    again._journal.reach({"shop": (1, 1)})
    again.resume(again._journal)
    assert names(folders["bank"], "shop") == []


def test_a_peer_that_holds_more_than_was_sent_says_that_a_journal_is_torn(folders: dict[str, DeskFolder]) -> None:
    bank, shop = sit_down(folders["bank"]), sit_down(folders["shop"])
    send(bank, "shop", 1, b"x")
    carry(folders["bank"], folders["shop"])
    receive(shop, "bank", 1)
    send(shop, "bank", 1, b"answer")
    carry(folders["shop"], folders["bank"])
    (segment,) = [path for path in (folders["bank"].run("first") / "journal").glob("segment-*") if path.stat().st_size]
    segment.unlink()
    with pytest.raises(RunFolderError, match="'shop' has 1 messages from here, and the journal knows 0"):
        sit_down(folders["bank"])


def test_with_keep_messages_nothing_is_removed(folders: dict[str, DeskFolder]) -> None:
    bank, shop = sit_down(folders["bank"], keep_messages=True), sit_down(folders["shop"], keep_messages=True)
    send(bank, "shop", 1, b"x")
    carry(folders["bank"], folders["shop"])
    receive(shop, "bank", 1)
    send(shop, "bank", 1, b"answer")
    carry(folders["shop"], folders["bank"])
    bank = sit_down(folders["bank"], keep_messages=True)
    receive(bank, "shop", 1)
    bank.clear()
    assert len(bank.to_carry()) == 1
    assert len(folders["bank"].arrived()) == 1


def test_without_a_wait_nobody_is_ever_late(folders: dict[str, DeskFolder]) -> None:
    clock = HandClock()
    for _ in range(3):
        clock.work(1e9)
        with pytest.raises(WaitingForFile):
            receive(sit_down(folders["bank"], clock=clock), "shop", 1)


def test_a_wait_is_counted_from_the_first_question_and_outlives_restarts(folders: dict[str, DeskFolder]) -> None:
    clock = HandClock()
    clock.work(1000)
    for _ in range(2):
        with pytest.raises(WaitingForFile):
            receive(sit_down(folders["bank"], wait=60, clock=clock), "shop", 1)
        clock.work(29)
    clock.work(2)
    with pytest.raises(LateError, match=r"'shop' has not sent message 1 \('representations'\) of the run 'first'"):
        receive(sit_down(folders["bank"], wait=60, clock=clock), "shop", 1)
    with pytest.raises(WaitingForFile):
        receive(sit_down(folders["bank"], wait=600, clock=clock), "shop", 1)


def test_one_deadline_holds_for_all_guests(folders: dict[str, DeskFolder]) -> None:
    clock = HandClock()
    bank = sit_down(folders["bank"], clock=clock)
    until = bank.now("bank") + 60
    with pytest.raises(WaitingForFile):
        receive(bank, "shop", 1, within=until - bank.now("bank"))
    clock.work(61)
    bank = sit_down(folders["bank"], clock=clock)
    assert bank.now("bank") + 60 == until
    with pytest.raises(LateError):
        receive(bank, "shop", 1, within=until - bank.now("bank"))
    assert bank.now("bank") == until  # nothing is left for the next guest
    with pytest.raises(LateError):
        receive(bank, "shop", 2, within=until - bank.now("bank"))


def test_who_lingers_looks_again_and_says_what_for(folders: dict[str, DeskFolder]) -> None:
    bank, said = sit_down(folders["bank"]), []
    send(bank, "shop", 1, b"hello")

    def linger(sentence: str) -> None:
        said.append(sentence)
        (copy,) = carry(folders["bank"], folders["shop"])
        if len(said) == 1:  # half of it has come so far
            copy.write_bytes(copy.read_bytes()[:400])

    assert receive(sit_down(folders["shop"], linger=linger), "bank", 1) == b"hello"
    assert said[0].startswith("waiting for first.bank.shop.000001.post")
    assert "is cut short after 400 bytes" in said[1]


def test_two_runs_share_a_desk(folders: dict[str, DeskFolder]) -> None:
    marks = {run: mark_of(folders["bank"], run=run) for run in ("first", "second")}
    for run, mark in marks.items():
        send(sit_down(folders["bank"], mark=mark), "shop", 1, run.encode())
    carry(folders["bank"], folders["shop"])
    for run, mark in marks.items():
        shop = sit_down(folders["shop"], mark=mark)
        assert receive(shop, "bank", 1) == run.encode()
        assert shop.refused() == []
    assert [path.name for path in folders["bank"].leaving("second")] == ["second.bank.shop.000001.post"]


def test_many_files_with_names_of_this_run_hide_no_message_and_are_summed_up(
    folders: dict[str, DeskFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who can put files into the inbox knows the names of the run and of the parties."""
    bank, shop = sit_down(folders["bank"]), sit_down(folders["shop"])
    monkeypatch.setattr(inboxes, "MAX_FILES_PER_SENDER", 30)
    monkeypatch.setattr(inboxes, "MAX_REFUSALS_SHOWN", 5)
    for number in range(1, 41):
        send(bank, "shop", number, b"%d" % number)
    carry(folders["bank"], folders["shop"])
    for number in range(41, 141):
        (folders["shop"].inbox / f"first.bank.shop.{number:06d}.post").write_text("nobody signed this")
    read, opened = Envelope.read, []

    def counted(path: Path) -> Envelope:
        opened.append(path)
        return read(path)

    monkeypatch.setattr(Envelope, "read", counted)
    for number in range(1, 41):
        opened.clear()
        assert receive(shop, "bank", number) == b"%d" % number
        assert len(opened) <= 32  # what is new within reach, and the message itself
    with pytest.raises(PostError, match=r"000041\.post is no message"):
        receive(shop, "bank", 41)
    said = shop.refused()
    assert len(said) == 5 + 2
    assert re.search(r"inbox has [0-9]+ more files that were refused: remove what no run needs", said[-2])
    assert re.search(r"inbox has 110 more files that are called as messages of the run 'first', and were not", said[-1])


def test_a_flood_from_one_sender_leaves_room_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inboxes, "MAX_FILES_PER_SENDER", 5)
    folder = make_desks(tmp_path, "bank", "shop", "hospital")["bank"]
    for sender in ("shop", "hospital"):
        for number in range(1, 21 if sender == "shop" else 4):
            (folder.inbox / f"first.{sender}.bank.{number:06d}.post").write_text("nobody signed this")
    senders = folder.cards(["shop", "hospital"])
    inbox = inboxes.Inbox(folder, mark_of(folder), folder.identity(), senders=senders)
    inbox.look(next_of={"shop": 10})
    said = " ".join(inbox.refused())
    assert [f"hospital.bank.00000{number}" in said for number in (1, 2, 3)] == [True] * 3
    assert [number for number in range(1, 21) if f"shop.bank.{number:06d}" in said] == [8, 9, 10, 11, 12]
