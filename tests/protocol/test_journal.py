"""The journal remembers, and refuses what was torn."""

from pathlib import Path

import pytest

from conversations import journals_in
from vesica.engines import InProcess
from vesica.errors import RunFolderError
from vesica.protocol.journal import Journal

PAIRS = [("bank", "shop"), ("shop", "bank")]


def frame(text: str) -> memoryview:
    return memoryview(bytearray(text.encode()))


def test_sends_and_receives_are_found_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"])
    journal.record_sent("shop", 1, frame("hello"), payload=3)
    journal.record_received("shop", 1, frame("world"))
    journal.close()
    again = Journal(tmp_path, ["shop"])
    size = again.sent("shop", 1)
    assert size is not None
    assert (size.payload, size.wire) == (3, 5)
    assert bytes(again.received("shop", 1) or b"") == b"world"
    assert again.sent("shop", 2) is None
    assert again.received("shop", 2) is None
    assert (again.sent_through("shop"), again.received_through("shop")) == (1, 1)


def test_without_a_folder_nothing_is_remembered() -> None:
    journal = Journal(None, ["shop"])
    journal.record_sent("shop", 1, frame("hello"), payload=3)
    assert journal.sent("shop", 1) is None


def test_a_message_that_was_half_written_never_happened(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"])
    journal.record_sent("shop", 1, frame("hello"), payload=3)
    journal.record_sent("shop", 2, frame("again"), payload=3)
    journal.close()
    segment = max(tmp_path.glob("segment-*"))
    segment.write_bytes(segment.read_bytes()[:-2])
    assert Journal(tmp_path, ["shop"]).sent_through("shop") == 1
    assert Journal(tmp_path, ["shop"]).sent_through("shop") == 1


def test_a_damaged_record_is_refused_in_one_sentence(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"])
    journal.record_sent("shop", 1, frame("hello"), payload=3)
    journal.close()
    segment = max(tmp_path.glob("segment-*"))
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    with pytest.raises(RunFolderError, match=r"is torn .*damaged at byte 0.*start again in a new folder"):
        Journal(tmp_path, ["shop"])


def test_a_segment_cut_short_before_the_last_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"])
    journal.record_sent("shop", 1, frame("hello"), payload=3)
    journal.begin_step()
    journal.record_sent("shop", 2, frame("hello"), payload=3)
    journal.close()
    first = min(tmp_path.glob("segment-*"))
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(RunFolderError, match="ends in the middle of a message"):
        Journal(tmp_path, ["shop"])


def test_journals_of_which_one_was_cut_off_are_refused(tmp_path: Path) -> None:
    journals = journals_in(tmp_path, ["bank", "shop"])
    journals["shop"].record_received("bank", 1, frame("hello"))
    with pytest.raises(RunFolderError, match="'shop' received 1 messages from 'bank', whose journal knows 0"):
        InProcess(["bank", "shop"]).redeliver(journals, PAIRS)


def test_what_was_on_its_way_is_delivered_again(tmp_path: Path) -> None:
    journals = journals_in(tmp_path, ["bank", "shop"])
    for sequence, text in ((1, "one"), (2, "two"), (3, "three")):
        journals["bank"].record_sent("shop", sequence, frame(text), payload=1)
    journals["shop"].record_received("bank", 1, frame("one"))
    engine = InProcess(["bank", "shop"])
    engine.redeliver(journals, PAIRS)
    assert bytes(engine.collect("shop", "bank", 2, "values")) == b"two"
    assert bytes(engine.collect("shop", "bank", 3, "values")) == b"three"


def segments(folder: Path) -> int:
    return len(list(folder.glob("segment-*")))


def test_a_checkpoint_drops_the_steps_messages_but_for_unacknowledged_sends(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"])
    held_by_shop = 0
    journal.acknowledge_by("shop", lambda: held_by_shop)
    journal.record_sent("shop", 1, frame("before the step"), payload=1)
    journal.begin_step()
    journal.record_sent("shop", 2, frame("in the step"), payload=1)
    journal.record_received("shop", 1, frame("in the step"))
    journal.end_segment()
    assert journal.sent("shop", 2) is not None  # shop may still need it
    held_by_shop = 2
    journal.record_sent("shop", 3, frame("after a checkpoint"), payload=1)
    journal.end_segment()
    assert journal.sent("shop", 1) is not None
    assert journal.sent("shop", 2) is None
    assert journal.received("shop", 1) is None
    assert journal.sent("shop", 3) is not None
    held_by_shop = 3
    journal.end_segment()
    assert segments(tmp_path) == 2  # what came before the step, and the open one


def test_messages_are_kept_when_asked(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"], keep_messages=True)
    journal.acknowledge_by("shop", lambda: 99)
    journal.begin_step()
    journal.record_received("shop", 1, frame("in the step"))
    journal.end_segment()
    assert journal.received("shop", 1) is not None


def test_only_a_sync_makes_a_receive_durable(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"])
    journal.record_received("shop", 1, frame("hello"))
    assert journal.durable_through("shop") == 0
    journal.sync()
    assert journal.durable_through("shop") == 1
