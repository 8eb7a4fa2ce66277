"""How NVFlare's process and a party's program end together."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvflare.fuel.data_event.utils import get_scope_property
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.message import Message

from vesica.engines.nvflare import process
from vesica.engines.nvflare.kits import Kit
from vesica.engines.nvflare.line import PROGRAM, SCOPE, Line
from vesica.errors import PartyError, ProtocolError


class Cell:
    """As much of NVFlare's as a line needs."""

    def __init__(self, reply: Message | None = None) -> None:
        self.reply = reply

    def register_request_cb(self, *, channel: str, topic: str, cb: object) -> None: ...

    def send_request(self, **request: object) -> Message | None:
        return self.reply


@pytest.fixture
def nvflare(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Let NVFlare's server be a function that is called in its place; signals and umask as they were, afterwards."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    mask = os.umask(0o022)
    monkeypatch.setattr(process.guard, "install", lambda: None)
    monkeypatch.setattr(process.guard, "check", lambda cell: None)
    yield lambda main: monkeypatch.setattr(process.server_train, "main", lambda args: main())
    os.umask(mask)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def run(program: Callable[[Line], Any], folder: Path) -> Any:
    return process.run_beside(Kit(folder, "bank", "bank", "localhost:1"), program, arrive=60)


def begin() -> threading.Thread:
    """What our component does once NVFlare stands."""
    thread = threading.Thread(
        target=get_scope_property(SCOPE, PROGRAM), args=[SimpleNamespace(cell=Cell())], daemon=True
    )
    thread.start()
    return thread


def test_what_the_program_returns_comes_back(nvflare: Any, tmp_path: Path) -> None:
    nvflare(lambda: begin().join())
    assert run(lambda line: "done", tmp_path) == "done"


def test_an_end_of_nvflare_before_the_program_is_none_of_the_run(nvflare: Any, tmp_path: Path) -> None:
    nvflare(begin)
    with pytest.raises(PartyError, match="NVFlare ended before the run did"):
        run(lambda line: time.sleep(60), tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_interrupted_tells_the_others_before_nvflare_ends(number: int, nvflare: Any, tmp_path: Path) -> None:
    told, opened = threading.Event(), threading.Event()

    def be_interrupted() -> None:
        begin()
        assert opened.wait(10)
        os.kill(os.getpid(), number)
        time.sleep(10)

    def program(line: Line) -> None:
        line.open(lambda caller, note: note, leave=told.set)
        opened.set()
        time.sleep(60)

    nvflare(be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(program, tmp_path)
    assert told.is_set()


def test_what_a_process_writes_is_for_its_user_alone(nvflare: Any, tmp_path: Path) -> None:
    nvflare(lambda: begin().join())
    run(lambda line: (tmp_path / "log.txt").touch(), tmp_path)
    assert (tmp_path / "log.txt").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("payload", [None, 3_000_000_000, {"a": 1}, "text", [1, 2]])
def test_a_call_that_is_no_bytes_is_refused(payload: object) -> None:
    heard: list[bytes] = []
    line = Line(Cell(), host="bank")
    line.open(lambda caller, note: heard.append(note) or note)  # type: ignore[func-returns-value]
    reply = line._reply(Message({MessageHeaderKey.ORIGIN: "shop"}, payload))
    assert reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.INVALID_REQUEST
    assert heard == []


@pytest.mark.parametrize("payload", [None, 3_000_000_000, {"a": 1}])
def test_an_answer_that_is_no_bytes_is_refused(payload: object) -> None:
    line = Line(Cell(Message({MessageHeaderKey.RETURN_CODE: ReturnCode.OK}, payload)), host="bank")
    with pytest.raises(ProtocolError, match="'shop' made a call that is no bytes"):
        line.call("shop", b"note", 1.0)
