"""Gisette: the digits four and nine, by 5,000 features (I. Guyon et al., UCI)."""

from pathlib import Path

import numpy as np

from vesica.data.table import Table
from vesica.datasets.columns import columns_of, numbered, row_ids
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import Files
from vesica.datasets.parse import classes, libsvm, numbers
from vesica.datasets.source import Source

WIDTH = 5_000


def load(data_dir: Path | None) -> DataSet:
    """The 6,000 training rows, as FedOnce uses them; the values are left as they are in the file."""
    files = Files("gisette", SOURCE, data_dir)
    file = files.read("gisette_scale", "gisette_train.data")
    if file.name == "gisette_scale":
        features, sign = libsvm(file, WIDTH)
    else:
        features = numbers(file, WIDTH, dtype=np.float32)
        file = files.read("gisette_train.labels")
        sign = numbers(file, 1)[:, 0]
    if len(sign) != len(features):
        raise file.wrong(f"has {len(sign)} labels where there are {len(features)} rows")
    views = {"digits": Table(row_ids(len(sign)), columns_of(features, numbered("f", WIDTH)))}
    label = classes(file, sign, (-1, 1))
    return DataSet("gisette", "classification", "accuracy", views, label, None, files.sha256)


SOURCE = Source(
    load,
    folder="gisette",
    about="Gisette, four or nine: 6,000 rows, 5,000 columns",
    files=("gisette_scale",),
    where="csie.ntu.edu.tw/~cjlin/libsvmtools/datasets (or gisette_train.data and .labels from UCI)",
)
