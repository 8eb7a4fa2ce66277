"""The bundled credit table, with the checks published in its notes."""

import numpy as np
import pytest

from vesica.data.table import Text
from vesica.datasets import credit, known, load_dataset
from vesica.errors import InputError


@pytest.fixture(scope="module")
def data():
    return load_dataset("credit", None)


def test_it_has_the_published_counts(data):
    columns = data.views["clients"].columns
    assert (len(data.label), data.label.sum()) == (30_000, 6_636)
    assert len(columns) == 23
    assert round(float(columns["LIMIT_BAL"].mean()), 2) == 167_484.32
    assert columns["PAY_AMT2"].max() == 1_684_259
    assert (columns["AGE"].min(), columns["AGE"].max()) == (21, 79)


def test_three_columns_are_categories_and_twenty_are_numbers(data):
    columns = data.views["clients"].columns
    assert [name for name in columns if isinstance(columns[name], Text)] == ["SEX", "EDUCATION", "MARRIAGE"]
    assert sum(columns[name].dtype == np.float64 for name in columns if not isinstance(columns[name], Text)) == 20
    assert columns["SEX"].values == ("1", "2")
    assert np.bincount(columns["SEX"].codes).tolist() == [11_888, 18_112]


def test_ids_are_those_of_the_original(data):
    ids = data.views["clients"].ids
    assert ids[[0, 1, -1]].tolist() == ["1", "2", "30000"]


def test_the_package_file_is_checked(monkeypatch):
    monkeypatch.setitem(known.MD5, "UCI_Credit_Card.csv", "0" * 32)
    with pytest.raises(InputError, match=r"^credit: .*UCI_Credit_Card\.csv\.xz is not complete"):
        load_dataset("credit", None)


def test_the_attribution_lies_beside_the_data():
    text = (credit.Path(credit.__file__).parent / "bundled" / "ATTRIBUTION.md").read_text()
    for word in ("Yeh", "350", "CC BY 4.0"):
        assert word in text
