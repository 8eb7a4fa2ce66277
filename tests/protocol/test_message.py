"""The wire format: identity, the narrow forms, and a decoder that trusts nothing."""

import json
import math
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import torch
from benchmarks import fuzz
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from vesica.errors import InputError, ProtocolError
from vesica.protocol import message as message_module
from vesica.protocol.message import (
    MAX_ENTRIES,
    MAX_HEADER,
    WIRES,
    Message,
    Scalar,
    Wire,
    decode,
    encode,
    payload_bytes,
)
from vesica.protocol.wire import DTYPES

FLOATS = ("float64", "float32", "float16", "bfloat16")
SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)
SEEDS = st.integers(0, 2**32 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), TEXTS)


def any_bits(dtype: str, shape: tuple[int, ...], *, seed: int) -> Tensor:
    """A tensor of random bytes: every value the dtype has, NaNs and infinities included."""
    generator = np.random.default_rng(seed)
    high, size = 2 if dtype == "bool" else 256, DTYPES[dtype].itemsize * math.prod(shape)
    raw = torch.from_numpy(generator.integers(0, high, size=size + 1, dtype=np.uint8))
    return raw[:size].view(DTYPES[dtype]).reshape(shape)


def normal(dtype: str, shape: tuple[int, ...], *, seed: int) -> Tensor:
    values = np.random.default_rng(seed).normal(size=shape) * 10.0 ** (seed % 7 - 3)
    return torch.as_tensor(values).to(DTYPES[dtype])


def bits(tensor: Tensor) -> bytes:
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def same_bits(one: Tensor, other: Tensor) -> bool:
    return (one.dtype, one.shape, bits(one)) == (other.dtype, other.shape, bits(other))


def through(tensor: Tensor, *, wire: Wire = "float32") -> Tensor:
    return decode(encode(Message("values", {"x": tensor}), wire=wire)).tensor


def framed(header: object, values: bytes = b"") -> bytes:
    """A frame with a header as given: bytes, or an object that is written as Vesica writes it."""
    if not isinstance(header, bytes):
        header = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    head = struct.pack("<4sHI", b"VSCA", 1, len(header)) + header
    return head + bytes(-len(head) % 8) + values if values else head


def header_of(shape: object = (2,), *, dtype: object = "float32", wire: object = None) -> dict[str, Any]:
    tensor = {"name": "x", "dtype": dtype, "shape": shape, "wire": dtype if wire is None else wire}
    return {"kind": "values", "scalars": {}, "tensors": [tensor]}


def refused(frame: Any, match: str, **options: int) -> None:
    with pytest.raises(ProtocolError, match=match):
        decode(frame, **options)


# Identity


@given(dtype=st.sampled_from(sorted(DTYPES)), shape=SHAPES, seed=SEEDS)
def test_encoding_and_decoding_is_the_identity_to_the_bit(dtype: str, shape: tuple[int, ...], seed: int) -> None:
    tensor = any_bits(dtype, shape, seed=seed)
    assert same_bits(through(tensor), tensor)


@given(scalars=st.dictionaries(st.text("abc é", min_size=1, max_size=8), SCALARS, max_size=8))
def test_scalars_keep_their_type_and_value(scalars: dict[str, Scalar]) -> None:
    back = decode(encode(Message("settings", {}, scalars))).scalars
    assert {k: (type(v), repr(v)) for k, v in back.items()} == {k: (type(v), repr(v)) for k, v in scalars.items()}


@given(entries=st.lists(st.tuples(st.sampled_from(sorted(DTYPES)), SHAPES), max_size=6), seed=SEEDS)
def test_many_tensors_keep_their_order_and_start_at_multiples_of_eight(
    entries: list[tuple[str, tuple[int, ...]]], seed: int
) -> None:
    tensors = {f"t{9 - i}": any_bits(*entry, seed=seed + i) for i, entry in enumerate(entries)}
    back = decode(encode(Message("state", tensors))).tensors
    assert list(back) == list(tensors)
    assert all(same_bits(back[name], tensors[name]) for name in tensors)
    assert all(back[name].data_ptr() % 8 == 0 for name in tensors)


def test_the_bytes_of_a_frame_do_not_drift() -> None:
    tensors = {
        "x": torch.tensor([[1.0, -2.0], [0.0, 0.5]]),
        "mask": torch.tensor([True, False, True]),
        "n": torch.tensor(7),
    }
    scalars: dict[str, Scalar] = {"epoch": 3, "rate": 0.5, "last": False, "note": "é", "loss": math.inf}
    header = (
        b'{"kind":"gradients","scalars":{"epoch":3,"last":false,"loss":Infinity,"note":"\\u00e9","rate":0.5},'
        b'"tensors":[{"dtype":"float32","name":"x","shape":[2,2],"wire":"int8"},'
        b'{"dtype":"bool","name":"mask","shape":[3],"wire":"bool"},'
        b'{"dtype":"int64","name":"n","shape":[],"wire":"int64"}]}'
    )
    scales = bytes.fromhex("0003813c 0003813b")  # 2 / 127 and 0.5 / 127, rounded up to 16 significant bits
    values = scales + bytes([63, 256 - 127, 0, 127]) + bytes(4) + bytes([1, 0, 1]) + bytes(5) + bytes([7]) + bytes(7)
    head = b"VSCA\x01\x00" + len(header).to_bytes(4, "little") + header
    frame = encode(Message("gradients", tensors, scalars), wire="int8")
    assert bytes(frame) == head + bytes(-len(head) % 8) + values
    assert payload_bytes(frame) == 12 + 3 + 8
    assert len(frame) == len(bytes(frame))


def test_a_tensor_with_gradients_or_strides_travels_by_its_values() -> None:
    tensor = torch.arange(12.0).reshape(3, 4).requires_grad_()
    for view in (tensor, tensor.T, tensor[:, ::2], tensor[1:].expand(2, 2, 4)):
        back = through(view)
        assert torch.equal(back, view)
        assert back.is_contiguous()
    for wire in WIRES:
        assert not through(tensor, wire=wire).requires_grad


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_tensor_on_a_gpu_arrives_on_the_cpu() -> None:
    tensor = normal("float32", (5, 3), seed=0)
    for wire in WIRES:
        assert same_bits(through(tensor.cuda(), wire=wire), through(tensor, wire=wire))


def test_a_decoded_message_shares_the_memory_of_a_writable_frame_only() -> None:
    tensor = torch.zeros(4)
    frame = encode(Message("values", {"x": tensor}))
    shared, owned = decode(frame).tensor, decode(bytes(frame)).tensor
    frame[-1] = 1
    assert shared[-1] != 0
    assert torch.equal(owned, tensor)
    assert torch.equal(tensor, torch.zeros(4))
    owned += 1  # writable, and no warning


def test_a_frame_at_an_odd_address_decodes() -> None:
    frame = encode(Message("values", {"x": torch.arange(5.0)}))
    shifted = memoryview(bytearray(b"?" + bytes(frame)))[1:]
    tensor = decode(shifted).tensor
    assert torch.equal(tensor, torch.arange(5.0))
    assert tensor.data_ptr() % 8 == 0


# Narrow wires


@given(wire=st.sampled_from(WIRES[1:3]), dtype=st.sampled_from(FLOATS), shape=SHAPES, seed=SEEDS)
def test_a_half_wire_is_the_direct_conversion_and_idempotent(
    wire: Wire, dtype: str, shape: tuple[int, ...], seed: int
) -> None:
    tensor = normal(dtype, shape, seed=seed)
    wider = DTYPES[dtype].itemsize > 2
    expected = tensor.to(DTYPES[wire]).to(DTYPES[dtype]) if wider else tensor
    once = through(tensor, wire=wire)
    assert same_bits(once, expected)
    assert same_bits(through(once, wire=wire), once)
    assert payload_bytes(encode(Message("values", {"x": tensor}), wire=wire)) == 2 * tensor.numel()


@given(dtype=st.sampled_from(FLOATS), shape=SHAPES, seed=SEEDS)
def test_the_int8_wire_is_within_half_a_step_of_each_row(dtype: str, shape: tuple[int, ...], seed: int) -> None:
    tensor = normal(dtype, shape, seed=seed)
    rows = shape[0] if len(shape) > 1 else 1
    frame = encode(Message("values", {"x": tensor}), wire="int8")
    back = decode(frame).tensor
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert payload_bytes(frame) == (4 * rows + tensor.numel() if tensor.numel() else 0)
    if tensor.numel():
        exact, got = tensor.double().reshape(rows, -1), back.double().reshape(rows, -1)
        step = exact.abs().amax(dim=1, keepdim=True) / 127 * (1 + 2**-15)
        rounding = got.abs() * torch.finfo(tensor.dtype).eps  # of the tensor's own dtype
        assert ((got - exact).abs() <= step / 2 + rounding).all()


@given(dtype=st.sampled_from(["float32", "float64"]), shape=SHAPES, seed=SEEDS)
def test_the_int8_wire_is_idempotent(dtype: str, shape: tuple[int, ...], seed: int) -> None:
    once = through(normal(dtype, shape, seed=seed), wire="int8")
    assert same_bits(through(once, wire="int8"), once)


def test_rows_of_zeros_and_of_the_smallest_numbers_stay_finite_under_int8() -> None:
    tensor = torch.tensor([[0.0, 0.0], [1e-45, -1e-45], [1e-37, -1e-38], [1e30, 1.0]])
    frame = encode(Message("values", {"x": tensor}), wire="int8")
    back = decode(frame).tensor
    scales = np.frombuffer(frame[-payload_bytes(frame) :], dtype=np.float32, count=4)
    assert (scales >= np.finfo(np.float32).tiny).all()
    assert torch.equal(back[0], tensor[0])
    assert ((back - tensor).abs() <= tensor.abs().amax(dim=1, keepdim=True) / 127 + 1e-38).all()


def test_a_float64_beyond_float32_fits_int8_as_long_as_its_scale_does() -> None:
    tensor = torch.tensor([1e39, -5e38], dtype=torch.float64)
    assert torch.allclose(through(tensor, wire="int8"), tensor, rtol=0.01)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("dtype", sorted(set(DTYPES) - set(FLOATS)))
def test_integers_and_bools_travel_as_they_are_on_every_wire(wire: Wire, dtype: str) -> None:
    tensor = any_bits(dtype, (3, 5), seed=1)
    assert same_bits(through(tensor, wire=wire), tensor)


@pytest.mark.parametrize("wire", ["float16", "bfloat16"])
def test_infinities_and_nans_pass_a_half_wire(wire: Wire) -> None:
    back = through(torch.tensor([math.inf, -math.inf, math.nan, 1.0]), wire=wire)
    assert str(back.tolist()) == "[inf, -inf, nan, 1.0]"


@pytest.mark.parametrize(
    ("wire", "dtype", "value"),
    [
        ("float16", "float32", 65520.0),
        ("bfloat16", "float32", 3.4e38),
        ("bfloat16", "float64", -1e300),
        ("int8", "float32", math.nan),
        ("int8", "float16", -math.inf),
        ("int8", "float64", 1e300),
        ("int8", "float32", 3.4028235e38),
    ],
)
def test_a_value_that_does_not_fit_is_refused_before_it_leaves(wire: Wire, dtype: str, value: float) -> None:
    tensor = torch.tensor([[1.0, math.inf if wire == "float16" else 2.0], [value, 0.0]], dtype=DTYPES[dtype])
    with pytest.raises(ProtocolError, match=f"'x' has values that do not fit {wire}; use wire=float32"):
        through(tensor, wire=wire)
    assert same_bits(through(tensor), tensor)


def test_an_unknown_wire_is_refused_with_a_hint() -> None:
    with pytest.raises(InputError, match="did you mean 'float16'"):
        encode(Message("values"), wire="flot16")  # type: ignore[arg-type]


def test_the_wires_are_those_of_the_type() -> None:
    assert get_args(Wire) == WIRES == ("float32", "float16", "bfloat16", "int8")


# Messages


def test_the_only_tensor_is_given_and_none_or_two_are_refused() -> None:
    one = torch.ones(1)
    assert Message("values", {"x": one}).tensor is one
    for tensors in ({}, {"a": one, "b": one}):
        with pytest.raises(ProtocolError, match="exactly one tensor"):
            _ = Message("values", tensors).tensor


@pytest.mark.parametrize("kind", ["", "Values", "2nd", "a b", "a" * 65, "a\n", None, 3])
def test_a_kind_that_is_no_word_is_refused(kind: Any) -> None:
    with pytest.raises(ProtocolError, match="expected a kind"):
        Message(kind)


@pytest.mark.parametrize("scalar", [2**63, -(2**63) - 1, None, [1], np.float64(1), "\ud800", b"x"])
def test_a_scalar_that_would_not_come_back_is_refused(scalar: Any) -> None:
    with pytest.raises(ProtocolError, match="expected scalar 's'"):
        Message("values", {}, {"s": scalar})


@pytest.mark.parametrize("name", ["", "a" * 129, "a\n", "\ud800", 3])
def test_a_name_that_cannot_be_printed_is_refused(name: Any) -> None:
    for tensors, scalars in (({name: torch.ones(1)}, {}), ({}, {name: 1})):
        with pytest.raises(ProtocolError, match="expected names"):
            Message("values", tensors, scalars)


@pytest.mark.parametrize("tensor", [torch.ones(2, dtype=torch.complex64), torch.eye(2).to_sparse(), np.ones(2), [1.0]])
def test_a_tensor_that_cannot_travel_is_refused(tensor: Any) -> None:
    with pytest.raises(ProtocolError, match="expected tensor 'x' to be dense"):
        Message("values", {"x": tensor})


def test_too_much_in_one_message_is_refused() -> None:
    many = {f"t{i}": torch.ones(1) for i in range(MAX_ENTRIES + 1)}
    with pytest.raises(ProtocolError, match="at most 256 tensors"):
        Message("values", many)
    with pytest.raises(ProtocolError, match="send long values as a tensor"):
        encode(Message("values", {}, {"text": "x" * MAX_HEADER}))
    with pytest.raises(ProtocolError, match="at most 8 dimensions"):
        encode(Message("values", {"x": torch.ones((1,) * 9)}))


# The decoder trusts nothing


@pytest.mark.parametrize(
    ("header", "match"),
    [
        (b"", "JSON"),
        (b"\xff\xfe{}", "JSON"),
        (b"[" * 100_000, "JSON"),
        (b'{"kind":' * 20_000, "JSON"),
        (b"1" * 5000, "JSON"),
        (b"[]", "expected kind, scalars, tensors"),
        (b"{}", "expected kind, scalars, tensors"),
        (b'{"kind":"a", "scalars":{},"tensors":[]}', "as Vesica writes"),
        (b'{"kind":"a","kind":"a","scalars":{},"tensors":[]}', "as Vesica writes"),
        (b'{"kind":"a","scalars":{"s":1e999},"tensors":[]}', "as Vesica writes"),
        (b'{"kind":"a","scalars":{"s":1,"s":1},"tensors":[]}', "as Vesica writes"),
        ({"kind": "a", "scalars": {}, "tensors": [], "x": 1}, "expected kind, scalars, tensors"),
        ({"kind": "A", "scalars": {}, "tensors": []}, "expected a kind"),
        ({"kind": [[[[[[[[[[1]]]]]]]]]], "scalars": {}, "tensors": []}, "expected a kind"),
        ({"kind": "a", "scalars": [], "tensors": []}, "object of scalars"),
        ({"kind": "a", "scalars": {}, "tensors": {}}, "list of tensors"),
        ({"kind": "a", "scalars": {"s": None}, "tensors": []}, "expected scalar 's'"),
        ({"kind": "a", "scalars": {"s": 2**63}, "tensors": []}, "expected scalar 's'"),
        ({"kind": "a", "scalars": {"s": 10**4000}, "tensors": []}, "expected scalar 's'"),
        ({"kind": "a", "scalars": {"s": "\ud800"}, "tensors": []}, "expected scalar 's'"),
        ({"kind": "a", "scalars": {"": 1}, "tensors": []}, "expected names"),
        ({"kind": "a", "scalars": {}, "tensors": [1]}, "name, dtype, shape and wire"),
        ({"kind": "a", "scalars": {}, "tensors": [{"name": "x"}]}, "name, dtype, shape and wire"),
        (header_of(2), "shape as a list"),
        (header_of(dtype=["float32"]), "as texts"),
        (header_of(dtype="complex64"), "expected one of float64"),
        (header_of(wire="float64"), "cannot travel as 'float64'"),
        (header_of(wire="int16"), "cannot travel as 'int16'"),
        (header_of(dtype="float64", wire="float32"), "cannot travel as 'float32'"),
        (header_of(dtype="int64", wire="int8"), "cannot travel as 'int8'"),
        (header_of((0, 3), wire="int8"), "cannot travel as 'int8'"),
        (header_of([True]), "2\\*\\*48 elements"),
        (header_of([-1]), "2\\*\\*48 elements"),
        (header_of([2.0]), "2\\*\\*48 elements"),
        (header_of([2**64 + 1]), "2\\*\\*48 elements"),
        (header_of([10**4000]), "2\\*\\*48 elements"),
        (header_of([2**32, 2**32]), "2\\*\\*48 elements"),
        (header_of([2**48, 2**48, 0]), "2\\*\\*48 elements"),
        (header_of([1] * 9), "at most 8 dimensions"),
        (header_of([2**48] * 10_000), "at most 8 dimensions"),
        (header_of([3]), "expected .* bytes by its header"),
        (header_of([]), "expected .* bytes by its header"),
    ],
)
def test_a_header_with_a_fault_is_refused(header: object, match: str) -> None:
    has_tensors = isinstance(header, dict) and header["tensors"]
    refused(framed(header, bytes(8) if has_tensors else b""), match)


def test_the_frames_the_faults_are_made_from_are_sound() -> None:
    assert torch.equal(decode(framed(header_of(), bytes(8))).tensor, torch.zeros(2))
    assert torch.equal(decode(framed(header_of(wire="int8"), bytes(6))).tensor, torch.zeros(2))


def test_a_tensor_named_twice_is_refused() -> None:
    header = header_of()
    refused(framed({**header, "tensors": header["tensors"] * 2}, bytes(16)), "each tensor once")


def test_a_frame_of_another_format_or_version_is_refused() -> None:
    frame = framed(header_of(), bytes(8))
    refused(b"VSCB" + frame[4:], "got b'VSCB', version 1")
    refused(frame[:4] + b"\x02\x00" + frame[6:], "version 2")
    refused(frame[:6] + b"\xff\xff\xff\xff" + frame[10:], "expected a header within")


def test_a_frame_that_is_cut_or_goes_on_is_refused_at_every_length() -> None:
    frame = bytes(encode(Message("values", {"x": torch.ones(3), "y": torch.ones(2)}, {"s": 1})))
    for length in range(len(frame)):
        refused(frame[:length], "expected")
    refused(frame + b"\0", "bytes by its header")


def test_a_frame_above_the_limit_is_refused() -> None:
    frame = encode(Message("values", {"x": torch.ones(100)}))
    refused(frame, f"at most {len(frame) - 1} bytes", max_bytes=len(frame) - 1)
    decode(frame, max_bytes=len(frame))


def test_a_header_above_the_limit_is_refused() -> None:
    empty = len(framed({"kind": "a", "scalars": {"s": ""}, "tensors": []})) - 10
    for more in (0, 1):
        header = {"kind": "a", "scalars": {"s": "x" * (MAX_HEADER - empty + more)}, "tensors": []}
        if more:
            refused(framed(header), "expected a header within 262144")
        else:
            decode(framed(header))


def test_a_buffer_with_gaps_is_refused() -> None:
    refused(memoryview(bytes(100))[::2], "contiguous")


def test_padding_that_hides_bytes_is_refused() -> None:
    frame = bytearray(encode(Message("values", {"x": torch.ones(3), "y": torch.ones(2)})))
    frame[-9] = 1
    refused(frame, "expected zeros before tensor 'y'")


def test_a_bool_that_is_neither_0_nor_1_is_refused() -> None:
    refused(framed(header_of(dtype="bool"), b"\1\2"), "0 or 1; got 2")


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf])
def test_a_scale_that_is_no_step_is_refused(scale: float) -> None:
    refused(framed(header_of(wire="int8"), struct.pack("<f", scale) + b"\1\1"), f"expected scales .* got {scale}")


def peak_of(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", [[2**60], [2**40], [2**28], [2**47, 0], [2**24, 4]])
@pytest.mark.parametrize("wire", ["float32", "int8"])
def test_a_header_that_claims_more_than_is_there_allocates_nothing(shape: list[int], wire: str) -> None:
    frame = framed(header_of(shape, wire=wire), bytes(8))
    assert peak_of(lambda: refused(frame, "expected|cannot")) < 1_000_000


NARROW_FORMS = [("float64", "int8"), ("float64", "float16"), ("float32", "bfloat16")]


@pytest.mark.parametrize(("dtype", "wire"), NARROW_FORMS)
@pytest.mark.parametrize("shapes", [[512], [256, 256], [8, 0, 504]])
def test_values_that_are_larger_when_decoded_than_a_frame_may_be_are_refused_at_both_ends(
    dtype: str, wire: Wire, shapes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame of int8 values of float64 would otherwise take eight times its own size."""
    tensors = {f"t{n}": torch.zeros(size, dtype=DTYPES[dtype]) for n, size in enumerate(shapes)}
    frame = encode(Message("values", tensors), wire=wire)
    most = 512 * DTYPES[dtype].itemsize
    monkeypatch.setattr(message_module, "MAX_FRAME", most)
    assert len(frame) < most
    assert same_bits(decode(frame).tensors["t0"], tensors["t0"])
    assert bytes(encode(Message("values", tensors), wire=wire)) == bytes(frame)

    monkeypatch.setattr(message_module, "MAX_FRAME", most - 1)
    refused(frame, f"expected values of at most {most - 1} bytes when decoded; got {most}")
    with pytest.raises(ProtocolError, match=f"'values' would take {len(frame):,} bytes, and {most:,} when decoded"):
        encode(Message("values", tensors), wire=wire)


def test_a_header_of_nothing_but_brackets_stays_small_in_memory() -> None:
    frame = framed(b"[" + b"[]," * 87_000 + b"[]]")
    assert peak_of(lambda: refused(frame, "expected")) < 32_000_000


def test_a_hundred_thousand_mutated_frames_are_refused_or_sound_messages() -> None:
    """What is accepted is the one frame of its message; `benchmarks/fuzz.py` does the same with a million."""
    report = fuzz.mutate_frames(100_000, seed=0)
    assert report.examples == []
    assert report.faults.total() == 0
    assert set(report.refused) == {mutation.__name__ for mutation in fuzz.ON_FRAMES}
    assert report.refused.total() > 80_000
    assert report.accepted.total() > 5_000


def test_messages_that_differ_in_nothing_share_no_scalars() -> None:
    frame = encode(Message("verdict", scalars={"stop": False}))
    first, second = decode(frame), decode(frame)
    assert isinstance(first.scalars, dict)
    first.scalars["stop"] = True
    assert second.scalars == decode(frame).scalars == {"stop": False}
