"""What every command has that runs a party beside NVFlare: options, where the server is, how the process ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vesica.engines.nvflare.kits import Kit

Liveness = Annotated[float, typer.Option(min=1, help="seconds without a sign of life, after which whoever waits stops")]
Arrive = Annotated[float, typer.Option(min=1, help="seconds that the others have to come at the start")]


def where_the_server_is(kit: Kit) -> str:
    return f"{kit.name}: the server is {'this one, ' if kit.is_host else ''}at {kit.target}"


@contextmanager
def ending_the_process() -> Iterator[None]:
    """NVFlare leaves threads behind that would keep a finished process alive."""
    from vesica.cli.ending import say, say_why
    from vesica.errors import VesicaError

    code = 0
    try:
        yield
    except VesicaError as error:
        code = say_why(error)
    except KeyboardInterrupt:
        say("interrupted; the others have been told, and the same command can be given again")
        code = 130
    sys.stdout.flush()
    os._exit(code)
