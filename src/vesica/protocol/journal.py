"""A party's journal: what it sent and received, on its own disk, so that a run can be killed and go on.

Append-only segments of records, each with a checksum. A party's program is a deterministic function of its data,
its seed and what it received: run again, it finds its receives here and does not repeat its sends.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vesica.errors import RunFolderError

_RECORD = struct.Struct("<BIQQQI")  # direction, peer, sequence, payload, length, checksum of these and the frame
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
        self._segment = 0
        self._file: int | None = None
        # How much of what this party sent each peer holds for good; an engine tells.
        self._acknowledged: dict[str, Callable[[], int]] = {peer: lambda: 0 for peer in peers}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._load()
            self._open_segment()

    @classmethod
    def read(cls, folder: Path, peers: Sequence[str]) -> Journal:
        """Of a run that has ended, to look at only."""
        journal = cls(None, peers)
        journal.folder = folder
        journal._load()
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
        if self._file is not None:
            os.fsync(self._file)
        self._durable = {peer: self.received_through(peer) for peer in self._peers}

    def close(self) -> None:
        if self._file is not None:
            os.fsync(self._file)
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
        held = {place.segment for place in self._places.values()} | {self._segment}
        self._droppable = sorted(segment for segment in held if segment >= first_segment)
        self._rotate()

    def end_segment(self) -> None:
        """A checkpoint was saved: the step's messages up to here go, but for sends no one acknowledged."""
        if self.keeps_messages or self.folder is None:
            return
        self._droppable.append(self._segment)
        self._rotate()
        self._droppable = [segment for segment in self._droppable if not self._drop(segment)]

    def reach(self, positions: Positions) -> None:
        """A checkpoint stands at these positions: everything up to them has happened."""
        for peer, (sent, received) in positions.items():
            self._through[_SENT, peer] = max(self._through[_SENT, peer], sent)
            self._through[_RECEIVED, peer] = max(self._through[_RECEIVED, peer], received)
            self._durable[peer] = max(self._durable[peer], received)

    # The files.

    def _path(self, segment: int) -> Path:
        assert self.folder is not None
        return self.folder / f"segment-{segment:08d}.log"

    def _load(self) -> None:
        assert self.folder is not None
        paths = sorted(self.folder.glob("segment-*.log"))
        for path in paths:
            self._segment = int(path.stem.removeprefix("segment-"))
            whole = self._read_segment(path)
            if whole < path.stat().st_size:
                if path != paths[-1]:
                    raise self._torn(f"{path.name} ends in the middle of a message")
                os.truncate(path, whole)  # killed while writing: that message never happened
        self._durable = {peer: self.received_through(peer) for peer in self._peers}

    def _read_segment(self, path: Path) -> int:
        """Index a segment's records; returns the length of its whole records."""
        data = memoryview(path.read_bytes())
        at = 0
        while at + _RECORD.size <= len(data):
            way, peer, sequence, payload, length, checksum = _RECORD.unpack_from(data, at)
            start, end = at + _RECORD.size, at + _RECORD.size + length
            if end > len(data):
                break
            header = data[at : at + _RECORD.size - 4]
            if zlib.crc32(data[start:end], zlib.crc32(header)) != checksum or peer >= len(self._peers):
                raise self._torn(f"{path.name} is damaged at byte {at}")
            self._index(way, self._peers[peer], sequence, _Place(self._segment, start, Size(payload, length)))
            at = end
        return at

    def _index(self, way: int, peer: str, sequence: int, place: _Place) -> None:
        self._places[way, peer, sequence] = place
        self._through[way, peer] = max(self._through[way, peer], sequence)

    def _append(self, way: int, peer: str, sequence: int, size: Size, frame: memoryview) -> None:
        if self._file is None:
            return
        header = _RECORD.pack(way, self._peers.index(peer), sequence, size.payload, size.wire, 0)[:-4]
        checksum = zlib.crc32(frame, zlib.crc32(header))
        start = os.lseek(self._file, 0, os.SEEK_END) + _RECORD.size
        written = os.writev(self._file, [memoryview(header + checksum.to_bytes(4, "little")), frame])
        if written != _RECORD.size + size.wire:
            raise RunFolderError(f"{self.folder}: the disk is full; make room and run the same command again")
        self._index(way, peer, sequence, _Place(self._segment, start, size))

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
            self._file = os.open(self._path(self._segment), flags, 0o600)
            sync(self.folder)

    def _rotate(self) -> None:
        self.close()
        self._open_segment()

    def _drop(self, segment: int) -> bool:
        """Delete a segment unless a peer may still need something in it."""
        inside = [key for key, place in self._places.items() if place.segment == segment]
        if any(way == _SENT and sequence > self._acknowledged[peer]() for way, peer, sequence in inside):
            return False
        for key in inside:
            del self._places[key]
        self._path(segment).unlink(missing_ok=True)
        return True

    def _torn(self, what: str) -> RunFolderError:
        return RunFolderError(f"{self.folder} is torn ({what}): start again in a new folder")


def sync(path: Path) -> None:
    """Have a file, or a directory's names, reach the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_each_other(journals: Mapping[str, Journal], pairs: Sequence[tuple[str, str]]) -> None:
    """Refuse journals of which one received what the other never sent: somebody cut a file off."""
    for sender, receiver in pairs:
        sent = journals[sender].sent_through(receiver)
        received = journals[receiver].received_through(sender)
        if received > sent:
            raise RunFolderError(
                f"{journals[sender].folder} is torn ('{receiver}' received {received} messages from '{sender}', "
                f"whose journal knows {sent}): start again in a new folder"
            )
