"""The gate: everything passes, what crossed is counted, and a closed gate leaves no port open."""

import socket
import threading

import pytest

from vesica.protocol.gate import Call, Counter, Gate

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, call: int, contents: bytes) -> bytes:
    return len(contents).to_bytes(3) + bytes([kind, 0]) + call.to_bytes(4) + contents


UP = PREFACE + frame(4, 0, b"settings") + frame(1, 1, b"headers") + frame(0, 1, b"12345") + frame(0, 1, b"678")
UP += frame(6, 0, b"pingpong") + frame(1, 3, b"headers") + frame(0, 3, b"")
DOWN = frame(4, 0, b"") + frame(1, 1, b"h") + frame(0, 1, b"x" * 300) + frame(1, 1, b"end") + frame(0, 3, b"y")


@pytest.mark.parametrize("size", [1, 2, 7, 9, 10, 64, 1000])
def test_messages_are_counted_however_the_bytes_arrive(size: int) -> None:
    counter = Counter(skip=len(PREFACE))
    for start in range(0, len(UP), size):
        counter.read(UP[start : start + size])
    assert counter.messages == {1: 8, 3: 0}
    assert counter.total == len(UP)


def test_a_gate_passes_everything_on_and_counts_it() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    gate = Gate(server.getsockname()[1])
    heard = []

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            heard.append(connection.recv(len(UP), socket.MSG_WAITALL))
            connection.sendall(DOWN)

    thread = threading.Thread(target=serve)
    thread.start()
    with socket.create_connection(("127.0.0.1", gate.port)) as client:
        client.sendall(UP)
        answer = client.recv(len(DOWN), socket.MSG_WAITALL)
    thread.join()
    server.close()
    gate.close()
    assert (heard, answer) == ([UP], DOWN)
    assert gate.calls == [Call(8, 300), Call(0, 1)]
    assert gate.total == len(UP) + len(DOWN)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", gate.port))


def test_a_gate_that_is_closed_hangs_up_on_both_sides() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    gate = Gate(server.getsockname()[1])
    client = socket.create_connection(("127.0.0.1", gate.port))
    connection, _ = server.accept()
    client.sendall(UP)
    connection.recv(len(UP), socket.MSG_WAITALL)
    gate.close()
    assert client.recv(1) == connection.recv(1) == b""
    for one in (client, connection, server):
        one.close()
