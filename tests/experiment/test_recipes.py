"""Recipes: cases have folders of their own; what is finished is read, with where and when it came about."""

from pathlib import Path

import pytest

from vesica.errors import InputError
from vesica.experiment import recipes
from vesica.experiment.recipes import Case, Recipe, find_recipe, reproduce
from vesica.methods import SplitNN

SHORT = SplitNN(epochs=1, batch_size=64)
LONG = SplitNN(epochs=2, batch_size=32)


def recipe(*cases: Case) -> Recipe:
    return Recipe("a test", lambda seeds: cases)


def test_cases_that_differ_in_anything_have_folders_of_their_own() -> None:
    cases = [
        Case(SHORT, "credit", overlap=50),
        Case(LONG, "credit", overlap=50),
        Case(SHORT, "credit", overlap=60),
        Case(SHORT, "credit", overlap=50, labels="all"),
        Case(SHORT, "credit", seed=1, overlap=50),
    ]
    assert len({case.folder for case in cases}) == len(cases)


def test_a_finished_case_is_read_with_its_own_circumstances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = recipe(Case(SHORT, "credit", overlap=50), Case(LONG, "credit", overlap=50))
    monkeypatch.setenv("VESICA_COMMIT", "then")
    first = list(reproduce(cases, "table", out=tmp_path))
    monkeypatch.setenv("VESICA_COMMIT", "now")
    monkeypatch.setattr(recipes, "fit", lambda *args, **named: pytest.fail("ran again"))
    again = list(reproduce(cases, "table", out=tmp_path))
    assert [done.line for done in again] == [done.line for done in first]
    assert again[0].line["commit"] == "then"
    assert again[0].line["rounds"] != again[1].line["rounds"]
    assert len(again[0].ledger) == len(first[0].ledger) > again[0].line["messages"]
    assert again[0].curve


def test_a_line_says_where_it_came_from() -> None:
    (done,) = reproduce(recipe(Case(SHORT, "credit", overlap=50)), "table1")
    assert done.line["table"] == "table1"
    assert done.line["device"].startswith("cpu")
    assert "torch" in done.line["device"]
    assert len(done.line["data_sha256"]) == 64


@pytest.mark.parametrize(
    ("paper", "table", "sentence"),
    [
        ("foundatoin", "credit", "there is no paper 'foundatoin' .*did you mean 'foundation'"),
        ("foundation", "credits", "has no recipe 'credits'; did you mean 'credit'"),
    ],
)
def test_an_unknown_recipe_is_refused_with_the_nearest(paper: str, table: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        find_recipe(paper, table)
