"""Ids and columns of tables, from arrays."""

from collections.abc import Sequence

import numpy as np

from vesica.data.table import Array, Text


def row_ids(rows: int) -> Array:
    """ "1", "2", ... for sets whose rows have no name of their own."""
    return np.arange(1, rows + 1).astype(f"U{len(str(rows))}")


def columns_of(matrix: Array, names: Sequence[str]) -> dict[str, Array]:
    """The columns of a matrix (rows, columns), each contiguous in memory."""
    by_column = np.ascontiguousarray(matrix.T)
    return dict(zip(names, by_column, strict=True))


def numbered(prefix: str, count: int) -> list[str]:
    """Names for columns that have none: f1, f2, ..."""
    return [f"{prefix}{number}" for number in range(1, count + 1)]


def categories(numbers: Array) -> Text:
    """Whole numbers that are categories by meaning, as text."""
    values, codes = np.unique(numbers.astype(np.int64), return_inverse=True)
    return Text(codes.astype(np.int32), tuple(str(value) for value in values))


def scaled(values: Array) -> Array:
    """Scaled so that the smallest is 0 and the largest 1."""
    low, high = values.min(), values.max()
    return np.asarray((values - low) / ((high - low) or 1.0))
