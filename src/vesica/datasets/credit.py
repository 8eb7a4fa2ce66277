"""Default of credit card clients, bundled with the package (I-C. Yeh, UCI, CC BY 4.0)."""

from pathlib import Path

import numpy as np

from vesica.data.table import Column, Table
from vesica.datasets.columns import categories, row_ids
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import Files
from vesica.datasets.parse import header, named_numbers
from vesica.datasets.source import Source

LABEL = "default.payment.next.month"
CATEGORIES = ("SEX", "EDUCATION", "MARRIAGE")


def load(data_dir: Path | None) -> DataSet:
    """30,000 clients, 23 columns; the data directory is not needed."""
    files = Files("credit", SOURCE, Path(__file__).parent / "bundled")
    file = files.read(*SOURCE.files)
    numbers = named_numbers(file, header(file))
    label = numbers.pop(LABEL).astype(np.int64)
    columns: dict[str, Column] = {
        name: categories(values) if name in CATEGORIES else values for name, values in numbers.items()
    }
    views = {"clients": Table(row_ids(len(label)), columns)}
    return DataSet("credit", "classification", "auc", views, label, None, files.sha256)


SOURCE = Source(
    load,
    folder="",
    about="Default of credit card clients: 30,000 rows, 23 columns, bundled",
    files=("UCI_Credit_Card.csv",),
    where="the UCI Machine Learning Repository, data set 350; it is part of the vesica package",
)
