"""Parquet files that would fill the memory, or claim what they do not hold."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vesica.alignment.key_files import read_keys
from vesica.data import parquet_files, parquet_sizes
from vesica.data.parquet_sizes import unpacked_sizes
from vesica.data.reading import read_table
from vesica.errors import InputError

READERS: list[Callable[[Path], object]] = [
    lambda path: read_table(path, id="id"),
    lambda path: read_keys(path, ["id"]),
]
LONG = "a" * 300_000
BOMBS: dict[str, pl.DataFrame] = {
    "one long list": pl.DataFrame({"id": ["a"], "x": [[0] * 300_000]}),
    "lists within lists": pl.DataFrame({"id": ["a"], "x": [[[0] * 300_000]]}),
    "a field of one long list": pl.DataFrame({"id": ["a"], "x": [{"y": [0] * 300_000}]}),
    "one long text": pl.DataFrame({"id": ["a"], "x": [LONG]}),
    "one long id": pl.DataFrame({"id": [LONG]}),
    "one long value of bytes": pl.DataFrame({"id": ["a"], "x": [LONG.encode()]}),
    "many rows": pl.DataFrame({"id": ["a"] * 50_000}),
    "many columns": pl.DataFrame({"id": range(100), **{f"x{i}": [0] * 100 for i in range(600)}}),
}


def bomb(path: Path, frame: pl.DataFrame) -> Path:
    frame.write_parquet(path, compression="zstd")
    return path


@pytest.fixture
def little_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "ALWAYS_TAKEN", 250_000)
    monkeypatch.setattr(parquet_files, "UNPACKED", 0)


@pytest.mark.parametrize("read", READERS, ids=["table", "keys"])
@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_would_fill_the_memory_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, little_is_taken: None, name: str, read: Callable[[Path], object]
) -> None:
    path = bomb(tmp_path / "bomb.parquet", BOMBS[name])
    monkeypatch.setattr(pl, "read_parquet", None)
    with pytest.raises(InputError, match=r"bomb\.parquet would unpack to [0-9,]+ bytes or more, 250,000 are allowed"):
        read(path)


@pytest.mark.parametrize("read", READERS, ids=["table", "keys"])
def test_one_long_text_in_many_rows_is_refused_while_the_rows_share_its_memory(
    tmp_path: Path, little_is_taken: None, read: Callable[[Path], object]
) -> None:
    for text in ("a" * 3_000, b"a" * 3_000):
        path = bomb(tmp_path / "bomb.parquet", pl.DataFrame({"id": [text] * 100}))
        assert path.stat().st_size < 5_000
        with path.open("rb") as file:
            assert sum(unpacked_sizes(file)) < 10_000
        with pytest.raises(InputError, match=r"would unpack to 300,000 bytes or more, 250,000 are allowed"):
            read(path)


def test_a_nested_column_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bomb(tmp_path / "t.parquet", pl.DataFrame({"id": ["a", "b"], "x": [[1], [2, 3]]}))
    assert [list(column) for column in read_keys(path, ["id"])] == [["a", "b"]]  # where it is not needed
    monkeypatch.setattr(pl, "read_parquet", None)
    with pytest.raises(InputError, match=r"t\.parquet has a column 'x' of List\(Int64\), which cannot be used"):
        read_table(path, id="id")


def test_the_size_of_a_file_is_that_of_its_frame(tmp_path: Path) -> None:
    """Whatever the values, the packing, and the number of parts and pages."""
    draws = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "id": [f"person {i}" for i in range(5_000)],
            "x": draws.normal(size=5_000),
            "y": draws.integers(0, 5, 5_000),
            "z": [None if i % 7 else "text" for i in range(5_000)],
            "bytes": [b"%d" % i for i in range(5_000)],
        }
    )
    for compression in ("uncompressed", "zstd", "snappy", "gzip", "brotli", "lz4"):
        for pages in ({}, {"row_group_size": 700, "data_page_size": 100}):
            path = tmp_path / "t.parquet"
            frame.write_parquet(path, compression=compression, **pages)  # type: ignore[arg-type]
            with path.open("rb") as file:
                sizes = list(unpacked_sizes(file))
            assert len(sizes) > 50 or not pages
            held = 5_000 * (3 * 16 + 2 * 8)
            assert held < sum(sizes) < held + 600_000
            assert parquet_files.parquet_frame(path).equals(frame)


def test_a_long_header_of_a_page_is_read_in_a_second_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({"id": ["a", "b"]})
    frame.write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(parquet_sizes, "_PAGE_HEADERS", (5, 100))
    assert parquet_files.parquet_frame(tmp_path / "t.parquet").equals(frame)
    monkeypatch.setattr(parquet_sizes, "_PAGE_HEADERS", (5,))
    with pytest.raises(InputError, match="its footer leads to a page that is none"):
        parquet_files.parquet_frame(tmp_path / "t.parquet")


def footer_of(content: bytes) -> int:
    """Where it begins."""
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


LIES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a footer longer than the file": (
        lambda content: content[:-8] + (2**31).to_bytes(4, "little") + b"PAR1",
        "it does not end as Parquet files do",
    ),
    "another end": (lambda content: content[:-1], "it does not end as Parquet files do"),
    "a long list in the footer": (
        lambda content: content[: footer_of(content)] + b"\x29\xfc" + b"\xff" * 4 + b"\x0f\x07\x00\x00\x00PAR1",
        "its footer has a list that is longer than the footer",
    ),
    "a footer of deep structures": (
        lambda content: content + b"\x1c" * 5000 + (5000).to_bytes(4, "little") + b"PAR1",
        "its footer is nested too deeply",
    ),
    "a footer of deep lists": (
        lambda content: content + b"\x19" * 5000 + (5000).to_bytes(4, "little") + b"PAR1",
        "its footer has a list",
    ),
    "a footer without anything": (lambda content: content + b"\0\x01\0\0\0PAR1", "its footer or a page lacks"),
    "a long number": (
        lambda content: content + b"\x15" + b"\xff" * 20 + (21).to_bytes(4, "little") + b"PAR1",
        "its footer has a number of more than 64 bits",
    ),
    "pages that are none": (lambda content: content[:4] + b"\xff" * 20 + content[24:], "its footer"),
    "more rows than values": (
        # Of the file, of its one part and of its one column: 1,000 becomes 8,000.
        lambda content: (
            content[: footer_of(content)] + content[footer_of(content) :].replace(b"\x16\xd0\x0f", b"\x16\x80\x7d")
        ),
        "its pages have fewer values than it claims",
    ),
}


@pytest.mark.parametrize("read", READERS, ids=["table", "keys"])
@pytest.mark.parametrize("name", LIES)
def test_a_file_that_claims_what_it_does_not_hold_is_refused(
    tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    lie, words = LIES[name]
    path = tmp_path / "lies.parquet"
    pl.DataFrame({"id": range(1000)}).write_parquet(path)
    path.write_bytes(lie(path.read_bytes()))
    with pytest.raises(
        InputError, match=rf"lies\.parquet cannot be read as a Parquet table \({re.escape(words)}.*\); check"
    ):
        read(path)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2000), st.binary(min_size=1, max_size=8))
def test_a_damaged_file_has_a_size_or_is_refused(place: int, damage: bytes) -> None:
    file = io.BytesIO()
    pl.DataFrame({"id": [str(i) for i in range(50)], "x": np.arange(50.0)}).write_parquet(file)
    content = bytearray(file.getvalue())
    place %= len(content)
    content[place : place + len(damage)] = damage
    try:
        sizes = list(unpacked_sizes(io.BytesIO(content)))
    except parquet_files.FAULTS:
        return
    assert all(size >= 0 for size in sizes)
