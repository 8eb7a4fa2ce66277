"""CIFAR-10: 32 x 32 colour images of ten classes (A. Krizhevsky, 2009)."""

import io
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from vesica.data.table import Array, Table
from vesica.datasets import known
from vesica.datasets.columns import row_ids
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import File, Files, md5
from vesica.datasets.images import tiles
from vesica.datasets.parse import arrays
from vesica.datasets.source import Source
from vesica.errors import InputError

BATCHES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
BINARY_FOLDER, BINARY_ARCHIVE = "cifar-10-batches-bin", "cifar-10-binary.tar"
PICKLES = ("cifar-10-batches-py", "cifar-10-python.tar.gz")
MOSAICS = {"train": 50, "test": 10}
SIDE = 32

Batch = tuple[Array, Array]  # images (n, 32, 32, 3) and labels (n,)


def load(data_dir: Path | None) -> DataSet:
    """The training images in official order, then the test images."""
    files = Files("cifar10", SOURCE, data_dir)
    batches = _mosaics(files) if files.has("labels.npz") else [_batch(file) for file in _binary_files(files)]
    image = np.concatenate([images for images, _ in batches])
    label = np.concatenate([labels for _, labels in batches]).astype(np.int64)
    views = {"image": Table(row_ids(len(image)), image=image)}
    test = np.arange(len(image)) >= len(image) - len(batches[-1][1])
    return DataSet("cifar10", "classification", "accuracy", views, label, test, files.sha256)


def _binary_files(files: Files) -> list[File]:
    """The six official binary files, from their folder or their archive."""
    if files.has(f"{BINARY_FOLDER}/{BATCHES[0]}"):
        return [files.read(f"{BINARY_FOLDER}/{name}") for name in BATCHES]
    if files.has(BINARY_ARCHIVE):
        return [files.admit(file) for file in _members(files.fetch(BINARY_ARCHIVE))]
    for name in PICKLES:
        if (files.folder / name).exists():
            raise InputError(
                f"cifar10: {files.folder / name} is the pickle version, and Vesica never loads pickles; "
                f"put the binary version (cifar-10-binary.tar.gz) there instead, from {SOURCE.where}"
            )
    raise files.missing(BINARY_ARCHIVE + ".gz")


def _members(archive: File) -> list[File]:
    try:
        with tarfile.open(fileobj=io.BytesIO(archive.content)) as tar:
            opened = [(name, tar.extractfile(f"{BINARY_FOLDER}/{name}")) for name in BATCHES]
            return [
                File("cifar10", archive.path / name, f"{SOURCE.folder}/{name}", member.read())
                for name, member in opened
                if member is not None
            ]
    except (tarfile.TarError, KeyError, OSError) as error:
        raise archive.wrong(f"does not hold the six files of {BINARY_FOLDER}") from error


def _batch(file: File) -> Batch:
    """A file of records: a label byte, then the red, the green and the blue plane."""
    record = 1 + 3 * SIDE * SIDE
    if not file.content or len(file.content) % record:
        raise file.wrong(f"has {len(file.content)} bytes, which are not whole images of {record}")
    records = np.frombuffer(file.content, dtype=np.uint8).reshape(-1, record)
    return records[:, 1:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1), records[:, 0]


def _mosaics(files: Files) -> list[Batch]:
    """Lossless mosaics of 1,000 images a file, and labels.npz; the hash is that of the pixels."""
    labels = files.fetch("labels.npz")
    batches = []
    for (part, count), label in zip(MOSAICS.items(), arrays(labels, *MOSAICS), strict=True):
        names = [f"{part}-{number:02d}.webp" for number in range(count)]
        with ThreadPoolExecutor() as pool:
            images = np.concatenate(list(pool.map(lambda name: tiles(files.fetch(name), SIDE), names)))
        if len(label) != len(images):
            raise labels.wrong(f"has {len(label)} {part} labels where there are {len(images)} images")
        _check(labels, part, images, label)
        files.hash(images.data)
        batches.append((images, label))
    return batches


def _check(labels: File, part: str, images: Array, label: Array) -> None:
    """Rebuild the official binary records, whose MD5 is known, of each 10,000 images."""
    names = BATCHES[:5] if part == "train" else BATCHES[5:]
    for number, name in enumerate(names):
        rows = slice(10_000 * number, 10_000 * (number + 1))
        planes = images[rows].transpose(0, 3, 1, 2).reshape(-1, 3 * SIDE * SIDE)
        records = np.concatenate([label[rows, None], planes], axis=1, dtype=np.uint8)
        digest = md5(records.data)
        if digest != known.MD5.get(f"{SOURCE.folder}/{name}", digest):
            first, last = rows.start // 1000, rows.stop // 1000 - 1
            raise labels.wrong(
                f"or one of {part}-{first:02d}.webp to {part}-{last:02d}.webp beside it differs from {name}"
            )


SOURCE = Source(
    load,
    folder="cifar10",
    about="CIFAR-10 photographs: 50,000 + 10,000 colour images 32 x 32, ten classes",
    files=("cifar-10-binary.tar.gz",),
    where="cs.toronto.edu/~kriz/cifar.html (the binary version)",
)
