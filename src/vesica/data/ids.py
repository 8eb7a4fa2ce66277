"""Ids as text: the same id is the same text whatever kind of file it came from."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, time
from decimal import Decimal

import numpy as np

from vesica.data.table import Array
from vesica.errors import InputError, nearest


def text_of(value: object) -> str:
    """The text of one value: whole numbers without a fraction, dates as ISO 8601, strings as they are."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float | Decimal) and value % 1 == 0:
        return str(int(value))
    if isinstance(value, datetime):
        # pandas has no dates, only midnights: both must give the same text.
        midnight = value.time() == time() and value.tzinfo is None
        return value.date().isoformat() if midnight else value.isoformat()
    if isinstance(value, bytes):
        return text_of_bytes(value)
    return str(value)


def text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()


def is_missing(value: object) -> bool:
    """None, NaN, NaT or the NA of pandas."""
    differs = value != value
    if isinstance(differs, bool | np.bool_):
        return value is None or bool(differs)
    return type(value).__name__ == "NAType"


def ids_from(values: Sequence[object], *, name: str, where: str) -> Array:
    gaps = [row for row, value in enumerate(values) if is_missing(value) or value in ("", b"")]
    if gaps:
        raise without_id(len(gaps), gaps[0], name=name, where=where)
    texts = [text_of(value) for value in values]
    if len(set(texts)) < len(texts):
        text, _ = Counter(texts).most_common(1)[0]
        raise duplicated(len(texts) - len(set(texts)), text, name=name, where=where)
    return np.array(texts, dtype=str)


def require_id(name: str, names: Iterable[str], *, where: str) -> None:
    names = list(names)
    if name not in names:
        raise InputError(f"{where} has no column '{name}' to take the ids from{nearest(name, names)}")


def without_id(count: int, first: int, *, name: str, where: str) -> InputError:
    """The refusal of rows without an id; `first` is a position, and the message counts rows from 1."""
    return InputError(
        f"{where} has no id in column '{name}' on {count} row(s), the first of them row {first + 1}; "
        "give these rows an id or remove them"
    )


def duplicated(count: int, example: str, *, name: str, where: str) -> InputError:
    return InputError(
        f"{where} repeats ids in column '{name}' on {count} row(s), for example '{example}'; keep one row an id"
    )
