"""The exceptions of Vesica: a small tree, each message one sentence that says what, where and what to do."""

import difflib
from collections.abc import Iterable


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
