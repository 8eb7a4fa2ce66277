"""A run folder: one sub-folder a party, a journal while the run lasts, the result when it has ended.

Models and journals hold values of the tables, so that a run folder is for its owner alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vesica.data.text_files import is_utf8, parse_json, shown
from vesica.errors import NO_ROOM, RunFolderError, refused_by_system
from vesica.protocol.files import make_folder, write_atomically

FORMAT = 3
_LOCK = ".lock"  # no party has such a name; it stays until the result is there, so that all lock the same file


class RunFolder:
    """Refuses what is not this very run: a finished, foreign or torn folder stays as it is."""

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        self.path = path
        if not is_utf8(path.absolute()):  # the models in it could not be read again
            raise RunFolderError(f"the path {path} is not UTF-8, as the reader of models needs it: give another folder")
        try:
            if path.exists() and not path.is_dir():
                raise RunFolderError(f"{path} is a file: give a folder of its own to this run")
            if self._is_begun():
                self._check(run)  # before anything is put into a folder that may be somebody else's
        except OSError as error:
            raise RunFolderError(f"{path} cannot be used ({error.strerror}): give another folder") from error
        self._lock = self._take_lock()
        try:
            self._remove_partial_files()
            if self._is_begun():  # perhaps by another process, a moment ago
                self._check(run)
            else:
                write_atomically(path / "run.json", json.dumps({"format": FORMAT, **run}, indent=1))
        except BaseException:
            self.close()
            raise

    def party(self, name: str) -> Path:
        """A party's own folder, which nobody else can read even where the run folder was there and is open to all."""
        folder = self.path / name
        make_folder(folder, mode=0o700)
        return folder

    def journal(self, name: str) -> Path:
        return self.party(name) / "journal"

    def finish(self, result: Mapping[str, Any], *, drop_journals_of: Iterable[str]) -> None:
        """Write the result, after everything else: a folder that has one is whole."""
        write_atomically(self.path / "result.json", json.dumps(result, indent=1, allow_nan=False))
        for name in drop_journals_of:
            shutil.rmtree(self.journal(name))
        self._remove_partial_files()
        (self.path / _LOCK).unlink(missing_ok=True)  # whoever locks it now finds the result and leaves

    def close(self) -> None:
        os.close(self._lock)

    def _is_begun(self) -> bool:
        """Whether it holds anything but a lock and what a kill left half written."""
        found = self.path.iterdir() if self.path.exists() else ()
        return any(path.name != _LOCK and path.suffix != ".partial" for path in found)

    def _remove_partial_files(self) -> None:
        """What a kill left half written may be a secret or a model, and nobody reads it again."""
        for path in list(self.path.rglob(".*.partial")):
            path.unlink(missing_ok=True)

    def _take_lock(self) -> int:
        try:
            if not self.path.exists():
                make_folder(self.path, mode=0o700)
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            refusal = refused_by_system(error, self.path)
            if refusal is not None and error.errno in NO_ROOM:
                raise refusal from error
            raise RunFolderError(f"{self.path} cannot be made ({error.strerror}): give another folder") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            taken = f"{self.path} is in use by another process: wait for it, or give another folder"
            raise RunFolderError(taken) from None
        return lock

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
                    f"{self.path} holds another run: {key} is {shown(there.get(key))} there and {shown(value)} here; "
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


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """JSON lines."""
    write_atomically(path, "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))
