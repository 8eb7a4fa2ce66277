"""Scenarios: the cuts of the design, on made-up data and on the real files where they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from vesica.data import Federation, Overlap, Table, split_rows
from vesica.data.federation import LABELS, SHARES
from vesica.data.rows import hold_out
from vesica.datasets import DATASETS, DataSet, load_dataset
from vesica.datasets.scenario import SCENARIOS, Scenario, columns_of, federate, make_federation
from vesica.errors import InputError
from vesica.nn.models.build import IMAGE_ENCODERS

FIRST_TEN = ["LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", "PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5"]
LAST_THIRTEEN = ["PAY_6", *(f"BILL_AMT{i}" for i in range(1, 7)), *(f"PAY_AMT{i}" for i in range(1, 7))]


@lru_cache(maxsize=1)  # neighbouring scenarios cut the same data, which need not be read again
def loaded(name: str, data_dir: Path | None) -> DataSet:
    return load_dataset(name, data_dir)


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> Callable[[str], Federation]:
    """A scenario of the real files with 200 overlapping rows."""
    monkeypatch.setattr("vesica.datasets.scenario.load_dataset", loaded)

    def make(name: str) -> Federation:
        folder = DATASETS[SCENARIOS[name].data].folder
        if folder and not (data_dir / folder).is_dir():
            pytest.skip(f"needs the folder {folder} in the data directory")
        return make_federation(name, data_dir, overlap=200)

    return make


def made_up(side: int, channels: int) -> DataSet:
    image = np.zeros((30, side, side, channels), np.uint8)
    test = np.arange(30) < 10
    views = {"image": Table(np.arange(30).astype(str), image=image)}
    return DataSet("made-up", "classification", "accuracy", views, np.arange(30) % 10, test, "0" * 64)


def test_a_data_set_whose_rows_come_in_groups_is_held_out_by_group() -> None:
    data = replace(made_up(8, 1), groups=np.arange(30) // 5, label=np.arange(30) % 2)
    held = hold_out(federate(data, [next(iter(data.views.values()))] * 2))
    assert held.test.groups is not None
    rows = split_rows(held).parties["host"]
    tested = set(held.test.groups[rows.test])
    assert len(tested) == 1
    assert not tested & set(held.test.groups[rows.training])


def shapes(tables: list[Table]) -> list[tuple[int, ...]]:
    return [one.image.shape[1:3] for one in tables if one.image is not None]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_cuts_a_known_data_set_in_a_known_way(name: str) -> None:
    scenario = SCENARIOS[name]
    assert scenario.data in DATASETS
    assert scenario.share in SHARES
    assert scenario.labels in LABELS
    assert scenario.encoder is None or scenario.encoder in IMAGE_ENCODERS


def test_every_data_set_has_a_scenario() -> None:
    assert {scenario.data for scenario in SCENARIOS.values()} == set(DATASETS)


def test_credit_is_the_split_of_the_design() -> None:
    credit = make_federation("credit")
    assert [list(party.table.columns) for party in credit.parties] == [LAST_THIRTEEN, FIRST_TEN]
    assert (credit.task, credit.metric) == ("classification", "auc")


def test_credit_two_guests_has_a_host_with_labels_only() -> None:
    credit = make_federation("credit-two-guests")
    assert [list(party.table.columns) for party in credit.parties] == [[], FIRST_TEN, LAST_THIRTEEN]
    assert not credit.host.has_features
    split = split_rows(credit)
    assert len(split.aligned_ids) + len(split.test_ids) == 30_000


def test_mnist_is_cut_into_quadrants_of_14_by_14() -> None:
    assert shapes(SCENARIOS["mnist"].cut(made_up(28, 1))) == [(14, 14)] * 4


def test_fashion_mnist_guests_are_four_and_the_host_has_labels_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vesica.datasets.scenario.load_dataset", lambda name, data_dir: made_up(28, 1))
    made = make_federation("fashion-mnist-guests", overlap=15)
    assert not made.host.has_features
    assert shapes([guest.table for guest in made.guests]) == [(14, 14)] * 4
    assert SCENARIOS["fashion-mnist-guests"].data == "fashion-mnist"


def test_cifar10_is_cut_into_halves_of_32_by_16() -> None:
    assert shapes(SCENARIOS["cifar10"].cut(made_up(32, 3))) == [(32, 16)] * 2
    assert SCENARIOS["cifar10"].label_only_host


def test_the_test_rows_of_a_scenario_are_always_the_same() -> None:
    drawn = [split_rows(make_federation("credit", overlap=100, seed=seed)) for seed in (0, 1)]
    assert drawn[0].test_ids.tolist() == drawn[1].test_ids.tolist()
    assert drawn[0].aligned_ids.tolist() != drawn[1].aligned_ids.tolist()


def test_official_test_rows_are_the_test_rows_and_an_encoder_goes_to_who_has_features() -> None:
    data = made_up(28, 1)
    tables = SCENARIOS["mnist-halves"].cut(data)
    host = Table(tables[0].ids)
    made = federate(data, [host, *tables], encoder="cnn", overlap=Overlap(15))
    assert [party.name for party in made.parties] == ["host", "guest-1", "guest-2"]
    assert [party.encoder for party in made.parties] == [None, "cnn", "cnn"]
    assert split_rows(made).test_ids.tolist() == [str(i) for i in range(10)]


def test_share_draw_labelled_and_labels_reach_the_federation() -> None:
    made = make_federation("credit", overlap=50, draw=7, labelled=20, labels="all", seed=3)
    assert made.overlap == Overlap(50, "draw", 7, 3)
    assert (made.labelled, made.labels) == (20, "all")
    assert [len(party.unaligned) for party in split_rows(made).parties.values()] == [7, 7]
    assert make_federation("credit", share="everyone").overlap.share == "everyone"


def test_a_draw_that_contradicts_the_share_is_refused() -> None:
    with pytest.raises(InputError, match="go together"):
        make_federation("credit", share="everyone", draw=5)


def test_another_party_is_host_and_the_others_keep_their_order() -> None:
    usual, other = make_federation("credit"), make_federation("credit", host=2)
    assert [list(party.table.columns) for party in other.parties] == [FIRST_TEN, LAST_THIRTEEN]
    assert [party.name for party in other.parties] == ["host", "guest-1"]
    assert (usual.cut, make_federation("credit", host=1).cut, other.cut) == ({}, {}, {"host": 2})
    assert split_rows(other).test_ids.tolist() == split_rows(usual).test_ids.tolist()
    third = make_federation("credit", parties=5, host=3)
    columns = [list(party.table.columns) for party in third.parties]
    assert columns == [FIRST_TEN[9:] + LAST_THIRTEEN[:3]] + [
        part for number, part in enumerate(columns_in_five()) if number != 2
    ]
    assert third.cut == {"host": 3, "parties": 5}


def columns_in_five() -> list[list[str]]:
    return [list(party.table.columns) for party in make_federation("credit", parties=5).parties]


def two_columns_that_matter() -> DataSet:
    random = np.random.default_rng(0)
    columns = random.normal(size=(12, 300))
    label = (columns[3] + columns[7] > 0).astype(int)
    test = np.arange(300) >= 120
    label[test] = columns[5, test] > 0  # all that matters in the test rows, which are more and must not tell
    view = Table(np.arange(300).astype(str), {f"c{i}": column for i, column in enumerate(columns)})
    return DataSet("made-up", "classification", "accuracy", {"view": view}, label, test, "0" * 64)


@pytest.mark.parametrize(("alpha", "matter"), [(0.0, set()), (1.0, {"c3", "c7"})])
def test_alpha_is_the_hosts_part_of_the_columns_that_matter_outside_the_test_rows(
    monkeypatch: pytest.MonkeyPatch, alpha: float, matter: set[str]
) -> None:
    scenario = Scenario("credit", columns_of(2), "made up", dominant=2)
    monkeypatch.setitem(SCENARIOS, "biased", scenario)
    monkeypatch.setattr("vesica.datasets.scenario.load_dataset", lambda name, data_dir: two_columns_that_matter())
    made = make_federation("biased", alpha=alpha)
    assert set(made.host.table.columns) & {"c3", "c7"} == matter
    assert [len(party.table.columns) for party in made.parties] == [6, 6]
    assert made.cut == {"alpha": alpha}


def test_an_encoder_of_ones_own_choice_reaches_the_parties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vesica.datasets.scenario.load_dataset", lambda name, data_dir: made_up(28, 1))
    assert {party.encoder for party in make_federation("mnist", encoder="cnn1").parties} == {"cnn1"}


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"name": "mnist", "host": 5}, "host is 5 and 'mnist' has 4 parts: give 1 to 4"),
        ({"name": "mnist", "host": 0}, "host is 0"),
        ({"name": "fashion-mnist-guests", "host": 2}, "has labels only and no part of the columns: leave host out"),
        ({"name": "mnist", "parties": 2}, "'mnist' is no single table that could be cut by its columns"),
        ({"name": "mnist", "alpha": 0.5}, "'mnist' is no single table"),
        ({"name": "mnist", "parties": 2, "alpha": 0.5}, "alpha cuts 'mnist' into two parties: leave parties out"),
    ],
)
def test_an_impossible_part_is_refused(monkeypatch: pytest.MonkeyPatch, asked: dict, sentence: str) -> None:
    monkeypatch.setattr("vesica.datasets.scenario.load_dataset", lambda name, data_dir: made_up(28, 1))
    with pytest.raises(InputError, match=sentence):
        make_federation(**asked)


def test_a_table_without_known_dominant_columns_takes_no_alpha() -> None:
    with pytest.raises(InputError, match="no columns of 'credit' are known to be the dominant ones"):
        make_federation("credit", alpha=0.5)


def test_an_unknown_scenario_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="no data set 'credits'; did you mean 'credit'"):
        make_federation("credits")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_of_real_files_becomes_a_federation_that_can_be_split(
    real: Callable[[str], Federation], name: str
) -> None:
    made = real(name)
    scenario = SCENARIOS[name]
    split = split_rows(made)
    assert len(split.aligned_ids) == 200
    assert len(split.test_ids) > 0
    assert made.host.has_features != scenario.label_only_host
    assert all(guest.has_features for guest in made.guests)
    takers = [len(split.parties[party.name].unaligned) for party in made.parties if party.has_features]
    rest = len(made.host.table) - 200 - len(split.test_ids)
    assert sum(takers) == rest * (len(takers) if scenario.share == "everyone" else 1)
