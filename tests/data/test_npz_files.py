"""NPZ files that claim what they do not hold."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vesica.data import npz_files
from vesica.data.npz_files import read_arrays
from vesica.errors import InputError

Members = dict[str, bytes]


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npy_of(header: str, data: bytes = b"", version: int = 1) -> bytes:
    """An array file with any header."""
    length = struct.pack("<H" if version == 1 else "<I", len(header) + 1)
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + b"\n" + data


def claims(descr: str, shape: str, data: bytes = b"12345678") -> bytes:
    return npy_of(f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}", data)


def packed(path: Path, *members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive, warnings.catch_warnings(action="ignore"):  # of equal names
        for name, content in members:
            archive.writestr(name, content)
    return path


def patched(path: Path, *, at: int, value: int, size: int = 2) -> Path:
    """A field of the first entry of the central directory, and the same of the local header, set to a value."""
    content = bytearray(path.read_bytes())
    entry, local = content.index(b"PK\x01\x02"), 0
    content[entry + at : entry + at + size] = value.to_bytes(size, "little")
    content[local + at - 2 : local + at - 2 + size] = value.to_bytes(size, "little")
    path.write_bytes(content)
    return path


ARRAY = npy(np.arange(4.0))
VERSION, FLAGS, METHOD, PACKED_SIZE, UNPACKED_SIZE = 6, 8, 10, 20, 24  # where these fields are
LIES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "more elements than any machine holds": (
        lambda path: packed(path, ("x.npy", claims("<f8", "(1125899906842624,)"))),
        "'x' claims the shape .1125899906842624,. of type float64 and has 8 bytes",
    ),
    "elements of no size": (
        lambda path: packed(path, ("x.npy", claims("<U0", "(1125899906842624,)", b""))),
        "claims the shape",
    ),
    "a negative shape": (lambda path: packed(path, ("x.npy", claims("<f8", "(-1, -1)"))), "claims the shape"),
    "fewer elements than there are bytes": (lambda path: packed(path, ("x.npy", claims("<i2", "(3,)"))), "claims"),
    "Python objects": (lambda path: packed(path, ("x.npy", claims("|O", "(1,)"))), "holds Python objects"),
    "a header that is no literal": (lambda path: packed(path, ("x.npy", npy_of("{'descr': ((("))), "header"),
    "a header that is too deep": (lambda path: packed(path, ("x.npy", npy_of("-" * 9000 + "1"))), "header"),
    "a header of four gigabytes": (
        lambda path: packed(path, ("x.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 99)),
        "EOF",
    ),
    "a version that is not known": (lambda path: packed(path, ("x.npy", npy_of("{}", version=9))), "version"),
    "no array": (lambda path: packed(path, ("x.txt", b"hello world")), "magic"),
    "two arrays of one name": (lambda path: packed(path, ("x.npy", ARRAY), ("x", ARRAY)), "two arrays 'x'"),
    "another packing": (
        lambda path: packed(path, ("x.npy", ARRAY), method=zipfile.ZIP_LZMA),
        "packed by method 14, which NumPy does not use",
    ),
    "an unknown packing": (lambda path: patched(packed(path, ("x.npy", ARRAY)), at=METHOD, value=77), "method 77"),
    "an encrypted array": (lambda path: patched(packed(path, ("x.npy", ARRAY)), at=FLAGS, value=1), "encrypted"),
    "an unknown version of ZIP": (
        lambda path: patched(packed(path, ("x.npy", ARRAY)), at=VERSION, value=99),
        "zip file version 9.9",
    ),
    "records": (
        lambda path: packed(path, ("x.npy", npy(np.zeros(2, [("a", "U1")])))),
        "'x' holds records: save each of their fields",
    ),
    "text that is not Unicode": (
        lambda path: packed(path, ("x.npy", npy(np.frombuffer(b"\xff" * 8, "<U1")))),
        "'x' holds text that is not Unicode",
    ),
    "text that is not Unicode, the other way round": (
        lambda path: packed(path, ("x.npy", npy(np.frombuffer(b"\0\x11\0\0", ">U1").reshape(1, 1)))),
        "'x' holds text that is not Unicode",
    ),
    "arrays that are larger together than the file": (
        lambda path: patched(
            packed(path, ("x.npy", ARRAY), method=zipfile.ZIP_DEFLATED), at=PACKED_SIZE, value=2**16, size=4
        ),
        "its arrays claim to be larger than the file",
    ),
    "a size beyond the file": (
        lambda path: patched(packed(path, ("x.npy", ARRAY)), at=UNPACKED_SIZE, value=2**31, size=4),
        "claims to hold 2,147,483,648 bytes in",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_a_file_that_claims_what_it_does_not_hold_is_refused(tmp_path: Path, name: str) -> None:
    write, words = LIES[name]
    path = write(tmp_path / "lies.npz")
    with pytest.raises(InputError, match=rf"lies.npz cannot be read as an NPZ table \(.*{words}.*\); check that it is"):
        read_arrays(path)


def test_a_small_file_that_would_fill_the_memory_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, x=np.zeros(200_000))
    assert read_arrays(path)["x"].shape == (200_000,)
    monkeypatch.setattr(npz_files, "ALWAYS_TAKEN", 2**20)
    monkeypatch.setattr(zipfile.ZipFile, "open", None)  # nothing of it is unpacked
    with pytest.raises(InputError, match="it would unpack to 1,600,128 bytes, 1,048,576 are allowed"):
        read_arrays(path)


def test_arrays_are_read_as_numpy_writes_them(tmp_path: Path) -> None:
    arrays = {
        "id": np.array(["a", "bc"]),
        "image": np.arange(12, dtype=np.uint8).reshape(2, 3, 2, order="F"),
        "when": np.array(["2020-01-01", "NaT"], dtype="M8[s]"),
        "empty": np.empty((2, 0)),
        "number": np.array(7),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "t.npz", **arrays)
        found = read_arrays(tmp_path / "t.npz")
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype
    assert read_arrays(tmp_path / "t.npz", ["id"]).keys() == {"id"}
    with pytest.raises(InputError, match="has no column 'idd'; did you mean 'id'"):
        read_arrays(tmp_path / "t.npz", ["idd"])


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 600), st.binary(min_size=1, max_size=8), st.booleans())
def test_a_damaged_file_is_refused_or_gives_arrays_as_large_as_written(
    place: int, damage: bytes, compress: bool
) -> None:
    file = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(file, id=np.arange(5).astype(str), x=np.arange(5.0))
    content = bytearray(file.getvalue())
    content[place : place + len(damage)] = damage
    try:
        arrays = npz_files.arrays_in(io.BytesIO(content), None, where="it")
    except npz_files.FAULTS:
        return
    assert all(array.nbytes in (5 * 4 * 21, 5 * 8) for array in arrays.values())
