"""How one tensor travels: its dtypes, where its bytes lie, and the narrower forms its values may take."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from reprlib import repr as short
from typing import Literal, get_args

import torch
from torch import Tensor

from vesica.errors import ProtocolError

Wire = Literal["float32", "float16", "bfloat16", "int8"]
WIRES: tuple[Wire, ...] = get_args(Wire)
NARROW = WIRES[1:]  # "float32" stands for "as they are": float64 is not narrowed to it

MAX_DIMENSIONS = 8
MAX_ELEMENTS = 2**48
SMALLEST_SCALE = torch.finfo(torch.float32).tiny

DTYPES: Mapping[str, torch.dtype] = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
DTYPE_NAMES: Mapping[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Layout:
    """What a frame says of one tensor; `wire` is its own dtype where the values travel as they are."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    wire: str

    def __post_init__(self) -> None:
        about = f"tensor {short(self.name)}"
        if self.dtype not in DTYPES:
            raise ProtocolError(f"{about}: expected one of {', '.join(DTYPES)}; got {short(self.dtype)}")
        if len(self.shape) > MAX_DIMENSIONS:
            raise ProtocolError(f"{about}: expected at most {MAX_DIMENSIONS} dimensions; got {len(self.shape)}")
        # Sizes of 0 count as 1: torch multiplies the others into strides even where there are no elements.
        sizes_fit = all(type(size) is int and 0 <= size <= MAX_ELEMENTS for size in self.shape)
        if not sizes_fit or prod(max(size, 1) for size in self.shape) > MAX_ELEMENTS:
            raise ProtocolError(f"{about}: expected at most 2**48 elements; got shape {short(self.shape)}")
        if self.wire != travels_as(self.dtype, wire=self.wire, elements=prod(self.shape)):
            raise ProtocolError(f"{about}: {self.dtype} values cannot travel as {short(self.wire)}")

    @classmethod
    def of(cls, name: str, tensor: Tensor, *, wire: Wire) -> "Layout":
        dtype = DTYPE_NAMES[tensor.dtype]
        return cls(name, dtype, tuple(tensor.shape), travels_as(dtype, wire=wire, elements=tensor.numel()))

    @classmethod
    def from_json(cls, entry: object) -> "Layout":
        if not isinstance(entry, dict) or entry.keys() != {"name", "dtype", "shape", "wire"}:
            raise ProtocolError(f"expected a tensor's name, dtype, shape and wire; got {short(entry)}")
        texts = all(isinstance(entry[key], str) for key in ("name", "dtype", "wire"))
        if not texts or not isinstance(entry["shape"], list):
            raise ProtocolError(f"expected name, dtype, wire as texts, shape as a list; got {short(entry)}")
        return cls(entry["name"], entry["dtype"], tuple(entry["shape"]), entry["wire"])

    @property
    def rows(self) -> int:
        """The rows that have an int8 scale each: the first dimension, where there is another."""
        return self.shape[0] if len(self.shape) > 1 else 1

    @property
    def by_row(self) -> bool:
        return self.wire == "int8" and self.dtype != "int8"

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * DTYPES[self.wire].itemsize + (4 * self.rows if self.by_row else 0)

    @property
    def decoded_bytes(self) -> int:
        """What the values take in memory, in their own dtype: up to eight times what travels."""
        return prod(self.shape) * DTYPES[self.dtype].itemsize


def can_travel(tensor: object) -> bool:
    return isinstance(tensor, Tensor) and tensor.dtype in DTYPE_NAMES and tensor.layout == torch.strided


def travels_as(dtype: str, *, wire: str, elements: int) -> str:
    """The form in which values of `dtype` travel under `wire`."""
    own = DTYPES[dtype]
    wider = wire in NARROW and own.is_floating_point and own.itemsize > DTYPES[wire].itemsize
    return wire if wider and elements > 0 else dtype


def write(target: Tensor, tensor: Tensor, layout: Layout) -> None:
    """Write a tensor's values into the `layout.nbytes` bytes of `target`."""
    if layout.by_row:
        _write_by_row(target, tensor, layout)
    elif layout.wire != layout.dtype:
        _write_narrowed(target.view(DTYPES[layout.wire]).view(layout.shape), tensor, layout)
    elif layout.nbytes:  # one plain copy by NumPy: torch would start threads for it
        target.numpy()[:] = tensor.contiguous().view(-1).view(torch.uint8).numpy()


def read(source: Tensor, layout: Layout) -> Tensor:
    """The tensor in the `layout.nbytes` bytes of `source`: a view of them, where they are its values."""
    if layout.by_row:
        return _read_by_row(source, layout)
    if layout.wire == "bool" and (source > 1).any():
        raise ProtocolError(f"tensor {short(layout.name)}: expected bools, 0 or 1; got {int(source.max())}")
    return source.view(DTYPES[layout.wire]).view(layout.shape).to(DTYPES[layout.dtype])


def _write_narrowed(values: Tensor, tensor: Tensor, layout: Layout) -> None:
    values.copy_(tensor)
    extremes = torch.stack(tensor.aminmax()).to(values.dtype)
    if not extremes.isfinite().all():  # only then look at each value: infinities and NaNs may travel as such
        _expect_fit(torch.equal(values.isfinite(), tensor.isfinite()), layout)


def _write_by_row(target: Tensor, tensor: Tensor, layout: Layout) -> None:
    """One float32 scale a row, max|x| / 127, then the values as integers from -127 to 127."""
    scales, values = _split(target, layout)
    rows = tensor.to(_working_dtype(layout)).reshape(layout.rows, -1)
    scales.copy_(rows.abs().amax(dim=1) / 127).clamp_min_(SMALLEST_SCALE)
    # Rounded up to 16 significant bits, so that scale * integer is exact: encoding twice changes nothing.
    scales.view(torch.int32).add_(0xFF).bitwise_and_(~0xFF)
    steps = scales.to(rows.dtype).unsqueeze(1)
    _expect_fit(bool((127 * steps).isfinite().all()), layout)
    values.copy_((rows / steps).round_())


def _read_by_row(source: Tensor, layout: Layout) -> Tensor:
    scales, values = _split(source, layout)
    wrong = ~(scales.isfinite() & (scales >= 0))
    if wrong.any():
        got = float(scales[wrong][0])
        raise ProtocolError(f"tensor {short(layout.name)}: expected scales from 0, finite; got {got}")
    working = _working_dtype(layout)
    # In place: an int8 tensor times a float one would first be copied as floats.
    decoded = values.to(working).mul_(scales.to(working).unsqueeze(1))
    return decoded.view(layout.shape).to(DTYPES[layout.dtype])


def _split(part: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    scales, values = part[: 4 * layout.rows], part[4 * layout.rows :]
    return scales.view(torch.float32), values.view(torch.int8).view(layout.rows, -1)


def _working_dtype(layout: Layout) -> torch.dtype:
    return torch.promote_types(DTYPES[layout.dtype], torch.float32)


def _expect_fit(fits: bool, layout: Layout) -> None:
    if not fits:
        raise ProtocolError(f"tensor {layout.name!r} has values that do not fit {layout.wire}; use wire=float32")
