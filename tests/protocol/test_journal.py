"""The journal remembers, and refuses what was torn."""

import errno
import os
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

import vesica.protocol.journal as module
from conversations import journals_in
from vesica.engines import InProcess
from vesica.errors import InputError, RunFolderError
from vesica.protocol.journal import Journal

PAIRS = [("bank", "shop"), ("shop", "bank")]
MARKER = 28  # bytes


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
    segment.write_bytes(segment.read_bytes()[: -MARKER - 2])
    assert Journal(tmp_path, ["shop"]).sent_through("shop") == 1
    assert Journal(tmp_path, ["shop"]).sent_through("shop") == 1


def test_a_damaged_record_is_refused_in_one_sentence(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"])
    journal.record_sent("shop", 1, frame("hello"), payload=3)
    journal.close()
    segment = max(tmp_path.glob("segment-*"))
    content = bytearray(segment.read_bytes())
    content[-MARKER - 1] ^= 1
    segment.write_bytes(content)
    with pytest.raises(RunFolderError, match=r"is torn .*damaged at byte 28.*start again in a new folder"):
        Journal(tmp_path, ["shop"])


def test_a_segment_that_cannot_be_read_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "segment-00000001.log").mkdir()
    with pytest.raises(RunFolderError, match=r"is torn \(segment-00000001.log cannot be read: Is a directory\)"):
        Journal(tmp_path, ["shop"])


@pytest.mark.parametrize("name", ["segment-00000001 (copy).log", "segment-copy.log", "segment-000000002.log"])
def test_a_file_that_is_not_named_as_a_segment_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    journal = Journal(tmp_path, ["shop"])
    journal.record_sent("shop", 1, frame("hello"), payload=3)
    journal.close()
    (tmp_path / name).write_bytes(max(tmp_path.glob("segment-*")).read_bytes())
    with pytest.raises(RunFolderError, match=rf"has a file {re.escape(name)}, which is no segment .*: move it elsewh"):
        Journal(tmp_path, ["shop"])
    (tmp_path / name).unlink()
    assert Journal(tmp_path, ["shop"]).sent_through("shop") == 1


def test_a_checkpoint_that_counts_messages_of_a_stranger_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"has a checkpoint of another party, which talked to 'bank': put the fil"):
        Journal(tmp_path, ["shop"]).reach({"shop": (1, 1), "bank": (3, 2)})


def write(journal: Journal, sent: range, received: range) -> None:
    for sequence in sent:
        journal.record_sent("shop", sequence, frame(f"sent {sequence}"), payload=sequence)
    for sequence in received:
        journal.record_received("shop", sequence, frame(f"received {sequence}"))


def held(journal: Journal) -> dict[tuple[bool, int], bytes]:
    """Every message of a journal, by whether it was sent, and by its number."""
    places = [(way, number) for way, _, number in journal._places]
    return {(way == module._SENT, number): bytes(journal._frame(way, "shop", number) or b"") for way, number in places}


def test_no_flipped_bit_takes_a_synced_message_away_unnoticed(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"])
    write(journal, range(1, 3), range(1, 3))
    journal.begin_step()
    write(journal, range(3, 5), range(3, 4))
    closed, last = sorted(tmp_path.glob("segment-*"))
    before_the_last_marker = closed.stat().st_size + last.stat().st_size
    journal.sync()
    synced = held(journal)
    write(journal, range(5, 7), range(4, 5))  # a power cut may take these
    whole = held(journal)
    refused = 0
    for path in (closed, last):
        content = path.read_bytes()
        for bit in range(8 * len(content)):
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            try:
                found = held(Journal.read(tmp_path, ["shop"]))
            except RunFolderError:
                refused += 1
            else:
                assert synced.items() <= found.items() <= whole.items(), (path.name, bit)
        path.write_bytes(content)
    assert refused == 8 * before_the_last_marker


@pytest.mark.parametrize("length", [1, 36, 37, 4096])
def test_a_tail_of_zeros_after_a_power_cut_is_dropped(tmp_path: Path, length: int) -> None:
    journal = Journal(tmp_path, ["shop"])
    write(journal, range(1, 3), range(1, 3))
    journal.sync()
    (segment,) = tmp_path.glob("segment-*")
    with segment.open("ab") as file:
        file.write(bytes(length))
    again = Journal(tmp_path, ["shop"])
    assert held(again) == held(journal)
    write(again, range(3, 4), range(0))
    again.close()
    assert held(Journal(tmp_path, ["shop"])) == held(again)


def test_damage_behind_the_last_marker_takes_only_what_lies_behind_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"])
    write(journal, range(1, 3), range(1, 2))
    journal.sync()
    synced = held(journal)
    (segment,) = tmp_path.glob("segment-*")
    size = segment.stat().st_size
    write(journal, range(3, 5), range(0))
    content = bytearray(segment.read_bytes())
    content[size + 25] ^= 1  # in the length of the third message
    segment.write_bytes(content)
    assert held(Journal(tmp_path, ["shop"])) == synced
    assert segment.stat().st_size == size  # it ends with the marker that was there


def test_a_damaged_length_does_not_hide_the_marker_behind_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"])
    write(journal, range(1, 4), range(0))
    journal.sync()
    (segment,) = tmp_path.glob("segment-*")
    content = bytearray(segment.read_bytes())
    content[MARKER + 25] ^= 0x40  # the length of the first message now reaches beyond the end
    segment.write_bytes(content)
    with pytest.raises(RunFolderError, match="damaged at byte 28"):
        Journal(tmp_path, ["shop"])


def test_a_marker_counts_only_where_it_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"])
    journal.record_sent("shop", 1, frame("hello"), payload=1)
    (segment,) = tmp_path.glob("segment-*")
    elsewhere = memoryview(bytearray(segment.read_bytes()[:MARKER]))
    journal.record_sent("shop", 2, elsewhere, payload=1)  # a message that looks like a marker
    content = bytearray(segment.read_bytes())
    content[MARKER + 37] ^= 1  # in the first message, which was not synced
    segment.write_bytes(content)
    assert held(Journal(tmp_path, ["shop"])) == {}


def test_what_an_earlier_life_left_is_durable_only_once_it_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(Journal(tmp_path, ["shop"]), range(0), range(1, 2))  # killed here
    synced: list[int] = []
    whole = os.fsync
    monkeypatch.setattr(module.os, "fsync", lambda file: (synced.append(os.fstat(file).st_ino), whole(file)))
    again = Journal(tmp_path, ["shop"])
    assert again.durable_through("shop") == 1
    assert min(tmp_path.glob("segment-*")).stat().st_ino in synced


def test_the_marker_of_a_sync_is_written_after_the_messages_have_reached_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, ["shop"])
    events: list[str] = []
    fsync, writev = os.fsync, os.writev

    def write_and_say(file: int, buffers: list[memoryview]) -> int:
        events.append("a marker" if bytes(buffers[0]).startswith(module._MAGIC) else "a message")
        return writev(file, buffers)

    monkeypatch.setattr(module.os, "writev", write_and_say)
    monkeypatch.setattr(module.os, "fsync", lambda file: (events.append("the disk"), fsync(file)))
    write(journal, range(1, 3), range(0))
    journal.sync()
    assert events == ["a message", "a message", "the disk", "a marker"]


@pytest.mark.parametrize("left", [0, 20, 45])
def test_a_full_disk_is_one_sentence_and_the_next_start_drops_the_half_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    journal = Journal(tmp_path, ["shop"])
    write(journal, range(1, 3), range(0))
    room = left

    def until_full(file: int, buffers: list[memoryview]) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = os.write(file, b"".join(buffers)[:room])
        room -= written
        return written

    monkeypatch.setattr(module.os, "writev", until_full)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\): make room for it, then"):
        journal.record_sent("shop", 3, frame("a message of more than 20 bytes"), payload=3)
    with pytest.raises(RunFolderError, match="could not be written"):
        journal.record_sent("shop", 3, frame("short"), payload=3)
    journal.close()
    monkeypatch.undo()
    again = Journal(tmp_path, ["shop"])
    assert [number for _, number in held(again)] == [1, 2]


def test_a_write_that_takes_several_calls_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "writev", lambda file, buffers: os.write(file, b"".join(buffers)[:20]))
    journal = Journal(tmp_path, ["shop"])
    write(journal, range(1, 3), range(1, 3))
    journal.close()
    assert held(Journal(tmp_path, ["shop"])) == held(journal)
    assert len(held(journal)) == 4


def old_record(way: int, sequence: int, content: bytes) -> bytes:
    header = struct.pack("<BIQQQ", way, 0, sequence, 3, len(content))
    return header + zlib.crc32(content, zlib.crc32(header)).to_bytes(4, "little") + content


def test_the_kept_messages_of_an_earlier_version_can_be_read_and_not_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "segment-00000001.log").write_bytes(old_record(0, 1, b"one") + old_record(1, 1, b"two"))
    (tmp_path / "segment-00000002.log").touch()
    (tmp_path / "segment-00000003.log").write_bytes(old_record(0, 2, b"three") + old_record(0, 3, b"half")[:-1])
    kept = Journal.read(tmp_path, ["shop"])
    assert [(each.sent, bytes(each.read())) for each in kept.messages()] == [
        (True, b"one"),
        (False, b"two"),
        (True, b"three"),
    ]
    with pytest.raises(RunFolderError, match="was written by an earlier version of Vesica"):
        Journal(tmp_path, ["shop"])


def test_who_only_reads_a_journal_leaves_it_as_it_is(tmp_path: Path) -> None:
    write(Journal(tmp_path, ["shop"]), range(1, 3), range(0))
    (segment,) = tmp_path.glob("segment-*")
    segment.write_bytes(segment.read_bytes()[:-2])
    before = segment.read_bytes()
    assert [number for _, number in held(Journal.read(tmp_path, ["shop"]))] == [1]
    assert segment.read_bytes() == before


class Counting(dict[Any, Any]):
    """Counts what is looked at of it by going through all."""

    looked_at = 0

    def items(self) -> Any:
        self.looked_at += len(self)
        return super().items()


def test_dropping_a_segment_does_not_look_at_the_others(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"])
    write(journal, range(1, 1001), range(0))
    journal._places = Counting(journal._places)
    journal.acknowledge_by("shop", lambda: 10_000)
    journal.begin_step()
    for sequence in range(1001, 1011):
        write(journal, range(sequence, sequence + 1), range(0))
        journal.end_segment()
        assert journal.sent("shop", sequence) is None
    assert journal._places.looked_at == 0


def test_a_segment_cut_short_before_the_last_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["shop"])
    journal.record_sent("shop", 1, frame("hello"), payload=3)
    journal.begin_step()
    journal.record_sent("shop", 2, frame("hello"), payload=3)
    journal.close()
    first = min(tmp_path.glob("segment-*"))
    whole = first.read_bytes()
    first.write_bytes(whole[:-1])
    with pytest.raises(RunFolderError, match="is damaged at byte"):
        Journal(tmp_path, ["shop"])
    first.write_bytes(whole[:-MARKER])
    with pytest.raises(RunFolderError, match="is cut off at byte"):
        Journal(tmp_path, ["shop"])


def test_journals_of_which_one_is_gone_are_refused(tmp_path: Path) -> None:
    journals = journals_in(tmp_path, ["bank", "shop"])
    journals["shop"].record_received("bank", 1, frame("hello"))
    with pytest.raises(RunFolderError, match="'shop' received 1 messages from 'bank', whose journal is empty"):
        InProcess(["bank", "shop"]).redeliver(journals, PAIRS)


def test_a_message_that_its_sender_lost_in_a_power_cut_is_not_delivered_twice(tmp_path: Path) -> None:
    journals_in(tmp_path, ["bank", "shop"])["shop"].record_received("bank", 1, frame("one"))
    engine = InProcess(["bank", "shop"])
    engine.redeliver(journals_in(tmp_path, ["bank", "shop"]), PAIRS)
    engine.deliver("bank", "shop", 1, frame("one"))  # sent once more
    engine.deliver("bank", "shop", 2, frame("two"))
    assert bytes(engine.collect("shop", "bank", 2, "values")) == b"two"


def test_a_message_that_is_sent_again_and_is_another_is_refused(tmp_path: Path) -> None:
    journals_in(tmp_path, ["bank", "shop"])["shop"].record_received("bank", 1, frame("one"))
    engine = InProcess(["bank", "shop"])
    engine.redeliver(journals_in(tmp_path, ["bank", "shop"]), PAIRS)
    with pytest.raises(RunFolderError, match="has another message 1 from 'bank' than the one that was sent again"):
        engine.deliver("bank", "shop", 1, frame("uno"))


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
