"""The command line."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run a command: bad input is one sentence and exit code 2, never a traceback."""
    from vesica.cli.commands import app
    from vesica.errors import DeadlockError, PartyError, VesicaError

    try:
        app()
    except (PartyError, DeadlockError) as failure:  # not the user's fault: the cause helps to mend it
        _say(str(failure))
        if os.environ.get("VESICA_DEBUG"):
            raise
        sys.exit(1)
    except VesicaError as error:
        _say(str(error))
        sys.exit(2)
    except (SystemExit, KeyboardInterrupt) as end:
        if isinstance(end, SystemExit) and end.code != 130:  # typer's way to say Ctrl-C
            raise
        _say("interrupted; with --out, the same command goes on from here")
        os._exit(130)  # a party's thread may still be deep in a computation


def _say(sentence: str) -> None:
    print(f"vesica: {sentence}", file=sys.stderr, flush=True)
