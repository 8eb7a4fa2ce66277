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
        _say(failure)
        if os.environ.get("VESICA_DEBUG"):
            raise
        sys.exit(1)
    except VesicaError as error:
        _say(error)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("vesica: interrupted; with --out, the same command goes on from here\n")
        sys.stderr.flush()
        os._exit(130)  # a party's thread may be deep in a computation, and need not be waited for


def _say(error: Exception) -> None:
    print(f"vesica: {error}", file=sys.stderr)
