"""How a command ends that cannot go on: one sentence and an exit code."""

from __future__ import annotations

import sys

from vesica.errors import DeadlockError, PartyError, VesicaError, printable, refused_by_system


def say(sentence: str) -> None:
    print(f"vesica: {printable(sentence)}", file=sys.stderr, flush=True)


def say_why(error: Exception) -> int | None:
    """The exit code is 1 where it is not the user's fault and the cause helps to mend it, else 2.

    An error that is neither one of Vesica's nor the system's is a mistake in the program: None, and nothing is said.
    """
    known = error if isinstance(error, VesicaError) else refused_by_system(error)
    if known is None:
        return None
    say(str(known))
    return 1 if isinstance(known, PartyError | DeadlockError) else 2
