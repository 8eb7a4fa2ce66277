"""Recipes: cases have folders of their own; what is finished is read, with where and when it came about."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vesica.data import split_rows
from vesica.errors import InputError
from vesica.experiment import __main__ as runner
from vesica.experiment import recipes
from vesica.experiment.recipes import Case, Recipe, find_recipe, reproduce
from vesica.experiment.tables import read_lines
from vesica.methods import FedOnce, SplitNN
from vesica.report.page import render, summaries
from vesica.report.plots import ReportedRun

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
        Case(SHORT, "credit", overlap=50, hold_out=True),
        Case(SHORT, "credit", overlap=50, dim=8),
        Case(SHORT, "credit", overlap=50, wait=5.0),
        Case(SHORT, "credit", overlap=50, wait=5.0, absent=("guest-1",)),
        Case(SHORT, "credit", overlap=50, host=2),
        Case(SHORT, "credit", overlap=50, parties=4),
    ]
    assert len({case.folder for case in cases}) == len(cases)


def test_a_finished_case_is_not_read_once_a_default_means_something_else(tmp_path: Path) -> None:
    short = recipe(Case(SHORT, "credit", overlap=50))
    _, first = (list(reproduce(short, "table", out=tmp_path)) for _ in range(2))  # the second is read
    kept = tmp_path / short.cases(1)[0].folder / "reproduced.json"
    written = json.loads(kept.read_text())
    del written["settings"]["wait"]  # as of a version that did not have it
    kept.write_text(json.dumps(written))
    assert list(reproduce(short, "table", out=tmp_path)) == first
    kept.write_text(json.dumps(written | {"settings": written["settings"] | {"method.batch_size": 7}}))
    with pytest.raises(InputError, match=r"of another version \(method.batch_size\): give another --out"):
        list(reproduce(short, "table", out=tmp_path))


def test_columns_are_not_ranked_by_rows_that_are_held_out() -> None:
    with pytest.raises(InputError, match="alpha ranks columns by rows that a hold-out would score"):
        Case(SHORT, "credit", hold_out=True, alpha=0.5).federation(None)


def test_a_title_tells_all_in_which_cases_differ() -> None:
    cases = [
        Case(SplitNN(), "credit", overlap=50),
        Case(SplitNN(epochs=7), "credit", overlap=50, wire="int8"),
        Case(SplitNN(), "credit", hold_out=True),
        Case(FedOnce(), "credit", dim=8, wait=5.0, absent=("guest-1",)),
        Case(SplitNN(), "credit", overlap=50, share="draw", draw=9, labelled=20, labels="all"),
    ]
    assert [case.title for case in cases] == [
        "split-nn on credit, 50 aligned, seed 0",
        "split-nn on credit, 50 aligned, seed 0, wire=int8, epochs=7",
        "split-nn on credit (hold-out), all rows, seed 0",
        "fedonce on credit, all rows, seed 0, dim=8, wait=5.0, without guest-1",
        "split-nn on credit, 50 aligned, seed 0, share=draw, draw=9, labelled=20, labels=all",
    ]


def test_a_case_on_rows_held_out_sees_no_test_row_and_says_so() -> None:
    cases = [Case(SHORT, "credit", overlap=50, hold_out=held) for held in (False, True)]
    hidden = set(split_rows(cases[0].federation(None)).test_ids)
    assert all(not hidden & set(party.table.ids) for party in cases[1].federation(None).parties)
    runs = list(reproduce(recipe(*cases), "tune"))
    assert [(run.line["data"], run.line["rows"]["test"]) for run in runs] == [
        ("credit", 6000),
        ("credit (hold-out)", 4800),
    ]
    reported = [ReportedRun(run.line, ()) for run in runs]
    assert len(summaries(reported)) == 2
    page = render(reported, "Tuning")
    assert "<h2>credit: 50 aligned rows</h2>" in page
    assert "<h2>credit (hold-out): 50 aligned rows</h2>" in page


@pytest.mark.parametrize("seeds", [0, -1])
def test_a_number_of_seeds_below_one_is_refused(
    seeds: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recipes, "fit", lambda *args, **named: pytest.fail("computed"))
    monkeypatch.setattr("sys.argv", ["runner", "demo", "credit", "--seeds", str(seeds)])
    assert runner.main() == 2
    assert capsys.readouterr().err == f"vesica: --seeds is {seeds}: give how many seeds to run, 1 or more\n"


def test_only_the_cases_whose_title_has_the_text_are_run() -> None:
    cases = recipe(*(Case(SHORT, "credit", seed, overlap=overlap) for overlap in (50, 60) for seed in (0, 1)))
    done = list(reproduce(cases, "table", only="60 aligned, seed 1"))
    assert [(run.line["rows"]["aligned"], run.line["seed"]) for run in done] == [(60, 1)]
    with pytest.raises(InputError, match=r"no case has '70 aligned' .* such as 'split-nn on credit, 50 aligned"):
        list(reproduce(cases, "table", only="70 aligned"))


def test_data_whose_files_are_not_there_are_left_out_unless_there_is_nothing_else(tmp_path: Path) -> None:
    missing, here = Case(SHORT, "kmnist", overlap=50), Case(SHORT, "credit", overlap=50)
    left_out: list[str] = []
    done = reproduce(recipe(missing, here, missing), "table", data_dir=tmp_path, left_out=left_out.append)
    assert [run.line["data"] for run in done] == ["credit"]
    assert left_out == ["kmnist"]
    with pytest.raises(InputError, match="kmnist: cannot find train-images"):
        list(reproduce(recipe(missing), "table", data_dir=tmp_path))


def test_a_computed_recipe_gives_a_line_a_row_and_has_no_cases(capsys: pytest.CaptureFixture[str]) -> None:
    computed = Recipe("a test", compute=lambda: [{"k": 1, "epsilon": 2.5}, {"k": 2, "epsilon": None}])
    done = list(reproduce(computed, "fig1"))
    assert [run.line["figures"] for run in done] == [{"k": 1, "epsilon": 2.5}, {"k": 2, "epsilon": None}]
    assert {run.line["table"] for run in done} == {"fig1"}
    assert computed.cases(3) == ()
    for asked in ({"seeds": 2}, {"only": "k"}, {"out": Path("runs")}):
        with pytest.raises(
            InputError, match="'fig1' is computed and has no cases: leave --seeds, --only and --out out"
        ):
            list(reproduce(computed, "fig1", **asked))  # type: ignore[arg-type]


def test_recipes_of_a_paper_may_be_in_several_files(tmp_path: Path) -> None:
    (tmp_path / "paper").mkdir()
    head = "from vesica.experiment.recipes import Recipe\n"
    for file, table in (("recipes.py", "one"), ("more_recipes.py", "two")):
        (tmp_path / "paper" / file).write_text(f"{head}RECIPES = {{'{table}': Recipe('{table}')}}\n")
    assert [find_recipe("paper", table, experiments=tmp_path).about for table in ("one", "two")] == ["one", "two"]


def test_the_runner_writes_a_line_a_run_once_however_often_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = recipe(*(Case(SHORT, "credit", overlap=overlap) for overlap in (50, 60)))
    monkeypatch.setattr(runner, "find_recipe", lambda paper, table: cases)
    lines, folders = tmp_path / "lines.jsonl", tmp_path / "runs"
    asked = ["runner", "paper", "table", "--out", str(folders), "--json", str(lines)]
    for arguments in (["--only", "60 aligned"], [], []):
        monkeypatch.setattr("sys.argv", [*asked, *arguments])
        assert runner.main() == 0
    assert [line["rows"]["aligned"] for line in read_lines(lines)] == [60, 50]
    assert "split-nn on credit, 60 aligned" in capsys.readouterr().err


def test_the_runner_refuses_a_results_file_it_cannot_write_before_it_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recipes, "fit", lambda *args, **named: pytest.fail("computed"))
    asked = ["runner", "demo", "credit", "--json", str(tmp_path / "nowhere" / "lines.jsonl")]
    monkeypatch.setattr("sys.argv", asked)
    with pytest.raises(SystemExit):
        runner.main()
    assert "there is no directory" in capsys.readouterr().err


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


def test_a_case_sets_who_is_host_and_the_line_says_so() -> None:
    (done,) = reproduce(recipe(Case(SHORT, "credit", overlap=50, host=2, parties=3)), "fig5")
    assert done.line["config"]["cut"] == {"host": 2, "parties": 3}
    assert done.line["parties"] == ["host", "guest-1", "guest-2"]
    (usual,) = reproduce(recipe(Case(SHORT, "credit", overlap=50, host=1)), "fig5")
    assert "cut" not in usual.line["config"]


def test_a_case_sets_how_long_representations_are_and_who_is_absent() -> None:
    method = FedOnce(guest_epochs=1, host_epochs=1)
    case = Case(method, "credit-two-guests", overlap=50, dim=8, wait=3600.0, absent=("guest-2",))
    (done,) = reproduce(recipe(case), "laggy")
    assert done.line["config"]["encoders"]["guest-1"][1] == 8
    assert done.line["missing"] == ["guest-2"]
    assert done.line["bytes"]["payload"] == 50 * 8 * 4


def test_recipes_that_write_to_one_file_at_once_lose_no_line(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"

    def write(writer: int) -> None:
        for number in range(60):
            runner.add_line(path, f"{writer} {number}")

    with ThreadPoolExecutor() as pool:  # each call opens the file anew, as processes do
        list(pool.map(write, range(3)))
    lines = [tuple(map(int, line.split())) for line in path.read_text().splitlines()]
    assert sorted(lines) == [(writer, number) for writer in range(3) for number in range(60)]


def test_a_line_is_added_once_and_on_a_line_of_its_own_and_the_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    runner.add_line(path, "one")
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("one\nhalf a li")  # as a power cut leaves it
    path.chmod(0o664)
    for line in ("one", "two", "two"):
        runner.add_line(path, line)
    assert path.read_text() == "one\nhalf a li\ntwo\n"
    assert path.stat().st_mode & 0o777 == 0o664


def test_a_line_that_does_not_reach_the_disk_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = tmp_path / "lines.jsonl", os.write
    runner.add_line(path, "one")

    def fill(file: int, data: memoryview) -> int:
        if len(data) < 1000:
            raise OSError(28, "No space left on device")
        return write(file, data[:500])

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(InputError, match=r"lines\.jsonl cannot be written \(No space left on device\): make room"):
        runner.add_line(path, "x" * 1000)
    assert path.read_text() == "one\n"
