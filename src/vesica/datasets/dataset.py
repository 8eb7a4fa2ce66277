"""What every loader of a public data set returns."""

from collections.abc import Mapping
from dataclasses import dataclass

from vesica.data.table import Array, Table


@dataclass(frozen=True)
class DataSet:
    """A public data set: one or more views of the same rows, and their labels.

    Most sets have one view (their columns, or their image), which a scenario cuts; some come in several.
    All views have the same ids in the same order.
    """

    name: str
    task: str  # "classification" or "regression"
    metric: str  # the metric its papers report: "auc", "accuracy", "rmse"
    views: Mapping[str, Table]
    label: Array  # (rows,): integers 0..C-1, or floats
    test: Array | None  # (rows,) of bool: the official test rows; None where the set has none
    sha256: str  # of the files it was read from
    groups: Array | None = None  # (rows,): rows of one group, such as a patient, are for testing together or not at all
