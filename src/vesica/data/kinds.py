"""The kinds a column can have, and a column seen as one of them."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import numpy as np

from vesica.data.ids import text_of
from vesica.data.table import Array, Column, Text
from vesica.errors import InputError, nearest

KINDS = ("numeric", "categorical", "boolean", "date", "ignore")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TRUTH = {
    "true": 1.0,
    "yes": 1.0,
    "t": 1.0,
    "y": 1.0,
    "1": 1.0,
    "false": 0.0,
    "no": 0.0,
    "f": 0.0,
    "n": 0.0,
    "0": 0.0,
}


def recognise(column: Column) -> str:
    """The kind of a column, from its type alone."""
    if isinstance(column, Text):
        return "categorical"
    return {"b": "boolean", "M": "date"}.get(column.dtype.kind, "numeric")


def kinds_of(columns: Mapping[str, Column], chosen: Mapping[str, str]) -> dict[str, str]:
    """The kind of every column, as chosen or else recognised."""
    for name, kind in chosen.items():
        if name not in columns:
            raise InputError(f"there is no column '{name}' to set to '{kind}'{nearest(name, columns)}")
        if kind not in KINDS:
            raise InputError(f"column '{name}' is set to the unknown kind '{kind}'{nearest(kind, KINDS)}")
    return {name: chosen.get(name) or recognise(column) for name, column in columns.items()}


def as_numbers(column: Column, name: str) -> Array:
    """Floats, NaN where missing; dates count days."""
    if isinstance(column, Text):
        return parsed(column, float, name=name, wanted="number")
    return days(column) if column.dtype.kind == "M" else column.astype(np.float64, copy=False)


def as_truth(column: Column, name: str) -> Array:
    """Floats 0 and 1, NaN where missing."""
    if isinstance(column, Text):
        return parsed(column, lambda value: TRUTH[value.lower()], name=name, wanted="boolean")
    values = as_numbers(column, name)
    strange = values[~(np.isnan(values) | (values == 0) | (values == 1))]
    if len(strange):
        raise unfit(name, text_of(strange[0]), "boolean")
    return values


def as_days(column: Column, name: str) -> Array:
    """Days since 1970, NaN where missing."""
    if isinstance(column, Text):
        return parsed(column, parse_days, name=name, wanted="ISO 8601 date")
    if column.dtype.kind == "M":
        return days(column)
    values = column.astype(np.float64, copy=False)
    present = values[~np.isnan(values)]
    if len(present):
        raise unfit(name, text_of(present[0]), "date")
    return values


def as_text(column: Column) -> Text:
    """Strings: whole numbers without a fraction, dates as ISO 8601."""
    if isinstance(column, Text):
        return column
    distinct, codes = np.unique(column, return_inverse=True)
    values = distinct[distinct == distinct]  # NaN and NaT come last and equal nothing
    codes = np.where(codes < len(values), codes, -1).astype(np.int32)
    return Text(codes, tuple(text_of(value) for value in values.tolist()))


def days(dates: Array) -> Array:
    return np.asarray((dates - np.datetime64(0, "us")) / np.timedelta64(1, "D"))


def parse_days(value: str) -> float:
    moment = datetime.fromisoformat(value)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - EPOCH) / timedelta(days=1)


def parsed(column: Text, parse: Callable[[str], float], *, name: str, wanted: str) -> Array:
    """Each distinct string of the rows parsed once; a blank one is missing."""
    numbers = np.full(len(column.values) + 1, np.nan)  # code -1, missing, falls on the last
    for code in np.unique(column.codes[column.codes >= 0]):
        value = column.values[code].strip()
        if value:
            try:
                numbers[code] = parse(value)
            except (ValueError, KeyError) as fault:
                raise unfit(name, value, wanted) from fault
    return numbers[column.codes]


def unfit(name: str, value: str, wanted: str) -> InputError:
    return InputError(
        f"column '{name}' has the value '{value}', which is not a {wanted}; correct it or set another kind"
    )
