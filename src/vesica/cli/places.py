"""Where a command writes to: refused before anything is computed."""

from pathlib import Path

from vesica.errors import InputError


def refuse_unwritable(file: Path | str | None, *, report: Path | None = None) -> None:
    """Say so before anything is computed, not after; a report makes its own directory."""
    path = None if file is None or file == "-" else Path(file)
    for target in (path, report):
        if target is not None and target.is_dir():
            raise InputError(f"{target} is a directory: give a file to write to")
    if path is not None and not path.parent.is_dir():
        raise InputError(f"there is no directory {path.parent} to write {path.name} to: make it first")
    if report is not None:
        refuse_below_a_file(report)


def refuse_below_a_file(path: Path) -> None:
    """No directory can be made there."""
    there = next((parent for parent in path.absolute().parents if parent.exists()), path)  # the root has none
    if not there.is_dir():
        raise InputError(f"{there} is a file, and {path} would be below it: give another place")
