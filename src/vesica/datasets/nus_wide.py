"""NUS-WIDE: web photographs by low-level features and tags (Chua et al., CIVR 2009)."""

from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from vesica.data.table import Array, Table
from vesica.datasets.columns import columns_of, numbered, row_ids
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import Files
from vesica.datasets.parse import numbers
from vesica.datasets.source import Source

FEATURES = {"CH": 64, "CORR": 144, "EDH": 73, "WT": 128, "CM55": 225}  # their widths
TAGS = 1_000
CONCEPTS = ("sky", "clouds", "person", "water", "animal", "grass", "buildings", "window", "plants", "lake")


def load(data_dir: Path | None) -> DataSet:
    """Is there sky? Five views, one kind of low-level feature each: FedOnce's real-world division."""
    photographs = _Photographs(Files("nus-wide", SOURCE, data_dir))
    label = photographs.show("sky").astype(np.int64)
    ids = row_ids(len(label))
    views = {
        name: Table(ids, columns_of(photographs.feature(name), numbered(f"{name}_", width)))
        for name, width in FEATURES.items()
    }
    sha256 = photographs.files.sha256
    return DataSet("nus-wide", "classification", "accuracy", views, label, photographs.test, sha256)


def load_tags(data_dir: Path | None) -> DataSet:
    """Which of ten concepts? One view of 634 image features, one of 1,000 tags, as in FedHSSL.

    Kept are the photographs that show exactly one of the ten; their ids are those of `nus-wide`.
    """
    photographs = _Photographs(Files("nus-wide-tags", TAGS_SOURCE, data_dir))
    shown = np.stack([photographs.show(concept) for concept in CONCEPTS])
    single = shown.sum(axis=0) == 1
    ids = row_ids(len(single))[single]
    image: dict[str, Array] = {}
    for name, width in FEATURES.items():
        image |= columns_of(photographs.feature(name)[single], numbered(f"{name}_", width))
    tags = columns_of(photographs.tags()[single], numbered("tag", TAGS))
    views = {"image": Table(ids, image), "tags": Table(ids, tags)}
    label, test = shown.argmax(axis=0)[single], photographs.test[single]
    sha256 = photographs.files.sha256
    return DataSet("nus-wide-tags", "classification", "accuracy", views, label, test, sha256)


class _Photographs:
    """The training photographs, then the test ones, which every file must have the same number of."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.rows: dict[str, int] = {}

    @property
    def test(self) -> Array:
        return np.repeat([False, True], [self.rows["Train"], self.rows["Test"]])

    def show(self, concept: str) -> Array:
        return self._read(f"Groundtruth/TrainTestLabels/Labels_{concept}_PART.txt", 1, np.uint8)[:, 0] > 0

    def feature(self, name: str) -> Array:
        return self._read(f"Low_Level_Features/PART_Normalized_{name}.dat", FEATURES[name], np.float32)

    def tags(self) -> Array:
        return self._read("NUS_WID_Tags/PART_Tags1k.dat", TAGS, np.uint8)

    def _read(self, name: str, width: int, dtype: DTypeLike) -> Array:
        parts = []
        for part in ("Train", "Test"):
            file = self.files.read(name.replace("PART", part))
            parts.append(numbers(file, width, dtype=dtype))
            expected = self.rows.setdefault(part, len(parts[-1]))
            if len(parts[-1]) != expected:
                raise file.wrong(f"has {len(parts[-1])} rows where the files before it have {expected}")
        return np.concatenate(parts)


WHERE = "the NUS-WIDE page of the National University of Singapore (low-level features, tags, ground truth)"

SOURCE = Source(
    load,
    folder="nus_wide",
    about="NUS-WIDE photographs, sky or not: 161,789 + 107,859 rows, five views of low-level features",
    files=(
        "Low_Level_Features/{Train,Test}_Normalized_{CH,CORR,EDH,WT,CM55}.dat",
        "Groundtruth/TrainTestLabels/Labels_sky_{Train,Test}.txt",
    ),
    where=WHERE,
)
TAGS_SOURCE = Source(
    load_tags,
    folder="nus_wide",
    about="NUS-WIDE photographs of one of ten concepts: 634 image columns | 1,000 tags",
    files=(
        "Low_Level_Features/{Train,Test}_Normalized_{CH,CORR,EDH,WT,CM55}.dat",
        "NUS_WID_Tags/{Train,Test}_Tags1k.dat",
        f"Groundtruth/TrainTestLabels/Labels_{{{','.join(CONCEPTS)}}}_{{Train,Test}}.txt",
    ),
    where=WHERE,
)
