"""What a party must remember of a run from one command to the next, beside its messages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from vesica.data.text_files import parse_json
from vesica.engines.post.keys import KEY
from vesica.errors import RunFolderError
from vesica.protocol.files import write_atomically

EVERYONE = "everyone"
_SESSION, _FRESH, _ASKED = "session", "fresh", "asked.json"


class Notes:
    """In the folder of a journal; without one they last as long as the process."""

    def __init__(self, folder: Path | None, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock
        self._kept: dict[str, str] = {}

    @property
    def session(self) -> str | None:
        session = self._read(_SESSION)
        if session is not None and not KEY.fullmatch(session):
            raise RunFolderError(f"{self._folder} is torn ({_SESSION}): start again under another name at all parties")
        return session

    def begin(self, session: str) -> None:
        self._write(_SESSION, session)

    def fresh(self, guest: str) -> str | None:
        """What a guest has drawn for this run, at the guest itself or as the host has heard it."""
        return self._read(f"{_FRESH}-{guest}")

    def hear(self, guest: str, fresh: str) -> None:
        self._write(f"{_FRESH}-{guest}", fresh)

    def asked(self, what: str) -> float:
        """When this was asked for the first time; the last thing is remembered, and what everyone was asked for."""
        moments = self._moments()
        if what not in moments:
            moments = {key: moment for key, moment in moments.items() if key == EVERYONE} | {what: self._clock()}
            self._write(_ASKED, json.dumps(moments))
        return moments[what]

    @property
    def last_asked(self) -> str | None:
        return next((what for what in self._moments() if what != EVERYONE), None)

    def _moments(self) -> dict[str, float]:
        try:
            return {str(what): float(moment) for what, moment in parse_json(self._read(_ASKED) or "{}").items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise RunFolderError(f"{self._folder} is torn ({_ASKED}): start again under another name") from error

    def _read(self, name: str) -> str | None:
        if self._folder is None:
            return self._kept.get(name)
        path = self._folder / name
        return path.read_text() if path.exists() else None

    def _write(self, name: str, text: str) -> None:
        if self._folder is None:
            self._kept[name] = text
        else:
            write_atomically(self._folder / name, text)
