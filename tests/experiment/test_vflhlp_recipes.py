"""The recipes of VFLHLP and its published figures."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from vesica.data import split_rows
from vesica.datasets.scenario import SCENARIOS
from vesica.experiment.recipes import Case, find_recipe
from vesica.experiment.tables import read_published
from vesica.methods import VFLHLP, VFLHLPA, VFLHLPP, check_fields, name_of

FOLDER = Path(__file__).parents[2] / "experiments" / "vflhlp"
TUNED = ("tune", "tune-rows")
ON_SUBSETS = ("table2", "table3", "table4", "fig5", "ablation", "start", "credit", *TUNED)
TABLES = (*ON_SUBSETS, "table2-whole", "table3-whole")


def cases(table: str) -> list[Case]:
    return list(find_recipe("vflhlp", table, experiments=FOLDER.parent).cases(2))


@pytest.mark.parametrize("table", TABLES)
def test_every_case_can_be_made_and_told_from_the_others(table: str) -> None:
    made = cases(table)
    assert len({case.title for case in made}) == len({case.folder for case in made}) == len(made)
    for case in made:
        check_fields(case.method)
        assert case.data in SCENARIOS


def test_settings_are_tuned_on_rows_held_out_and_everything_else_is_tested_on_test_rows() -> None:
    for table in TABLES:
        assert {case.hold_out for case in cases(table)} == {table in TUNED}


@pytest.mark.parametrize("table", TABLES)
def test_the_host_has_all_labels_in_every_case(table: str) -> None:
    assert {case.labels for case in cases(table)} == {"all"}


@pytest.mark.parametrize("table", ON_SUBSETS)
def test_the_subsets_have_the_rows_that_every_case_asks_for(table: str, data_dir: Path) -> None:
    """As many of its own for each party, whatever is aligned."""
    seen: dict[tuple[object, ...], Case] = {(case.data, case.overlap, case.host): case for case in cases(table)}
    for case in seen.values():
        federation = case.federation(data_dir)
        split = split_rows(federation)
        assert len(split.aligned_ids) == case.overlap
        if case.draw is not None:
            sizes = {len(rows.training) for rows in split.parties.values()}
            assert sizes == {3_200 if case.data == "criteo" else 6_000}
            assert len(split.known) == len(split.parties["host"].training)


def test_the_halves_have_the_settings_of_the_whole() -> None:
    made = cases("ablation")
    wholes = {(case.data, case.overlap): vars(case.method) for case in made if type(case.method) is VFLHLP}
    for half in (VFLHLPA, VFLHLPP):
        found = [(vars(case.method), wholes[case.data, case.overlap]) for case in made if type(case.method) is half]
        for settings, whole in found:  # neither half: the same rates and epochs, and no step of Scarf
            assert {**settings, "guest_steps": whole["guest_steps"]}.items() <= whole.items()
        assert any(settings.items() <= whole.items() for settings, whole in found)
    assert VFLHLPP(guest_steps=0) in [case.method for case in made]


def test_more_aligned_rows_have_fewer_epochs_but_where_these_are_compared() -> None:
    def epochs(table: str) -> set[tuple[int | None, int]]:
        return {(case.overlap, case.method.epochs) for case in cases(table) if isinstance(case.method, VFLHLP)}

    assert epochs("table2") == {(250, 20), (500, 20), (1000, 10), (2000, 5), (4000, 2)}
    assert epochs("tune-rows") == {(rows, count) for rows in (400, 1000, 2000, 4000) for count in (2, 5, 10, 20)}


def test_every_method_of_the_credit_table_sees_the_same_rows() -> None:
    """Data set, overlap and seed draw them."""
    for data in ("credit", "credit-two-guests"):
        rows = {}
        for case in cases("credit"):
            if case.data == data:
                rows.setdefault(name_of(case.method), []).append((case.overlap, case.seed, case.share, case.draw))
        assert {"vflhlp", "one-shot", "fedonce", "split-nn"} <= set(rows)
        assert all(found == rows["vflhlp"] for found in rows.values())


def test_every_published_figure_is_there() -> None:
    def of(table: str) -> dict[tuple[str, ...], str]:
        published = read_published(FOLDER / "published.csv", tables=[table])
        return {key: figures["auc"] for key, figures in published.items()}

    sizes = {
        table: sorted({int(key[2].replace(",", "")) for key in of(table)}) for table in ("table2", "table3", "table4")
    }
    assert sizes["table2"] == [250, 500, 1000, 2000, 4000, 8000]
    assert sizes["table3"] == [200, 400, 600, 800, 1000, 2000]
    assert sizes["table4"] == [200, 400, 600, 800, 1000]
    assert {table: len(of(table)) for table in sizes} == {"table2": 18, "table3": 18, "table4": 40}
    assert of("table2")["vflhlp", "avazu-three", "250"] == "0.6940"
    assert of("table3")["split-nn", "criteo", "2,000"] == "0.6140"
    assert of("table4")["fedhssl", "avazu", "1,000", "ssl=moco"] == "0.6490"
    with (FOLDER / "published.csv").open(newline="") as file:
        assert all(row["source"].startswith("Li et al., 2024, Table ") for row in csv.DictReader(file))


@pytest.mark.parametrize(("table", "method"), [("table2", "split-nn"), ("table3", "split-nn")])
def test_the_published_margins_are_those_the_paper_prints(table: str, method: str) -> None:
    published = read_published(FOLDER / "published.csv", tables=[table])
    margins = [
        round(float(figures["auc"]) - float(published[method, data, aligned]["auc"]), 3)
        for (name, data, aligned, *_), figures in published.items()
        if name == "vflhlp"
    ]
    printed = {
        "table2": [0.089, 0.081, 0.074, 0.058, 0.049, 0.035],
        "table3": [0.115, 0.107, 0.099, 0.103, 0.096, 0.081],
    }
    assert margins == printed[table]
