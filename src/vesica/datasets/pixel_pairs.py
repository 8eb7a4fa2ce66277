"""MNIST's fours and nines by 5,000 columns: built the way Gisette was, and not Gisette."""

from pathlib import Path

import numpy as np

from vesica.data.table import Array, Table
from vesica.datasets import mnist
from vesica.datasets.columns import columns_of, numbered, row_ids
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import Files
from vesica.datasets.source import Source

DIGITS = (4, 9)
ROWS = 3_000  # of each digit
TELLING = DISTRACTING = 2_500  # columns
SEED = 2003


def load(data_dir: Path | None) -> DataSet:
    """Four or nine, from pixels, products of two pixels, and distractors.

    This is not Gisette, whose rows and columns were drawn by others. It is built from MNIST's training images the way
    Gisette was: the pixels that are not nearly always white, products of random pairs of these up to 2,500 columns, and
    2,500 more that tell nothing (copies of those, their values in another order), all in random order.
    The draw is always the same.
    """
    files = Files("pixel-pairs", SOURCE, data_dir)
    image = mnist.idx(files.read(SOURCE.files[0]), (mnist.SIDE, mnist.SIDE))
    digit = mnist.idx(files.read(SOURCE.files[1]), ())
    random = np.random.default_rng(SEED)
    rows = random.permutation(np.concatenate([_some(np.flatnonzero(digit == one), ROWS, random) for one in DIGITS]))
    pixels = image[rows].reshape(len(rows), -1).astype(np.float32) / 255
    matrix = _widen(pixels[:, (pixels > 0).mean(axis=0) > 0.1], random)
    views = {"digits": Table(row_ids(len(rows)), columns_of(matrix, numbered("f", matrix.shape[1])))}
    label = np.searchsorted(DIGITS, digit[rows])
    return DataSet("pixel-pairs", "classification", "accuracy", views, label, None, files.sha256)


def _some(values: Array, count: int, random: np.random.Generator) -> Array:
    return random.permutation(values)[:count]


def _widen(pixels: Array, random: np.random.Generator) -> Array:
    """The pixels, products of pairs, and distractors, the columns in random order."""
    width = pixels.shape[1]
    first, second = np.triu_indices(width, k=1)
    pairs = _some(np.arange(len(first)), TELLING - width, random)
    telling = np.hstack([pixels, pixels[:, first[pairs]] * pixels[:, second[pairs]]])
    distracting = random.permuted(telling[:, _some(np.arange(TELLING), DISTRACTING, random)], axis=0)
    return random.permutation(np.hstack([telling, distracting]), axis=1)


SOURCE = Source(
    load,
    folder="mnist",
    about="MNIST's fours and nines, built the way Gisette was and not Gisette: 6,000 rows, 5,000 columns",
    files=mnist.FILES[:2],
    where=mnist.SOURCES["mnist"].where,
)
