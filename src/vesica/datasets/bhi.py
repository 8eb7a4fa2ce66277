"""Breast histopathology patches in pairs of one patient and class (Cruz-Roa et al., 2014)."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vesica.data.table import Array, Table
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import Files
from vesica.datasets.images import pixels, tiles
from vesica.datasets.parse import named_numbers
from vesica.datasets.source import Source

SIDE = 50
NAME = re.compile(r"(\d+)_idx\d+_x(\d+)_y(\d+)_class([01])\.png")
COLUMNS = ("patient_id", "x", "y", "label")


@dataclass(frozen=True)
class _Patches:
    image: Array  # (n, 50, 50, 3)
    place: Array  # (n, 4): patient, x, y, class


def load(data_dir: Path | None) -> DataSet:
    """Two views, one patch of each pair, as in FedHSSL; positive is invasive carcinoma.

    The patches of a patient and class are paired in the order of their place (x, then y), an odd one left
    out. The test rows are the pairs of a fifth of the patients, drawn with a fixed seed.
    """
    files = Files("bhi", SOURCE, data_dir)
    patches = _mosaics(files) if files.has("labels.csv") else _tree(files)
    left, right = _pairs(patches.place).T
    patient, x, y, label = patches.place[left].T
    ids = np.array([f"{p}_x{i}_y{j}" for p, i, j in zip(patient, x, y, strict=True)])
    views = {
        "first": Table(ids, image=patches.image[left]),
        "second": Table(ids, image=patches.image[right]),
    }
    test = np.isin(patient, _test_patients(np.unique(patches.place[:, 0])))
    return DataSet("bhi", "classification", "f1", views, label, test, files.sha256, groups=patient)


def _pairs(place: Array) -> Array:
    """Positions (pairs, 2) of patches that follow each other within a patient and class."""
    patient, x, y, label = place.T
    order = np.lexsort((y, x, label, patient))
    _, starts, counts = np.unique(place[order][:, [0, 3]], axis=0, return_index=True, return_counts=True)
    first = np.concatenate([np.arange(s, s + n - 1, 2) for s, n in zip(starts, counts, strict=True)])
    return np.stack([order[first], order[first + 1]], axis=1)


def _test_patients(patients: Array) -> Array:
    return np.random.default_rng(0).permutation(patients)[: -(-len(patients) // 5)]


def _tree(files: Files) -> _Patches:
    """The official tree; patches cut off by the border of a slide are smaller, and left out."""
    paths = [(path, NAME.fullmatch(path.name)) for path in files.tree("*/[01]/*.png")]
    images, places = [], []
    for path, match in paths:
        file = files.admit(files.open(path, path.name))
        if match is None:
            raise file.wrong("is not named like 10253_idx5_x1351_y1101_class0.png")
        image = pixels(file)
        if image.shape[:2] == (SIDE, SIDE):
            images.append(image)
            places.append([int(group) for group in match.groups()])
    if not images:
        raise files.missing("any patch")
    return _Patches(np.stack(images), np.array(places))


def _mosaics(files: Files) -> _Patches:
    """Lossless mosaics of 1,000 patches a file, and labels.csv; the hash is that of the pixels."""
    file = files.fetch("labels.csv")
    columns = named_numbers(file, COLUMNS)
    place = np.stack([columns[name].astype(np.int64) for name in COLUMNS], axis=1)
    if len(place) % 1000:
        raise file.wrong(f"has {len(place)} rows, which are not whole mosaics of 1,000 patches")
    names = [f"patches-{number:02d}.webp" for number in range(len(place) // 1000)]
    image = np.concatenate([tiles(files.fetch(name), SIDE) for name in names])
    files.hash(image.data)
    return _Patches(image, place)


SOURCE = Source(
    load,
    folder="bhi",
    about="Breast histopathology: pairs of colour patches 50 x 50, carcinoma or not, by patient",
    files=("<patient>/<0 or 1>/*.png",),
    where="Kaggle's breast-histopathology-images (IDC_regular_ps50_idx5)",
)
