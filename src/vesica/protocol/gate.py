"""A gate that a guest's gRPC traffic passes on its way to the host's server, and that counts what crosses."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

_PREFACE = 24  # bytes that an HTTP/2 client begins with
_FRAME = 9  # bytes before the contents of an HTTP/2 frame
_DATA = 0
PREFIX = 5
_CHUNK = 1 << 16
_HERE = "127.0.0.1"


@dataclass
class Counter:
    """Reads one direction of an HTTP/2 connection as it goes by.

    How a message is cut into frames, the headers around it and the acknowledgements depend on the moment; its own bytes
    do not.
    """

    skip: int = 0  # bytes to come that are no frame's beginning
    total: int = 0  # all bytes that crossed
    messages: dict[int, int] = field(default_factory=dict)  # the bytes of each gRPC message, by the number of its call
    _rest: bytes = b""

    def read(self, chunk: bytes) -> None:
        self.total += len(chunk)
        rest = self._rest + chunk
        while len(rest) >= self.skip + _FRAME:
            frame, rest = rest[self.skip : self.skip + _FRAME], rest[self.skip + _FRAME :]
            self.skip = int.from_bytes(frame[:3])
            if frame[3] == _DATA:
                call = int.from_bytes(frame[5:]) & 0x7FFFFFFF
                self.messages[call] = self.messages.get(call, 0) + self.skip
        gone = min(self.skip, len(rest))
        self._rest, self.skip = rest[gone:], self.skip - gone


@dataclass(frozen=True)
class Call:
    """What crossed in one call, in bytes of its two gRPC messages, each with a prefix of `PREFIX` bytes."""

    up: int
    down: int


@dataclass(frozen=True)
class Count:
    """What has crossed a gate: its calls, and all bytes of both directions with what HTTP/2 adds."""

    calls: list[Call] = field(default_factory=list)
    total: int = 0

    @property
    def wire(self) -> int:
        return sum(call.up + call.down for call in self.calls)


class Gate:
    """Listens on a free port of this machine and passes everything on to a server on another one."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._listener = socket.create_server((_HERE, 0))
        self._sockets: list[socket.socket] = []
        self._counters: list[tuple[Counter, Counter]] = []
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]
        self._start(self._listen)

    def close(self) -> None:
        """Hang up, so that nothing listens and nothing waits."""
        _hang_up(self._listener)
        self._threads[0].join()  # from here on nobody comes
        for one in self._sockets:
            _hang_up(one)
        for thread in self._threads:
            thread.join()

    @property
    def total(self) -> int:
        """All bytes that crossed, both directions, with what HTTP/2 adds."""
        return sum(counter.total for pair in self._counters for counter in pair)

    @property
    def calls(self) -> list[Call]:
        return [
            Call(up.messages[call], down.messages.get(call, 0))
            for up, down in self._counters
            for call in sorted(up.messages)
        ]

    def count(self) -> Count:
        return Count(self.calls, self.total)

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection((_HERE, self._server))
            except OSError:
                return  # the gate is closed, or the server has ended, which those who watch it see
            up, down = Counter(skip=_PREFACE), Counter()
            self._sockets += [client, server]
            self._counters.append((up, down))
            self._start(partial(_pass_on, client, server, up))
            self._start(partial(_pass_on, server, client, down))


def _hang_up(one: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side has hung up first
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def _pass_on(source: socket.socket, target: socket.socket, counter: Counter) -> None:
    """Everything, at once and in order, until one side hangs up; the other is told."""
    with contextlib.suppress(OSError):
        target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while chunk := source.recv(_CHUNK):
            counter.read(chunk)
            target.sendall(chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
