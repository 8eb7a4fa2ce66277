"""Critical temperature of superconductors from 81 properties of the material (K. Hamidieh, UCI)."""

from pathlib import Path

from vesica.data.table import Table
from vesica.datasets.columns import row_ids, scaled
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import Files
from vesica.datasets.parse import header, named_numbers
from vesica.datasets.source import Source

WIDTH = 81
LABEL = "critical_temp"


def load(data_dir: Path | None) -> DataSet:
    """The temperature is scaled to [0, 1], as in FedOnce, so that the error is in those units."""
    files = Files("superconduct", SOURCE, data_dir)
    file = files.read("train.csv")
    names = header(file)
    if len(names) != WIDTH + 1 or names[-1] != LABEL:
        raise file.wrong(f"has {len(names)} columns up to {names[-1]!r} where 82 up to {LABEL!r} are expected")
    columns = named_numbers(file, names)
    label = scaled(columns.pop(LABEL))
    views = {"materials": Table(row_ids(len(label)), columns)}
    return DataSet("superconduct", "regression", "rmse", views, label, None, files.sha256)


SOURCE = Source(
    load,
    folder="superconduct",
    about="Superconductors: 21,263 rows, 81 columns, regression of the critical temperature",
    files=("train.csv",),
    where="the UCI Machine Learning Repository, data set 464",
)
