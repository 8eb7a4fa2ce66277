"""Ids made comparable by explicit rules, one digest each; what is missing or repeated is counted."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np

from vesica.alignment.curve import SIZE
from vesica.alignment.points import same_as_before
from vesica.data.ids import Rules
from vesica.data.table import Array
from vesica.errors import InputError, nearest

Duplicates = Literal["refuse", "first"]


class Column(Protocol):
    """A list, an array or a series of a data frame; None, NaN and "" are missing values."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __getitem__(self, row: int, /) -> Any: ...


Columns = Sequence[Column]  # one a key, equally long


@dataclass(frozen=True)
class Ids:
    """A party's distinct ids, ready to be compared."""

    digests: Array  # (ids, 32) uint8
    rows: Array  # (ids,): where each stands in the party's table, ascending
    keys: int  # how many columns make an id
    given: int  # rows of the table
    missing: int  # rows left out, as a key of theirs is missing
    repeated: int  # rows left out, as an earlier one has the same id

    def __len__(self) -> int:
        return len(self.rows)


def prepare(columns: Columns, rules: Rules, *, duplicates: Duplicates = "refuse", where: str = "the table") -> Ids:
    """The ids of a table; of several rows with the same id, `duplicates` refuses or takes the first."""
    if duplicates not in get_args(Duplicates):
        raise InputError(
            f"there is no rule '{duplicates}' for repeated ids{nearest(str(duplicates), get_args(Duplicates))}"
        )
    if not columns or len({len(column) for column in columns}) > 1:
        raise InputError(f"{where} has key columns of different length, or none: give one or more, equally long")
    digests, rows = bytearray(), array("q")
    for row, keys in enumerate(texts(columns, rules)):
        if None not in keys:
            digests += digest_of(str(key) for key in keys)
            rows.append(row)
    found, places = np.frombuffer(digests, dtype=np.uint8).reshape(-1, SIZE), np.array(rows, dtype=np.int64)
    again = same_as_before(found)
    if again.any() and duplicates == "refuse":
        raise InputError(
            f"{where} has {again.sum()} row(s) whose id an earlier row has by these rules, the first of them row "
            f"{places[again][0] + 1}; keep one row an id, or take the first with --duplicates first"
        )
    given = len(columns[0])
    return Ids(found[~again], places[~again], len(columns), given, given - len(places), int(again.sum()))


def texts(columns: Columns, rules: Rules) -> Iterator[tuple[str | None, ...]]:
    """Row after row, its keys as they are compared."""
    for values in zip(*columns, strict=True):
        yield tuple(rules.text(value) for value in values)


def digest_of(keys: Iterable[str]) -> bytes:
    """Each key is preceded by its length, so that ("ab", "c") is not ("a", "bc")."""
    encoded = [key.encode("utf-8", "surrogatepass") for key in keys]
    return hashlib.sha256(b"".join(len(text).to_bytes(8, "little") + text for text in encoded)).digest()
