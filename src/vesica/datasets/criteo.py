"""Criteo display advertising (Kaggle, 2014): clicks by 26 categories and 13 counts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vesica.data.table import Array, Table, Text
from vesica.datasets.columns import numbered, row_ids
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import File, Files
from vesica.datasets.parse import classes, strings
from vesica.datasets.source import Source

COUNTS, CATEGORIES = numbered("I", 13), numbered("C", 26)


def load(data_dir: Path | None) -> DataSet:
    """Two views as in VFLHLP: the active party has the categories, the passive one the counts as they are."""
    files = Files("criteo", SOURCE, data_dir)
    file = files.read("dac_sample.txt", "train.txt", "criteo_8000.tsv")
    click, *fields = strings(file, 1 + len(COUNTS) + len(CATEGORIES), delimiter="\t")
    label = classes(file, _numbers(file, click), (0, 1))
    counts = {name: _numbers(file, column) for name, column in zip(COUNTS, fields, strict=False)}
    categories = {
        name: Text.of([value or None for value in column])
        for name, column in zip(CATEGORIES, fields[len(COUNTS) :], strict=True)
    }
    ids = row_ids(len(label))
    views = {"active": Table(ids, categories), "passive": Table(ids, counts)}
    return DataSet("criteo", "classification", "auc", views, label, None, files.sha256)


def _numbers(file: File, strings: Sequence[str]) -> Array:
    try:
        return np.array([float(value) if value else np.nan for value in strings])
    except ValueError as error:
        raise file.wrong(f"has a value among label and counts that is not a number ({error})") from error


SOURCE = Source(
    load,
    folder="criteo",
    about="Criteo clicks: 26 categories | 13 counts with missing values",
    files=("dac_sample.txt",),
    where="Criteo's Display Advertising Challenge (dac_sample, or a sample of the rows of train.txt)",
)
