"""Every method by post: what a simulation gives, or one sentence that it needs all parties in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.post.organisations import METHODS as QUICK_ONES
from engines.post.organisations import Town, in_one_folder
from engines.post.test_runs import messages_in
from federations import quick
from vesica.data import Federation
from vesica.errors import InputError
from vesica.experiment import fit
from vesica.experiment.member import Plan
from vesica.methods import METHODS

IN_ONE_PLACE = [name for name, method in METHODS.items() if getattr(method, "simulation_only", False)]
OTHERS = [name for name in METHODS if name not in (*QUICK_ONES, *IN_ONE_PLACE)]


@pytest.mark.slow
@pytest.mark.parametrize("guests", [("shop",), ("shop", "camera")], ids=len)
@pytest.mark.parametrize("name", OTHERS)
def test_a_method_by_post_comes_to_what_a_simulation_gives(name: str, guests: tuple[str, ...], tmp_path: Path) -> None:
    method = quick(name)
    town = Town(tmp_path, Plan(method, seed=3), guests)
    result = town.train()
    federation = Federation.from_toml(in_one_folder(town, tmp_path / "all"))
    simulated = fit(method, federation, seed=3, out=tmp_path / "out")
    assert result.metrics == simulated.metrics
    assert result.ledger.messages == simulated.ledger.messages
    assert result.scoring.messages == simulated.scoring.messages
    for party, desk in town.desks.items():
        ours, theirs = desk.run("first") / party, tmp_path / "out" / party
        assert messages_in(ours) == messages_in(theirs)
        assert (ours / "model.safetensors").read_bytes() == (theirs / "model.safetensors").read_bytes()


@pytest.mark.parametrize("name", IN_ONE_PLACE)
def test_a_method_that_needs_all_in_one_place_is_refused(name: str, tmp_path: Path) -> None:
    town = Town(tmp_path, Plan(quick(name)))
    for party in town.desks:
        with pytest.raises(InputError, match=f"^{name} needs all parties in one place: it runs with --engine in-pro"):
            town.act(party)
    assert list(tmp_path.glob("desks/*/outbox/*/*")) == []


def test_every_method_is_here_or_in_the_quick_ones() -> None:
    assert len(OTHERS) >= 8
    assert {"fedbcd", "fedcvt", "vflhlp", "local-only"} <= set(OTHERS)
    assert {"pooled", "linear", "vertical-trees"} <= set(IN_ONE_PLACE)
