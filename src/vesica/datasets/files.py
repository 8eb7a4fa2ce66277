"""The files of one data set: found, decompressed, checked, and hashed in the order they are read."""

import bz2
import gzip
import hashlib
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from vesica.datasets import known
from vesica.datasets.source import Source
from vesica.errors import InputError

DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
}
DAMAGED = (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error)
LARGEST = 2**31  # bytes: the click logs come in files of many gigabytes, of which one puts a sample


def md5(content: bytes | memoryview) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class File:
    """A file in memory, decompressed."""

    dataset: str
    path: Path
    key: str  # folder/name as published, without the suffix of a compression
    content: bytes

    @property
    def name(self) -> str:
        return self.key.rsplit("/", 1)[-1]

    @property
    def lines(self) -> list[str]:
        """The lines that are not blank; Latin-1 decodes any byte, so that garbage fails in the parser."""
        lines = self.content.decode("latin-1").split("\n")
        return [line.rstrip("\r") for line in lines if line and not line.isspace()]

    def wrong(self, why: str) -> InputError:
        return InputError(f"{self.dataset}: {self.path} {why}; replace it with the official file")

    def expect_rows(self, rows: int) -> None:
        expected = known.ROWS.get(self.key, rows)
        if rows != expected:
            raise self.wrong(f"has {rows} rows where the official file has {expected}")


class Files:
    """The folder of one data set, and the hash of all that was read from it."""

    def __init__(self, dataset: str, source: Source, data_dir: Path | None) -> None:
        self.dataset = dataset
        self.source = source
        if data_dir is None:
            raise InputError(
                f"{dataset}: give a data directory whose folder {source.folder} holds "
                f"{', '.join(source.files)} (from {source.where})"
            )
        self.folder = data_dir / source.folder
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def has(self, name: str) -> bool:
        return self._find(name) is not None

    def missing(self, what: str) -> InputError:
        return InputError(
            f"{self.dataset}: cannot find {what}; put {', '.join(self.source.files)} into {self.folder} "
            f"(from {self.source.where})"
        )

    def read(self, *names: str) -> File:
        """The first of these files that is there, checked and hashed."""
        return self.admit(self.fetch(*names))

    def fetch(self, *names: str) -> File:
        """The first of these files that is there, as it is."""
        found = ((name, path) for name in names if (path := self._find(name)))
        name, path = next(found, (names[0], None))
        if path is None:
            raise self.missing(f"{names[0]}, plain or as .xz, .gz or .bz2")
        return self.open(path, Path(name).name)

    def open(self, path: Path, name: str) -> File:
        if path.stat().st_size > LARGEST:
            raise InputError(f"{self.dataset}: {path} is larger than 2 GiB; put a sample of its rows there")
        try:
            content = DECOMPRESS[path.name.removeprefix(name)](path.read_bytes())
        except DAMAGED as error:
            raise InputError(
                f"{self.dataset}: {path} cannot be read ({error}); replace it with the official file"
            ) from error
        return File(self.dataset, path, str(PurePosixPath(self.source.folder, name)), content)

    def admit(self, file: File) -> File:
        """Check a file against its known MD5, and hash it."""
        digest = known.MD5.get(file.key)
        if digest is not None and md5(file.content) != digest:
            raise file.wrong("is not complete, or not the official file, by its MD5")
        self.hash(file.content)
        return file

    def hash(self, content: bytes | memoryview) -> None:
        self._hash.update(content)

    def tree(self, pattern: str) -> list[Path]:
        """The files below the folder that match, sorted."""
        return sorted(self.folder.glob(pattern))

    def _find(self, name: str) -> Path | None:
        """The file at its official place or flat in the folder, plain or compressed."""
        places = (self.folder / name, self.folder / Path(name).name)
        paths = (place.with_name(place.name + suffix) for place in places for suffix in DECOMPRESS)
        return next((path for path in paths if path.is_file()), None)
