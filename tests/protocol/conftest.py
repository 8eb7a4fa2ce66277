"""What reaches the disk, and in which order."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """A list of what is synced to the disk from now on, and of the files that take the place of others, by name."""
    events: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        events.append(("synced", "a new file" if path.suffix == ".partial" else path.name))
        fsync(handle)

    def replaced(source: Path, target: Path) -> None:
        events.append(("replaced", Path(target).name))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    return events
