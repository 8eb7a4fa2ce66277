"""Which run a journal is of, a name that the host draws and its guests learn at the first call; and who has ended."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from vesica.engines.nvflare.note import NO_RUN
from vesica.errors import RunFolderError
from vesica.protocol.files import write_atomically

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
    write_atomically(folder / _NAME, run)


def recall_ended(folder: Path) -> set[str]:
    path = folder / _ENDED
    return set(path.read_text().split()) if path.exists() else set()


def keep_ended(folder: Path, guests: Collection[str]) -> None:
    """Guests that have left: a host that was killed does not wait for them again."""
    write_atomically(folder / _ENDED, " ".join(sorted(guests)).encode())


def recall_waiting(folder: Path) -> tuple[bytes, set[str]]:
    """The run that is finished in a folder, and the guests that were not when their host left."""
    path = folder / _WAITING
    run, *guests = path.read_text().split() if path.exists() else [NO_RUN.hex()]
    return bytes.fromhex(run), set(guests)


def keep_waiting(folder: Path, run: bytes, guests: Collection[str]) -> None:
    if guests:
        write_atomically(folder / _WAITING, " ".join([run.hex(), *sorted(guests)]).encode())
    else:
        (folder / _WAITING).unlink(missing_ok=True)
