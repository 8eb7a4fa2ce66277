"""Arrays of an NPZ file. What each claims to hold is held against the file before any memory is given to it."""

import io
import math
import os
import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import BinaryIO

import numpy as np

from vesica.data.table import Array
from vesica.errors import InputError, nearest

ALWAYS_TAKEN = 2**30  # bytes that a file may unpack to, however small it is
UNPACKED = 100  # bytes for each byte of a larger file: more only pays for who wants to fill the memory
_HEADER = 2**14  # bytes of an array in which its header must end
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
FAULTS = (OSError, EOFError, ValueError, TypeError, NotImplementedError, zipfile.BadZipFile, zlib.error)


def read_arrays(path: Path, names: Sequence[str] | None = None) -> dict[str, Array]:
    """The arrays of these names in an NPZ file, or all of them."""
    with path.open("rb") as file:
        try:
            return arrays_in(file, names, where=str(path))
        except FAULTS as fault:
            reason = str(fault).partition("\n")[0].rstrip(".") or type(fault).__name__
            raise InputError(
                f"{path} cannot be read as an NPZ table ({reason}); check that it is one, as numpy.savez writes it"
            ) from fault


def arrays_in(file: BinaryIO, names: Sequence[str] | None, *, where: str) -> dict[str, Array]:
    """The same of a file that is open; what is wrong with it is one of the FAULTS."""
    with zipfile.ZipFile(file) as archive:
        members = _members(archive, size=file.seek(0, os.SEEK_END))
        for name in names or ():
            if name not in members:
                raise InputError(f"{where} has no column '{name}'{nearest(name, members)}")
        return {name: _read(archive, members[name], name) for name in (members if names is None else names)}


def _members(archive: zipfile.ZipFile, *, size: int) -> Mapping[str, zipfile.ZipInfo]:
    """By the name of the array; `size` is that of the file."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name in members:
            raise ValueError(f"it has two arrays {name!r}")
        if member.flag_bits & 1:
            raise ValueError(f"{name!r} is encrypted")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name!r} is packed by method {member.compress_type}, which NumPy does not use")
        if member.compress_type == zipfile.ZIP_STORED and member.file_size != member.compress_size:
            raise ValueError(f"{name!r} claims to hold {member.file_size:,} bytes in {member.compress_size:,}")
        members[name] = member
    if sum(member.compress_size for member in members.values()) > size:
        raise ValueError("its arrays claim to be larger than the file")
    unpacked, most = sum(member.file_size for member in members.values()), max(ALWAYS_TAKEN, UNPACKED * size)
    if unpacked > most:
        raise ValueError(f"it would unpack to {unpacked:,} bytes, {most:,} are allowed: save it unpacked")
    return members


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> Array:
    """An array whose header says as many bytes as there are."""
    with archive.open(member) as packed:
        beginning = io.BytesIO(packed.read(_HEADER))
        version = np.lib.format.read_magic(beginning)
        if version not in _HEADERS:
            raise ValueError(f"{name!r} is of the version {version} of NumPy's format")
        try:
            shape, _, dtype = _HEADERS[version](beginning)
        except (SyntaxError, TokenError, RecursionError, MemoryError) as fault:  # a header is a Python literal
            raise ValueError(f"{name!r} has a header that is none") from fault
        if dtype.names is not None or dtype.subdtype is not None:
            raise ValueError(f"{name!r} holds records: save each of their fields as an array of its own")
        if dtype.hasobject:
            raise ValueError(f"{name!r} holds Python objects: save it as numbers or text")
        held = member.file_size - beginning.tell()
        if min(shape, default=0) < 0 or not dtype.itemsize or math.prod(shape) * dtype.itemsize != held:
            raise ValueError(f"{name!r} claims the shape {shape} of type {dtype} and has {held:,} bytes")
    with archive.open(member) as packed:
        array: Array = np.lib.format.read_array(packed, allow_pickle=False)
    if array.dtype.kind == "U" and _codes(array).max(initial=0) > sys.maxunicode:
        raise ValueError(f"{name!r} holds text that is not Unicode")
    return array


def _codes(texts: Array) -> Array:
    """The numbers of all their characters; NumPy does not check them, and Python's texts cannot hold every number."""
    return texts.ravel(order="K").view(np.dtype("u4").newbyteorder(texts.dtype.byteorder))
