"""MNIST, Fashion-MNIST and KMNIST, in the IDX format: 28 x 28 grey images of ten classes."""

import math
from functools import partial
from pathlib import Path

import numpy as np

from vesica.data.table import Array, Table
from vesica.datasets.columns import row_ids
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import File, Files
from vesica.datasets.source import Source

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
SIDE = 28


def load(name: str, data_dir: Path | None) -> DataSet:
    """The training images, then the official test images."""
    files = Files(name, SOURCES[name], data_dir)
    train, train_label, test, test_label = (
        idx(files.read(file), (SIDE, SIDE) if "images" in file else ()) for file in FILES
    )
    for file, images, label in ((FILES[1], train, train_label), (FILES[3], test, test_label)):
        if len(images) != len(label) or label.max() > 9:
            raise files.fetch(file).wrong(f"does not fit its {len(images)} images of ten classes")
    image = np.concatenate([train, test])[..., None]
    label = np.concatenate([train_label, test_label]).astype(np.int64)
    views = {"image": Table(row_ids(len(image)), image=image)}
    is_test = np.arange(len(image)) >= len(train)
    return DataSet(name, "classification", "accuracy", views, label, is_test, files.sha256)


def idx(file: File, item: tuple[int, ...]) -> Array:
    """The bytes of an IDX file: a magic number that counts the dimensions, the dimensions, the values."""
    start = 4 * (2 + len(item))
    magic, rows, *shape = (int.from_bytes(file.content[at : at + 4]) for at in range(0, start, 4))
    if len(file.content) < start or magic != 0x0801 + len(item) or tuple(shape) != item:
        raise file.wrong(f"is not an IDX file of {' x '.join(map(str, ('n', *item)))} bytes")
    expected = start + rows * math.prod(item)
    if not rows:
        raise file.wrong("has no rows")
    if len(file.content) != expected:
        raise file.wrong(f"has {len(file.content)} bytes where {expected} are expected")
    file.expect_rows(rows)
    return np.frombuffer(file.content, dtype=np.uint8, offset=start).reshape(-1, *item)


def _source(name: str, *, folder: str, about: str, where: str) -> Source:
    return Source(partial(load, name), folder, about, FILES, where)


SOURCES = {
    "mnist": _source(
        "mnist",
        folder="mnist",
        about="MNIST handwritten digits: 60,000 + 10,000 grey images 28 x 28, ten classes",
        where="yann.lecun.com/exdb/mnist",
    ),
    "fashion-mnist": _source(
        "fashion-mnist",
        folder="fashion_mnist",
        about="Fashion-MNIST articles: 60,000 + 10,000 grey images 28 x 28, ten classes",
        where="github.com/zalandoresearch/fashion-mnist",
    ),
    "kmnist": _source(
        "kmnist",
        folder="kmnist",
        about="Kuzushiji-MNIST characters: 60,000 + 10,000 grey images 28 x 28, ten classes",
        where="codh.rois.ac.jp/kmnist (the IDX files)",
    ),
}
