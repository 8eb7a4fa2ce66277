"""The loaders on the real files, where they are, against what their sources publish."""

import hashlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from vesica.data.table import Text
from vesica.datasets import DATASETS, DataSet, load_dataset


@cache
def _load(name: str, data_dir: Path) -> DataSet:
    return load_dataset(name, data_dir)


@pytest.fixture
def real(data_dir):
    def real(name: str) -> DataSet:
        folder = DATASETS[name].folder
        if name != "credit" and not (data_dir / folder).is_dir():
            pytest.skip(f"needs the folder {folder} in the data directory")
        return _load(name, data_dir)

    return real


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_a_set_keeps_the_promises_of_its_type(real, name):
    data = real(name)
    rows = len(data.label)
    assert data.name == name
    for table in data.views.values():
        assert len(np.unique(table.ids)) == len(table) == rows
        assert table.ids.dtype.kind == "U"
        assert bool(table.columns) != (table.image is not None)
        assert all(len(column) == rows for column in table.columns.values())
        assert (table.ids == next(iter(data.views.values())).ids).all()
        assert table.image is None or (table.image.dtype == np.uint8 and table.image.ndim == 4)
    if data.task == "classification":
        assert np.array_equal(np.unique(data.label), np.arange(data.label.max() + 1))
    else:
        assert data.label.dtype == np.float64
    assert data.test is None or (data.test.dtype == bool and data.test.shape == (rows,))
    assert len(data.sha256) == 64


@pytest.mark.parametrize(("name", "ones"), [("mnist", 6_742), ("fashion-mnist", 6_000)])
def test_the_mnist_family_is_complete(real, name, ones):
    data = real(name)
    assert data.views["image"].image.shape == (70_000, 28, 28, 1)
    assert (data.test[:60_000].sum(), data.test[60_000:].sum()) == (0, 10_000)
    assert (data.label[:60_000] == 1).sum() == ones


def test_cifar10_has_the_published_pixels(real):
    data = real("cifar10")
    image = data.views["image"].image
    digests = [hashlib.sha256(part.data).hexdigest() for part in (image[:50_000], image[50_000:])]
    assert digests == [
        "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
    ]
    assert data.sha256 == hashlib.sha256(image.data).hexdigest()
    assert np.bincount(data.label[:50_000]).tolist() == [5_000] * 10
    assert np.bincount(data.label[data.test]).tolist() == [1_000] * 10
    assert data.label[:3].tolist() == [6, 9, 9]


def test_phishing_has_thirty_ones_a_row(real):
    data = real("phishing")
    matrix = np.stack(list(data.views["sites"].columns.values()), axis=1)
    assert matrix.shape == (11_055, 68)
    assert set(np.unique(matrix)) == {0, 1}
    assert (matrix.sum(axis=1) == 30).all()
    assert np.bincount(data.label).tolist() == [4_898, 6_157]


def test_uji_is_the_training_file(real):
    data = real("uji")
    columns = data.views["fingerprints"].columns
    assert (len(data.label), len(columns)) == (19_937, 528)
    assert np.bincount(columns["BUILDINGID"].codes).tolist() == [5_249, 5_196, 9_492]
    assert (len(columns["USERID"].values), len(columns["PHONEID"].values)) == (18, 16)
    assert (data.label.min(), data.label.max()) == (0, 1)


def test_uji_floor_has_thirteen_classes_and_the_validation_rows_as_test(real):
    data = real("uji-floor")
    assert (len(data.label), data.test.sum(), data.label.max()) == (21_048, 1_111, 12)
    building = np.minimum(data.label // 4, 2)
    assert np.bincount(building[data.test]).tolist() == [536, 307, 268]
    signals = np.stack(list(data.views["fingerprints"].columns.values()))
    assert (signals.min(), signals.max()) == (-105, 0)


def test_avazu_without_addresses_lacks_that_field_only(real):
    data, three = real("avazu"), real("avazu-three")
    assert (len(data.label), round(data.label.mean(), 4)) == (15_000, 0.1706)
    assert "device_ip" not in data.views["active"].columns
    assert [len(view.columns) for view in data.views.values()] == [9, 11]
    assert [len(view.columns) for view in three.views.values()] == [7, 7, 7]
    assert sorted(map(int, three.views["first"].columns["hour"].values)) == list(range(24))


def test_avazu_with_addresses_has_every_field(data_dir, tmp_path):
    path = data_dir / "avazu" / "avazu_first9999.csv.xz"
    if not path.is_file():
        pytest.skip("needs avazu_first9999.csv.xz in the data directory")
    (tmp_path / "avazu").mkdir()
    (tmp_path / "avazu" / path.name).symlink_to(path)
    three = load_dataset("avazu-three", tmp_path)
    assert [len(view.columns) for view in three.views.values()] == [7, 7, 8]
    assert three.views["first"].columns["hour"].values == ("0",)
    assert len(load_dataset("avazu", tmp_path).views["active"].columns) == 10


def test_criteo_has_missing_values_in_both_views(real):
    data = real("criteo")
    assert (len(data.label), data.label.sum()) == (8_000, 1_728)
    assert all(isinstance(column, Text) for column in data.views["active"].columns.values())
    assert min(column.codes.min() for column in data.views["active"].columns.values()) == -1
    assert np.isnan(data.views["passive"].columns["I12"]).any()


def test_bhi_pairs_patches_and_separates_patients(real):
    data = real("bhi")
    assert len(data.label) == 2_875
    patient = np.array([name.split("_")[0] for name in data.views["first"].ids])
    assert not set(patient[data.test]) & set(patient[~data.test])
    assert data.groups.astype(str).tolist() == patient.tolist()
    assert len(set(patient[data.test])) / len(set(patient)) == pytest.approx(0.2, abs=0.01)
    assert (data.views["first"].image != data.views["second"].image).any(axis=(1, 2, 3)).all()
