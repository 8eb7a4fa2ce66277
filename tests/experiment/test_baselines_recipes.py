"""The recipe of the baselines: as many updates, a fifth of the messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vesica.datasets.scenario import SCENARIOS
from vesica.experiment.recipes import Case, Recipe, find_recipe, reproduce
from vesica.methods import FedBCD, SplitNN, check_fields

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def cases() -> list[Case]:
    return list(find_recipe("baselines", "messages", experiments=EXPERIMENTS).cases(2))


def test_every_case_can_be_made_and_told_from_the_others() -> None:
    made = cases()
    assert len({case.title for case in made}) == len({case.folder for case in made}) == len(made) == 2 * 2 * 2
    assert {case.data for case in made} == {"credit", "mnist"} <= set(SCENARIOS)
    for case in made:
        check_fields(case.method)


@pytest.mark.parametrize("data", ["credit", "mnist"])
def test_both_make_as_many_updates_and_differ_in_nothing_else_but_the_rate(data: str) -> None:
    split, bcd = (case.method for case in cases() if case.data == data and not case.seed)
    assert isinstance(split, SplitNN)
    assert isinstance(bcd, FedBCD)
    assert split.epochs == bcd.local_steps * bcd.epochs == 5 * bcd.epochs <= split.patience
    assert {**vars(split), "epochs": bcd.epochs, "learning_rate": bcd.learning_rate}.items() <= vars(bcd).items()


def test_fedbcd_sends_a_fifth_of_the_messages_and_bytes() -> None:
    made = [replace(case, overlap=60) for case in cases() if case.data == "credit" and not case.seed]
    split, bcd = (run.line for run in reproduce(Recipe("a test", lambda seeds: made), "messages"))
    assert split["messages"] == 5 * bcd["messages"] > 0
    # A verdict's two words are a byte longer or shorter.
    assert split["bytes"]["wire"] == pytest.approx(5 * bcd["bytes"]["wire"], rel=1e-3)
