"""The overview: every method in one table, its seeds together and its milestones left out."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from vesica.data import split_rows
from vesica.datasets.scenario import SCENARIOS
from vesica.errors import InputError
from vesica.experiment.overview import entries
from vesica.experiment.recipes import Case, find_recipe, read_recipes, reproduce
from vesica.experiment.tables import by_overlap, read_lines, refresh
from vesica.methods import METHODS, check_fields, name_of

FOLDER = Path(__file__).parents[2] / "experiments" / "overview"
RECIPES = dict(read_recipes(FOLDER / "recipes.py"))


def line(method: str = "one-shot", *, seed: int = 0, aligned: int = 1000, auc: float = 0.75, **more: Any) -> dict:
    return {
        "method": method,
        "title": method,
        "data": "credit",
        "seed": seed,
        "rows": {"aligned": aligned},
        "metrics": {"auc": auc, "accuracy": 0.8},
        "rounds": 3,
        "messages": 6,
        "bytes": {"wire": 2_000_000},
        "seconds": 1.0,
        "config": {"metric": "auc"},
        "config_hash": "0",
        **more,
    }


def table(*lines: dict) -> list[dict[str, str]]:
    heads, rows = by_overlap(lines)
    return [dict(zip(heads, row, strict=True)) for row in rows]


def test_a_method_has_a_row_and_each_overlap_a_column_of_the_metric_and_of_every_cost() -> None:
    dearer = line(seed=1, auc=0.77, rounds=5, messages=2_000, bytes={"wire": 4_000_000})
    (row,) = table(line(aligned=4000, auc=0.8), line(), dearer)
    assert list(row) == [
        "method",
        *("auc, 1,000", "auc, 4,000", "rounds, 1,000", "rounds, 4,000"),
        *("messages, 1,000", "messages, 4,000", "MB, 1,000", "MB, 4,000"),
    ]
    assert (row["auc, 1,000"], row["auc, 4,000"]) == ("0.7600 ± 0.0141", "0.8000")
    assert (row["rounds, 1,000"], row["messages, 1,000"], row["MB, 1,000"]) == ("4", "1,003", "3.00")


def test_methods_stand_in_the_order_of_the_registry_however_the_runs_ended() -> None:
    rows = table(line("vflhlp"), line("somebody's own"), line("one-shot"), line("local-only"))
    assert [row["method"] for row in rows] == ["local-only", "one-shot", "vflhlp", "somebody's own"]


def test_an_overlap_that_a_method_was_not_run_at_is_a_dash() -> None:
    first, second = table(line("split-nn", aligned=250), line("one-shot"))
    assert (first["auc, 1,000"], second["auc, 1,000"], second["MB, 250"]) == ("–", "0.7500", "–")


def test_a_milestone_is_not_averaged_with_runs_of_the_method_itself() -> None:
    (row,) = table(line(), line(seed=1, auc=0.1, seconds=None, config_hash="few-shot's"))
    assert row["auc, 1,000"] == "0.7500"


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"seed": 1, "config_hash": "1"}, "'one-shot' on credit with 1000 aligned rows was run with several settings"),
        ({"auc": 0.7}, "'one-shot' on credit with 1000 aligned rows was run twice with one seed"),
        ({"data": "mnist"}, "a table by overlap is of one data set"),
    ],
)
def test_runs_that_do_not_belong_into_one_row_are_refused(other: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        by_overlap([line(), line(**other)])


def test_runs_of_one_seed_at_two_overlaps_or_on_two_data_sets_are_apart() -> None:
    found = entries([line(), line(aligned=250), line(data="mnist")])
    assert [(entry.data, entry.aligned, len(entry.runs)) for entry in found] == [
        ("credit", 1000, 1),
        ("credit", 250, 1),
        ("mnist", 1000, 1),
    ]


def test_a_document_says_that_an_overview_is_not_run_yet_and_shows_it_once_it_is(tmp_path: Path) -> None:
    document = tmp_path / "README.md"
    picture, begin = "<!-- picture: all.svg -->\n", "<!-- by overlap: lines.jsonl -->\n"
    document.write_text(f"{picture}old\n<!-- end of picture -->\nbetween\n{begin}old\n<!-- end of table -->\n")
    waiting = refresh(document)
    assert waiting.count("Not run yet.\n") == 2
    assert "old" not in waiting
    assert "\nbetween\n" in waiting
    (tmp_path / "all.svg").write_text("<svg/>")
    (tmp_path / "lines.jsonl").write_text(json.dumps(line()) + "\n")
    shown = refresh(document)
    assert f"{picture}![Metric against bytes](all.svg)\n<!-- end of picture -->" in shown
    assert f"{begin}| method | auc, 1,000 |" in shown
    assert "| one-shot | 0.7500 |" in shown
    assert "Not run yet" not in shown


def test_a_table_whose_results_are_missing_is_still_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("<!-- table: lines.jsonl -->\n<!-- end of table -->\n")
    with pytest.raises(InputError, match="is no file of results"):
        refresh(tmp_path / "README.md")


def cases(table: str) -> list[Case]:
    return list(RECIPES[table].cases(2))


@pytest.mark.parametrize("table", RECIPES)
def test_every_method_of_the_registry_is_run_with_its_defaults_at_every_overlap(table: str) -> None:
    made = cases(table)
    assert len({case.title for case in made}) == len({case.folder for case in made}) == len(made)
    sizes = {case.overlap for case in made}
    assert len(sizes) >= 2
    assert 1000 in sizes  # which the picture shows
    assert len(made) == 2 * len(sizes) * len(METHODS)
    assert {(name_of(case.method), case.overlap) for case in made} == {
        (name, size) for name in METHODS for size in sizes
    }
    for case in made:
        assert case.data == table
        assert case.data in SCENARIOS
        assert case.method == METHODS[name_of(case.method)]()
        assert not case.hold_out
        check_fields(case.method)


@pytest.mark.parametrize("table", RECIPES)
def test_the_data_have_the_rows_that_every_case_asks_for(table: str, data_dir: Path) -> None:
    for case in {case.overlap: case for case in cases(table)}.values():
        split = split_rows(case.federation(data_dir))
        assert len(split.aligned_ids) == case.overlap
        if case.draw is not None:
            assert case.overlap is not None
            assert {len(rows.training) for rows in split.parties.values()} == {case.overlap + case.draw}


def test_the_overview_names_every_recipe_it_has_results_of() -> None:
    text = (FOLDER / "README.md").read_text()
    assert all(f"<!-- by overlap: results/{table}.jsonl -->" in text for table in RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_the_command_for_ten_cores_takes_every_case_once(name: str) -> None:
    text = (FOLDER / "README.md").read_text()
    sizes, seeds = (re.findall(rf"for {part} in ([\d ]+);", text)[0].split() for part in ("aligned", "seed"))
    assert '--only "$1 aligned, seed $2"' in text
    asked = [f"{size} aligned, seed {seed}" for size in sizes for seed in seeds]
    for case in RECIPES[name].cases(RECIPES[name].seeds):
        assert sum(words in case.title for words in asked) == 1


def test_cheap_cases_run_and_become_rows() -> None:
    recipe = find_recipe("overview", "credit", experiments=FOLDER.parent)
    lines = [
        done.line
        for only in ("local-trees on credit, 250 aligned", "linear on credit, 250 aligned")
        for done in reproduce(recipe, "credit", seeds=1, only=only)
    ]
    linear, alone = table(*lines)
    assert (linear["method"], linear["rounds, 250"], linear["messages, 250"]) == ("linear", "1", "1")
    assert (alone["method"], alone["MB, 250"]) == ("local-trees", "0.00")
    assert float(linear["auc, 250"]) > 0.5
    assert float(linear["MB, 250"]) == pytest.approx(250 * 10 * 4 / 1e6, abs=0.01)


def that_count(settings: dict[str, Any]) -> dict[str, Any]:
    """Without the rate of more rounds where there are none, and without a setting that is gone where it was off."""
    idle = [] if settings.get("more_epochs") else ["more_learning_rate"]
    idle += [] if settings.get("mixed_views") else ["mixed_views"]
    return {name: value for name, value in settings.items() if name not in idle}


def test_results_that_are_there_are_of_the_recipes_as_they_are() -> None:
    for name, recipe in RECIPES.items():
        file = FOLDER / "results" / f"{name}.jsonl"
        if file.exists():
            lines, cases = read_lines(file), recipe.cases(1)
            ran = {(entry.method, entry.aligned) for entry in entries(lines)}
            assert ran <= {(name_of(case.method), case.overlap) for case in cases}
            settings = [json.loads(json.dumps(asdict(case.method))) for case in cases]
            for line in lines:  # some from before a field was there
                ran_with = that_count(line["config"]["method"])
                assert any(ran_with.items() <= asked.items() for asked in settings), line["title"]
