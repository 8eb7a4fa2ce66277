"""A server and two clients of NVFlare's, three processes with mutual TLS: the same result and ledger as in-process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from engines.nvflare.organisations import METHODS, SEED, Processes, once, prepare_all
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
    """Neither a row nor a key nor an id beyond the common ones is in another's folder, its logs included."""
    for party in ("bank", "shop", "clinic"):
        secrets = planted(parties, party)
        for other in ("bank", "shop", "clinic"):
            if other != party:
                files = [path for path in (parties / other).rglob("*") if path.is_file()]
                assert files
                for path in files:
                    found = [secret for secret in secrets if secret in path.read_bytes()]
                    assert found == [], path


def planted(parties: Path, party: str) -> list[bytes]:
    """Values of a party's rows, ids that it alone has, and its private key."""
    (key,) = (parties / party / "startup").glob("*.key")
    lines = (parties / party / f"{party}.csv").read_text().splitlines()
    values = [line.split(",")[1].encode() for line in lines[1:10]]
    common = (parties / party / "common.csv").read_text().split()
    alone = [id.encode() for id in (line.split(",")[0] for line in lines[1:]) if id not in common]
    assert alone
    return [*values, *(alone if party == "bank" else []), key.read_bytes().splitlines()[1]]


def test_every_party_has_ended_and_its_host_knows(parties: Path) -> None:
    assert list(parties.glob("*/runs/*/nvflare-*")) == []
    assert list(parties.glob("*/runs/*/*/journal")) == []


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
