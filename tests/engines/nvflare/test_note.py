"""What one call says."""

from __future__ import annotations

import random

import pytest

from vesica.engines.nvflare.note import NO_RUN, Note, State
from vesica.errors import ProtocolError

NOTE = Note(b"r" * 16, State.RUNNING, 3, 7, 6, 5, b"a frame", b"lifetime", 9)


def test_a_note_comes_back_as_it_was() -> None:
    assert Note.unpack(NOTE.pack(), peer="shop") == NOTE
    assert Note.unpack(Note(NO_RUN, State.PREPARING).pack(), peer="shop") == Note(NO_RUN, State.PREPARING)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        NOTE.pack()[:20],
        b"XXXX" + NOTE.pack()[4:],
        Note(NO_RUN, State.RUNNING, 3).pack(),  # a number and no frame
        Note(NO_RUN, State.RUNNING, frame=b"x").pack(),  # a frame and no number
        Note(NO_RUN, State.RUNNING, arrived=1, taken=2).pack(),  # taken before it arrived
        NOTE.pack()[:36] + b"\x09" + NOTE.pack()[37:],  # a state that is none
    ],
)
def test_a_note_that_cannot_be_is_refused_with_the_callers_name(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="'shop' made a call"):
        Note.unpack(data, peer="shop")


def test_ten_thousand_mutated_notes_are_a_note_or_refused() -> None:
    draw = random.Random(0)
    for _ in range(10_000):
        data = bytearray(NOTE.pack())
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        del data[draw.randint(0, len(data)) :]
        try:
            assert bytes(Note.unpack(bytes(data), peer="shop").frame) == data[69:]
        except ProtocolError:
            continue
