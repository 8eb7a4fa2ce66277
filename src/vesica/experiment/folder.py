"""A run folder: one sub-folder a party, a journal while the run lasts, the result when it has ended."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vesica.data.text_files import parse_json
from vesica.errors import RunFolderError
from vesica.protocol.journal import sync, writing_to

FORMAT = 3


class RunFolder:
    """Refuses what is not this very run: a finished, foreign or torn folder stays as it is."""

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        self.path = path
        try:
            if path.exists() and not path.is_dir():
                raise RunFolderError(f"{path} is a file: give a folder of its own to this run")
            begun = path.exists() and any(found.suffix != ".partial" for found in path.iterdir())
        except OSError as error:
            raise RunFolderError(f"{path} cannot be used ({error.strerror}): give another folder") from error
        if begun:
            self._check(run)
        else:
            self._begin(run)
        self._lock = os.open(path / "run.json", os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise RunFolderError(f"{path} is in use by another process: wait for it, or give another folder") from None

    def party(self, name: str) -> Path:
        return self.path / name

    def journal(self, name: str) -> Path:
        return self.path / name / "journal"

    def finish(self, result: Mapping[str, Any], *, drop_journals_of: Iterable[str]) -> None:
        """Write the result, after everything else: a folder that has one is whole."""
        write_atomically(self.path / "result.json", json.dumps(result, indent=1, allow_nan=False))
        for name in drop_journals_of:
            shutil.rmtree(self.journal(name))

    def close(self) -> None:
        os.close(self._lock)

    def _begin(self, run: Mapping[str, Any]) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path / "run.json", json.dumps({"format": FORMAT, **run}, indent=1))
        except OSError as error:
            raise RunFolderError(f"{self.path} cannot be made ({error.strerror}): give another folder") from error

    def _check(self, run: Mapping[str, Any]) -> None:
        there = read_json(self.path / "run.json")
        if (self.path / "result.json").exists():
            raise RunFolderError(f"{self.path} holds a finished run of {there.get('method')}: give another folder")
        if there.get("format") != FORMAT:
            raise RunFolderError(
                f"{self.path} was begun by another version of Vesica: go on with that version, or give another folder"
            )
        ours = json.loads(json.dumps({"format": FORMAT, **run}))
        for key, value in ours.items():
            if there.get(key) != value:
                raise RunFolderError(
                    f"{self.path} holds another run: {key} is {_short(there.get(key))} there and {_short(value)} here; "
                    "give another folder, or the same command as before to go on"
                )


def stated_in(folder: Path) -> list[str]:
    """What the party of a finished folder says of what left it; a folder of before says nothing."""
    return [str(statement) for statement in read_json(folder / "result.json").get("statements", [])]


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of a run folder."""
    try:
        values = parse_json(path.read_text())
    except FileNotFoundError:
        raise RunFolderError(f"{path.parent} is no run folder: it has no {path.name}") from None
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} is torn ({error}): start again in a new folder") from error
    if not isinstance(values, dict):
        raise RunFolderError(f"{path} is torn (it holds no object): start again in a new folder")
    return values


def write_atomically(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    with writing_to(path):
        with partial.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync(path.parent)


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """JSON lines."""
    write_atomically(path, "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
