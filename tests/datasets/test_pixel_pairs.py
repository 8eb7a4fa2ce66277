"""The set that is built the way Gisette was, from the real MNIST files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from vesica.datasets import DataSet, load_dataset
from vesica.datasets.pixel_pairs import SOURCE, TELLING


@pytest.fixture(scope="module")
def data(data_dir: Path) -> DataSet:
    if not (data_dir / SOURCE.folder).is_dir():
        pytest.skip(f"needs the folder {SOURCE.folder} in the data directory")
    return load_dataset("pixel-pairs", data_dir)


def matrix(data: DataSet) -> np.ndarray:
    return np.column_stack([np.asarray(column) for column in data.views["digits"].columns.values()])


def test_there_are_as_many_rows_and_columns_as_in_gisette(data: DataSet) -> None:
    assert matrix(data).shape == (6_000, 5_000)
    assert np.bincount(data.label).tolist() == [3_000, 3_000]
    assert (data.task, data.metric, data.test) == ("classification", "accuracy", None)


def test_it_is_drawn_alike_every_time(data: DataSet, data_dir: Path) -> None:
    again = load_dataset("pixel-pairs", data_dir)
    assert np.array_equal(matrix(again), matrix(data))
    assert again.label.tolist() == data.label.tolist()


def test_half_of_the_columns_are_others_in_another_order_of_rows(data: DataSet) -> None:
    columns = matrix(data).T
    assert len({column.tobytes() for column in columns}) > 0.99 * len(columns)
    assert TELLING * 0.99 < len({np.sort(column).tobytes() for column in columns}) <= TELLING


def test_the_two_digits_can_be_told_apart(data: DataSet) -> None:
    values = matrix(data)
    model = LogisticRegression(C=0.01).fit(values[:2000], data.label[:2000])
    assert 0.95 < model.score(values[4000:], data.label[4000:]) < 0.995
