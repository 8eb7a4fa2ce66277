"""The single-table sets in their official formats, written small."""

import numpy as np
import pytest

from vesica.data.table import Text
from vesica.datasets import known, load_dataset
from vesica.datasets.uji import COLUMNS
from vesica.errors import InputError


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Write a file of a set; what is known of official sizes does not apply."""
    monkeypatch.setattr(known, "ROWS", {})

    def put(path, content):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
        return tmp_path

    return put


def matrix_of(table):
    return np.stack(list(table.columns.values()), axis=1)


def test_phishing_of_libsvm_becomes_zeros_and_ones(put):
    root = put("phishing/phishing", "1 1:0.182574 68:0.182574\n0 2:0.182574\n")
    data = load_dataset("phishing", root)
    matrix = matrix_of(data.views["sites"])
    assert matrix.shape == (2, 68)
    assert np.argwhere(matrix == 1).tolist() == [[0, 0], [0, 67], [1, 1]]
    assert data.label.tolist() == [1, 0]


def test_phishing_with_more_features_or_too_few_rows_is_refused(put, monkeypatch):
    root = put("phishing/phishing", "1 69:0.18\n")
    with pytest.raises(InputError, match="cannot be read as LIBSVM rows of 68 features"):
        load_dataset("phishing", root)
    put("phishing/phishing", "1 68:0.18\n")
    monkeypatch.undo()
    with pytest.raises(InputError, match="has 1 rows where the official file has 11055"):
        load_dataset("phishing", root)


@pytest.mark.parametrize("shape", [(3, 67), (3,)])
def test_a_phishing_archive_of_another_width_is_refused(put, shape):
    root = put("phishing/x", "")
    np.savez(root / "phishing" / "phishing.npz", X=np.zeros(shape, np.uint8), y=np.zeros(3, np.uint8))
    with pytest.raises(InputError, match=r"phishing\.npz has X .* where \(n, 68\) and \(n,\) are expected"):
        load_dataset("phishing", root)


def uji_row(building, floor, time, *, signal=100):
    return ",".join(map(str, [signal] * 520 + [-7541.26, 4864920.77, floor, building, 106, 2, 2, 23, time]))


def uji_file(*rows):
    return "\n".join([",".join(COLUMNS), *rows]) + "\n"


def test_uji_predicts_the_scaled_time_from_all_other_columns(put):
    root = put("uji_indoorloc/trainingData.csv", uji_file(uji_row(1, 2, 100), uji_row(0, 1, 300), uji_row(2, 4, 200)))
    data = load_dataset("uji", root)
    columns = data.views["fingerprints"].columns
    assert tuple(columns) == COLUMNS[:-1]
    assert data.label.tolist() == [0, 1, 0.5]
    assert columns["LATITUDE"][0] == 4864920.77
    assert columns["WAP001"][0] == 100
    assert [name for name in columns if isinstance(columns[name], Text)] == list(COLUMNS[523:528])


def test_uji_floor_predicts_building_and_floor_from_the_signals_alone(put):
    root = put("uji_indoorloc/trainingData.csv", uji_file(uji_row(0, 0, 1), uji_row(2, 4, 1, signal=-60)))
    put("uji_indoorloc/validationData.csv", uji_file(uji_row(1, 3, 1)))
    data = load_dataset("uji-floor", root)
    assert tuple(data.views["fingerprints"].columns) == COLUMNS[:520]
    assert data.label.tolist() == [0, 12, 7]
    assert data.test.tolist() == [False, False, True]
    assert data.views["fingerprints"].columns["WAP520"].tolist() == [-105, -60, -105]


def test_uji_position_predicts_how_far_east_from_the_signals_alone(put):
    root = put("uji_indoorloc/trainingData.csv", uji_file(uji_row(2, 0, 1), uji_row(0, 0, 1)))
    put("uji_indoorloc/validationData.csv", uji_file(uji_row(1, 3, 1)))
    data = load_dataset("uji-position", root)
    assert (data.task, data.metric) == ("regression", "rmse")
    assert data.label.tolist() == [-7541.26] * 3
    assert data.test.tolist() == [False, False, True]
    assert list(data.views["fingerprints"].columns) == list(COLUMNS[:520])


def test_a_uji_file_of_another_width_is_one_sentence(put):
    root = put("uji_indoorloc/trainingData.csv", "WAP001,TIMESTAMP\n1,2\n")
    with pytest.raises(InputError, match=r"^uji: .*trainingData\.csv has 2 columns where 529 are expected; replace"):
        load_dataset("uji", root)


COVER = {2: [2596] + [0] * 52 + [1], 5: [2804] + [1] + [0] * 52}


def libsvm_line(label, values):
    return " ".join([str(label), *(f"{i}:{value}" for i, value in enumerate(values, 1) if value)])


@pytest.mark.parametrize("name", ["covtype.data", "covtype.libsvm.binary", "covtype.libsvm.binary.scale"])
def test_covtype_is_class_two_against_the_rest(put, name):
    if name == "covtype.data":
        lines = [",".join(map(str, [*values, label])) for label, values in COVER.items()]
    else:
        lines = [libsvm_line(2 if label == 2 else 1, values) for label, values in COVER.items()]
    data = load_dataset("covtype", put(f"covtype/{name}", "\n".join(lines)))
    assert matrix_of(data.views["cells"]).tolist() == list(COVER.values())
    assert data.label.tolist() == [1, 0]


def test_covtype_of_another_width_or_class_is_one_sentence(put):
    with pytest.raises(InputError, match=r"covtype\.data has 3 columns where 55 are expected"):
        load_dataset("covtype", put("covtype/covtype.data", "1,2,3\n"))
    with pytest.raises(InputError, match="has a label 8 where only 1, 2, 3, 4, 5, 6, 7 are known"):
        load_dataset("covtype", put("covtype/covtype.data", ",".join(["0"] * 54 + ["8"])))


DIGITS = [[0] * 4999 + [7], [3] + [0] * 4999]


def test_gisette_of_libsvm_and_of_uci_give_the_same(put):
    root = put("gisette/gisette_train.data", "\n".join(" ".join(map(str, row)) + " " for row in DIGITS))
    put("gisette/gisette_train.labels", "1\n-1\n")
    uci = load_dataset("gisette", root)
    put(
        "gisette/gisette_scale",
        "\n".join(libsvm_line(s, row) for s, row in zip(("+1", "-1"), DIGITS, strict=True)),
    )
    libsvm = load_dataset("gisette", root)
    for data in (uci, libsvm):
        assert matrix_of(data.views["digits"]).tolist() == DIGITS
        assert data.label.tolist() == [1, 0]
        assert data.test is None


def test_gisette_with_too_few_labels_is_refused(put):
    root = put("gisette/gisette_train.data", "\n".join(" ".join(map(str, row)) for row in DIGITS))
    put("gisette/gisette_train.labels", "1\n")
    with pytest.raises(InputError, match=r"gisette_train\.labels has 1 labels where there are 2 rows"):
        load_dataset("gisette", root)


def superconduct_file(names):
    rows = [[k] * 81 + [temperature] for k, temperature in enumerate((20.0, 185.0, 0.0))]
    return "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)])


def test_superconduct_scales_the_temperature(put):
    names = [*(f"property{k}" for k in range(81)), "critical_temp"]
    data = load_dataset("superconduct", put("superconduct/train.csv", superconduct_file(names)))
    assert list(data.views["materials"].columns) == names[:-1]
    assert data.label.tolist() == [20 / 185, 1, 0]


def test_superconduct_with_another_last_column_is_refused(put):
    root = put("superconduct/train.csv", superconduct_file([f"property{k}" for k in range(82)]))
    with pytest.raises(
        InputError, match=r"train\.csv has 82 columns up to 'property81' where 82 up to 'critical_temp'"
    ):
        load_dataset("superconduct", root)
