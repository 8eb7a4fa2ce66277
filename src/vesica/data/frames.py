"""Tables from polars and pandas data frames, neither of which is imported before one is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vesica.data.columns import column_from, table_of, unusable
from vesica.data.ids import Key, duplicated, ids_from, require_id, text_of, without_id
from vesica.data.table import Array, Column, Table, Text
from vesica.errors import InputError

if TYPE_CHECKING:
    import polars


def table_from_polars(frame: polars.DataFrame, *, id: str | Key, where: str, missing: Sequence[str] = ()) -> Table:
    """A table of a frame; the strings in `missing` are missing values."""
    key = Key.of(id)
    require_id(key, frame.columns, where=where)
    if frame.height == 0:
        raise InputError(f"{where} has no rows; give it at least one")
    frame = frame.rechunk()  # all columns at once, and in parallel; the arrays are then views of them
    ids = polars_ids(frame, key, where=where, missing=missing)
    others = [series for series in frame if series.name not in key.columns]
    return Table(ids, {series.name: polars_column(series, where=where, missing=missing) for series in others})


def polars_ids(frame: polars.DataFrame, key: Key, *, where: str, missing: Sequence[str]) -> Array:
    import polars as pl

    series = frame[key.columns[0]]
    if not key.is_plain or not (series.dtype.is_integer() or series.dtype in (pl.String, pl.Categorical, pl.Enum)):
        return ids_from([without_marks(frame[name], missing).to_list() for name in key.columns], key, where=where)
    texts = without_marks(series.cast(pl.String), missing)
    gaps = texts.is_null() | (texts == "").fill_null(True)
    if gaps.any():
        raise without_id(int(gaps.sum()), int(gaps.arg_true()[0]), name=series.name, where=where)
    # Equal ids have equal hashes, and hashes are several times faster to compare.
    if texts.hash().n_unique() < len(texts) and (repeats := len(texts) - texts.n_unique()):
        example = texts.filter(texts.is_duplicated())[0]
        raise duplicated(repeats, example, name=series.name, where=where)
    return texts.to_numpy().astype(str)


def without_marks(series: polars.Series, missing: Sequence[str]) -> polars.Series:
    """Null where one of these strings stands, also with white space around it."""
    import polars as pl

    if not missing or series.dtype != pl.String:
        return series
    marked = series.str.strip_chars().is_in(list(missing))
    return series.set(marked, None) if marked.any() else series


def polars_column(series: polars.Series, *, where: str, missing: Sequence[str] = ()) -> Column:
    import polars as pl

    dtype = series.dtype
    if dtype.is_integer():
        whole = series.cast(pl.Int64, strict=False)
        return (series.cast(pl.Float64) if whole.null_count() else whole).to_numpy()
    if dtype == pl.Boolean and not series.null_count():
        return series.to_numpy()
    if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
        return series.cast(pl.Float64).to_numpy()
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if dtype in (pl.Date, pl.Datetime):
        return series.cast(pl.Datetime("us")).to_numpy()
    if dtype in (pl.Time, pl.Duration):
        return (series.cast(pl.Duration("us")).dt.total_microseconds().cast(pl.Float64) / 1e6).to_numpy()
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return polars_text(series.cast(pl.String), missing=missing)
    raise unusable(series.name, str(dtype), where=where)


def polars_text(series: polars.Series, *, missing: Sequence[str]) -> Text:
    import polars as pl

    values = series.drop_nulls().unique(maintain_order=True)
    values = values.filter(~values.is_in(list(missing)))
    # What is not among the values, a missing marker, has no place in the enumeration and becomes null.
    codes = series.cast(pl.Enum(values), strict=False).to_physical().cast(pl.Int32).fill_null(-1)
    return Text(codes.to_numpy(), tuple(values.to_list()))


def table_from_pandas(frame: Any, *, id: str, where: str) -> Table:
    if id not in frame.columns and id in frame.index.names:
        frame = frame.reset_index(id)
    names = [str(name) for name in frame.columns]
    require_id(id, names, where=where)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{where} has more than one column '{twice}'; rename or remove one")
    series = dict(zip(names, (frame.iloc[:, position] for position in range(len(names))), strict=True))
    ids = values_or_none(series.pop(id))
    columns = {name: pandas_column(values, name=name, where=where) for name, values in series.items()}
    return Table(table_of([ids], {}, key=Key.of(id), image=None, where=where).ids, columns)


def pandas_column(series: Any, *, name: str, where: str) -> Column:
    if series.dtype == "category":
        texts = tuple(text_of(value) for value in series.cat.categories.tolist())
        return Text(series.cat.codes.to_numpy().astype(np.int32), texts)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind != "O":
        return column_from(series.to_numpy(), name=name, where=where)
    return column_from(values_or_none(series), name=name, where=where)


def values_or_none(series: Any) -> list[object]:
    """The values, with None for each of the marks pandas has for a missing one."""
    gaps = series.isna().tolist()
    return [None if gap else value for value, gap in zip(series.tolist(), gaps, strict=True)]
