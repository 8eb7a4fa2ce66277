"""Who is refused by NVFlare's server: nobody gets a frame through without the certificate of a party of this run."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import stat
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines.nvflare.organisations import Processes, command, free_port, once, prepare_all, wait_for, write_tables
from vesica.engines.nvflare.kits import COMPONENT, Kit
from vesica.errors import InputError
from vesica.experiment.nvflare import prepare

LIMIT = 200
METHOD = ("one-shot", "--set", "guest_steps=20", "--set", "host_epochs=3")


def with_its_own_certificate_only(folder: Path, foreign: Path) -> None:
    """It trusts the right server, but its certificate is signed by another authority."""
    for name in ("client.crt", "client.key"):
        shutil.copyfile(foreign / "shop" / "startup" / name, folder / "startup" / name)


def with_a_foreign_authority(folder: Path, foreign: Path) -> None:
    """Everything it has is of another authority."""
    for name in ("client.crt", "client.key", "rootCA.pem"):
        shutil.copyfile(foreign / "shop" / "startup" / name, folder / "startup" / name)


def with_the_name_of_another(folder: Path, foreign: Path) -> None:
    """Its certificate is in order, and it says it is 'clinic'."""
    kit = json.loads((folder / "kit.json").read_text())
    (folder / "kit.json").write_text(json.dumps({**kit, "name": "clinic"}))
    fed = folder / "startup" / "fed_client.json"
    fed.write_text(fed.read_text().replace('"shop"', '"clinic"'))
    shutil.copyfile(folder / "shop.csv", folder / "clinic.csv")
    shutil.copyfile(folder.parent / "federation.toml", folder / "federation.toml")


INTRUDERS = [with_its_own_certificate_only, with_a_foreign_authority, with_the_name_of_another]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of the intruders, and what the server wrote into its log."""
    folder = once(tmp_path_factory, "nvflare-security", let_them_try)
    seen: dict[str, Any] = json.loads((folder / "seen.json").read_text())
    return seen


def let_them_try(folder: Path) -> None:
    """All of them at one server, beside an honest guest."""
    parties, foreign = prepare_all(folder, guests=("shop", "clinic", "lab")), folder / "foreign"
    prepare(folder / "federation.toml", foreign, address="localhost", port=free_port())
    log = parties / "bank" / "log.txt"
    with Processes() as processes:
        bank = processes.start(*command("start", parties / "bank", *METHOD))
        wait_for(lambda: "Server started" in log.read_text(), bank)
        lab = processes.start(*command("start", parties / "lab", *METHOD))
        started: dict[str, subprocess.Popen[str]] = {}
        for intruder in INTRUDERS:
            mine = folder / intruder.__name__
            shutil.copytree(parties / "shop", mine)
            intruder(mine, foreign)
            started[intruder.__name__] = processes.start(*command("start", mine, *METHOD, "--arrive", 10))
        said = {name: process.communicate(timeout=LIMIT)[0] for name, process in started.items()}
        wait_for(lambda: "New client lab" in log.read_text(), lab)
        greetings = {"with": len(greet(parties, as_party="lab")), "without": len(greet(parties, as_party=None))}
        ends = {name: (process.returncode, said[name]) for name, process in started.items()}
    seen = {"ends": ends, "log": log.read_text(), "greetings": greetings}
    (folder / "seen.json").write_text(json.dumps(seen))


@pytest.mark.parametrize("intruder", INTRUDERS)
def test_an_intruder_is_refused(intruder: Callable[[Path, Path], None], seen: dict[str, Any]) -> None:
    code, said = seen["ends"][intruder.__name__]
    assert code == 2, said
    assert "Traceback" not in said
    assert "is here" not in said
    assert "did not let" in said or "did not start" in said
    assert "New client lab" in seen["log"]  # who is in order is let in
    assert "New client shop" not in seen["log"]
    assert "New client clinic" not in seen["log"]


def test_another_partys_name_is_refused_for_what_the_certificate_says(seen: dict[str, Any]) -> None:
    assert "authenticated as 'shop' but claimed endpoint 'clinic'" in seen["log"]


def test_a_client_without_a_certificate_does_not_get_a_byte(seen: dict[str, Any]) -> None:
    assert seen["greetings"]["with"] > 0
    assert seen["greetings"]["without"] == 0


def greet(parties: Path, *, as_party: str | None) -> bytes:
    """The first bytes that the server says over TLS to who speaks its protocol; none where it hangs up."""
    startup, port = parties / (as_party or "lab") / "startup", int(Kit.open(parties / "bank").target.rpartition(":")[2])
    context = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
    context.set_alpn_protocols(["h2"])
    if as_party is not None:
        context.load_cert_chain(startup / "client.crt", startup / "client.key")
    with (
        contextlib.suppress(ssl.SSLError, ConnectionResetError),
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        return secure.recv(9)
    return b""


def test_private_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    kits = prepare(write_tables(tmp_path, ["shop"]), tmp_path / "parties", address="localhost", port=8002)
    for kit in kits:
        keys = list(kit.folder.rglob("*.key"))
        assert len(keys) == 1
        assert stat.S_IMODE(keys[0].stat().st_mode) == 0o600
        assert stat.S_IMODE(kit.folder.stat().st_mode) == 0o700
        assert not list((kit.folder / "startup").glob("*.sh"))
    assert sorted(path.name for path in (tmp_path / "parties").iterdir()) == ["bank", "shop"]  # no authority's key


def test_no_class_but_ours_may_be_loaded_and_nothing_runs_jobs(tmp_path: Path) -> None:
    for kit in prepare(write_tables(tmp_path, ["shop"]), tmp_path / "parties", address="localhost", port=8002):
        resources = json.loads((kit.folder / "local" / "resources.json").read_text())
        assert resources["class_allow_list"] == [COMPONENT]
        assert [component["path"] for component in resources["components"]] == [COMPONENT]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"shop"', '"the shop"', "party 'the shop' cannot be in a certificate"),
        ('"shop"', '"server"', "party 'server' cannot be in a certificate"),
        ('"shop"', '"bank"', "there are two parties 'bank'"),
    ],
)
def test_names_that_no_certificate_can_have_are_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = write_tables(tmp_path, ["shop"])
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=said):
        prepare(path, tmp_path / "parties", address="localhost", port=8002)


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'bank:8002' is no host name"):
        prepare(write_tables(tmp_path, ["shop"]), tmp_path / "parties", address="bank:8002", port=8002)


def test_prepared_folders_are_not_written_over(tmp_path: Path) -> None:
    path = write_tables(tmp_path, ["shop"])
    prepare(path, tmp_path / "parties", address="localhost", port=8002)
    with pytest.raises(InputError, match="is not empty"):
        prepare(path, tmp_path / "parties", address="localhost", port=8002)
    with pytest.raises(InputError, match="cannot be made"):
        prepare(path, path / "parties", address="localhost", port=8002)


def test_logs_cannot_fill_the_disk(tmp_path: Path) -> None:
    """A guest can have as many lines written as it likes: one for each message that is refused."""
    path = write_tables(tmp_path, ["shop"])
    prepare(path, tmp_path / "parties", address="localhost", port=8002)
    for name in ("bank", "shop"):
        log = json.loads((tmp_path / "parties" / name / "local" / "log_config.json").read_text())
        handlers = log["handlers"].values()
        assert {handler["class"] for handler in handlers} == {"logging.handlers.RotatingFileHandler"}
        assert sum(handler["maxBytes"] * (1 + handler["backupCount"]) for handler in handlers) <= 128 * 2**20


def test_a_folder_that_was_not_prepared_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path, tmp_path / "file"):
        with pytest.raises(InputError, match="was not made by `vesica nvflare prepare`"):
            Kit.open(folder)
    (tmp_path / "kit.json").write_text("{}")
    with pytest.raises(InputError, match="is torn"):
        Kit.open(tmp_path)


@pytest.mark.parametrize(
    ("address", "bound"),
    [
        ("localhost", "127.0.0.1"),
        ("LocalHost", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        ("192.0.2.7", None),
        ("127.example.org", None),
    ],
)
def test_a_server_for_this_machine_binds_nothing_else(address: str, bound: str | None, tmp_path: Path) -> None:
    assert Kit(tmp_path, "bank", "bank", f"{address}:8002").listen == bound


def test_a_guest_cannot_be_called_as_the_servers_address(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="party 'shop' has the name of the server's address"):
        prepare(write_tables(tmp_path, ["shop"]), tmp_path / "parties", address="Shop", port=8002)


def test_every_prepared_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    prepare(write_tables(tmp_path, ["shop"]), tmp_path / "parties", address="localhost", port=8002)
    for path in [tmp_path / "parties", *(tmp_path / "parties").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_party_is_told_of_the_others_their_names_and_what_all_agree_on(tmp_path: Path) -> None:
    path = write_tables(tmp_path, ["shop", "clinic"])
    text = path.read_text().replace("[host]", 'task = "classification"\n[host]\nlabels = "all"')
    path.write_text(text + 'dim = 8\ncolumns = { "pläce" = "category" }\n[ids]\ntrim = true\n[test]\nfraction = 0.25\n')
    prepare(path, tmp_path / "parties", address="localhost", port=8002)
    whole = tomllib.loads(path.read_text())
    for name in ("bank", "shop", "clinic"):
        known = tomllib.loads((tmp_path / "parties" / name / "federation.toml").read_text(encoding="utf-8"))
        expected = {**whole, "host": {"name": "bank", "labels": "all"}}
        expected["guest"] = [{"name": "shop"}, {"name": "clinic"}]
        if name == "bank":
            expected["host"] = whole["host"]
        else:
            number = ["shop", "clinic"].index(name)
            expected["guest"][number] = whole["guest"][number]
        assert known == expected
