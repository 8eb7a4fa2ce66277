"""The recipes of one-shot VFL, its published figures, and the trees beside it."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import subprocess
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

from vesica.data import split_rows
from vesica.datasets import scenario
from vesica.datasets.scenario import SCENARIOS, make_federation
from vesica.errors import InputError
from vesica.experiment import fit
from vesica.experiment.recipes import Case, find_recipe, read_recipes
from vesica.experiment.tables import read_published
from vesica.methods import (
    FedBCD,
    FedCVT,
    FedHSSL,
    FedLocalSSL,
    FedOnce,
    FewShot,
    OneShot,
    SplitNN,
    check_fields,
    config_of,
)
from vesica.training.estimation import Judge

FOLDER = Path(__file__).parents[2] / "experiments" / "one_shot"
ENCODER = "quick-wide"
TABLES = [name for name, _ in read_recipes(FOLDER / "recipes.py")]


def cases(table: str) -> list[Case]:
    return list(find_recipe("one_shot", table, experiments=FOLDER.parent).cases(2))


@pytest.fixture(scope="module")
def tree() -> ModuleType:
    return script("tree")


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("table", TABLES)
def test_every_case_can_be_made_and_told_from_the_others(table: str) -> None:
    made = cases(table)
    assert len({case.title for case in made}) == len({case.folder for case in made}) == len(made)
    for case in made:
        check_fields(case.method)
        assert case.data in SCENARIOS


def test_settings_are_tuned_on_rows_held_out_and_everything_else_is_tested_on_test_rows() -> None:
    for table in TABLES:
        assert {case.hold_out for case in cases(table)} == {table.startswith("tune-")}


def test_every_recipe_is_looked_at() -> None:
    assert {"table1", "figure6", "finetune", "label-privacy", "tune-credit"} <= set(TABLES)


def test_a_head_with_a_hidden_layer_is_tried_too() -> None:
    tried = {case.method for case in cases("tune-credit")}
    assert OneShot(hidden=(64,)) in tried
    assert OneShot() in tried


def test_table1_finetunes_as_many_iterations_as_the_paper() -> None:
    methods = {(case.overlap, case.method) for case in cases("table1") if isinstance(case.method, FewShot)}
    found = {overlap: method.finetune_iterations for overlap, method in methods if isinstance(method, FewShot)}
    assert found == {256: 400, 512: 480, 1024: 900, 2048: 1000}


def test_table1_has_the_papers_kind_of_encoder_and_the_one_that_hold_out_images_chose() -> None:
    made = [case for case in cases("table1") if case.data == "cifar10"]
    vanilla = [(case.encoder, case.method.augment) for case in made if isinstance(case.method, SplitNN)]
    assert {each: vanilla.count(each) for each in vanilla} == {
        (None, "none"): 8,
        (None, "weak"): 8,
        ("quick-wide", "weak"): 8,
    }
    few_shot = {(case.overlap, case.encoder) for case in made if isinstance(case.method, FewShot)}
    assert few_shot == {(overlap, encoder) for overlap in (256, 512, 1024, 2048) for encoder in (None, ENCODER)}
    assert {case.encoder for case in cases("tune-guests")} == {"wrn", "quick", "quick-wide"}


def test_few_shots_second_training_is_set_beside_one_that_no_row_joins() -> None:
    made = [case for case in cases("tune-few-shot") if not case.seed]
    alone = {case.data: case.method for case in made if case.method.thresholds == (1.0,)}
    for data, method in alone.items():
        others = [replace(case.method, thresholds=(1.0,)) for case in made if case.data == data]
        assert others.count(method) >= 2
    assert set(alone) == {"fashion-mnist-guests", "cifar10"}
    assert all(case.hold_out and case.method.guest_patience == 0 for case in made)


def test_the_other_papers_methods_learn_from_the_same_aligned_rows_of_table1(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenario, "load_dataset", lru_cache(maxsize=1)(scenario.load_dataset))
    made = {case.data: case for case in cases("table1") if (case.overlap, case.seed, case.encoder) == (512, 1, ENCODER)}
    halves = {name: split_rows(case.federation(data_dir)) for name, case in made.items()}
    assert set(halves) == {"cifar10", "cifar10-halves"}
    one, other = halves.values()
    assert one.aligned_ids.tolist() == other.aligned_ids.tolist()
    assert one.test_ids.tolist() == other.test_ids.tolist()
    assert {len(split.parties["guest-1"].unaligned) for split in halves.values()} == {(50_000 - 512) // 2}
    assert {party.encoder for case in made.values() for party in case.federation(data_dir).guests} == {ENCODER}


def test_no_epoch_of_the_other_papers_methods_is_chosen_by_a_tenth_of_256_rows() -> None:
    others = [case.method for case in cases("table1") if not isinstance(case.method, OneShot)]
    patience = {
        getattr(method, name)
        for method in others
        for name in ("patience", "host_patience", "finetune_patience")
        if hasattr(method, name)
    }
    assert patience == {0}


def test_fedonces_guests_learn_in_table1_as_on_mnist() -> None:
    found = {case.method for case in cases("table1") if isinstance(case.method, FedOnce)}
    assert {method.representation for method in found} == {"nat", "pca"}
    images = find_recipe("fedonce", "fig11", experiments=FOLDER.parent).cases(1)
    (theirs,) = {case.method for case in images if isinstance(case.method, FedOnce)}
    for name in ("guest_epochs", "guest_learning_rate", "guest_augment", "hidden", "frequency"):
        assert {getattr(method, name) for method in found} == {getattr(theirs, name)}


def test_figure6_has_fedbcd_and_the_fedcvt_that_the_hold_out_chose_beside_its_defaults() -> None:
    made = [case for case in cases("figure6") if not case.seed]
    assert [(case.overlap, type(case.method)) for case in made] == [
        (overlap, kind) for overlap in (1000, 2000) for kind in (SplitNN, FedBCD, FedCVT, FedCVT, OneShot, FewShot)
    ]
    iterative = [case.method for case in made if isinstance(case.method, SplitNN | FedBCD | FedCVT)]
    assert {method.patience for method in iterative} == {20}
    assert {method.local_steps for method in iterative if isinstance(method, FedBCD)} == {5}
    chosen = {method for method in iterative if isinstance(method, FedCVT)} - {FedCVT()}
    assert len(chosen) == 1
    assert chosen < {case.method for case in cases("tune-fedcvt")}


def test_one_shot_alone_has_the_settings_of_table1() -> None:
    whole = {case.overlap: case.method for case in cases("table1") if isinstance(case.method, FewShot)}
    for case in cases("one-shot-cifar"):
        assert type(case.method) is OneShot
        assert vars(case.method).items() <= vars(whole[case.overlap]).items()


def test_table1_on_a_cpu_is_shorter_and_otherwise_the_same() -> None:
    def place(case: Case) -> tuple[object, ...]:
        return case.overlap, case.data, case.seed, type(case.method), getattr(case.method, "representation", None)

    whole = {place(case): case.method for case in cases("table1") if case.encoder == ENCODER}
    lengths = {"guest_steps", "steps_again", "mu", "guest_epochs", "pretrain_epochs", "batch_size", "finetune_epochs"}
    shorter = cases("table1-cpu")
    assert {case.overlap for case in shorter} == {case.overlap for case in cases("table1")}
    assert {type(case.method) for case in shorter} == {FewShot, FedOnce, FedLocalSSL, FedHSSL}
    for case in shorter:
        settings = vars(whole[place(case)])
        changed = {name: value for name, value in vars(case.method).items() if value != settings[name]}
        assert changed
        assert changed.keys() <= lengths
        assert all(value < settings[name] for name, value in changed.items())
        assert case.encoder == "quick"


def test_every_published_figure_of_table1_is_there() -> None:
    table1 = read_published(FOLDER / "published.csv", tables={"table1"})
    methods = ("split-nn", "fedcvt", "fedbcd", "one-shot", "few-shot", "few-shot + finetune")
    sizes = ("256", "512", "1,024", "2,048")
    assert set(table1) == {(method, "cifar10", size) for method in methods for size in sizes}
    assert all(set(figures) == {"accuracy", "rounds", "MB"} for figures in table1.values())
    assert table1["few-shot + finetune", "cifar10", "256"]["accuracy"] == "0.8037"
    with (FOLDER / "published.csv").open(newline="") as file:
        assert all(row["source"].startswith("Sun et al., ICCV 2023, ") for row in csv.DictReader(file))


def test_published_bytes_of_one_shot_are_three_messages_of_128_floats_a_row_and_guest() -> None:
    published = read_published(FOLDER / "published.csv", tables={"table1"})
    for size in (256, 512, 1024, 2048):
        printed = float(published["one-shot", "cifar10", f"{size:,}"]["MB"])
        assert printed == pytest.approx(3 * 2 * size * 128 * 4 / 1e6, abs=0.05)


def test_the_trees_learn_from_the_aligned_rows_and_are_scored_on_the_test_rows(tree: ModuleType) -> None:
    line = tree.run(0, overlap=1000, held_out=False)
    assert (line["method"], line["rows"]["labelled"], line["rows"]["test"]) == ("pooled-tree", 1000, 6000)
    assert 0.7 < line["metrics"]["auc"] < 0.8
    assert line["rounds"] is line["wire"] is line["bytes"]["wire"] is None
    held = tree.run(0, overlap=1000, held_out=True)
    assert (held["data"], held["rows"]["test"]) == ("credit-two-guests (hold-out)", 4800)
    assert tree.run(1, overlap=1000, held_out=False)["config_hash"] == line["config_hash"] == held["config_hash"]


def test_the_chosen_trees_are_the_best_of_those_tried_on_rows_held_out(
    tree: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def pretended(seed: int, *, overlap: int, held_out: bool, settings: dict) -> dict:
        asked.append((seed, overlap, held_out))
        return {"metrics": {"auc": 0.8 if settings == tree.CHOSEN and seed else 0.7}}

    monkeypatch.setattr(tree, "run", pretended)
    best, *others = tree.comparison([1000, 2000], seeds=2).splitlines()
    assert best == f"0.75000 {json.dumps(tree.CHOSEN)}"
    assert {line.split()[0] for line in others} == {"0.70000"}
    assert len(others) + 1 == len(tree.TRIED) == 2 * 3 * 4
    assert set(asked) == {(seed, overlap, True) for seed in (0, 1) for overlap in (1000, 2000)}


def test_the_results_of_the_trees_have_the_default_and_the_chosen_settings(tree: ModuleType) -> None:
    default, chosen = (json.loads(line) for line in tree.results([1000], seeds=1, held_out=True).splitlines())
    assert default["config"]["method"] == tree.run(0, overlap=1000, held_out=True)["config"]["method"]
    assert chosen["config"]["method"] == default["config"]["method"] | tree.CHOSEN
    assert chosen["config"]["method"] != default["config"]["method"]
    assert chosen["config_hash"] != default["config_hash"]
    assert chosen["data"] == "credit-two-guests (hold-out)"


def test_the_trees_are_not_grown_for_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "tree.py"), "--json", str(tmp_path / "nowhere" / "lines.jsonl")]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (asked.returncode, asked.stdout) == (2, "")
    assert f"there is no directory {tmp_path / 'nowhere'} to write lines.jsonl to: make it first" in asked.stderr


def test_the_trees_see_all_columns_as_the_file_has_them(tree: ModuleType) -> None:
    federation = make_federation("credit-two-guests", overlap=1000)
    split = split_rows(federation)
    pooled = tree.pool(federation, split, "test")
    assert pooled.shape == (6000, 23)
    assert set(pooled[:, 1]) == {1.0, 2.0}  # SEX
    names = [name for guest in federation.guests for name in guest.table.columns]
    assert set(pooled[:, names.index("MARRIAGE")]) == {0.0, 1.0, 2.0, 3.0}
    ages = federation.guests[0].table.columns["AGE"][split.parties["guest-1"].test]
    assert pooled[:, names.index("AGE")].tolist() == ages.tolist()


@pytest.mark.parametrize("kind", [OneShot, FewShot])
def test_a_run_told_again_in_narrower_values_is_the_same_run_with_fewer_bytes(tmp_path: Path, kind: type) -> None:
    case = Case(kind(guest_steps=20, guest_patience=0, host_epochs=5), "credit-two-guests", 1, overlap=200)
    federation = case.federation(None)
    result = fit(case.method, federation, seed=1, out=tmp_path / case.folder)
    (ran,) = result.milestones or (result,)  # of few-shot, what it had reached as one-shot
    lines = {line["wire"]: line for line in script("narrower").lines_of(case, tmp_path, data_dir=None, device="cpu")}
    assert lines["float32"]["metrics"] == ran.metrics
    assert lines["float32"]["bytes"] == ran.to_json()["bytes"]
    assert [line["bytes"]["payload"] for line in lines.values()] == [
        6 * 200 * size for size in (32 * 4, 32 * 2, 32 + 4)
    ]
    assert len({line["metrics"]["auc"] for line in lines.values()}) == 3
    for line in lines.values():
        assert (line["method"], line["rounds"]) == ("one-shot", 3)
        assert line["config"]["method"].items() <= config_of(case.method).items()
        assert (line["title"], line["table"], line["seconds"]) == ("one-shot, told again", "narrower", None)
        assert str(tmp_path) not in json.dumps(line)


def test_as_many_rows_are_let_through_as_the_run_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr("vesica.methods.one_shot.choose_threshold", lambda *_, **__: 0.6)
    method = FewShot(guest_steps=60, guest_patience=0, host_epochs=5, steps_again=1, finetune_iterations=1)
    case = Case(method, "credit-two-guests", 1, overlap=400)
    ran = fit(method, case.federation(None), seed=1, out=tmp_path / case.folder)
    lines = list(script("joined").figures_of(case, case.federation(None), tmp_path, device="cpu"))
    (said,) = (int(text.split(" about ")[1].split()[0]) for text in ran.statements if " about " in text)
    assert abs(sum(line["let through"] for line in lines) - said) <= 1  # each of the two is rounded
    assert said > 1000
    assert [(line["guest"], line["t"]) for line in lines] == [(1, 0.6), (2, 0.6)]
    assert [line["unaligned"] for line in lines] == [ran.rows["unaligned"][f"guest-{number}"] for number in (1, 2)]


def test_the_host_is_right_where_it_names_the_class_that_a_row_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself each part names the two classes in turn; with the other estimated it is always the first."""
    monkeypatch.syspath_prepend(FOLDER)
    method = FewShot(guest_steps=1, guest_patience=0, host_epochs=1, steps_again=1, thresholds=(0.5,))
    case = Case(method, "credit-two-guests", 1, overlap=400)
    federation = case.federation(None)
    fit(method, federation, seed=1, out=tmp_path / case.folder)

    def judge(self: Judge, rows: Tensor, keep: Tensor | None = None) -> tuple[Tensor, Tensor]:
        in_turn = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).repeat(math.ceil(len(rows) / 2), 1)[: len(rows)]
        return in_turn, torch.tensor([[0.8, 0.2]]).expand(len(rows), 2)

    monkeypatch.setattr(Judge, "judge", judge)
    monkeypatch.setattr("vesica.methods.one_shot.choose_threshold", lambda *_, **__: 0.5)
    split, classes = split_rows(federation), dict(zip(federation.host.table.ids, federation.label, strict=True))
    for line in script("joined").figures_of(case, federation, tmp_path, device="cpu"):
        guest = federation.guests[line["guest"] - 1]
        labels = [int(classes[id]) for id in guest.table.ids[split.parties[guest.name].unaligned]]
        right = [label == place % 2 for place, label in enumerate(labels)]
        assert line["right by its own part"] == pytest.approx(np.mean(right))
        assert line["right with the others estimated"] == pytest.approx(np.mean([not label for label in labels]))
        assert line["let through"] == round(0.8 * math.ceil(len(labels) / 2))
        assert line["right of these"] == pytest.approx(np.mean(right[::2]))


def test_what_has_not_been_run_or_is_no_one_shot_cannot_be_told_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Case(SplitNN(), "credit-two-guests")
    (tmp_path / other.folder).mkdir()
    (tmp_path / other.folder / "result.json").write_text("{}")
    given = [cases("one-shot-cifar")[0], other]
    with pytest.raises(InputError, match="has no finished run of one-shot or few-shot: run the recipe with --out"):
        script("narrower").finished(given, tmp_path)
    run = Case(FewShot(), "credit-two-guests")
    (tmp_path / run.folder).mkdir()
    (tmp_path / run.folder / "result.json").write_text("{}")
    assert script("narrower").finished([*given, run], tmp_path) == [run]
    assert capsys.readouterr().err == f"left out, since it has not been run: {given[0].title}\n"
