"""Where a public data set comes from and how it is loaded."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vesica.datasets.dataset import DataSet


@dataclass(frozen=True)
class Source:
    """One public data set: its loader, given the data directory, and what a person must know to get it."""

    load: Callable[[Path | None], DataSet]
    folder: str  # inside the data directory; empty where the files come with the package
    about: str  # one line
    files: tuple[str, ...]  # the official ones
    where: str  # one gets them
