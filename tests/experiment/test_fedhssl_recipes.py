"""The recipes of FedHSSL and its published figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from vesica.data import SCENARIOS, split_rows
from vesica.experiment.recipes import Case, find_recipe
from vesica.experiment.tables import read_published
from vesica.methods import check_fields

FOLDER = Path(__file__).parents[2] / "experiments" / "fedhssl"
TABLES = ("table2", "table3", "table4", "fig3", "fig6", "fig7", "objectives", "tune", "credit", "wires")
SUBSETS = ("bhi", "fashion-mnist-halves", "fashion-mnist", "avazu")


def cases(table: str) -> list[Case]:
    return list(find_recipe("fedhssl", table, experiments=FOLDER.parent).cases(2))


@pytest.mark.parametrize("table", TABLES)
def test_every_case_can_be_made_and_told_from_the_others(table: str) -> None:
    made = cases(table)
    assert len({case.title for case in made}) == len({case.folder for case in made}) == len(made) > 0
    for case in made:
        check_fields(case.method)
        assert case.data in SCENARIOS


def test_settings_are_tuned_on_rows_held_out_and_everything_else_is_tested_on_test_rows() -> None:
    for table in TABLES:
        assert {case.hold_out for case in cases(table)} == {table == "tune"}


@pytest.mark.parametrize("table", ["table2", "table3", "table4", "tune"])
def test_the_subsets_have_the_rows_that_every_case_asks_for(table: str, data_dir: Path) -> None:
    seen = {(case.data, case.overlap, case.draw): case for case in cases(table) if case.data in SUBSETS}
    for case in seen.values():
        split = split_rows(case.federation(data_dir))
        assert len(split.aligned_ids) == case.overlap
        sizes = {len(rows.training) for rows in split.parties.values()}
        assert len(sizes) == 1
        if case.draw is not None:
            assert case.overlap is not None
            assert sizes == {case.overlap + case.draw}


def test_published_figures_are_for_cases_that_the_recipes_have() -> None:
    for table in ("table2", "table3", "table4"):
        aligned = {f"{case.overlap:,}" for case in cases(table)}
        for _, data, rows, *_ in read_published(FOLDER / "published.csv", tables=[table]):
            assert data in SCENARIOS
            assert rows in aligned | {""}
