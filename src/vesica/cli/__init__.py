"""The command line."""

from __future__ import annotations

import io
import os
import sys


def main() -> None:
    """Run a command: bad input is one sentence and exit code 2, never a traceback."""
    from vesica.cli.ending import say, say_why
    from vesica.cli.program import app

    os.umask(0o077)  # whatever a command writes may hold values of the tables: it is for this user alone
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that lacks a letter must not end a run
    try:
        app()
    except Exception as error:
        code = say_why(error)
        if code is None or (code == 1 and os.environ.get("VESICA_DEBUG")):
            raise
        sys.exit(code)
    except (SystemExit, KeyboardInterrupt) as end:
        if isinstance(end, SystemExit) and end.code != 130:  # typer's way to say Ctrl-C
            raise
        say("interrupted; a run that has a folder goes on with the same command")
        os._exit(130)  # a party's thread may still be deep in a computation
