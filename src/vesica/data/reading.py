"""Reading a party's table from a file, or taking it from data frames and arrays."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vesica.data.columns import Values, table_of
from vesica.data.csv_files import MISSING, csv_frame, require_utf8_name
from vesica.data.frames import table_from_pandas, table_from_polars
from vesica.data.ids import Key, require_id
from vesica.data.npz_files import read_arrays
from vesica.data.parquet_files import parquet_frame
from vesica.data.table import Array, Table
from vesica.errors import InputError


def read_table(path: Path, *, id: str | Key) -> Table:
    """The table in a .csv, .parquet or .npz file; `id` names the column (or array) that holds the ids, or the key."""
    readers = {".csv": read_csv, ".parquet": read_parquet, ".npz": read_npz}
    path = Path(path)
    if path.suffix.lower() not in readers:
        raise InputError(f"{path} is not a table Vesica reads; give a .csv, .parquet or .npz file")
    check_file(path)
    return readers[path.suffix.lower()](path, id=id)


def check_file(path: Path) -> None:
    """Refuse what is no file with something in it, before a reader looks at it."""
    require_utf8_name(path)
    try:
        if path.is_dir():
            raise InputError(f"{path} is a directory; give the file in it")
        if not path.exists():
            raise InputError(f"there is no file {path}; correct the path")
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty; give a file with a header and rows")
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); correct the path or its permissions") from error


def table_from(source: Any, *, id: str) -> Table:
    """A table from a pandas or polars DataFrame, or from a mapping of names to arrays or lists.

    `id` names the column of the ids, or the index of a pandas DataFrame.
    """
    libraries = {kind.__module__.partition(".")[0] for kind in type(source).__mro__}
    if isinstance(source, Mapping):
        return table_from_mapping(source, id=id, where="the mapping")
    if type(source).__name__ == "LazyFrame" and "polars" in libraries:
        raise InputError("the table is a polars LazyFrame; call .collect() on it first")
    if hasattr(source, "columns") and "polars" in libraries:
        return table_from_polars(source, id=id, where="the data frame")
    if hasattr(source, "columns") and "pandas" in libraries:
        return table_from_pandas(source, id=id, where="the data frame")
    raise InputError(
        f"a {type(source).__name__} is not a table; give a pandas or polars DataFrame, or a mapping of "
        "names to arrays, or call table_from_arrays for an array without names"
    )


def table_from_arrays(ids: Values, columns: Mapping[str, Values] | Array, *, image: Array | None = None) -> Table:
    """A table from ids and named columns, or the columns of an (n, p) array as column_0, column_1, ..."""
    if not isinstance(columns, Mapping):
        matrix = np.asarray(columns)
        if matrix.ndim != 2:
            raise InputError(f"the array of columns has shape {matrix.shape}; it must be (rows, columns)")
        columns = {f"column_{position}": values for position, values in enumerate(matrix.T)}
    return table_of([ids], columns, key=Key(("ids",)), image=image, where="the table")


def table_from_mapping(arrays: Mapping[str, Values], *, id: str | Key, where: str) -> Table:
    key = Key.of(id)
    require_id(key, arrays, where=where)
    columns = {name: values for name, values in arrays.items() if name not in (*key.columns, "image")}
    image = np.asarray(arrays["image"]) if "image" in arrays else None
    return table_of([arrays[name] for name in key.columns], columns, key=key, image=image, where=where)


def read_npz(path: Path, *, id: str | Key) -> Table:
    return table_from_mapping(read_arrays(path), id=id, where=str(path))


def read_parquet(path: Path, *, id: str | Key) -> Table:
    return table_from_polars(parquet_frame(path), id=id, where=str(path))


def read_csv(path: Path, *, id: str | Key) -> Table:
    return table_from_polars(csv_frame(path, id=id), id=id, where=str(path), missing=MISSING)
