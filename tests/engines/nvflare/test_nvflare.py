"""A server and two clients of NVFlare's, three processes with mutual TLS: the same result and ledger as in-process."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from engines.nvflare.organisations import KEEPS, METHODS, SEED, Processes, once, prepare_all
from vesica.data import Federation
from vesica.experiment import fit

PARTY = Path(__file__).with_name("party.py")
LIMIT = 400  # seconds, on a machine with much else to do


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parties' folders after an alignment and a run of every method on its result, all over one connection."""
    return once(tmp_path_factory, "nvflare-runs", run_all) / "parties"


def run_all(folder: Path) -> None:
    parties = prepare_all(folder)
    with Processes() as processes:
        names = ("bank", "shop", "clinic")
        for name in names:
            (parties / name / "common.csv").unlink()
        started = {name: processes.start(PARTY, parties / name, "nobody", "align", *METHODS) for name in names}
        said = {name: process.communicate(timeout=LIMIT)[0] for name, process in started.items()}
        assert [process.returncode for process in started.values()] == [0, 0, 0], said
    for name, words in said.items():
        (parties / name / "said.txt").write_text(words)


def test_every_party_has_the_common_ids_in_one_order_and_no_journal_is_left(parties: Path) -> None:
    found = [(parties / party / "common.csv").read_text().split() for party in ("bank", "shop", "clinic")]
    assert found[0] == found[1] == found[2]
    assert sorted(found[0]) == sorted((parties.parent / "common.csv").read_text().split())
    assert found[0][1:] != sorted(found[0][1:])  # in an order that says nothing of any party's
    assert list(parties.glob("*/runs/.alignment")) == []


@pytest.fixture(scope="module", params=METHODS)
def simulated(request: pytest.FixtureRequest, parties: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The method's name, and the folder of the same run in one process."""
    federation = Federation.from_toml(parties.parent / "federation.toml")
    out = tmp_path_factory.mktemp("in-process") / "run"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the parties' processes: sums in another order differ in their last bits
    fit(METHODS[request.param], federation, seed=SEED, out=out)
    torch.set_num_threads(threads)
    return request.param, out


def test_the_result_and_the_ledger_are_those_of_one_process(simulated: tuple[str, Path], parties: Path) -> None:
    name, out = simulated
    result, expected = (read(folder / "result.json") for folder in (parties / "bank" / "runs" / name, out))
    for key in ("method", "seed", "parties", "metrics", "rounds", "messages", "bytes", "wire"):
        assert result[key] == expected[key], key
    for key in ("aligned", "labelled", "validation", "test"):  # how many rows another has alone, the host cannot know
        assert result["rows"][key] == expected["rows"][key], key
    for party in ("bank", "shop", "clinic"):
        ours, theirs = (messages(folder / party) for folder in (parties / party / "runs" / name, out))
        assert ours == theirs


def messages(folder: Path) -> list[dict[str, Any]]:
    """A party's ledger but for the agreement, in which organisations also say which rows are for testing."""
    lines = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    kept = [line for line in lines if line["phase"] != "agreement"]
    assert kept
    return kept


def test_the_models_are_those_of_one_process_bit_for_bit(simulated: tuple[str, Path], parties: Path) -> None:
    name, out = simulated
    for party in ("bank", "shop", "clinic"):
        ours = load_file(parties / party / "runs" / name / party / "model.safetensors")
        theirs = load_file(out / party / "model.safetensors")
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_no_party_has_anything_of_another(parties: Path) -> None:
    """In another's folder, with its logs, its words and what it received, is neither a row nor a key nor an id."""
    names = ("bank", "shop", "clinic")
    held = {name: {path: path.read_bytes() for path in (parties / name).rglob("*") if path.is_file()} for name in names}
    for name in names:
        assert any("journal" in path.parts and KEEPS in path.parts for path in held[name])  # so messages are looked at
        assert parties / name / "said.txt" in held[name]
    for party, secrets in ((name, planted(parties, name)) for name in names):
        own = b"".join(held[party].values())
        assert all(any(shape in own for shape in shapes) for shapes in secrets)  # so the search would find them
        others = [(path, content) for name in names if name != party for path, content in held[name].items()]
        for path, content in others:
            assert [shape for shapes in secrets for shape in shapes if shape in content] == [], path


def planted(parties: Path, party: str) -> list[list[bytes]]:
    """Values of a party's rows, its columns, the ids that it alone has, its private key: each in all its shapes."""
    (key,) = (parties / party / "startup").glob("*.key")
    heads, *lines = [line.split(",") for line in (parties / party / f"{party}.csv").read_text().splitlines()]
    values = [shapes_of(line[1]) for line in lines[:3]]  # few: four bytes may be anywhere by chance
    common = (parties / party / "common.csv").read_text().split()
    alone = [[line[0].encode()] for line in lines if line[0] not in common]
    assert len(alone) == 20
    return [*values, *([head.encode()] for head in heads[1:]), *alone, [key.read_bytes().splitlines()[1]]]


def shapes_of(value: str) -> list[bytes]:
    """A value as a file may hold it."""
    return [value.encode(), struct.pack("<d", float(value)), struct.pack("<f", float(value))]


def test_every_party_has_ended_and_its_host_knows(parties: Path) -> None:
    assert list(parties.glob("*/runs/*/nvflare-*")) == []
    assert {path.parts[-3] for path in parties.glob("*/runs/*/*/journal")} == {KEEPS}


def test_nothing_that_a_run_needs_is_in_the_guards_way(parties: Path) -> None:
    """But for a word that NVFlare says twice, once for versions of its own before this one."""
    lines = [line for log in parties.glob("*/log.txt") for line in log.read_text().splitlines()]
    assert [line for line in lines if " refused: " in line and "'sm__ACK'" not in line] == []


def test_what_nvflare_listens_on_is_loopback_and_no_job_can_run(parties: Path) -> None:
    log = (parties / "bank" / "log.txt").read_text()
    assert "secure port at 127.0.0.1:" in log
    assert "secure port at 0" not in log
    assert "Won't be able to run the jobs" in log


def read(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_text())
    return values
