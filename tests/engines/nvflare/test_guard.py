"""What a party with a certificate, and a process on a party's machine without one, cannot do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey

from engines.nvflare.organisations import Processes, command, once, prepare_all, wait_for
from vesica.engines import nvflare
from vesica.engines.nvflare import guard
from vesica.engines.nvflare.kits import Kit
from vesica.errors import InputError, PartyError

HERE = Path(__file__).parent
METHOD = ("one-shot", "--set", "guest_steps=20", "--set", "host_epochs=3")
LIMIT = 200


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = once(tmp_path_factory, "nvflare-attacks", let_them_attack)
    seen: dict[str, Any] = json.loads((folder / "seen.json").read_text())
    return seen


def let_them_attack(folder: Path) -> None:
    """A guest against a host and another guest; a host against its guest; a process that has nothing against both."""
    ours, theirs = folder / "ours", folder / "theirs"
    for one in (ours, theirs):
        one.mkdir()
    first, second = prepare_all(ours, guests=("lab", "shop", "clinic")), prepare_all(theirs, guests=("lab",))
    with Processes() as processes:
        honest = {
            "bank": processes.start(*command("start", first / "bank", *METHOD)),
            "lab": processes.start(*command("start", first / "lab", *METHOD)),
            "lab of the evil host": processes.start(*command("start", second / "lab", *METHOD)),
        }
        attackers = {
            one: processes.start(HERE / "attacker.py", folder_of, one / "go", one / "report.json")
            for one, folder_of in ((ours, first / "shop"), (theirs, second / "bank"))
        }
        for one, parties in ((ours, first), (theirs, second)):
            wait_for(lambda parties=parties: is_in("lab", parties), attackers[one])  # type: ignore[misc]
        ports = {name: listening(process.pid) for name, process in honest.items()}
        intruders = [
            processes.start(
                HERE / "intruder.py", "server" if name == "bank" else "lab", port, first / "lab" / "lab.csv"
            )
            for name in ("bank", "lab")
            for port in ports[name]
        ]
        read = [intruder.communicate(timeout=LIMIT)[0] for intruder in intruders]
        for one in attackers:
            (one / "go").touch()
        for attacker in attackers.values():
            attacker.communicate(timeout=LIMIT)
        ends = {name: process.poll() for name, process in honest.items()}
        for process in honest.values():
            process.kill()
        said = {name: process.communicate()[0] for name, process in honest.items()}
    seen = {"ports": ports, "read": read, "ends": ends, "said": said}
    seen["port"] = int(Kit.open(first / "bank").target.rpartition(":")[2])
    seen["guest"], seen["host"] = (json.loads((one / "report.json").read_text()) for one in (ours, theirs))
    seen["runs"] = [(parties / "lab" / "runs").is_dir() for parties in (first, second)]
    seen["row"] = (first / "lab" / "lab.csv").read_text().splitlines()[1]
    (folder / "seen.json").write_text(json.dumps(seen))


def is_in(guest: str, parties: Path) -> bool:
    there = (parties / guest / "runs" / "one-shot").exists()
    return there and f"New client {guest}" in (parties / "bank" / "log.txt").read_text()


def listening(process: int) -> list[int]:
    connections = psutil.Process(process).net_connections(kind="inet")
    return [connection.laddr.port for connection in connections if connection.status == psutil.CONN_LISTEN]


@pytest.mark.parametrize("who", ["guest", "host"])
@pytest.mark.parametrize("what", ["sys.shell", "delete_run", "shutdown"])
def test_nobody_can_give_a_guest_an_order(who: str, what: str, seen: dict[str, Any]) -> None:
    assert seen[who][what] is None
    assert seen["ends"] == {"bank": None, "lab": None, "lab of the evil host": None}  # all of them go on
    assert seen["runs"] == [True, True]


@pytest.mark.parametrize("what", ["server process_info", "server config_vars", "server stop_cell", "lab process_info"])
def test_nobody_learns_of_a_process_or_stops_it(what: str, seen: dict[str, Any]) -> None:
    assert seen["guest"][what] is None


def test_a_guest_cannot_speak_for_another_to_the_host(seen: dict[str, Any]) -> None:
    assert "'lab' is here" in seen["said"]["bank"]
    assert "'clinic' is here" not in seen["said"]["bank"]


def test_a_guest_cannot_speak_for_the_host_to_another(seen: dict[str, Any]) -> None:
    assert "'bank' is here" in seen["said"]["lab"]
    assert "is in another run" not in seen["said"]["lab"]


def test_the_host_listens_on_its_one_port_and_a_guest_on_none(seen: dict[str, Any]) -> None:
    assert seen["ports"] == {"bank": [seen["port"]], "lab": [], "lab of the evil host": []}


def test_a_process_without_a_certificate_reads_nothing(seen: dict[str, Any]) -> None:
    assert seen["read"]
    assert [text for text in seen["read"] if seen["row"] in text] == []


def message(**headers: object) -> Message:
    """From 'shop' to the host, a chunk of a call, unless the headers say otherwise."""
    keys = {"encoding": MessageHeaderKey.PAYLOAD_ENCODING, "sender": MessageHeaderKey.FROM_CELL}
    keys |= {name: getattr(MessageHeaderKey, name.upper()) for name in ("channel", "topic", "origin", "destination")}
    keys |= {"kind": MessageHeaderKey.MSG_TYPE, "secure": MessageHeaderKey.SECURE}
    keys |= {"of": StreamHeaderKey.CHANNEL, "about": StreamHeaderKey.TOPIC, "coded": StreamHeaderKey.PAYLOAD_ENCODING}
    keys |= {"failed": StreamHeaderKey.FAILED_DESTINATION, "error": StreamHeaderKey.ERROR_MSG}
    call = {"channel": "sm__STREAM", "topic": "sm__DATA", "kind": "req", "of": "vesica", "about": "note"}
    usual = {**call, "origin": "shop", "sender": "shop", "destination": "server", "encoding": "bytes", "coded": "bytes"}
    return Message({keys[name]: value for name, value in {**usual, **headers}.items()})


def why(sent: Message, *, sender: str = "shop", certified: str = "shop") -> str | None:
    return guard.why_refused(sent, me="server", sender=sender, certified=certified)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"of": "return_only", "about": "vesica:note"},
        {"topic": "sm__ACK", "of": None, "encoding": "none"},
        {"topic": "sm__ERROR", "error": "full"},
        {"channel": "task", "topic": "register", "encoding": "fobs"},
        {"channel": "task", "topic": "heart_beat", "encoding": "fobs"},
        {"channel": "cellnet.channel", "topic": "bye", "encoding": "none"},
        {"channel": "cellnet.channel", "topic": "bye", "kind": "reply"},
    ],
)
def test_what_a_run_needs_is_let_through(headers: dict[str, object]) -> None:
    assert why(message(**headers)) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"destination": "lab"},
        {"destination": "lab", "kind": "reply"},
        {"origin": "clinic"},
        {"origin": "server"},
        {"sender": "clinic"},
        {"of": "aux_communication"},
        {"about": "other"},
        {"coded": "fobs"},
        {"encoding": "fobs"},
        {"secure": True},
        {"kind": "reply"},
        {"kind": "return"},
        {"topic": "sm__ACK", "error": "stop"},
        {"topic": "sm__ERROR", "failed": "clinic"},
        {"topic": "sm__CERT"},
        {"channel": "vesica", "topic": "note"},
        {"channel": "task", "topic": "register", "kind": "reply"},
        {"channel": "task", "topic": "get_task"},
        {"channel": "cellnet.channel", "topic": "bulk"},
        {"channel": "cellnet.channel", "topic": "bye", "encoding": "fobs"},
        {"channel": "credential_manager", "topic": "key_exchange"},
        {"channel": "server_command", "topic": "*"},
        {"channel": "hci_channel", "topic": "*"},
    ],
)
def test_everything_else_is_refused(headers: dict[str, object]) -> None:
    assert why(message(**headers)) is not None


def test_a_name_is_that_of_the_certificate() -> None:
    assert why(message(origin="clinic", sender="clinic"), sender="clinic", certified="shop") is not None
    assert why(message(origin="shop.x", sender="shop.x"), sender="shop.x", certified="shop") is not None


def test_a_guest_hears_its_server_alone() -> None:
    def said(sender: str, **headers: object) -> str | None:
        sent = message(origin=sender, sender=sender, destination="lab", **headers)
        return guard.why_refused(sent, me="lab", sender=sender, certified="N/A")

    assert said("server") is None
    assert said("shop") is not None
    assert said("server", channel="task", topic="register", kind="reply", encoding="fobs") is None
    assert said("server", channel="task", topic="register", encoding="fobs") is not None
    assert said("server", channel="admin", topic="sys.shell") is not None


def test_an_nvflare_that_cannot_be_guarded_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("nvflare.fuel.f3.cellnet.core_cell.CoreCell._create_internal_listener")
    monkeypatch.delitem(sys.modules, "vesica.engines.nvflare.guard")
    with pytest.raises(
        InputError, match=r"NVFlare [0-9.]+ is not one that can be guarded here .*_create_internal_listener"
    ):
        nvflare.need_nvflare()


def test_a_program_does_not_run_over_a_cell_that_is_open() -> None:
    with pytest.raises(PartyError, match="not guarded"):
        guard.check(SimpleNamespace(core_cell=object()))
