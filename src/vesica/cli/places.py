"""Where a command writes to: refused before anything is computed."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vesica.errors import InputError


def refuse_unwritable(file: Path | str | None, *, report: Path | None = None) -> None:
    """Say so before anything is computed, not after; a report makes its own directory."""
    if file is not None and file != "-":
        path = Path(file)
        with usable(path):
            _refuse_directory(path)
            if not path.parent.is_dir():
                raise InputError(f"there is no directory {path.parent} to write {path.name} to: make it first")
            if path.is_file() or not path.exists():  # a device or a pipe is written to directly
                _refuse_locked(path.resolve().parent)  # where a link leads to
    if report is not None:
        with usable(report):
            _refuse_directory(report)
            refuse_below_a_file(report)
            if report.is_file() or not report.exists():
                _refuse_locked(next(parent for parent in report.resolve().parents if parent.exists()))


def refuse_below_a_file(path: Path) -> None:
    """No directory can be made there."""
    there = next((parent for parent in path.absolute().parents if parent.exists()), path)  # the root has none
    if not there.is_dir():
        raise InputError(f"{there} is a file, and {path} would be below it: give another place")


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Refuse what the system refuses: a locked folder, a name that is too long, links that lead in a circle."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be used ({reason}): give another place") from error


def _refuse_locked(folder: Path) -> None:
    """A file is first written beside the one that it replaces, so the folder must take new files."""
    with tempfile.TemporaryFile(prefix=".", suffix=".partial", dir=folder):
        pass


def _refuse_directory(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a directory: give a file to write to")
