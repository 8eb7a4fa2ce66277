"""Parquet files as polars frames. A file that would unpack to too much is refused before it is unpacked.

Two things bound the memory that a file takes:

- Before polars reads it, the size that each page unpacks to and the number of its values are added up
  (`parquet_sizes`). Texts that are delta-encoded (DELTA_BYTE_ARRAY) count as if each was as long as its page, which
  is too much: large files with such texts are refused.
- After polars read it, while equal texts still share their memory, the lengths of all texts are added up.

What is not bounded: what polars needs itself to read the footer, which has at most LARGEST_FOOTER bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vesica.data.columns import unusable
from vesica.data.csv_files import unreadable
from vesica.data.parquet_sizes import unpacked_sizes
from vesica.errors import InputError

if TYPE_CHECKING:
    import polars

ALWAYS_TAKEN = 2**28  # bytes that a file may unpack to, however small it is
UNPACKED = 100  # bytes for each byte of a larger file: only a file that is made to fill the memory has more
FAULTS = (ValueError, LookupError, TypeError, AttributeError)  # of a footer whose fields are not as they should be


def parquet_frame(path: Path, columns: Sequence[str] | None = None) -> polars.DataFrame:
    """The columns of these names in a Parquet file, or all of them."""
    import polars as pl

    most = _refuse_bomb(path)
    try:
        for name, dtype in pl.read_parquet_schema(path).items():
            if dtype.is_nested() and (columns is None or name in columns):
                raise unusable(name, str(dtype), where=str(path))
        frame = pl.read_parquet(path, columns=None if columns is None else list(columns), glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as fault:
        raise unreadable(path, "Parquet", fault) from fault
    written = sum(_bytes_of_texts(series) for series in frame)
    if written > most:
        raise _too_large(path, written, most)
    return frame


def parquet_columns(path: Path) -> list[str]:
    """The names of its columns."""
    import polars as pl

    _refuse_bomb(path)
    try:
        return list(pl.read_parquet_schema(path))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as fault:
        raise unreadable(path, "Parquet", fault) from fault


def _refuse_bomb(path: Path) -> int:
    """Refuse a file that would unpack to more bytes than this number."""
    most = max(ALWAYS_TAKEN, UNPACKED * path.stat().st_size)
    unpacked = 0
    try:
        with path.open("rb") as file:
            for size in unpacked_sizes(file):
                unpacked += size
                if unpacked > most:
                    raise _too_large(path, unpacked, most)
    except FAULTS as fault:
        reason = fault if type(fault) is ValueError else "its footer or a page lacks what must be there"
        raise unreadable(path, "Parquet", ValueError(reason)) from fault
    return most


def _bytes_of_texts(series: polars.Series) -> int:
    import polars as pl

    if series.dtype == pl.String:
        return int(series.str.len_bytes().sum())
    return int(series.bin.size().sum()) if series.dtype == pl.Binary else 0


def _too_large(path: Path, unpacked: int, most: int) -> InputError:
    return InputError(
        f"{path} would unpack to {unpacked:,} bytes or more, {most:,} are allowed for a file of its size; check that "
        "it is a table of yours, or write it without compression and with plain encoding"
    )
