"""ModelNet: objects rendered from twelve sides (Wu et al., 2015; renderings of Su et al., MVCNN, 2015)."""

import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from vesica.data.table import Array, Table
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import Files
from vesica.datasets.images import pixels
from vesica.datasets.source import Source
from vesica.errors import InputError

VIEWS, PARTIES, SIDE = 12, 4, 32
NAME = re.compile(r"(.+)_(\d{3})\.png")


def load(data_dir: Path | None) -> DataSet:
    """Four views for four parties: party j sees the sides 3j to 3j + 2, of which the middle one is taken.

    The pictures are resized to 32 x 32, which FedHSSL's network expects; the test rows are the official ones.
    """
    files = Files("modelnet", SOURCE, data_dir)
    objects = _objects(files)
    names = sorted({name for name, _, _ in objects})
    label = np.array([names.index(name) for name, _, _ in objects])
    test = np.array([part == "test" for _, part, _ in objects])
    ids = np.array([f"{part}/{item}" for _, part, item in objects])
    images = np.stack([_sides(files, paths) for paths in objects.values()])
    views = {f"sides{party + 1}": Table(ids, image=images[:, party]) for party in range(PARTIES)}
    return DataSet("modelnet", "classification", "accuracy", views, label, test, files.sha256)


def _objects(files: Files) -> dict[tuple[str, str, str], list[Path]]:
    """The pictures of each object, by class, part (train or test) and name of the object, all sorted."""
    objects: dict[tuple[str, str, str], list[Path]] = defaultdict(list)
    for path in (*files.tree("*/train/*.png"), *files.tree("*/test/*.png")):
        match = NAME.fullmatch(path.name)
        if match is None:
            raise InputError(f"modelnet: {path} is not named like airplane_0001_001.png; remove or rename it")
        objects[path.parts[-3], path.parts[-2], match[1]].append(path)
    for (_, _, item), paths in objects.items():
        if len(paths) != VIEWS:
            raise InputError(
                f"modelnet: {item} in {paths[0].parent} has {len(paths)} pictures where {VIEWS} belong; "
                "replace the folder with the official one"
            )
    if not objects:
        raise files.missing("any picture")
    return objects


def _sides(files: Files, paths: list[Path]) -> Array:
    """The middle picture of each party's three, (4, 32, 32, 3)."""
    each = VIEWS // PARTIES
    middle = [paths[each * party + each // 2] for party in range(PARTIES)]
    return np.stack([pixels(files.admit(files.open(path, path.name)), side=SIDE) for path in middle])


SOURCE = Source(
    load,
    folder="modelnet",
    about="ModelNet objects from twelve sides: four views of colour images 32 x 32, 40 classes",
    files=("<class>/<train or test>/<class>_<number>_<view>.png",),
    where="the MVCNN project (the shaded images of ModelNet40, modelnet40v1, 12 views)",
)
