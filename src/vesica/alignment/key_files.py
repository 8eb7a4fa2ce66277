"""The key columns of a table file, as they stand in it, and of the common rows written back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vesica.alignment.normalisation import Column, Columns
from vesica.data.columns import values_of
from vesica.data.csv_files import MISSING, refuse_packed, unreadable
from vesica.data.frames import without_marks
from vesica.data.ids import require_id, text_of
from vesica.data.npz_files import read_arrays
from vesica.data.parquet_files import parquet_columns, parquet_frame
from vesica.data.reading import check_file
from vesica.data.table import Array
from vesica.errors import InputError
from vesica.protocol.files import replacing

if TYPE_CHECKING:
    import polars


def read_keys(path: Path, names: Sequence[str]) -> Columns:
    """The columns of a .csv, .parquet or .npz file; those of a CSV file are text, with all their zeros and spaces."""
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}
    if path.suffix.lower() not in readers:
        raise InputError(f"{path} is not a table Vesica reads; give a .csv, .parquet or .npz file")
    check_file(path)
    if len(set(names)) < len(names):
        raise InputError(f"the keys {', '.join(names)} of {path} name a column twice; name each once")
    return readers[path.suffix.lower()](path, names)


def write_rows(path: Path, columns: Mapping[str, Column], *, rows: Array) -> None:
    """A CSV file of the given rows, in their order; only its owner can read it."""
    import polars as pl

    frame = {name: [text_of(column[row]) for row in rows.tolist()] for name, column in columns.items()}
    with replacing(path) as partial, partial.open("wb") as file:  # polars writes to no path that is not UTF-8
        pl.DataFrame(frame, schema=dict.fromkeys(columns, pl.String)).write_csv(file)


def _read_csv(path: Path, names: Sequence[str]) -> Columns:
    import polars as pl

    refuse_packed(path)
    try:
        header = pl.read_csv(path, n_rows=0, infer_schema=False, glob=False).columns
        for name in names:
            require_id(name, header, where=str(path))
            if f"{name}_duplicated_0" in header:
                raise InputError(f"{path} has more than one column '{name}'; rename or remove one")
        frame = pl.read_csv(path, columns=list(names), infer_schema=False, glob=False)
    except pl.exceptions.PolarsError as fault:
        raise unreadable(path, "CSV", fault) from fault
    return [without_marks(frame[name], MISSING) for name in names]


def _read_parquet(path: Path, names: Sequence[str]) -> Columns:
    columns = parquet_columns(path)
    for name in names:
        require_id(name, columns, where=str(path))
    frame = parquet_frame(path, names)
    return [_plain(frame[name]) for name in names]


def _plain(series: polars.Series) -> polars.Series:
    """Categories as the text they stand for."""
    import polars as pl

    return series.cast(pl.String) if series.dtype in (pl.Categorical, pl.Enum) else series


def _read_npz(path: Path, names: Sequence[str]) -> Columns:
    arrays = read_arrays(path, names)
    return [values_of(arrays[name], name=name, where=str(path)) for name in names]
