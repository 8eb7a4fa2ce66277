"""The label column: what its values mean, and which are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vesica.data.table import Array, Column, Table, Text
from vesica.errors import InputError, nearest


def take_label(table: Table, label: str, *, party: str) -> tuple[Table, Column]:
    """The host's table without its label column, and that column."""
    if label not in table.columns:
        raise InputError(f"'{party}' has no label column '{label}'{nearest(label, table.columns)}")
    return table.only([name for name in table.columns if name != label]), table.columns[label]


def default_metric(task: str, label: Column) -> str:
    if task == "regression":
        return "rmse"
    return "auc" if len(distinct(label)) == 2 else "accuracy"


def known(label: Column) -> Array:
    """Where a label is not missing; an empty text is none."""
    if isinstance(label, Text):
        filled = np.array([bool(value.strip()) for value in label.values] + [False])  # code -1 falls on the last
        return np.asarray(filled[label.codes])
    return ~(np.isnat(label) if label.dtype.kind == "M" else np.isnan(label.astype(float)))


def distinct(label: Column) -> tuple[str, ...]:
    """The classes, as text, in order: numbers by value, the rest by alphabet."""
    if isinstance(label, Text):
        return tuple(sorted(label.values[code] for code in np.unique(label.codes[known(label)])))
    return tuple(as_text(value) for value in np.unique(label[known(label)]))


def as_text(value: Any) -> str:
    """A class's name: 1 and 1.0 are the same."""
    return str(int(value)) if isinstance(value, np.floating | float) and float(value).is_integer() else str(value)


def class_numbers(label: Column, classes: Sequence[str]) -> Array:
    """Each label's position in `classes`; -1 where it is missing."""
    number = {name: i for i, name in enumerate(classes)}
    if isinstance(label, Text):
        codes = np.array([number.get(value, -1) for value in label.values] + [-1], dtype=np.int64)
        return np.asarray(codes[label.codes])
    values, inverse = np.unique(label, return_inverse=True)
    of_value = [number.get(as_text(value), -1) for value in values]
    return np.where(known(label), np.array(of_value, dtype=np.int64)[inverse], -1)
