"""A run folder has one owner, and nobody else can read it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from vesica.errors import RunFolderError
from vesica.experiment import folder as folders
from vesica.experiment.folder import RunFolder

RUN = {"method": "split-nn", "parties": ["bank", "shop"]}


def modes(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.stat().st_mode & 0o777 for path in root.rglob("*")}


def test_of_two_that_begin_at_once_only_one_owns_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second begins where the first has found an empty folder and is about to write into it."""
    write, said = folders.write_atomically, []

    def write_late(path: Path, text: Any) -> None:
        if not said:
            said.append("nothing")
            try:
                RunFolder(tmp_path / "run", RUN)
            except RunFolderError as refusal:
                said.append(str(refusal))
        write(path, text)

    monkeypatch.setattr(folders, "write_atomically", write_late)
    held = RunFolder(tmp_path / "run", RUN)
    assert said[1:] == [
        f"{tmp_path / 'run'} is in use by another process: wait for it, or give another folder",
    ]
    held.close()


def test_who_comes_when_the_owner_has_just_finished_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it saw an unfinished folder before it took the lock."""
    RunFolder(tmp_path, RUN).close()
    take = RunFolder._take_lock

    def take_late(self: RunFolder) -> int:
        monkeypatch.undo()
        first = RunFolder(tmp_path, RUN)
        first.finish({}, drop_journals_of=())
        first.close()
        return take(self)

    monkeypatch.setattr(RunFolder, "_take_lock", take_late)
    with pytest.raises(RunFolderError, match="holds a finished run of split-nn"):
        RunFolder(tmp_path, RUN)


def test_a_foreign_folder_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(RunFolderError, match=r"is no run folder: it has no run\.json"):
        RunFolder(tmp_path, RUN)
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


def test_a_folder_that_could_not_be_read_again_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"is not UTF-8, as the reader of models needs it: give another folder"):
        RunFolder(tmp_path / os.fsdecode(b"caf\xe9"), RUN)
    assert not list(tmp_path.iterdir())


def test_a_run_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", RUN)
    folder.party("bank")
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    assert modes(tmp_path / "run") == {".lock": 0o600, "run.json": 0o600, "bank": 0o700}
    folder.close()


def test_in_a_folder_that_all_can_read_nobody_else_reads_what_a_run_keeps(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o755)
    folder = RunFolder(tmp_path / "run", RUN)
    folder.journal("shop")
    folder.finish({}, drop_journals_of=())
    assert modes(tmp_path / "run") == {"run.json": 0o600, "result.json": 0o600, "shop": 0o700}
    folder.close()


def test_what_a_kill_left_half_written_is_removed_when_the_run_goes_on_and_when_it_ends(tmp_path: Path) -> None:
    """Also in the folders of parties: it may be the secret that all random numbers of a party follow from."""
    folder = RunFolder(tmp_path / "run", RUN)
    left = [folder.path / ".p1.run.json.partial", folder.journal("shop") / ".p2.secret.partial"]
    left[1].parent.mkdir()
    kept = folder.party("shop") / "a.partial"

    def leave() -> None:
        for path in (*left, kept):
            path.write_bytes(b"half")

    leave()
    with pytest.raises(RunFolderError, match="in use by another process"):
        RunFolder(tmp_path / "run", RUN)
    assert all(path.exists() for path in left)  # they may be of who holds the folder
    folder.close()
    with pytest.raises(RunFolderError, match="holds another run"):
        RunFolder(tmp_path / "run", RUN | {"method": "pooled"})
    assert all(path.exists() for path in left)
    folder = RunFolder(tmp_path / "run", RUN)
    assert [path.exists() for path in (*left, kept)] == [False, False, True]
    leave()
    folder.finish({}, drop_journals_of=())
    assert [path.exists() for path in (*left, kept)] == [False, False, True]
    folder.close()
