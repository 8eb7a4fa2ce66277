"""Public data sets, by name."""

from pathlib import Path

from vesica.datasets import (
    avazu,
    bhi,
    cifar10,
    covtype,
    credit,
    criteo,
    gisette,
    mnist,
    modelnet,
    movielens,
    nus_wide,
    phishing,
    pixel_pairs,
    superconduct,
    uji,
)
from vesica.datasets.dataset import DataSet
from vesica.datasets.source import Source
from vesica.errors import InputError, nearest

__all__ = ["DATASETS", "DataSet", "Source", "is_here", "load_dataset"]

DATASETS: dict[str, Source] = {
    "credit": credit.SOURCE,
    "mnist": mnist.SOURCES["mnist"],
    "fashion-mnist": mnist.SOURCES["fashion-mnist"],
    "kmnist": mnist.SOURCES["kmnist"],
    "cifar10": cifar10.SOURCE,
    "phishing": phishing.SOURCE,
    "uji": uji.SOURCE,
    "uji-floor": uji.FLOOR_SOURCE,
    "uji-position": uji.POSITION_SOURCE,
    "covtype": covtype.SOURCE,
    "gisette": gisette.SOURCE,
    "pixel-pairs": pixel_pairs.SOURCE,
    "superconduct": superconduct.SOURCE,
    "nus-wide": nus_wide.SOURCE,
    "nus-wide-tags": nus_wide.TAGS_SOURCE,
    "movielens-1m": movielens.SOURCE,
    "avazu": avazu.SOURCE,
    "avazu-three": avazu.THREE_SOURCE,
    "criteo": criteo.SOURCE,
    "bhi": bhi.SOURCE,
    "modelnet": modelnet.SOURCE,
}


def load_dataset(name: str, data_dir: Path | None) -> DataSet:
    """A public data set by its name; its files are in its folder of the data directory."""
    if name not in DATASETS:
        raise InputError(f"there is no data set '{name}'{nearest(name, DATASETS)}")
    return DATASETS[name].load(data_dir)


def is_here(name: str, data_dir: Path | None) -> bool:
    """Whether the data directory has the folder of a data set, or it needs none."""
    folder = DATASETS[name].folder
    return not folder or (data_dir is not None and (data_dir / folder).is_dir())
