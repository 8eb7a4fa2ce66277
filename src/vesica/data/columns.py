"""Tables from NumPy arrays and lists."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Integral, Real
from types import NoneType

import numpy as np

from vesica.data.ids import Key, ids_from, is_missing, text_of
from vesica.data.table import Array, Column, Table, Text
from vesica.errors import InputError

Values = Array | Sequence[object]


def table_of(
    ids: Sequence[Values], columns: Mapping[str, Values], *, key: Key, image: Array | None, where: str
) -> Table:
    """A table of equally long parts; `ids` are the columns of its key."""
    listed, *others = (values_of(values, name=name, where=where) for name, values in zip(key.columns, ids, strict=True))
    if not listed:
        raise InputError(f"{where} has no rows; give it at least one")
    made = {column: column_from(values, name=column, where=where) for column, values in columns.items()}
    pixels = None if image is None else image_from(image, where=where)
    parts = [
        *zip(key.columns[1:], others, strict=True),
        *made.items(),
        *([] if pixels is None else [("image", pixels)]),
    ]
    for part, values in parts:
        if len(values) != len(listed):
            raise InputError(
                f"{where} has {len(listed)} ids but {len(values)} rows in '{part}'; make them equally long"
            )
    return Table(ids_from([listed, *others], key, where=where), made, pixels)


def image_from(image: Array, *, where: str) -> Array:
    """Images as (rows, height, width, channels)."""
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4) or 0 in pixels.shape[1:]:
        raise InputError(
            f"{where} has an 'image' of shape {pixels.shape} and type {pixels.dtype}; "
            "it must be (n, H, W) or (n, H, W, C) of uint8"
        )
    return pixels if pixels.ndim == 4 else pixels[..., np.newaxis]


def values_of(values: Values, *, name: str, where: str) -> list[object]:
    """A list of Python values, one a row."""
    if not isinstance(values, np.ndarray):
        return list(values)
    if values.ndim != 1:
        raise InputError(f"{where} has '{name}' of shape {values.shape}; a column has one dimension")
    # Finer than microseconds, NumPy would give integers instead of dates.
    exact = values.astype("datetime64[us]") if values.dtype.kind == "M" else values
    return list(exact.tolist())


def column_from(values: Values, *, name: str, where: str) -> Column:
    """One column of a table, its type taken from the array, or from the values of a list."""
    if isinstance(values, np.ma.MaskedArray):
        values = values.tolist()  # None where masked
    if not hasattr(values, "dtype"):
        return column_of_objects(list(values), name=name, where=where)
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"{where} has '{name}' of shape {array.shape}; a column has one dimension")
    match array.dtype.kind:
        case "b":
            return array
        case "i":
            return array.astype(np.int64, copy=False)
        case "u":
            return array.astype(np.int64 if array.max(initial=0) < 2**63 else np.float64)
        case "f":
            return array.astype(np.float64, copy=False)
        case "M":
            return array.astype("datetime64[us]", copy=False)
        case "m":
            return np.asarray(array / np.timedelta64(1, "s"))
        case "S":
            return Text.of([text_of(value) for value in array.tolist()])
        case "U" | "T" | "O":
            return column_of_objects(array.tolist(), name=name, where=where)
    raise unusable(name, str(array.dtype), where=where)


def column_of_objects(values: list[object], *, name: str, where: str) -> Column:
    filled = [None if is_missing(value) else value for value in values]
    types = {type(value) for value in filled} - {NoneType}
    holes = any(value is None for value in filled)

    def all_are(*kinds: type) -> bool:
        return all(issubclass(kind, kinds) for kind in types)

    if all_are(str) and types:
        return Text.of([None if value is None else str(value) for value in filled])
    if all_are(date, np.datetime64) and types:
        return np.array([naive(value) for value in filled], dtype="datetime64[us]")
    if not all_are(bool, np.bool_, Real, Decimal):
        raise unusable(name, " and ".join(sorted(kind.__name__ for kind in types)), where=where)
    if holes or not all_are(bool, np.bool_, Integral):
        return np.array(filled, dtype=np.float64)
    return np.array(filled, dtype=bool) if all_are(bool, np.bool_) else integers(filled)


def integers(values: list[object]) -> Array:
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array(values, dtype=np.float64)


def naive(value: object) -> object:
    """A time with a zone as the same instant in UTC; NumPy knows no zones."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def unusable(name: str, got: str, *, where: str) -> InputError:
    return InputError(
        f"{where} has a column '{name}' of {got}, which cannot be used; "
        "a column holds numbers, booleans, dates or strings: convert it or leave it out"
    )
