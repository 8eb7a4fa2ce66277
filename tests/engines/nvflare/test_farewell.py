"""A guest that is killed when all is said, and whose host has left meanwhile: one sentence, then the end of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from engines.nvflare.moments import RECORD, SETTLED, STEP
from engines.nvflare.organisations import LIMIT, METHODS, SEED, Processes, once
from vesica.data import Federation
from vesica.experiment import fit

SCENES = Path(__file__).with_name("left_alone.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "nvflare-left-alone", play)


def play(folder: Path) -> None:
    with Processes() as processes:
        process = processes.start(SCENES, folder)
        said = process.communicate(timeout=LIMIT)[0]
        assert process.returncode == 0, said
    (folder / "scenes.jsonl").write_text(said)


@pytest.fixture
def scenes(folder: Path) -> list[dict[str, Any]]:
    """What each party did when the guest was killed, when it came alone, and when its host came too."""
    return [json.loads(line) for line in (folder / "scenes.jsonl").read_text().splitlines()]


def test_a_host_ends_without_a_guest_that_was_killed_at_the_end_and_says_what_to_do(
    scenes: list[dict[str, Any]],
) -> None:
    bank, shop = scenes[0]["bank"], scenes[0]["shop"]
    assert (bank["code"], shop["code"], shop["did"][SETTLED]) == (0, -9, 1)
    assert "'shop' left before it had ended: when it is started again, give this command again too" in bank["said"]


def test_a_guest_whose_host_has_left_stops_with_one_sentence(scenes: list[dict[str, Any]]) -> None:
    shop = scenes[1]["shop"]
    assert shop["code"] == 2
    (why,) = [line for line in shop["said"].splitlines() if line.startswith("vesica: ")]
    assert "'bank' at localhost:" in why
    assert "did not let 'shop' in within 1 s: see that it is started there" in why


def test_beside_its_host_it_ends_and_nothing_is_trained_or_written_down_again(
    scenes: list[dict[str, Any]], folder: Path
) -> None:
    for party in ("bank", "shop"):
        assert scenes[2][party]["code"] == 0, scenes[2][party]["said"]
        assert scenes[2][party]["did"][STEP] == scenes[2][party]["did"][RECORD] == 0
        assert scenes[0][party]["did"][STEP] > 0
    assert "'shop' had not ended; staying up to 60 s" in scenes[2]["bank"]["said"]
    assert list(folder.glob("parties/*/runs/*/nvflare-*")) == []
    assert list(folder.glob("parties/*/runs/*/*/journal")) == []


def test_its_models_and_its_ledger_are_those_of_a_run_that_nobody_killed(folder: Path, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the parties' processes: sums in another order differ in their last bits
    fit(METHODS["one-shot"], Federation.from_toml(folder / "federation.toml"), seed=SEED, out=tmp_path / "run")
    torch.set_num_threads(threads)
    for party in ("bank", "shop"):
        ours, theirs = folder / "parties" / party / "runs" / "one-shot" / party, tmp_path / "run" / party
        assert (ours / "model.safetensors").read_bytes() == (theirs / "model.safetensors").read_bytes()
        assert messages(ours) == messages(theirs)


def messages(folder: Path) -> list[dict[str, Any]]:
    """But for the agreement, in which organisations also say which rows are for testing."""
    lines = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    kept = [line for line in lines if line["phase"] != "agreement"]
    assert kept
    return kept
