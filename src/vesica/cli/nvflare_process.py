"""What every command has that runs a party beside NVFlare: where the server is, how the process ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vesica.engines.nvflare.kits import Kit


def where_the_server_is(kit: Kit) -> str:
    return f"{kit.name}: the server is {'this one, ' if kit.is_host else ''}at {kit.target}"


@contextmanager
def ending_the_process() -> Iterator[None]:
    """NVFlare leaves threads behind that would keep a finished process alive."""
    from vesica.cli.ending import say, say_why

    code = 0
    try:
        yield
    except Exception as error:
        said = say_why(error)
        if said is None:
            raise
        code = said
    except KeyboardInterrupt:
        say("interrupted; the others have been told, and the same command can be given again")
        code = 130
    sys.stdout.flush()
    os._exit(code)
