"""Ids as text: the same id is the same text whatever kind of file it came from, and by the same rules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from decimal import Decimal
from typing import Literal, get_args

import numpy as np

from vesica.data.table import Array
from vesica.errors import InputError, nearest

Case = Literal["keep", "lower", "upper"]
WIDEST = 1024


@dataclass(frozen=True)
class Rules:
    """What is done to every key before it is compared; all parties must use the same."""

    trim: bool = False  # no white space around it
    case: Case = "keep"
    pad: int = 0  # zeros in front, up to this width

    def __post_init__(self) -> None:
        if self.case not in get_args(Case):
            raise InputError(f"case '{self.case}' is not known{nearest(str(self.case), get_args(Case))}")
        if not 0 <= self.pad <= WIDEST:
            raise InputError(f"a width of {self.pad} cannot be padded to: give 0 to {WIDEST}")

    def text(self, value: object) -> str | None:
        """The key as it is compared; None if there is none."""
        text = "" if is_missing(value) else text_of(value)
        text = text.strip() if self.trim else text
        text = text.lower() if self.case == "lower" else text.upper() if self.case == "upper" else text
        return text.rjust(self.pad, "0") if text else None


@dataclass(frozen=True)
class Key:
    """What makes an id: one column, or several together, each by the rules."""

    columns: tuple[str, ...]
    rules: Rules = Rules()

    @classmethod
    def of(cls, id: str | Key) -> Key:
        return id if isinstance(id, Key) else cls((id,))

    @property
    def is_plain(self) -> bool:
        """Whether an id is one column as it stands."""
        return len(self.columns) == 1 and self.rules == Rules()

    def __str__(self) -> str:
        return ", ".join(self.columns)

    def text(self, values: Sequence[object]) -> str | None:
        """The id of a row; of several columns it is a list in JSON, as ("ab", "c") is not ("a", "bc")."""
        texts = [self.rules.text(value) for value in values]
        if None in texts:
            return None
        return texts[0] if len(texts) == 1 else json.dumps(texts, ensure_ascii=False)


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


def ids_from(columns: Sequence[Sequence[object]], key: Key, *, where: str) -> Array:
    """The ids of rows whose key columns these are; none may be missing or repeated."""
    found = [key.text(values) for values in zip(*columns, strict=True)]
    gaps = [row for row, text in enumerate(found) if text is None]
    if gaps:
        raise without_id(len(gaps), gaps[0], name=str(key), where=where)
    texts = [str(text) for text in found]
    if len(set(texts)) < len(texts):
        text, _ = Counter(texts).most_common(1)[0]
        raise duplicated(len(texts) - len(set(texts)), text, name=str(key), where=where)
    return np.array(texts, dtype=str)


def require_id(id: str | Key, names: Iterable[str], *, where: str) -> None:
    names = list(names)
    for name in Key.of(id).columns:
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
