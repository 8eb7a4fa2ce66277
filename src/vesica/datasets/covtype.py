"""Forest cover type, class 2 (lodgepole pine) against the rest (J. A. Blackard, UCI)."""

from pathlib import Path

import numpy as np

from vesica.data.table import Table
from vesica.datasets.columns import columns_of, numbered, row_ids
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import Files
from vesica.datasets.parse import classes, libsvm, numbers
from vesica.datasets.source import Source

WIDTH = 54
LIBSVM = ("covtype.libsvm.binary.scale", "covtype.libsvm.binary")


def load(data_dir: Path | None) -> DataSet:
    """UCI's file, or LIBSVM's binary one, where class 2 is also labelled 2; values as they are there."""
    files = Files("covtype", SOURCE, data_dir)
    file = files.read("covtype.data", *LIBSVM)
    if file.name in LIBSVM:
        features, cover = libsvm(file, WIDTH)
    else:
        matrix = numbers(file, WIDTH + 1, delimiter=",", dtype=np.float32)
        features, cover = matrix[:, :-1], matrix[:, -1]
    label = (classes(file, cover, range(1, 8)) == 1).astype(np.int64)
    views = {"cells": Table(row_ids(len(label)), columns_of(features, numbered("f", WIDTH)))}
    return DataSet("covtype", "classification", "accuracy", views, label, None, files.sha256)


SOURCE = Source(
    load,
    folder="covtype",
    about="Forest cover, lodgepole pine or not: 581,012 rows, 54 columns",
    files=("covtype.data",),
    where="the UCI Machine Learning Repository, data set 31 (or covtype.libsvm.binary from LIBSVM's page)",
)
