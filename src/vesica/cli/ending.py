"""How a command ends that cannot go on: one sentence and an exit code."""

from __future__ import annotations

import sys

from vesica.errors import DeadlockError, PartyError, VesicaError


def say(sentence: str) -> None:
    """On one line, whatever names a file put into it, and without a word to the terminal."""
    plain = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in sentence)
    print(f"vesica: {plain}", file=sys.stderr, flush=True)


def say_why(error: VesicaError) -> int:
    """The exit code is 1 where it is not the user's fault and the cause helps to mend it, else 2."""
    say(str(error))
    return 1 if isinstance(error, PartyError | DeadlockError) else 2
