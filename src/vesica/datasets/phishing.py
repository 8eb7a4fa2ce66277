"""LIBSVM's phishing: web sites by 68 binary features (from Mohammad, Thabtah and McCluskey, UCI)."""

from pathlib import Path

import numpy as np

from vesica.data.table import Array, Table
from vesica.datasets.columns import columns_of, numbered, row_ids
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import File, Files
from vesica.datasets.parse import arrays, classes, libsvm
from vesica.datasets.source import Source

WIDTH = 68


def load(data_dir: Path | None) -> DataSet:
    """The features are 0 and 1; LIBSVM writes its ones as 1 / sqrt(30)."""
    files = Files("phishing", SOURCE, data_dir)
    file = files.read("phishing", "phishing.npz")
    features, label = _archive(file) if file.name.endswith(".npz") else libsvm(file, WIDTH)
    columns = columns_of((features > 0).astype(np.float32), numbered("f", WIDTH))
    views = {"sites": Table(row_ids(len(label)), columns)}
    label = classes(file, np.maximum(label, 0), (0, 1))
    return DataSet("phishing", "classification", "accuracy", views, label, None, files.sha256)


def _archive(file: File) -> tuple[Array, Array]:
    features, label = arrays(file, "X", "y")
    if features.ndim != 2 or features.shape[1] != WIDTH or label.shape != features.shape[:1]:
        raise file.wrong(f"has X {features.shape} and y {label.shape} where (n, {WIDTH}) and (n,) are expected")
    file.expect_rows(len(label))
    return features, label.astype(np.int64)


SOURCE = Source(
    load,
    folder="phishing",
    about="Phishing web sites (LIBSVM): 11,055 rows, 68 binary columns",
    files=("phishing",),
    where="csie.ntu.edu.tw/~cjlin/libsvmtools/datasets (binary)",
)
