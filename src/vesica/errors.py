"""The exceptions of Vesica: a small tree, each message one sentence that says what, where and what to do."""

import difflib
import errno
import os
import re
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path


class VesicaError(Exception):
    """Anything Vesica refuses or reports; `party` is filled in by the engine that carried the party."""

    party: str | None = None

    def __str__(self) -> str:
        message = super().__str__()
        return f"{self.party}: {message}" if self.party else message


class InputError(VesicaError):
    """A file, a table, a setting or an argument that cannot be used."""


class RunFolderError(InputError):
    """A run folder that is torn, foreign or finished."""


class ProtocolError(VesicaError):
    """A peer sent something other than what was agreed."""


class LateError(ProtocolError):
    """A peer sent nothing within the time it was given."""


class AgreementError(ProtocolError):
    """The parties do not mean the same run."""


class BudgetError(VesicaError):
    """A send that would exceed the budget; nothing left the party."""


class DeadlockError(VesicaError):
    """Every party waits for another one."""


class PartyError(VesicaError):
    """A party's own program raised something that is not a VesicaError."""


def nearest(word: str, words: Iterable[str]) -> str:
    """A hint for a misspelt word: "; did you mean 'split-nn'?" or the words there are."""
    known = sorted(words)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else f"; there are: {', '.join(known)}"


NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_OF_NETWORKS = (ConnectionError, TimeoutError, socket.gaierror, socket.herror, ssl.SSLError)
_CODE = re.compile(r"\(os error ([0-9]+)\)")  # in the messages of libraries written in Rust


def refused_by_system(error: BaseException, path: Path | None = None) -> InputError | None:
    """What the system refused, such as a write to a full disk, as one sentence; None for any other error.

    `path` is what was being written, where that is known. An error of a network is none of a file.
    """
    if isinstance(error, (VesicaError, *_OF_NETWORKS)):
        return None
    said = _CODE.search(str(error))
    own = error.errno if isinstance(error, OSError) else None
    code = own or (int(said[1]) if said else None)
    filename = getattr(error, "filename", None)
    if code is None or not (path or filename or said or code in NO_ROOM):
        return None
    where = path or filename or "a file or standard output"
    if isinstance(where, bytes):
        where = os.fsdecode(where)
    remedy = "make room for it" if code in NO_ROOM else "mend that, or give another place"
    verb = "written" if path or code in NO_ROOM else "used"
    return InputError(f"{where} cannot be {verb} ({os.strerror(code)}): {remedy}, then give the same command again")


def printable(text: str) -> str:
    """The text on one line that cannot be mistaken: what is not printable is escaped, as in a string of Python.

    File names and what other parties wrote may hold line feeds, escape sequences of a terminal, marks that reverse the
    direction of text, or bytes that are no UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
