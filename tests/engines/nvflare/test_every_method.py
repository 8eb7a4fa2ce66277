"""Every other method over NVFlare, one after the other over one connection: what a simulation gives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engines.nvflare.organisations import METHODS as QUICK_ONES
from engines.nvflare.organisations import SEED, Processes, chosen, once, prepare_all
from engines.nvflare.test_nvflare import PARTY, messages, read
from vesica.data import Federation
from vesica.experiment import fit
from vesica.methods import METHODS

LIMIT = 900  # seconds, on a machine with much else to do
PARTIES = ("bank", "shop", "clinic")
OTHERS = [
    name for name, method in METHODS.items() if name not in QUICK_ONES and not getattr(method, "simulation_only", False)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "nvflare-every-method", run_all)


def run_all(folder: Path) -> None:
    parties = prepare_all(folder)
    with Processes() as processes:
        started = [processes.start(PARTY, parties / name, "nobody", *OTHERS) for name in PARTIES]
        said = [process.communicate(timeout=LIMIT)[0] for process in started]
        assert [process.returncode for process in started] == [0, 0, 0], said


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_a_method_over_nvflare_comes_to_what_a_simulation_gives(name: str, folder: Path, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the parties' processes: sums in another order differ in their last bits
    simulated = fit(
        chosen(name), Federation.from_toml(folder / "federation.toml"), seed=SEED, out=tmp_path / "out"
    ).to_json()
    torch.set_num_threads(threads)
    result = read(folder / "parties" / "bank" / "runs" / name / "result.json")
    for key in ("method", "metrics", "rounds", "messages", "bytes"):
        assert result[key] == simulated[key], key
    for party in PARTIES:
        ours, theirs = folder / "parties" / party / "runs" / name / party, tmp_path / "out" / party
        assert messages(ours) == messages(theirs)
        assert (ours / "model.safetensors").read_bytes() == (theirs / "model.safetensors").read_bytes()


def test_every_method_that_can_is_here_or_in_the_quick_ones() -> None:
    assert {"fedbcd", "fedcvt", "vflhlp", "local-only"} <= set(OTHERS)
