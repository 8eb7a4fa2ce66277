"""CIFAR-10 in its official binary form, written small, and damaged copies of the mosaics."""

import io
import tarfile

import numpy as np
import pytest

from vesica.datasets import known, load_dataset
from vesica.datasets.cifar10 import BATCHES
from vesica.errors import InputError

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 2, 32, 32, 3), np.uint8)
LABELS = np.arange(12, dtype=np.uint8).reshape(6, 2) % 10


def record_bytes(images, labels):
    return np.concatenate([labels[:, None], images.transpose(0, 3, 1, 2).reshape(len(images), -1)], axis=1).tobytes()


CONTENTS = {name: record_bytes(IMAGES[k], LABELS[k]) for k, name in enumerate(BATCHES)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(known, "MD5", {})
    (tmp_path / "cifar10").mkdir()
    return tmp_path / "cifar10"


def write_batches(folder):
    inner = folder / "cifar-10-batches-bin"
    inner.mkdir()
    for name, content in CONTENTS.items():
        (inner / name).write_bytes(content)
    return inner


def write_archive(folder, contents):
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def check(data):
    assert (data.views["image"].image == IMAGES.reshape(12, 32, 32, 3)).all()
    assert data.label.tolist() == LABELS.ravel().tolist()
    assert data.test.tolist() == [False] * 10 + [True] * 2


def test_the_binary_files_and_their_archive_give_the_same_data(folder):
    write_archive(folder, CONTENTS)
    archived = load_dataset("cifar10", folder.parent)
    check(archived)
    write_batches(folder)
    plain = load_dataset("cifar10", folder.parent)
    check(plain)
    assert plain.sha256 == archived.sha256


def test_a_truncated_binary_file_is_one_sentence(folder):
    path = write_batches(folder) / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"^cifar10: .*data_batch_3\.bin has 6145 bytes, which are not whole images"):
        load_dataset("cifar10", folder.parent)


def test_a_binary_file_that_is_not_the_official_one_is_refused_by_its_md5(folder, monkeypatch):
    write_batches(folder)
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"data_batch_1\.bin is not complete, or not the official file"):
        load_dataset("cifar10", folder.parent)


def test_an_archive_without_a_batch_is_one_sentence(folder):
    write_archive(folder, {name: CONTENTS[name] for name in BATCHES[:4]})
    with pytest.raises(InputError, match=r"cifar-10-binary\.tar\.gz does not hold the six files"):
        load_dataset("cifar10", folder.parent)


@pytest.mark.parametrize("name", ["cifar-10-batches-py", "cifar-10-python.tar.gz"])
def test_the_pickle_version_is_refused(folder, name):
    (folder / name).mkdir()
    with pytest.raises(InputError, match=f"{name} is the pickle version, and Vesica never loads pickles; put the"):
        load_dataset("cifar10", folder.parent)


@pytest.fixture
def mosaics(data_dir, tmp_path):
    """The real mosaics, by link, so that one can be replaced."""
    if not (data_dir / "cifar10" / "labels.npz").is_file():
        pytest.skip("needs the mosaics of CIFAR-10 in the data directory")
    folder = tmp_path / "cifar10"
    folder.mkdir()
    for path in (data_dir / "cifar10").iterdir():
        (folder / path.name).symlink_to(path)
    return folder


def test_a_truncated_mosaic_is_one_sentence(mosaics):
    path = mosaics / "train-07.webp"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"^cifar10: .*train-07\.webp is not a whole image; replace it"):
        load_dataset("cifar10", mosaics.parent)


def test_one_wrong_label_is_noticed(mosaics):
    path = mosaics / "labels.npz"
    with np.load(path) as archive:
        train, test = archive["train"], archive["test"]
    train[12_345] = (train[12_345] + 1) % 10
    path.unlink()
    np.savez(path, train=train, test=test)
    with pytest.raises(InputError, match=r"labels\.npz or one of train-10\.webp to train-19\.webp .* data_batch_2"):
        load_dataset("cifar10", mosaics.parent)
