"""What crosses between two parties, and its frame: a 10-byte prefix, a JSON header, then the raw values."""

import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from reprlib import repr as short  # what a peer sent may be long, or deeply nested
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vesica.errors import InputError, ProtocolError, nearest
from vesica.protocol.wire import DTYPES, WIRES, Layout, Wire, can_travel, read, write

__all__ = ["WIRES", "Message", "Scalar", "Wire", "decode", "encode", "frame_bytes", "has_scalars", "payload_bytes"]

Scalar = bool | int | float | str
Buffer = bytes | bytearray | memoryview
S = TypeVar("S", bool, int, float, str)

MAGIC = b"VSCA"
VERSION = 1
PREFIX = struct.Struct("<4sHI")  # magic, version, length of the header
ALIGNMENT = 8
KIND = re.compile(r"[a-z][a-z0-9-]{0,63}")
INT64 = range(-(2**63), 2**63)
MAX_ENTRIES = 256  # tensors, and scalars
MAX_NAME = 128  # characters
MAX_HEADER = 2**18  # bytes
MAX_FRAME = 2**30  # bytes; also of the values when decoded, which narrow ones exceed


@dataclass(frozen=True, eq=False)
class Message:
    """A kind (a noun: "representations", "gradients"), named tensors and named scalars."""

    kind: str
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    scalars: Mapping[str, Scalar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or not KIND.fullmatch(self.kind):
            raise ProtocolError(f"expected a kind of at most 64 of a-z, 0-9 and '-'; got {short(self.kind)}")
        self._check_names(self.tensors)
        self._check_names(self.scalars)
        for name, tensor in self.tensors.items():
            if not can_travel(tensor):
                got = f"{tensor.layout}, {tensor.dtype}" if isinstance(tensor, Tensor) else short(tensor)
                self._refuse(f"expected tensor {name!r} to be dense, of {', '.join(DTYPES)}; got {got}")
        for name, scalar in self.scalars.items():
            if not _is_scalar(scalar):
                self._refuse(f"expected scalar {name!r} as bool, int64, float or text; got {short(scalar)}")

    @property
    def tensor(self) -> Tensor:
        """The only tensor."""
        if len(self.tensors) != 1:
            self._refuse(f"expected exactly one tensor; got {', '.join(self.tensors) or 'none'}")
        return next(iter(self.tensors.values()))

    def scalar(self, name: str, kind: type[S]) -> S:
        """The scalar of this name, which must be of this very type."""
        value = self.scalars.get(name)
        if type(value) is not kind:
            self._refuse(f"expected scalar {name!r} as {kind.__name__}; got {short(value)}")
        return value

    def _check_names(self, entries: Mapping[str, object]) -> None:
        if len(entries) > MAX_ENTRIES:
            self._refuse(f"expected at most {MAX_ENTRIES} tensors and as many scalars; got {len(entries)}")
        for name in entries:
            if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
                self._refuse(f"expected names of 1 to {MAX_NAME} printable characters; got {short(name)}")

    def _refuse(self, why: str) -> NoReturn:
        raise ProtocolError(f"message {self.kind!r}: {why}")


def has_scalars(**kinds: type[Any]) -> Callable[[Message], None]:
    """A check, for receiving, that a message has these scalars with these very types."""

    def check(message: Message) -> None:
        for name, kind in kinds.items():
            message.scalar(name, kind)

    return check


def _is_scalar(scalar: object) -> bool:
    """Exact types only: a NumPy number or an enum would come back as something else."""
    if type(scalar) is int:
        return scalar in INT64
    if type(scalar) is str:
        return not re.search("[\ud800-\udfff]", scalar)
    return type(scalar) in (bool, float)


def encode(message: Message, *, wire: Wire = "float32") -> memoryview:
    """The frame of a message, always the same bytes; wider floating values are narrowed to `wire`."""
    if wire not in WIRES:
        raise InputError(f"unknown wire {short(wire)}{nearest(str(wire), WIRES)}")
    layouts = [Layout.of(name, tensor, wire=wire) for name, tensor in message.tensors.items()]
    head = _head(message, layouts)
    starts, size = _places(layouts, after=len(head))
    if size > MAX_FRAME or _decoded_bytes(layouts) > MAX_FRAME:
        raise ProtocolError(
            f"message {message.kind!r} would take {size:,} bytes, and {_decoded_bytes(layouts):,} when decoded, "
            f"where {MAX_FRAME:,} are allowed: send fewer rows or columns"
        )
    frame, end = np.empty(size, dtype=np.uint8), len(head)
    frame[:end] = np.frombuffer(head, dtype=np.uint8)
    for layout, start in zip(layouts, starts, strict=True):
        frame[end:start] = 0
        end = start + layout.nbytes
        write(torch.from_numpy(frame)[start:end], message.tensors[layout.name].detach().cpu(), layout)
    return frame.data


def decode(frame: Buffer, *, max_bytes: int = MAX_FRAME) -> Message:
    """The message of a frame from a peer; whatever is wrong with it is a ProtocolError.

    Tensors that travelled as they are share the memory of a writable frame: leave it to them.
    """
    data = _bytes_of(frame, max_bytes=max_bytes)
    header, end = _read_header(data)
    starts, size = _places(header.layouts, after=end)
    if size != len(data):
        kind = short(header.kind)
        raise ProtocolError(f"message {kind}: expected {size} bytes by its header; got {len(data)}")
    if (decoded := _decoded_bytes(header.layouts)) > MAX_FRAME:
        raise ProtocolError(f"expected values of at most {MAX_FRAME} bytes when decoded; got {decoded}")
    if not data.flags.writeable or data.ctypes.data % ALIGNMENT:
        data = data.copy()
    tensors = {}
    for layout, start in zip(header.layouts, starts, strict=True):
        if data[end:start].any():
            raise ProtocolError(f"expected zeros before tensor {short(layout.name)}; got other bytes")
        end = start + layout.nbytes
        tensors[layout.name] = read(torch.from_numpy(data)[start:end], layout)
    return Message(header.kind, tensors, dict(header.scalars))


def frame_bytes(message: Message, *, wire: Wire = "float32") -> int:
    """How long a message's frame is. Of its tensors only the shapes count: they may be on the meta device."""
    layouts = [Layout.of(name, tensor, wire=wire) for name, tensor in message.tensors.items()]
    return _places(layouts, after=len(_head(message, layouts)))[1]


def payload_bytes(frame: Buffer) -> int:
    """The bytes of the tensors' values as they travel: int8 scales included, header and padding not."""
    header, _ = _read_header(_bytes_of(frame, max_bytes=None))
    return sum(layout.nbytes for layout in header.layouts)


def _head(message: Message, layouts: Iterable[Layout]) -> bytes:
    tensors = [vars(layout) for layout in layouts]
    text = _canonical({"kind": message.kind, "scalars": dict(message.scalars), "tensors": tensors})
    if len(text) > MAX_HEADER:
        raise ProtocolError(
            f"message {message.kind!r}: expected at most {MAX_HEADER} bytes of names and scalars; "
            f"got {len(text)}: send long values as a tensor"
        )
    return PREFIX.pack(MAGIC, VERSION, len(text)) + text


def _canonical(header: object) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode("ascii")


def _places(layouts: Iterable[Layout], *, after: int) -> tuple[list[int], int]:
    """Where each tensor starts, and where the frame ends."""
    starts, end = [], after
    for layout in layouts:
        starts.append(end + -end % ALIGNMENT)
        end = starts[-1] + layout.nbytes
    return starts, end


def _decoded_bytes(layouts: Iterable[Layout]) -> int:
    """What the values of all tensors take in memory at the receiver."""
    return sum(layout.decoded_bytes for layout in layouts)


def _bytes_of(frame: Buffer, *, max_bytes: int | None) -> NDArray[np.uint8]:
    view = memoryview(frame)
    if not view.c_contiguous or view.nbytes < PREFIX.size:
        raise ProtocolError(f"expected a frame of at least {PREFIX.size} contiguous bytes; got {view.nbytes}")
    if max_bytes is not None and view.nbytes > max_bytes:
        raise ProtocolError(f"expected a frame of at most {max_bytes} bytes; got {view.nbytes}")
    return np.frombuffer(view, dtype=np.uint8)


@dataclass(frozen=True)
class _Header:
    """What a frame says before its values; kind and scalars are checked by the message they become part of."""

    kind: Any
    scalars: Mapping[str, Any]
    layouts: tuple[Layout, ...]


def _read_header(data: NDArray[np.uint8]) -> tuple[_Header, int]:
    """The header, and where it ends."""
    magic, version, length = PREFIX.unpack(data[: PREFIX.size].tobytes())
    if (magic, version) != (MAGIC, VERSION):
        raise ProtocolError(f"expected {MAGIC!r}, version {VERSION}; got {magic!r}, version {version}")
    end = PREFIX.size + length
    if length > MAX_HEADER or end > len(data):
        raise ProtocolError(f"expected a header within {MAX_HEADER} and {len(data)} bytes; got {length}")
    return _parse(data[PREFIX.size : end].tobytes()), end


@lru_cache(maxsize=64)  # the frames of a training loop differ in their values alone
def _parse(text: bytes) -> _Header:
    try:
        header = json.loads(text)
        # One form only: no name twice, no spaces, no number or text written in another way.
        canonical = _canonical(header) == text
    except (ValueError, RecursionError) as fault:
        raise ProtocolError(f"expected a JSON header; got a fault: {fault}") from fault
    if not canonical or not isinstance(header, dict) or header.keys() != {"kind", "scalars", "tensors"}:
        raise ProtocolError(f"expected kind, scalars, tensors, as Vesica writes them; got {text[:40]!r}")
    if not isinstance(header["scalars"], dict) or not isinstance(header["tensors"], list):
        raise ProtocolError(f"expected an object of scalars and a list of tensors; got {text[:40]!r}")
    return _Header(header["kind"], header["scalars"], _read_layouts(header["tensors"]))


def _read_layouts(entries: list[Any]) -> tuple[Layout, ...]:
    layouts = tuple(Layout.from_json(entry) for entry in entries)
    names = {layout.name for layout in layouts}
    if len(names) < len(layouts):
        raise ProtocolError(f"expected each tensor once; got {len(layouts)} tensors of {len(names)} names")
    return layouts
