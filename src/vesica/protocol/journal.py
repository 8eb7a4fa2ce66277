"""A party's journal: what it sent and received, on its own disk, so that a run can be killed and go on.

A party's program is a deterministic function of its data, its seed and what it received: run again, it finds its
receives here and does not repeat its sends.

The journal is a folder of append-only segments. A record is a header with a checksum, then a frame with a checksum.
A marker follows each sync and says that everything before it has reached the disk; a segment begins and, once it is
closed, ends with one. Before the last marker of a segment, damage is refused. Behind it, a power cut or a kill may have
left half a record, zeros or anything else: the first record there that is not whole never happened, nor what follows.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vesica.errors import RunFolderError, printable
from vesica.protocol.files import make_folder, sync, writing_to

# Direction, peer, sequence, payload, length, checksum of the frame, checksum of all these.
_RECORD = struct.Struct("<BIQQQII")
_OLD_RECORD = struct.Struct("<BIQQQI")  # up to run folders of format 2: one checksum of header and frame, no markers
_MARKER = struct.Struct("<8sQQI")  # magic, number of the segment, position in it, checksum of all these
_SEGMENT = re.compile(r"segment-([0-9]{8,})\.log")
_MAGIC = b"\x89VESICA\n"  # no record begins so
_SENT, _RECEIVED, _SENT_ROWS, _RECEIVED_ROWS = _WAYS = range(4)  # a message, or the rows that one is about

Array = NDArray[Any]
Positions = dict[str, tuple[int, int]]  # of each peer: how many messages were sent to it and received from it


@dataclass(frozen=True)
class Size:
    """The bytes of one message: its values, and the whole frame."""

    payload: int
    wire: int


@dataclass(frozen=True)
class Kept:
    """A message of a journal that keeps them all."""

    sent: bool  # or received
    peer: str
    read: Callable[[], memoryview]  # its frame
    rows: Array | None  # of this party's own table, one a row of its values; None: it is not about such rows


@dataclass(frozen=True)
class _Place:
    """Where a record's frame lies."""

    segment: int
    offset: int
    size: Size


class Journal:
    """Without a folder it remembers nothing, and every send and receive is a new one."""

    def __init__(self, folder: Path | None, peers: Sequence[str], *, keep_messages: bool = False) -> None:
        self.folder = folder
        self._peers = list(peers)
        self.keeps_messages = keep_messages
        self._places: dict[tuple[int, str, int], _Place] = {}
        self._through = {(way, peer): 0 for way in _WAYS for peer in peers}
        self._durable = dict.fromkeys(peers, 0)
        self._droppable: list[int] = []
        self._keys: dict[int, list[tuple[int, str, int]]] = {}  # what lies in each segment
        self._segment = 0
        self.is_new = True  # no earlier life of this run left anything
        self._file: int | None = None
        self._end = 0  # of the open segment
        self._unsynced = False
        self._failed = False  # a write failed: nothing more may be appended behind what it left
        # How much of what this party sent each peer holds for good; an engine tells.
        self._acknowledged: dict[str, Callable[[], int]] = {peer: lambda: 0 for peer in peers}
        if folder is not None:
            with writing_to(folder):
                make_folder(folder)
            self._load()
            self._open_segment()

    @classmethod
    def read(cls, folder: Path, peers: Sequence[str]) -> Journal:
        """Of a run that has ended, to look at only."""
        journal = cls(None, peers)
        journal.folder = folder
        journal._load(read_only=True)
        return journal

    def messages(self) -> Iterator[Kept]:
        """All that were kept, in the order in which they came and went."""
        frames = [(place.segment, place.offset, key) for key, place in self._places.items() if key[0] < _SENT_ROWS]
        for _, _, (way, peer, sequence) in sorted(frames):
            rows = self._frame(way + _SENT_ROWS, peer, sequence)
            read = partial(self._frame_there, way, peer, sequence)
            yield Kept(way == _SENT, peer, read, None if rows is None else np.frombuffer(rows, np.int64))

    def _frame_there(self, way: int, peer: str, sequence: int) -> memoryview:
        frame = self._frame(way, peer, sequence)
        assert frame is not None
        return frame

    # What earlier lives of this run did.

    def sent(self, peer: str, sequence: int) -> Size | None:
        """The size of a message that was sent already, or None."""
        place = self._places.get((_SENT, peer, sequence))
        return place.size if place else None

    def received(self, peer: str, sequence: int) -> memoryview | None:
        """The frame of a message that was received already, or None."""
        return self._frame(_RECEIVED, peer, sequence)

    def sent_through(self, peer: str) -> int:
        """The number of the last message that was sent to a peer."""
        return self._through[_SENT, peer]

    def received_through(self, peer: str) -> int:
        """The number of the last message that was received from a peer."""
        return self._through[_RECEIVED, peer]

    def durable_through(self, peer: str) -> int:
        """The number of the last message from a peer that would outlive a power cut here."""
        return self._durable[peer]

    def undelivered(self, peer: str, received: int) -> Iterator[tuple[int, memoryview]]:
        """What was sent after message `received`, to be delivered again."""
        for sequence in range(received + 1, self.sent_through(peer) + 1):
            frame = self._frame(_SENT, peer, sequence)
            if frame is None:
                raise self._torn(f"message {sequence} to '{peer}' is missing")
            yield sequence, frame

    # What happens now.

    def record_sent(self, peer: str, sequence: int, frame: memoryview, *, payload: int) -> None:
        self._append(_SENT, peer, sequence, Size(payload, len(frame)), frame)

    def record_received(self, peer: str, sequence: int, frame: memoryview) -> None:
        self._append(_RECEIVED, peer, sequence, Size(0, len(frame)), frame)

    def record_rows(self, peer: str, sequence: int, rows: Array, *, sent: bool) -> None:
        """Which rows of this party's table a message is about, where messages are kept. Nobody else is told."""
        way, positions = _SENT_ROWS if sent else _RECEIVED_ROWS, np.ascontiguousarray(rows, np.int64)
        if (way, peer, sequence) not in self._places:
            self._append(way, peer, sequence, Size(0, positions.nbytes), positions.data.cast("B"))

    def sync(self) -> None:
        """Outlive a power cut: until here a kill loses nothing, but only a sync reaches the disk."""
        if self._file is not None and self._unsynced:
            with self._writing():
                os.fsync(self._file)
            # The marker needs no sync of its own: if a power cut takes it, what it speaks of is still there.
            self._write(_marker(self._segment, self._end))
            self._unsynced = False
        self._durable = {peer: self.received_through(peer) for peer in self._peers}

    def close(self) -> None:
        """Close the open segment, with a marker at its end."""
        if self._file is None:
            return
        try:
            if not self._failed:  # otherwise the next start drops what the failed write left
                self.sync()
                with self._writing():
                    os.fsync(self._file)
        finally:
            os.close(self._file)
            self._file = None

    # Long steps drop the messages that lie before their last checkpoint.

    def acknowledge_by(self, peer: str, through: Callable[[], int]) -> None:
        """How to learn the number of the last message that a peer holds for good."""
        self._acknowledged[peer] = through

    def begin_step(self) -> int:
        """A long step begins: its messages go to segments of their own. Returns the first one's number."""
        self._droppable = []
        self._rotate()
        return self._segment

    def resume_step(self, first_segment: int) -> None:
        """A long step goes on from its checkpoint; what came before that in the step can go at the next one."""
        held = self._keys.keys() | {self._segment}
        self._droppable = sorted(segment for segment in held if segment >= first_segment)
        self._rotate()

    def end_segment(self) -> None:
        """A checkpoint was saved: the step's messages up to here go, but for sends no one acknowledged."""
        if self.keeps_messages or self.folder is None:
            return
        self._droppable.append(self._segment)
        self._rotate()
        held = {peer: through() for peer, through in self._acknowledged.items()}
        self._droppable = [segment for segment in self._droppable if not self._drop(segment, held)]

    def reach(self, positions: Positions) -> None:
        """A checkpoint stands at these positions: everything up to them has happened."""
        if strangers := sorted(positions.keys() - set(self._peers)):
            raise RunFolderError(
                f"{self.folder} has a checkpoint of another party, which talked to '{strangers[0]}': "
                "put the files back where they were, or start again in a new folder"
            )
        for peer, (sent, received) in positions.items():
            self._through[_SENT, peer] = max(self._through[_SENT, peer], sent)
            self._through[_RECEIVED, peer] = max(self._through[_RECEIVED, peer], received)
            self._durable[peer] = max(self._durable[peer], received)

    # The files.

    def _path(self, segment: int) -> Path:
        assert self.folder is not None
        return self.folder / f"segment-{segment:08d}.log"

    def _segments(self) -> list[int]:
        """The numbers of the segments, in order. A copy of one, or a renamed one, is refused."""
        assert self.folder is not None
        numbers = []
        for path in self.folder.glob("segment-*.log"):
            match = _SEGMENT.fullmatch(path.name)
            if match is None or path != self._path(int(match[1])):
                raise RunFolderError(
                    f"{self.folder} has a file {printable(path.name)}, which is no segment of a journal: "
                    "move it elsewhere and give the same command again"
                )
            numbers.append(int(match[1]))
        return sorted(numbers)

    def _load(self, *, read_only: bool = False) -> None:
        assert self.folder is not None
        segments = self._segments()
        self.is_new, is_old = not segments, False
        for number in segments:
            path, is_last = self._path(number), number == segments[-1]
            self._segment = number
            try:
                data = memoryview(path.read_bytes())
            except OSError as error:
                raise self._torn(f"{path.name} cannot be read: {error.strerror}") from error
            is_old = _is_old(data) or (is_old and not data)  # segments without a marker may be empty
            if is_old:
                if not read_only:
                    raise RunFolderError(
                        f"{self.folder} was written by an earlier version of Vesica: go on with that version, or start "
                        "again in a new folder"
                    )
                self._read_old_segment(path, data, last=is_last)
                continue
            end, is_sealed = self._read_segment(path, data, last=is_last)
            if not read_only and (end < len(data) or not is_sealed):
                self._seal(path, end, is_sealed=is_sealed)
        self._durable = {peer: self.received_through(peer) for peer in self._peers}

    def _read_segment(self, path: Path, data: memoryview, *, last: bool) -> tuple[int, bool]:
        """Index a segment's records. Returns the end of what is whole, and whether a marker stands there."""
        at, is_sealed = 0, False
        while at < len(data):
            if _is_marker(data, at, self._segment):
                at, is_sealed = at + _MARKER.size, True
                continue
            end = self._read_record(path, data, at)
            if end is None:
                break
            at, is_sealed = end, False
        if at < len(data) and (not last or _has_marker(data, at, self._segment)):
            raise self._torn(f"{path.name} is damaged at byte {at}")
        if not last and not is_sealed:
            raise self._torn(f"{path.name} is cut off at byte {at}")
        return at, is_sealed

    def _read_old_segment(self, path: Path, data: memoryview, *, last: bool) -> None:
        at: int | None = 0
        while at is not None and at < len(data):
            begin, at = at, self._read_record(path, data, at, layout=_OLD_RECORD)
        if at is None and not last:
            raise self._torn(f"{path.name} is damaged at byte {begin}")

    def _read_record(self, path: Path, data: memoryview, at: int, *, layout: struct.Struct = _RECORD) -> int | None:
        """Index the record that begins here. Returns its end, or None if it is not whole."""
        whole = _parse(data, at, layout)
        if whole is None:
            return None
        way, peer, sequence, payload, length = whole
        if way not in _WAYS or peer >= len(self._peers):
            raise self._torn(f"{path.name} has a message of another run at byte {at}")
        start = at + layout.size
        self._index(way, self._peers[peer], sequence, _Place(self._segment, start, Size(payload, length)))
        return start + length

    def _seal(self, path: Path, end: int, *, is_sealed: bool) -> None:
        """Cut off what never happened, and close the segment of an earlier life of this run."""
        with writing_to(path):
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
            os.ftruncate(self._file, end)
        self._end, self._unsynced = end, not is_sealed
        self.close()

    def _index(self, way: int, peer: str, sequence: int, place: _Place) -> None:
        key = way, peer, sequence
        self._places[key] = place
        self._keys.setdefault(place.segment, []).append(key)
        self._through[way, peer] = max(self._through[way, peer], sequence)

    def _append(self, way: int, peer: str, sequence: int, size: Size, frame: memoryview) -> None:
        if self._file is None:
            return
        start = self._end + _RECORD.size
        number = self._peers.index(peer)
        header = _RECORD.pack(way, number, sequence, size.payload, size.wire, zlib.crc32(frame), 0)[:-4]
        self._write(header + _checksum(header), frame)
        self._unsynced = True
        self._index(way, peer, sequence, _Place(self._segment, start, size))

    def _write(self, *buffers: bytes | memoryview) -> None:
        assert self._file is not None
        with self._writing():
            left = [memoryview(buffer) for buffer in buffers]
            while left:
                count = os.writev(self._file, left)
                self._end += count
                while left and count >= len(left[0]):
                    count -= len(left.pop(0))
                if left:  # the disk is nearly full, or one call does not take so much: the next one says
                    left[0] = left[0][count:]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Append no more once a write has failed: what comes behind half a record cannot be read."""
        if self._failed:
            raise RunFolderError(f"{self.folder} could not be written: give the same command again")
        assert self.folder is not None
        self._failed = True
        with writing_to(self.folder):
            yield
        self._failed = False

    def _frame(self, way: int, peer: str, sequence: int) -> memoryview | None:
        place = self._places.get((way, peer, sequence))
        if place is None:
            return None
        with self._path(place.segment).open("rb") as file:
            file.seek(place.offset)
            return memoryview(bytearray(file.read(place.size.wire)))

    def _open_segment(self) -> None:
        if self.folder is not None:
            self._segment += 1
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            with writing_to(self.folder):
                self._file = os.open(self._path(self._segment), flags, 0o600)
                sync(self.folder)
            self._end, self._unsynced = 0, False
            self._write(_marker(self._segment, 0))

    def _rotate(self) -> None:
        self.close()
        self._open_segment()

    def _drop(self, segment: int, held: Mapping[str, int]) -> bool:
        """Delete a segment unless a peer, which holds so many messages for good, may still need something in it."""
        inside = self._keys.get(segment, [])
        if any(way == _SENT and sequence > held[peer] for way, peer, sequence in inside):
            return False
        for key in inside:
            del self._places[key]
        self._keys.pop(segment, None)
        self._path(segment).unlink(missing_ok=True)
        return True

    def _torn(self, what: str) -> RunFolderError:
        return RunFolderError(f"{self.folder} is torn ({what}): start again in a new folder")


def _checksum(data: bytes | memoryview) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")


def _marker(segment: int, position: int) -> bytes:
    """It names its own place, so that one can be found behind damage, and only where it was written."""
    said = _MARKER.pack(_MAGIC, segment, position, 0)[:-4]
    return said + _checksum(said)


def _is_marker(data: memoryview, at: int, segment: int) -> bool:
    return data[at : at + len(_MAGIC)] == _MAGIC and data[at : at + _MARKER.size] == _marker(segment, at)


def _has_marker(data: memoryview, after: int, segment: int) -> bool:
    """Whether a marker stands anywhere behind this position."""
    content = data.obj
    assert isinstance(content, bytes)
    at = content.find(_MAGIC, after)
    while at >= 0:
        if _is_marker(data, at, segment):
            return True
        at = content.find(_MAGIC, at + 1)
    return False


def _parse(data: memoryview, at: int, layout: struct.Struct) -> tuple[int, int, int, int, int] | None:
    """Direction, peer, sequence, payload and length of the record that begins here, or None if it is not whole."""
    start = at + layout.size
    if start > len(data):
        return None
    way, peer, sequence, payload, length, checksum, *of_header = layout.unpack_from(data, at)
    header = zlib.crc32(data[at : start - 4])
    if of_header not in ([], [header]) or start + length > len(data):
        return None
    frame = zlib.crc32(data[start : start + length], 0 if of_header else header)
    return (way, peer, sequence, payload, length) if frame == checksum else None


def _is_old(data: memoryview) -> bool:
    """Whether a segment begins with a whole record of the earlier layout."""
    return data[: len(_MAGIC)] != _MAGIC and _parse(data, 0, _OLD_RECORD) is not None


def check_each_other(journals: Mapping[str, Journal], pairs: Sequence[tuple[str, str]]) -> None:
    """Refuse a journal that is gone while another party's is there.

    One that only lacks its end is not refused: a power cut may have taken what was not synced yet.
    """
    for sender, receiver in pairs:
        received = journals[receiver].received_through(sender)
        if journals[sender].is_new and received > journals[sender].sent_through(receiver):
            raise RunFolderError(
                f"{journals[sender].folder} is torn ('{receiver}' received {received} messages from '{sender}', "
                f"whose journal is empty): start again in a new folder"
            )
