"""How long a frame will be is known before it is written, and a host's word for what follows is one of four."""

import pytest
import torch

from vesica.errors import ProtocolError
from vesica.protocol.byte_limit import THENS
from vesica.protocol.end_to_end import what_follows
from vesica.protocol.message import WIRES, Message, encode, frame_bytes


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (7,), (16, 32), (33, 5)])
def test_a_frame_is_as_long_as_was_foretold_from_shapes_alone(wire: str, shape: tuple[int, ...]) -> None:
    for scalars in ({}, {"then": "train"}, {"better": False, "stop": True}):
        written = Message("gradients", {"values": torch.randn(shape)}, scalars)
        foretold = Message("gradients", {"values": torch.empty(shape, device="meta")}, scalars)
        assert frame_bytes(foretold, wire=wire) == len(encode(written, wire=wire))  # type: ignore[arg-type]


def test_a_frame_without_tensors_is_foretold_too() -> None:
    verdict = Message("verdict", {}, {"better": False, "stop": True})
    assert frame_bytes(verdict) == len(encode(verdict))


def test_the_words_for_what_follows_are_of_one_length() -> None:
    assert {len(word) for word in THENS} == {5}


@pytest.mark.parametrize("word", THENS)
def test_the_hosts_word_is_read(word: str) -> None:
    assert what_follows(Message("gradients", {}, {"then": word})) == word


@pytest.mark.parametrize("scalars", [{}, {"then": "sleep"}, {"then": True}])
def test_another_word_is_refused(scalars: dict[str, str | bool]) -> None:
    with pytest.raises(ProtocolError, match=r"message 'gradients': expected .*'then'"):
        what_follows(Message("gradients", {}, scalars))
