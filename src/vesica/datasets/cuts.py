"""Cutting one table into several parties' tables: by columns, or by parts of an image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vesica.data.table import Array, Table, Text
from vesica.errors import InputError, nearest


def contiguous(table: Table, parties: int) -> list[Table]:
    """Neighbouring columns together, in their order: FedOnce's equal division."""
    names = _enough(table, parties)
    return [table.only(names[i * len(names) // parties : (i + 1) * len(names) // parties]) for i in range(parties)]


def equal(table: Table, parties: int, *, seed: int = 0) -> list[Table]:
    """Columns dealt out at random, in equal numbers."""
    names = _enough(table, parties)
    order = np.random.default_rng(seed).permutation(len(names))
    return [table.only([names[i] for i in sorted(part)]) for part in np.array_split(order, parties)]


def by_list(table: Table, columns: Sequence[Sequence[str]]) -> list[Table]:
    """The columns each party is said to have."""
    for name in (name for names in columns for name in names):
        if name not in table.columns:
            raise InputError(f"there is no column '{name}' to give to a party{nearest(name, table.columns)}")
    return [table.only(names) for names in columns]


def by_importance(table: Table, importance: Array, *, dominant: int, alpha: float, seed: int = 0) -> list[Table]:
    """Two parties of equally many columns, the first with a ratio alpha of the dominant ones (FedOnce 5.5)."""
    names = _enough(table, 2)
    if not 0 <= alpha <= 1:
        raise InputError(f"alpha is {alpha}: it is the first party's part of the dominant columns, from 0 to 1")
    half = (len(names) + 1) // 2
    if not 1 <= dominant <= len(names) // 2:
        raise InputError(
            f"{dominant} of {len(names)} columns cannot be the dominant ones: give 1 to {len(names) // 2}, "
            "so that one party can have them all"
        )
    random = np.random.default_rng(seed)
    ranked = np.argsort(-np.asarray(importance), kind="stable")
    top, other = random.permutation(ranked[:dominant]), random.permutation(ranked[dominant:])
    mine = round(alpha * dominant)
    first = np.concatenate([top[:mine], other[: half - mine]])
    second = np.setdiff1d(np.arange(len(names)), first)
    return [table.only([names[i] for i in sorted(part)]) for part in (first, second)]


def importance_of(table: Table, label: Array, rows: Array, *, regression: bool, seed: int = 0) -> Array:
    """How much each column matters to a forest on the given rows (FedOnce takes XGBoost's importances)."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    columns = [c.codes if isinstance(c, Text) else np.nan_to_num(c.astype(float)) for c in table.columns.values()]
    forest = (ExtraTreesRegressor if regression else ExtraTreesClassifier)(n_estimators=100, random_state=seed)
    forest.fit(np.column_stack(columns)[rows], label[rows])
    return np.asarray(forest.feature_importances_)


def halves(table: Table) -> list[Table]:
    """The left and the right half of each image."""
    image = _image(table)
    middle = image.shape[2] // 2
    return [Table(table.ids, image=image[:, :, :middle]), Table(table.ids, image=image[:, :, middle:])]


def quadrants(table: Table) -> list[Table]:
    """The four quarters of each image, row by row."""
    image = _image(table)
    middle = image.shape[1] // 2
    rows = [Table(table.ids, image=image[:, :middle]), Table(table.ids, image=image[:, middle:])]
    return [half for row in rows for half in halves(row)]


def _enough(table: Table, parties: int) -> list[str]:
    names = list(table.columns)
    if not 1 <= parties <= len(names):
        raise InputError(f"{len(names)} columns cannot be shared out to {parties} parties: each needs one at least")
    return names


def _image(table: Table) -> Array:
    if table.image is None:
        raise InputError("only images can be cut into halves and quadrants: cut a table by its columns")
    return table.image
