"""The run that a journal is of: a name that the host draws, and its guests learn at the first call."""

from __future__ import annotations

from pathlib import Path

from vesica.engines.nvflare.note import NO_RUN
from vesica.errors import RunFolderError
from vesica.protocol.journal import sync

_NAME = "nvflare-run"


def recall_run(folder: Path) -> bytes:
    path = folder / _NAME
    run = path.read_bytes() if path.exists() else NO_RUN
    if len(run) != len(NO_RUN):
        raise RunFolderError(f"{path} is torn: start again in a new folder")
    return run


def keep_run(folder: Path, run: bytes) -> None:
    """Before any frame of the run is sent."""
    partial = folder / f"{_NAME}.partial"
    partial.write_bytes(run)
    sync(partial)
    partial.replace(folder / _NAME)
    sync(folder)
