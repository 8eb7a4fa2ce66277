"""Write a file as a whole: a reader, a kill and a full disk leave the old file or the new one, never half of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vesica.errors import refused_by_system


def sync(path: Path) -> None:
    """Have a file, or the names in a directory, reach the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writing_to(path: Path, *, only: Path | None = None) -> Iterator[None]:
    """Raise InputError, in one sentence, where the system refuses to write, as when the disk is full.

    With `only`, an error that names another file than this one stays as it is.
    """
    try:
        yield
    except Exception as error:
        named = getattr(error, "filename", None)
        if only is not None and named not in (None, str(only), os.fsencode(only)):
            raise
        refusal = refused_by_system(error, path)
        if refusal is None:
            raise
        raise refusal from error


def make_folder(path: Path, *, mode: int = 0o777) -> None:
    """Make a folder where it is missing, with those above it, and have their names reach the disk.

    The name of a folder that is there is synced too: whoever made it may have been killed before that.
    """
    missing = [above for above in path.parents if not above.exists()]
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    for made in (path, *missing):
        sync(made.parent)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield an empty file beside `path`, which takes its place when the block ends well and is removed otherwise.

    Only its owner can read it. Raise InputError where the system refuses to write it, as when the disk is full. What
    the block does with other files is the caller's own.
    """
    if path.exists() and not path.is_file():  # a device or a pipe, such as /dev/stdout, is written to directly
        with writing_to(path, only=path):
            yield path
        return
    with writing_to(path):
        target = path.resolve()  # a symbolic link stays one
        handle, name = tempfile.mkstemp(prefix=".", suffix=f".{target.name[-40:]}.partial", dir=target.parent)
        os.close(handle)
    partial = Path(name)
    try:
        with writing_to(path, only=partial):
            yield partial
        with writing_to(path):
            sync(partial)
            partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    with writing_to(path):
        sync(target.parent)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write text, as UTF-8, or bytes."""
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    with replacing(path) as partial:
        partial.write_bytes(data)
