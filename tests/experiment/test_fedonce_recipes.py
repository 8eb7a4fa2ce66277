"""The recipes of FedOnce, and predictions with every set of guests left out."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from vesica.experiment import fit
from vesica.experiment.fit import check_waiting
from vesica.experiment.recipes import Case, find_recipe
from vesica.methods import FedOnce, check_fields

FOLDER = Path(__file__).parents[2] / "experiments" / "fedonce"


def cases(table: str) -> list[Case]:
    return list(find_recipe("fedonce", table, experiments=FOLDER.parent).cases(2))


def test_every_case_of_laggy_can_be_made_and_told_from_the_others() -> None:
    made = cases("laggy")
    assert len({case.title for case in made}) == len({case.folder for case in made}) == len(made) == 3 * 4 * 2
    for case in made:
        check_fields(case.method)
        check_waiting(case.method, ["guest-1", "guest-2", "guest-3"], wait=case.wait, absent=case.absent)


def test_predictions_are_scored_with_every_set_of_guests_left_out() -> None:
    spec = importlib.util.spec_from_file_location("without", FOLDER / "without.py")
    assert spec is not None
    assert spec.loader is not None
    without = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(without)
    case = Case(FedOnce(guest_epochs=1, host_epochs=1, party_dropout=0.3), "credit", overlap=50)
    lines = list(without.lines_of(case, data_dir=None, device="cpu"))
    assert [line["without"] for line in lines] == [[], ["guest-1"]]
    trained = fit(case.method, case.federation(None)).metrics
    assert lines[0]["metrics"]["auc"] == pytest.approx(trained["auc"], abs=1e-6)
    assert lines[1]["metrics"]["auc"] != pytest.approx(trained["auc"], abs=1e-3)
