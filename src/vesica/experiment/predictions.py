"""Predictions of new rows, and the file they go to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vesica.data.table import Array
from vesica.protocol import Ledger
from vesica.protocol.files import replacing


@dataclass(frozen=True)
class Predictions:
    """One row an id: the prediction and, for classification, a probability a class."""

    ids: Array
    values: Array  # the class's name, or the value
    probabilities: Array | None  # (rows, classes)
    classes: tuple[str, ...]
    ledger: Ledger
    without: tuple[str, ...] = ()  # the parties that were not asked, whose parts the model filled in

    def write(self, path: Path) -> None:
        """As CSV: id, prediction, a probability a class; only the file's owner can read it."""
        import polars

        columns: dict[str, Any] = {"id": self.ids.astype(str), "prediction": self.values}
        if self.probabilities is not None:
            columns |= {f"probability_{name}": self.probabilities[:, i] for i, name in enumerate(self.classes)}
        with replacing(path) as partial, partial.open("wb") as file:  # polars writes to no path that is not UTF-8
            polars.DataFrame(columns).write_csv(file)


def named(
    ids: Array, predictions: Array, classes: tuple[str, ...], ledger: Ledger, *, without: tuple[str, ...] = ()
) -> Predictions:
    """Predictions with the classes' names, from probabilities or values."""
    if not classes:
        return Predictions(ids, predictions, None, (), ledger, without)
    values = np.array(classes, dtype=object)[predictions.argmax(axis=1)].astype(str)
    return Predictions(ids, values, predictions, classes, ledger, without)
