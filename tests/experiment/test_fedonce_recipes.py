"""The recipes of FedOnce, and predictions with every set of guests left out."""

from __future__ import annotations

import csv
import importlib.util
import sys
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from vesica.cli import main
from vesica.data import split_rows
from vesica.datasets import is_here, scenario
from vesica.datasets.scenario import SCENARIOS
from vesica.errors import InputError
from vesica.experiment import fit
from vesica.experiment.checks import check_stop, check_waiting
from vesica.experiment.recipes import Case, Recipe, find_recipe, reproduce
from vesica.experiment.tables import read_lines, read_published, summarise
from vesica.methods import FedOnce, VerticalTrees, check_fields

FOLDER = Path(__file__).parents[2] / "experiments" / "fedonce"
TABLES = ("fig5", "table4", "fig6", "fig7", "fig8", "fig9", "fig11", "table6", "table7", "table8", "representations")


def cases(table: str) -> list[Case]:
    return list(find_recipe("fedonce", table, experiments=FOLDER.parent).cases(2))


def test_every_case_of_laggy_can_be_made_and_told_from_the_others() -> None:
    made = cases("laggy")
    assert len({case.title for case in made}) == len({case.folder for case in made}) == len(made) == 2 * 3 * 4 * 2
    for case in made:
        check_fields(case.method)
        guests = [f"guest-{number}" for number in range(1, 10 if case.data == "phishing" else 4)]
        check_waiting(case.method, guests, wait=case.wait, absent=case.absent)


def test_the_host_alone_is_table6_with_filters_and_no_guest() -> None:
    made = cases("table6-alone")
    assert {case.absent for case in made} == {("guest-1", "guest-2", "guest-3")}
    with_guests = [replace(case, wait=None, absent=()) for case in made]
    assert with_guests == [case for case in cases("table6") if getattr(case.method, "representation", "") == "filters"]
    for case in made:
        check_waiting(case.method, case.absent, wait=case.wait, absent=case.absent)


@pytest.mark.parametrize("table", [*TABLES, "tune-mnist", "tune-more"])
def test_every_case_can_be_made_and_told_from_the_others(table: str) -> None:
    made = cases(table)
    assert len({case.title for case in made}) == len({case.folder for case in made}) == len(made) > 0
    for case in made:
        assert case.hold_out == table.startswith("tune")
        check_fields(case.method)
        check_stop(case.method, case.stop_at_bytes)
        assert case.data in SCENARIOS


def test_every_federation_of_the_files_that_are_there_can_be_made(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenario, "load_dataset", lru_cache(maxsize=1)(scenario.load_dataset))
    monkeypatch.setattr(
        scenario, "importance_outside_test", lambda data: np.arange(len(scenario.the_view(data).columns))
    )
    here = [case for table in TABLES for case in cases(table) if is_here(SCENARIOS[case.data].data, data_dir)]
    chosen = {  # of each the last host
        (case.data, case.parties, case.alpha, case.encoder, case.dim, case.stop_at_bytes is None): case for case in here
    }
    for case in sorted(chosen.values(), key=lambda case: SCENARIOS[case.data].data):
        made = case.federation(data_dir)
        assert {party.dim for party in made.parties} == {case.dim}
        assert case.alpha is None or len(made.guests) == 1
        assert case.parties is None or len(made.guests) == case.parties - 1
        if case.stop_at_bytes is not None:  # the bytes of FedOnce's representations
            dim = recipes_module().SETTINGS[case.data].dims[(case.host or 1) - 1]
            assert case.dim in (dim, None)
            assert case.stop_at_bytes == 4 * len(split_rows(made).labelled) * dim * len(made.guests), case.title
    assert len({case.data for case in cases("fig5") if case.stop_at_bytes is not None}) == 11


def test_every_party_is_host_in_turn() -> None:
    hosts = Counter((case.data, type(case.method).__name__, case.host) for case in cases("fig5") if not case.seed)
    assert {hosts["mnist", name, host] for name in ("LocalOnly", "Linear", "Pooled") for host in range(1, 5)} == {1}
    assert hosts["phishing", "FedOnce", 10] == hosts["nus-wide", "Linear", 5] == 1
    assert hosts["mnist", "SplitNN", 4] == 2
    assert not hosts["mnist", "FedOnce", 5]


@pytest.mark.parametrize("table", ["fig5", "fig6", "fig8"])
def test_secure_boost_is_on_tables_and_stopped_only_where_a_tree_fits(table: str) -> None:
    made = [case for case in cases(table) if isinstance(case.method, VerticalTrees)]
    images = {"mnist", "fashion-mnist", "kmnist"}
    assert {case.data for case in made} == {case.data for case in cases(table)} - images
    stopped = {(case.data, case.host, case.stop_at_bytes) for case in made if case.stop_at_bytes is not None}
    nus_wide = {("nus-wide", host, 4 * 161_789 * 8 * 4) for host in range(1, 6)}
    assert (
        stopped
        == {
            "fig5": {*nus_wide, ("movielens-1m", 2, 4 * 800_167 * 48)},
            "fig6": {("nus-wide", 1, 4 * 161_789 * 8 * 4)},
            "fig8": set(),
        }[table]
    )
    assert max(case.parties or 0 for case in made) == {"fig5": 10, "fig6": 10, "fig8": 50}[table]


def test_no_tree_fits_into_the_bytes_of_fedonce_on_phishing(data_dir: Path) -> None:
    (whole,) = recipes_module().secure_boost("phishing", recipes_module().SETTINGS["phishing"], 0)
    sent = recipes_module().SETTINGS["phishing"].sent(1)
    with pytest.raises(InputError, match=f"not even one tree fits into --stop-at-bytes {sent:,}"):
        fit(whole.method, whole.federation(data_dir), stop_at_bytes=sent)


def test_figure_5_has_what_the_hold_out_preferred_beside_nat_on_images() -> None:
    made = [(case.data, case.method) for case in cases("fig5") if case.host == 2 and not case.seed]
    by_data = {data: [m.representation for d, m in made if d == data and isinstance(m, FedOnce)] for data, _ in made}
    assert {data for data, found in by_data.items() if found == ["nat", "pca"]} == {"mnist", "fashion-mnist", "kmnist"}
    assert {tuple(found) for found in by_data.values()} == {("nat", "pca"), ("nat",)}


def test_phishing_has_three_seeds_in_table6_and_more_if_asked() -> None:
    table6 = find_recipe("fedonce", "table6", experiments=FOLDER.parent)
    for asked, (mnist, phishing) in {1: (1, 3), 2: (2, 3), 5: (5, 5)}.items():
        seeds = {(case.data, case.seed) for case in table6.cases(asked) if case.data in ("mnist", "phishing")}
        assert seeds == {*(("mnist", seed) for seed in range(mnist)), *(("phishing", seed) for seed in range(phishing))}


def test_table6_has_every_epsilon_both_divisions_and_no_noise_at_all() -> None:
    made = [case for case in cases("table6") if case.data == "mnist" and case.host == 4 and not case.seed]
    methods = [case.method for case in made if isinstance(case.method, FedOnce)]
    assert Counter((method.epsilon, method.representation, method.division) for method in methods) == {
        **{
            (epsilon, representation, "moments"): 1
            for epsilon in (2.0, 4.0, 6.0, 8.0)
            for representation in ("filters", "codebook", "heuristic-nat")
        },
        **{(epsilon, "fixed", way): 1 for epsilon in (2.0, 4.0, 6.0, 8.0) for way in ("moments", "simple")},
        (None, "nat", "moments"): 1,
    }
    asked = {(case.data, case.method.delta) for case in cases("table6") if getattr(case.method, "epsilon", None)}  # type: ignore[attr-defined]
    assert {("gisette", 1e-4), ("mnist", 1e-5), ("phishing", 1e-5)} < asked
    assert len(asked) == len({data for data, _ in asked})


def test_one_small_case_of_the_recipes_runs() -> None:
    setting = recipes_module().Setting(40, (4, 4), (8,))
    method = replace(setting.fedonce(), guest_epochs=1, host_epochs=1)
    case = replace(recipes_module().run(method, "credit", setting, 0, host=2), overlap=40)
    (done,) = reproduce(Recipe("a test", lambda seeds: [case]), "fig5")
    assert done.line["config"]["cut"] == {"host": 2}
    assert done.line["bytes"]["payload"] == setting.sent(2) == 40 * 4 * 4
    assert len(done.line["curve"]) == 1


def recipes_module() -> ModuleType:
    find_recipe("fedonce", "fig5", experiments=FOLDER.parent)
    return sys.modules["vesica_recipes_fedonce"]


def test_fig10_comes_out_of_the_command_to_three_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fig10.jsonl"
    monkeypatch.setattr(sys, "argv", ["vesica", "reproduce", "fedonce", "fig10", "--json", str(file)])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    rows = [line["figures"] for line in read_lines(file)]
    assert [row["k"] for row in rows] == [1, 2, 4, 10, 50, 100]
    for division, expected in (
        ("moments", ["2.228", "3.161", "4.555", "7.474", "19.16", "29.84"]),
        ("simple", ["2.228", "4.595", "9.468", "24.59", "131.0", "268.9"]),
        ("RDP moments", ["1.880", "2.734", "4.014", "6.776", "18.04", "28.40"]),
        ("RDP simple", ["1.880", "3.908", "8.105", "21.21", "114.2", "235.4"]),
        ("PLD moments", ["1.719", "2.513", "3.703", "6.282", "16.90", "26.73"]),
        ("PLD simple", ["1.719", "3.587", "7.461", "19.57", "105.5", "217.4"]),
    ):
        assert [f"{row[division]:#.4g}" for row in rows] == expected, division
    assert round(rows[-1]["reduction"], 3) == rows[-1]["published reduction"] == 0.889
    printed = capsys.readouterr().out
    assert all(cell in printed for cell in ("PLD simple", "131.0", "268.9", "0.889"))
    assert summarise(read_lines(FOLDER / "results" / "fig10.jsonl")) == summarise(read_lines(file))


def test_a_computed_figure_has_no_report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["vesica", "reproduce", "fedonce", "fig10", "--report", "page.html"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "'fig10' is computed and has no runs to report on: leave --report out" in capsys.readouterr().err


def test_every_published_figure_of_the_tables_is_there_once() -> None:
    published = read_published(FOLDER / "published.csv", tables=["table6"])
    assert len(published) == 6 * 9 * 4
    assert published["fedonce", "mnist", "", "host=1", "epsilon=2.0", "division=moments"] == {"accuracy": "0.8213"}
    assert published["fedonce", "uji", "", "host=4", "epsilon=None"] == {"rmse": "0.0359"}
    pca = read_published(FOLDER / "published.csv", tables=["table7"])
    assert pca["fedonce", "mnist", "", "host=1", "representation=pca"] == {"accuracy": "0.2598"}
    with (FOLDER / "published.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["source"].startswith("Wu et al., TBD 2022, ") for row in rows)
    assert Counter(row["table"] for row in rows) == {
        "fig5": 6,
        "table4": 20,
        "fig6": 6,
        "fig10": 1,
        "table6": 216,
        "table7": 8,
        "table8": 12,
    }


def test_predictions_are_scored_with_ever_fewer_guests() -> None:
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
