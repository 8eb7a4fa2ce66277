"""NUS-WIDE in its official files, written small."""

import numpy as np
import pytest

from vesica.datasets import known, load_dataset
from vesica.datasets.nus_wide import CONCEPTS, FEATURES
from vesica.errors import InputError

ROWS = {"Train": 3, "Test": 2}
# Which concepts each photograph shows: the second and the last do not show exactly one.
SHOWN = [{"sky"}, {"sky", "lake"}, {"lake"}, {"person"}, set()]
RNG = np.random.default_rng(0)
VALUES = {name: RNG.integers(0, 9, (5, width)) / 8 for name, width in FEATURES.items()}
TAGS = RNG.integers(0, 2, (5, 1000))


def write(path, matrix, end=" "):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(end.join(map(str, row)) + f"{end}\n" for row in matrix.tolist()))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(known, "ROWS", {})
    folder = tmp_path / "nus_wide"
    for part, rows in (("Train", slice(0, 3)), ("Test", slice(3, 5))):
        for name, values in VALUES.items():
            write(folder / "Low_Level_Features" / f"{part}_Normalized_{name}.dat", values[rows])
        write(folder / "NUS_WID_Tags" / f"{part}_Tags1k.dat", TAGS[rows], end="\t")
        for concept in CONCEPTS:
            label = np.array([[int(concept in shown)] for shown in SHOWN])[rows]
            write(folder / "Groundtruth" / "TrainTestLabels" / f"Labels_{concept}_{part}.txt", label, end="")
    return folder


def matrix_of(table):
    return np.stack(list(table.columns.values()), axis=1)


def test_sky_has_five_views_in_the_papers_order(folder):
    data = load_dataset("nus-wide", folder.parent)
    assert list(data.views) == ["CH", "CORR", "EDH", "WT", "CM55"]
    for name, view in data.views.items():
        assert (matrix_of(view) == VALUES[name]).all()
    assert data.label.tolist() == [1, 1, 0, 0, 0]
    assert data.test.tolist() == [False, False, False, True, True]


def test_the_ten_concepts_keep_photographs_that_show_exactly_one(folder):
    data = load_dataset("nus-wide-tags", folder.parent)
    kept = [0, 2, 3]
    assert data.label.tolist() == [CONCEPTS.index(concept) for concept in ("sky", "lake", "person")]
    assert (matrix_of(data.views["image"]) == np.concatenate(list(VALUES.values()), axis=1)[kept]).all()
    assert len(data.views["image"].columns) == 634
    assert (matrix_of(data.views["tags"]) == TAGS[kept]).all()
    assert data.test.tolist() == [False, False, True]
    assert data.views["tags"].ids.tolist() == data.views["image"].ids.tolist() == ["1", "3", "4"]


def test_a_feature_file_of_another_width_is_one_sentence(folder):
    write(folder / "Low_Level_Features" / "Test_Normalized_EDH.dat", np.zeros((2, 75)))
    with pytest.raises(InputError, match=r"^nus-wide: .*Test_Normalized_EDH\.dat has 75 columns where 73 are"):
        load_dataset("nus-wide", folder.parent)


def test_a_truncated_feature_file_is_one_sentence(folder):
    write(folder / "Low_Level_Features" / "Train_Normalized_WT.dat", VALUES["WT"][:2])
    with pytest.raises(InputError, match=r"Train_Normalized_WT\.dat has 2 rows where the files before it have 3"):
        load_dataset("nus-wide", folder.parent)


def test_small_files_are_not_taken_for_the_official_ones(folder, monkeypatch):
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"Labels_sky_Train\.txt has 3 rows where the official file has 161789"):
        load_dataset("nus-wide", folder.parent)
