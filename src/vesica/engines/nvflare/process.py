"""Run NVFlare's server or client in this process, and a party's program beside it until the program ends."""

from __future__ import annotations

import _thread
import os
import signal
import threading
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nvflare.fuel.data_event.utils import set_scope_property

# NVFlare would import these in the 15 s that its client has to make a connection: too short on a busy machine.
from nvflare.fuel.f3.drivers import aio_grpc_driver, aio_http_driver, grpc_driver  # noqa: F401
from nvflare.private.fed.app.client import client_train
from nvflare.private.fed.app.server import server_train
from nvflare.private.fed.client.client_status import ClientStatus
from nvflare.private.fed.server.server_status import ServerStatus

from vesica.engines.nvflare import guard
from vesica.engines.nvflare.kits import Kit
from vesica.engines.nvflare.line import PROGRAM, SCOPE, Line
from vesica.errors import InputError, PartyError


@dataclass
class _Life:
    """One process: NVFlare in the main thread, the program in another."""

    kit: Kit
    program: Callable[[Line], Any]
    begun: threading.Event = field(default_factory=threading.Event)
    line: Line | None = None
    ended: bool = False
    result: Any = None
    failure: BaseException | None = None

    def live(self, site: Any) -> None:
        """In a thread of its own, once NVFlare stands; then NVFlare ends too."""
        self.begun.set()
        try:
            guard.check(site.cell)
            self.line = Line(site.cell, host=self.kit.host)
            self.result = self.program(self.line)
            self.ended = True
        except BaseException as failure:  # passed on to the main thread
            self.failure = failure
        finally:
            site.shutdown = True
            site.status = ServerStatus.SHUTDOWN if self.kit.is_host else ClientStatus.STOPPED

    def watch(self, seconds: float) -> None:
        """NVFlare's client looks for its server for ever; a person should hear that it is not there."""
        if not self.begun.wait(seconds):
            self.failure = InputError(
                f"'{self.kit.host}' at {self.kit.target} did not let '{self.kit.name}' in within {seconds:.0f} s: "
                f"see that it is started there and that this folder is the one prepared for '{self.kit.name}'; "
                f"{self.kit.folder / 'log.txt'} says more"
            )
            _thread.interrupt_main()

    def leave(self, signal_number: int, frame: object) -> None:
        """Ctrl-C, or another's wish that this ends: the others hear of it before NVFlare goes.

        Who asks a second time does not wait for that.
        """
        signal.signal(signal_number, signal.default_int_handler)
        if self.line is not None:
            self.line.leave()
        raise KeyboardInterrupt


def run_beside(kit: Kit, program: Callable[[Line], Any], *, arrive: float) -> Any:
    """What the program returns; a guest looks for the server for `arrive` seconds.

    Threads of NVFlare may remain: the caller ends the process.
    """
    os.umask(0o077)  # logs, journals and models are for this user alone
    guard.install()
    life = _Life(kit, program)
    set_scope_property(SCOPE, PROGRAM, life.live)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, life.leave)
    threading.Thread(target=life.watch, args=[arrive], daemon=True).start()
    settings = ["secure_train=true", f"org={kit.name}", "config_folder=config"]
    settings += [f"host={kit.listen}"] if kit.is_host and kit.listen else []
    settings += [] if kit.is_host else [f"uid={kit.name}"]
    args = Namespace(workspace=str(kit.folder), set=settings, local_rank=0)
    args.fed_server, args.fed_client = "fed_server.json", "fed_client.json"
    try:
        (server_train if kit.is_host else client_train).main(args)
    except KeyboardInterrupt:
        if life.failure is None:
            raise
    except Exception as error:
        raise life.failure or _refused(kit, error) from error
    if life.failure is not None:
        raise life.failure
    if not life.ended:
        ended = f"NVFlare ended before the run did, which {kit.folder / 'log.txt'} may explain"
        raise PartyError(f"{ended}: the same command goes on")
    return life.result


def _refused(kit: Kit, error: Exception) -> Exception:
    said = f"NVFlare's {'server' if kit.is_host else 'client'} of '{kit.name}' did not start ({error})"
    return InputError(f"{said}: {kit.folder / 'log.txt'} says more")
