"""BHI and ModelNet in their official folder trees, written small."""

import numpy as np
import pytest
from PIL import Image

from vesica.datasets import load_dataset
from vesica.errors import InputError


def write(path, shade, size=50):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((size, size, 3), shade, np.uint8)).save(path)


def write_patch(folder, patient, label, x, y, shade, size=50):
    name = f"{patient}_idx5_x{x}_y{y}_class{label}.png"
    write(folder / str(patient) / str(label) / name, shade, size)


@pytest.fixture
def bhi(tmp_path):
    folder = tmp_path / "bhi"
    # By place, not by name: x51 comes before x101, and the patch at x151 is odd and left out.
    for shade, (x, y) in enumerate([(101, 1), (51, 1), (51, 901), (101, 851), (151, 1)]):
        write_patch(folder, 9, 0, x, y, shade)
    write_patch(folder, 9, 1, 1, 1, 10)
    write_patch(folder, 10, 1, 1, 1, 20)
    write_patch(folder, 10, 1, 2, 1, 21)
    write_patch(folder, 10, 1, 1, 51, 22, size=40)
    return folder


def shades(table):
    return table.image[:, 0, 0, 0].tolist()


def test_patches_are_paired_within_patient_and_class_by_place(bhi):
    data = load_dataset("bhi", bhi.parent)
    assert shades(data.views["first"]) == [1, 0, 20]
    assert shades(data.views["second"]) == [2, 3, 21]
    assert data.views["first"].image.shape == (3, 50, 50, 3)
    assert data.label.tolist() == [0, 0, 1]
    assert data.views["second"].ids.tolist() == ["9_x51_y1", "9_x101_y1", "10_x1_y1"]


def test_test_rows_are_all_pairs_of_some_patients(bhi):
    data = load_dataset("bhi", bhi.parent)
    assert data.test.tolist() in ([True, True, False], [False, False, True])
    assert data.test.tolist() == load_dataset("bhi", bhi.parent).test.tolist()
    assert data.groups.tolist() == [9, 9, 10]


def test_a_truncated_patch_and_a_foreign_name_are_one_sentence(bhi):
    write(bhi / "9" / "0" / "holiday.png", 1)
    with pytest.raises(InputError, match=r"^bhi: .*holiday\.png is not named like"):
        load_dataset("bhi", bhi.parent)
    (bhi / "9" / "0" / "holiday.png").unlink()
    path = bhi / "9" / "1" / "9_idx5_x1_y1_class1.png"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(InputError, match=r"^bhi: .*9_idx5_x1_y1_class1\.png is not a whole image; replace it"):
        load_dataset("bhi", bhi.parent)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("1,1,1,0\n", r"labels\.csv has 1 rows, which are not whole mosaics"),
        ("1,1,1,0\n" * 1000, "cannot find"),
    ],
)
def test_mosaics_that_do_not_fit_their_labels_are_refused(tmp_path, rows, problem):
    (tmp_path / "bhi").mkdir()
    (tmp_path / "bhi" / "labels.csv").write_text("patient_id,x,y,label\n" + rows)
    with pytest.raises(InputError, match=problem):
        load_dataset("bhi", tmp_path)


def test_a_mosaic_of_another_size_is_refused(tmp_path):
    write(tmp_path / "bhi" / "patches-00.webp", 3)
    (tmp_path / "bhi" / "labels.csv").write_text("patient_id,x,y,label\n" + "1,1,1,0\n" * 1000)
    with pytest.raises(InputError, match=r"patches-00\.webp has \(50, 50\) pixels where \(2000, 1250\) are expected"):
        load_dataset("bhi", tmp_path)


OBJECTS = [
    ("bowl", "train", "bowl_0001"),
    ("glass_box", "train", "glass_box_0007"),
    ("bowl", "test", "bowl_0065"),
]


@pytest.fixture
def modelnet(tmp_path):
    folder = tmp_path / "modelnet"
    for number, (name, part, item) in enumerate(OBJECTS):
        for view in range(12):
            write(folder / name / part / f"{item}_{view + 1:03d}.png", 12 * number + view, size=64)
    return folder


def test_each_of_four_parties_sees_the_middle_of_its_three_sides(modelnet):
    data = load_dataset("modelnet", modelnet.parent)
    assert data.views["sides1"].ids.tolist() == [f"{part}/{item}" for _, part, item in OBJECTS]
    assert {name: shades(view) for name, view in data.views.items()} == {
        f"sides{party + 1}": [3 * party + 1, 3 * party + 13, 3 * party + 25] for party in range(4)
    }
    assert data.views["sides1"].image.shape == (3, 32, 32, 3)
    assert data.label.tolist() == [0, 1, 0]
    assert data.test.tolist() == [False, False, True]


def test_an_object_without_all_its_sides_is_one_sentence(modelnet):
    (modelnet / "bowl" / "test" / "bowl_0065_005.png").unlink()
    with pytest.raises(InputError, match=r"^modelnet: bowl_0065 in .* has 11 pictures where 12 belong"):
        load_dataset("modelnet", modelnet.parent)


def test_a_foreign_picture_is_one_sentence(modelnet):
    write(modelnet / "bowl" / "test" / "bowl.png", 1)
    with pytest.raises(InputError, match=r"bowl\.png is not named like airplane_0001_001\.png"):
        load_dataset("modelnet", modelnet.parent)
