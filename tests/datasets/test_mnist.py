"""The IDX files of the MNIST family, written small."""

import gzip

import numpy as np
import pytest

from vesica.datasets import known, load_dataset
from vesica.errors import InputError

RNG = np.random.default_rng(0)
TRAIN, TEST = RNG.integers(0, 256, (5, 28, 28), np.uint8), RNG.integers(0, 256, (3, 28, 28), np.uint8)


def idx(array):
    head = np.array([0x0800 + array.ndim, *array.shape], dtype=">u4")
    return head.tobytes() + array.tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(known, "ROWS", {})
    folder = tmp_path / "kmnist"
    folder.mkdir()
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(TRAIN)))
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.arange(5, dtype=np.uint8))))
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx(TEST))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx(np.array([9, 0, 9], dtype=np.uint8)))
    return folder


def test_training_images_come_first_and_official_test_images_are_test_rows(folder):
    data = load_dataset("kmnist", folder.parent)
    image = data.views["image"].image
    assert image.shape == (8, 28, 28, 1)
    assert (image[..., 0] == np.concatenate([TRAIN, TEST])).all()
    assert data.label.tolist() == [0, 1, 2, 3, 4, 9, 0, 9]
    assert data.test.tolist() == [False] * 5 + [True] * 3


def test_small_files_are_not_taken_for_the_official_ones(folder, monkeypatch):
    monkeypatch.undo()
    with pytest.raises(InputError, match="has 5 rows where the official file has 60000"):
        load_dataset("kmnist", folder.parent)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not an IDX file of n x 28 x 28 bytes"),
        (idx(TEST)[:10], "is not an IDX file"),
        (idx(TEST)[:-1], "has 2367 bytes where 2368 are expected"),
        (idx(TEST) + b"x", "has 2369 bytes where 2368 are expected"),
        (idx(TEST[:0]), "has no rows"),
        (idx(TEST[:, :27]), "is not an IDX file of n x 28 x 28"),
        (idx(TEST[0]), "is not an IDX file"),
    ],
)
def test_a_truncated_or_wrong_file_is_one_sentence(folder, content, problem):
    (folder / "t10k-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(InputError, match=rf"^kmnist: .*t10k-images-idx3-ubyte {problem}"):
        load_dataset("kmnist", folder.parent)


@pytest.mark.parametrize("labels", [[1, 2], [1, 2, 10]])
def test_labels_that_do_not_fit_the_images_are_refused(folder, labels):
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx(np.array(labels, dtype=np.uint8)))
    with pytest.raises(InputError, match=r"t10k-labels-idx1-ubyte does not fit its 3 images of ten classes"):
        load_dataset("kmnist", folder.parent)
