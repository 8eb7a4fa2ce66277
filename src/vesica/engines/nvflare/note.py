"""What one call between two mailboxes says: where each side stands, and perhaps one frame.

Byte layout, little-endian: magic (4), run (16), life (8), number (8), state (1), sequence (8), arrived (8), taken (8),
durable (8), then the frame that `sequence` numbers, or nothing where that is 0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from vesica.errors import ProtocolError

MAGIC = b"VSN2"
LARGEST = 2**31  # bytes that a frame may have
NO_RUN = bytes(16)
NO_LIFE = bytes(8)
_HEADER = struct.Struct("<4s16s8sQBQQQQ")


class State(IntEnum):
    """How a party is."""

    PREPARING = 0  # it reads its table, and has not looked into its journal
    RUNNING = 1
    REFUSING = 2  # the other is in another run
    FINISHED = 3
    FAILED = 4
    LEFT_OUT = 5  # finished, and without the party that hears it


OVER = (State.FINISHED, State.FAILED, State.LEFT_OUT)


@dataclass(frozen=True)
class Note:
    """One call, or the answer to it."""

    run: bytes
    state: State
    sequence: int = 0  # of the frame that comes with it; 0: none
    arrived: int = 0  # so many of the other's frames are here, in order,
    taken: int = 0  # so many in the journal, where a kill does not reach them,
    durable: int = 0  # so many on the disk for good
    frame: bytes | memoryview = b""
    life: bytes = NO_LIFE  # of the process that says it, which another start ends,
    number: int = 0  # and the how manieth of its notes it is

    def pack(self) -> bytes:
        counts = (self.sequence, self.arrived, self.taken, self.durable)
        return b"".join([_HEADER.pack(MAGIC, self.run, self.life, self.number, self.state, *counts), self.frame])

    @classmethod
    def unpack(cls, data: bytes, *, peer: str) -> Note:
        if len(data) < _HEADER.size or bytes(data[:4]) != MAGIC:
            raise ProtocolError(f"'{peer}' made a call that is none of this version's: install the same vesica there")
        _, run, life, number, state, sequence, arrived, taken, durable = _HEADER.unpack_from(data)
        frame = memoryview(data)[_HEADER.size :]
        known = state in iter(State) and arrived >= taken >= durable and bool(sequence) == bool(len(frame))
        if not known:
            raise ProtocolError(f"'{peer}' made a call that contradicts itself: install the same vesica there")
        return cls(run, State(state), sequence, arrived, taken, durable, frame, life, number)
