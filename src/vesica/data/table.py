"""A party's own rows, by id: columns, or images."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Text:
    """A column of strings as codes into its distinct values; code -1 is a missing value."""

    codes: Array  # (rows,) int32
    values: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Array) -> Text:
        return Text(self.codes[rows], self.values)

    @classmethod
    def of(cls, strings: Sequence[str | None] | Array) -> Text:
        """From strings, None for a missing one; the distinct values keep their order of appearance."""
        code: dict[str, int] = {}
        codes = [-1 if s is None else code.setdefault(s, len(code)) for s in strings]
        return cls(np.asarray(codes, dtype=np.int32), tuple(code))


Column = Array | Text  # float, integer, bool or datetime64[us] (NaN and NaT are missing values), or strings


@dataclass(frozen=True)
class Table:
    """Rows with unique ids, in the order their owner has them; a model learns from the columns or from the images."""

    ids: Array  # (rows,) of str
    columns: Mapping[str, Column] = field(default_factory=dict)
    image: Array | None = None  # (rows, height, width, channels), uint8

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def fingerprint(self) -> str:
        """Tells these rows from any others."""
        digest = hashlib.sha256("\n".join(map(repr, self.ids.tolist())).encode())
        for name, column in self.columns.items():
            values, words = (column.codes, column.values) if isinstance(column, Text) else (column, ())
            digest.update(repr((name, values.dtype.str, words)).encode() + np.ascontiguousarray(values).tobytes())
        if self.image is not None:
            digest.update(repr(self.image.shape).encode() + np.ascontiguousarray(self.image).tobytes())
        return digest.hexdigest()

    def take(self, rows: Array) -> Table:
        """The given rows, by position, in that order."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Table(self.ids[rows], columns, None if self.image is None else self.image[rows])

    def only(self, names: Sequence[str]) -> Table:
        """The given columns, in that order."""
        return Table(self.ids, {name: self.columns[name] for name in names}, self.image)
