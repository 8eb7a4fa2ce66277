"""A guest that never comes back, over NVFlare: who can do without it goes on and says so, who cannot stops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engines.nvflare.organisations import Processes, once, prepare_all

PARTY = Path(__file__).with_name("party.py")
LIMIT = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "nvflare-absence", run_without_clinic)


def run_without_clinic(folder: Path) -> None:
    """'clinic' vanishes in the first of two runs: exit codes and words go to a file, by party."""
    parties, names = prepare_all(folder), ("bank", "shop", "clinic")
    with Processes() as processes:
        runs = ("clinic", "fedonce:15", "split-nn")
        started = {name: processes.start(PARTY, parties / name, *runs) for name in names}
        words = {name: process.communicate(timeout=LIMIT)[0] for name, process in started.items()}
        ends = {name: (process.returncode, words[name]) for name, process in started.items()}
    (folder / "ends.json").write_text(json.dumps(ends))


def test_a_method_that_can_do_without_goes_on_and_says_so(folder: Path) -> None:
    parties, ends = folder / "parties", json.loads((folder / "ends.json").read_text())
    assert ends["clinic"][0] == 9
    assert "'clinic' did not answer within 15 s and was left out" in ends["bank"][1]
    result = json.loads((parties / "bank" / "runs" / "fedonce" / "result.json").read_text())
    assert result["metrics"]["auc"] is not None
    assert (parties / "shop" / "runs" / "fedonce" / "result.json").exists()
    assert not (parties / "clinic" / "runs" / "fedonce" / "result.json").exists()


def test_a_method_that_cannot_stops_with_the_name_and_nobody_hangs(folder: Path) -> None:
    ends = json.loads((folder / "ends.json").read_text())
    code, words = ends["bank"]
    assert code == 2
    assert "'clinic' has been out of reach" in words.splitlines()[-1]
    code, words = ends["shop"]
    assert code == 2
    assert "'bank' has stopped" in words.splitlines()[-1]
