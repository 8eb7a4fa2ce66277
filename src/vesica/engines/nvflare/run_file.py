"""Which run a journal is of, a name that the host draws and its guests learn at the first call; and who has ended."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from vesica.engines.nvflare.note import NO_RUN
from vesica.errors import RunFolderError
from vesica.protocol.journal import sync

_NAME = "nvflare-run"
_ENDED = "nvflare-ended"
_WAITING = "nvflare-waiting"


def recall_run(folder: Path) -> bytes:
    path = folder / _NAME
    run = path.read_bytes() if path.exists() else NO_RUN
    if len(run) != len(NO_RUN):
        raise RunFolderError(f"{path} is torn: start again in a new folder")
    return run


def keep_run(folder: Path, run: bytes) -> None:
    """Before any frame of the run is sent."""
    _write(folder / _NAME, run)


def recall_ended(folder: Path) -> set[str]:
    path = folder / _ENDED
    return set(path.read_text().split()) if path.exists() else set()


def keep_ended(folder: Path, guests: Collection[str]) -> None:
    """Guests that have left: a host that was killed does not wait for them again."""
    _write(folder / _ENDED, " ".join(sorted(guests)).encode())


def recall_waiting(folder: Path) -> tuple[bytes, set[str]]:
    """The run that is finished in a folder, and the guests that were not when their host left."""
    path = folder / _WAITING
    run, *guests = path.read_text().split() if path.exists() else [NO_RUN.hex()]
    return bytes.fromhex(run), set(guests)


def keep_waiting(folder: Path, run: bytes, guests: Collection[str]) -> None:
    if guests:
        _write(folder / _WAITING, " ".join([run.hex(), *sorted(guests)]).encode())
    else:
        (folder / _WAITING).unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> None:
    partial = path.with_suffix(".partial")
    partial.write_bytes(content)
    sync(partial)
    partial.replace(path)
    sync(path.parent)
