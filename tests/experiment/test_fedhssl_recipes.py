"""The recipes of FedHSSL and its published figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from vesica.data import split_rows
from vesica.datasets import scenario
from vesica.datasets.scenario import SCENARIOS
from vesica.experiment.recipes import Case, find_recipe
from vesica.experiment.tables import read_published
from vesica.methods import FedCSSL, FedHSSL, FedLocalSSL, Linear, SplitNN, Trees, check_fields, name_of
from vesica.methods.pretrained import Pretrained

FOLDER = Path(__file__).parents[2] / "experiments" / "fedhssl"
TUNED = ("tune", "longer", "tune-credit")
IMAGES = ("table2", "table2-longer", "table3", "table4", "fig3", "fig6", "fig7", "objectives", "tune", "longer")
TABLES = (*IMAGES, "pretraining", "credit", "wires", "tune-credit")
TABULAR = {"avazu": "auc", "nus-wide-tags": "accuracy"}
SUBSETS = ("bhi", "fashion-mnist-halves", "fashion-mnist", "avazu")


def cases(table: str) -> list[Case]:
    return list(find_recipe("fedhssl", table, experiments=FOLDER.parent).cases(2))


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """Many cases have the same files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scenario, "load_dataset", lru_cache(maxsize=3)(scenario.load_dataset))
        yield


@pytest.mark.parametrize("table", TABLES)
def test_every_case_can_be_made_and_told_from_the_others(table: str) -> None:
    made = cases(table)
    assert len({case.title for case in made}) == len({case.folder for case in made}) == len(made) > 0
    for case in made:
        check_fields(case.method)
        assert case.data in SCENARIOS


def test_settings_are_tuned_on_rows_held_out_and_everything_else_is_tested_on_test_rows() -> None:
    for table in TABLES:
        assert {case.hold_out for case in cases(table)} == {table in TUNED}


@pytest.mark.parametrize("table", ["table2", "table2-longer", "table3", "table4", "tune", "longer"])
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


@pytest.mark.parametrize("table", ["table2", "fig3"])
def test_one_pre_training_serves_all_counts_of_labelled_rows_and_split_nn_has_a_run_for_each(table: str) -> None:
    halves = [case for case in cases(table) if case.data == "fashion-mnist-halves" and case.seed == 0]
    pretrained = [case for case in halves if isinstance(case.method, Pretrained)]
    assert {(case.labelled, case.method.label_counts) for case in pretrained} == {(1000, (200, 400))}
    assert len({(case.title, case.overlap) for case in pretrained}) == len(pretrained)
    assert sorted(case.labelled or 0 for case in halves if isinstance(case.method, SplitNN)) == [200, 400, 1000]


def test_all_methods_of_a_table_learn_from_the_same_labelled_rows(data_dir: Path) -> None:
    """FedHSSL at 20 and 40 % of BHI, with each count, and what it is compared to."""
    found: dict[int, set[tuple[tuple[str, ...], ...]]] = {}
    for case in cases("table2"):
        if case.data != "bhi" or case.seed:
            continue
        federation = case.federation(data_dir)
        for count in (*getattr(case.method, "label_counts", ()), case.labelled):
            assert count is not None
            split = split_rows(replace(federation, labelled=count))
            rows = tuple(split.aligned_ids[split.labelled]), tuple(split.aligned_ids[split.validation])
            found.setdefault(count, set()).add(rows)
    assert sorted(found) == [200, 400]
    assert all(len(rows) == 1 for rows in found.values())


@pytest.mark.parametrize("table", IMAGES)
def test_no_epoch_is_chosen_by_a_handful_of_validation_rows(table: str) -> None:
    for case in cases(table):
        if isinstance(case.method, Pretrained):
            assert case.method.finetune_patience == 0
        if isinstance(case.method, SplitNN):
            assert case.method.patience == 0


def test_the_tables_have_the_papers_one_update_an_exchange() -> None:
    made = [case.method for table in TABLES if table != "fig7" for case in cases(table)]
    assert {method.local_updates for method in made if isinstance(method, FedCSSL)} == {1}


def test_split_nn_is_tuned_over_the_same_rates_and_epochs_as_the_others() -> None:
    made = [case.method for case in cases("tune")]
    vanilla = {(method.learning_rate, method.epochs) for method in made if isinstance(method, SplitNN)}
    assert vanilla == {(rate, epochs) for rate in (1e-3, 1e-4) for epochs in (30, 100)}
    for kind in (FedLocalSSL, FedHSSL):
        found = [method for method in made if type(method) is kind and method.batch_size == 128]
        assert {(method.finetune_learning_rate, method.finetune_epochs) for method in found} == vanilla


def test_rows_held_out_of_bhi_have_no_patient_in_common_with_those_trained_on(data_dir: Path) -> None:
    case = next(case for case in cases("tune") if case.data == "bhi")
    federation = case.federation(data_dir)
    rows = split_rows(federation).parties["host"]
    patients = [id.split("_")[0] for id in federation.host.table.ids]
    tested, trained = ({patients[row] for row in some} for some in (rows.test, rows.training))
    assert len(tested) > 10
    assert not tested & trained
    assert len(rows.training) == 1_792  # of which the recipe takes a fifth as aligned


def test_linear_models_and_lightgbm_are_in_table2_on_tables_and_have_published_figures() -> None:
    made = [case for case in cases("table2") if isinstance(case.method, Linear | Trees)]
    counts = (200, 400, 600, 800, 1000)
    found = sorted((name_of(case.method), case.data, case.labelled or 0) for case in made if not case.seed)
    assert found == sorted((m, data, n) for m in ("linear", "trees") for data in TABULAR for n in counts)
    assert {case.method.library for case in made if isinstance(case.method, Trees)} == {"lightgbm"}
    published = read_published(FOLDER / "published.csv", tables=["table2"])
    for name, data, labelled in found:
        assert published[name, data, "", f"labelled={labelled:,}"].keys() == {TABULAR[data]}


def test_published_figures_are_for_cases_that_the_recipes_have() -> None:
    for table in ("table2", "table3", "table4"):
        aligned = {f"{case.overlap:,}" for case in cases(table)}
        for _, data, rows, *_ in read_published(FOLDER / "published.csv", tables=[table]):
            assert data in SCENARIOS
            assert rows in aligned | {""}
