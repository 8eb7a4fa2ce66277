"""The command line."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run a command: bad input is one sentence and exit code 2, never a traceback."""
    from vesica.cli.ending import say, say_why
    from vesica.cli.program import app
    from vesica.errors import VesicaError

    try:
        app()
    except VesicaError as error:
        code = say_why(error)
        if code == 1 and os.environ.get("VESICA_DEBUG"):
            raise
        sys.exit(code)
    except (SystemExit, KeyboardInterrupt) as end:
        if isinstance(end, SystemExit) and end.code != 130:  # typer's way to say Ctrl-C
            raise
        say("interrupted; a run that has a folder goes on with the same command")
        os._exit(130)  # a party's thread may still be deep in a computation
