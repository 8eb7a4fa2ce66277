"""Files are whole, for their owner alone, and a full disk is one sentence."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
import torch
from safetensors.torch import save_file

from vesica.errors import InputError
from vesica.protocol.files import make_folder, replacing, write_atomically


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow beyond 1,000 bytes, which the system refuses as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


WRITERS: dict[str, Callable[[Path], object]] = {
    "text": lambda path: path.write_text("x" * 5000),
    "a table": lambda path: pl.DataFrame({"x": range(5000)}).write_csv(path),
    "tensors": lambda path: save_file({"x": torch.zeros(5000)}, path),
}


@pytest.mark.parametrize("what", WRITERS)
def test_a_disk_without_room_leaves_the_old_file_and_one_sentence(what: str, tmp_path: Path, small_files: None) -> None:
    path = tmp_path / "result"
    path.write_text("old")
    with pytest.raises(InputError) as refusal, replacing(path) as partial:
        WRITERS[what](partial)
    assert str(refusal.value) == (
        f"{path} cannot be written (File too large): make room for it, then give the same command again"
    )
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("result", "old")]


def test_a_disk_that_is_full_when_the_file_is_synchronised_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_atomically(tmp_path / "result", "old")
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(InputError, match=r"result cannot be written \(No space left on device\): make room"):
        write_atomically(tmp_path / "result", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("result", "old")]


def test_a_file_is_for_its_owner_alone_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_atomically(tmp_path / "result", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "result").stat().st_mode & 0o777 == 0o600


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(tmp_path / "pipe", "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("x" * 255), "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x" * 255]


def test_a_file_takes_its_place_once_it_has_reached_the_disk_and_then_its_name_does(
    tmp_path: Path, disk: list[tuple[str, str]]
) -> None:
    write_atomically(tmp_path / "folder.json", "new")
    assert disk == [("synced", "a new file"), ("replaced", "folder.json"), ("synced", tmp_path.name)]


def test_the_names_of_all_folders_that_are_made_reach_the_disk(tmp_path: Path, disk: list[tuple[str, str]]) -> None:
    make_folder(tmp_path / "one" / "two" / "three")
    assert {name for _, name in disk} == {"two", "one", tmp_path.name}
    disk.clear()
    make_folder(tmp_path / "one" / "two" / "three")  # whoever made it may have been killed before it was synced
    assert disk == [("synced", "two")]


@pytest.mark.parametrize("target", ["result", "pipe"])
def test_an_error_of_another_file_is_not_said_to_be_of_the_one_that_is_written(target: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError) as refusal, replacing(tmp_path / target):
        (tmp_path / "table").read_bytes()
    assert refusal.value.filename == str(tmp_path / "table")
    with (
        pytest.raises(InputError, match=r"result cannot be written \(Read-only"),
        replacing(tmp_path / "result") as own,
    ):
        raise OSError(errno.EROFS, "Read-only file system", str(own))
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
