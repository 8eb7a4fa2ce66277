"""What a person is told cannot be mistaken, and cannot move the cursor."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from pathlib import Path

import pytest

from vesica.errors import PartyError, printable, refused_by_system


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, Zoë, 漢字 – \\n [red] :smile:", "plain text, Zoë, 漢字 – \\n [red] :smile:"),
        ("a\x1b[2Jb\x9bc\x7f", "a\\x1b[2Jb\\x9bc\\x7f"),
        ("one\nvesica: two\r\u2028three", "one\\nvesica: two\\r\\u2028three"),
        ("abc\u202egpj.exe\u2066", "abc\\u202egpj.exe\\u2066"),
        (os.fsdecode(b"caf\xe9.csv"), "caf\\udce9.csv"),
    ],
)
def test_what_is_not_printable_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(text).encode()


def test_what_the_system_refuses_is_one_sentence() -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "run/model.json")
    assert str(refused_by_system(full)) == (
        "run/model.json cannot be written (No space left on device): make room for it, then give the same command again"
    )
    locked = PermissionError(errno.EACCES, os.strerror(errno.EACCES), "bank.csv")
    assert str(refused_by_system(locked)) == (
        "bank.csv cannot be used (Permission denied): mend that, or give another place, then give the same command "
        "again"
    )
    assert str(refused_by_system(RuntimeError("I/O error: No space (os error 28)"))).startswith(
        "a file or standard output cannot be written (No space left on device)"
    )
    assert refused_by_system(OSError(errno.EIO, "broken"), Path("run")) is not None
    for other in (
        ValueError("wrong"),
        OSError("of no number"),
        OSError(errno.EIO, "of no file"),
        PartyError("failed (os error 28)"),
    ):
        assert refused_by_system(other) is None


@pytest.mark.parametrize(
    "error",
    [
        ssl.SSLError(1, "[SSL: CERTIFICATE_VERIFY_FAILED]"),
        socket.gaierror(-2, "Name or service not known"),
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        TimeoutError(errno.ETIMEDOUT, "Connection timed out"),
        BrokenPipeError(errno.EPIPE, "Broken pipe"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_a_network_is_not_said_to_be_of_a_file(error: OSError) -> None:
    assert refused_by_system(error) is None
    assert refused_by_system(error, Path("run")) is None
