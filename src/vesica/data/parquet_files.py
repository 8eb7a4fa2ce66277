"""Parquet files as polars frames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vesica.data.csv_files import unreadable
from vesica.errors import InputError

if TYPE_CHECKING:
    import polars

ALWAYS_TAKEN = 2**27  # values that a file may hold, however small it is
VALUES = 1000  # for each byte of a larger file: more only pays for who wants to fill the memory


def parquet_frame(path: Path, columns: Sequence[str] | None = None) -> polars.DataFrame:
    """The columns of these names in a Parquet file, or all of them."""
    import polars as pl

    try:
        width = len(parquet_columns(path) if columns is None else columns)
        rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
        if rows * width > max(ALWAYS_TAKEN, VALUES * path.stat().st_size):
            raise InputError(
                f"{path} claims {rows:,} rows of {width} columns, which a file of its size does not hold; "
                "check that it is whole, or write it without compression"
            )
        return pl.read_parquet(path, columns=None if columns is None else list(columns), glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as fault:
        raise unreadable(path, "Parquet", fault) from fault


def parquet_columns(path: Path) -> list[str]:
    """The names of its columns."""
    import polars as pl

    try:
        return list(pl.read_parquet_schema(path))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as fault:
        raise unreadable(path, "Parquet", fault) from fault
