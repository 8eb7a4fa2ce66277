"""What a figure is worth: noise is not told apart from nothing, and an interval holds its value."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import roc_auc_score

from vesica.attacks.inversion import Inversion
from vesica.attacks.membership import true_positive_rate
from vesica.attacks.recovery import recovery
from vesica.experiment.audit.feature_attacks import LEAST, shares_of
from vesica.experiment.audit.findings import (
    EITHER_WAY,
    MEAN_RECALL,
    PURITY,
    Finding,
    Measured,
    UpToRenaming,
    area,
    measure,
)
from vesica.experiment.audit.membership_attacks import beyond
from vesica.schema import TableSchema


def test_there_is_an_area_of_two_classes_only_and_of_numbers_only() -> None:
    scores = torch.tensor([0.1, 0.2, 0.3])
    for truth in ([1, 1, 1], [0, 0, 0], [0, 1, 2]):
        assert math.isnan(area(scores, torch.tensor(truth)))
    with pytest.raises(ValueError, match="nan"):
        area(torch.tensor([0.1, torch.nan, 0.3]), torch.tensor([0, 1, 1]))


def test_the_area_is_sklearns() -> None:
    generator = torch.Generator().manual_seed(0)
    for rows in (3, 10, 200, 200):
        truth = torch.randint(2, (rows,), generator=generator)
        truth[:2] = torch.tensor([0, 1])
        for scores in (torch.rand(rows, generator=generator), torch.randint(4, (rows,), generator=generator), truth):
            assert area(scores, truth) == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)


@pytest.mark.parametrize(
    ("metric", "classes"), [(PURITY, 2), (PURITY, 10), (MEAN_RECALL, 2), (MEAN_RECALL, 10), (EITHER_WAY, 2)]
)
def test_noise_is_not_told_apart(metric: UpToRenaming, classes: int) -> None:
    generator = torch.Generator().manual_seed(0)
    told = 0
    for seed in range(30):
        truth = torch.randint(classes, (200,), generator=generator)
        noise = torch.rand(200, generator=generator) if metric is EITHER_WAY else truth[torch.randperm(200)]
        measured = metric.measure(noise, truth, seed=seed)
        assert measured.low <= measured.value <= measured.high
        told += measured.told_apart
    assert told <= 4  # one in forty is meant to be; five or more of thirty would be one run in 2,000


@pytest.mark.parametrize(("metric", "classes"), [(PURITY, 3), (MEAN_RECALL, 3)])
def test_clusters_that_know_a_part_are_told_apart(metric: UpToRenaming, classes: int) -> None:
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(classes, (300,), generator=generator)
    half = torch.where(torch.rand(300, generator=generator) < 0.5, truth, torch.randint(3, (300,), generator=generator))
    measured = metric.measure((half + 1) % classes, truth, seed=0)  # under other names
    assert measured.told_apart
    assert measured.low < measured.value < measured.high
    assert measured.value == pytest.approx(0.67, abs=0.06)


@pytest.mark.parametrize("outsiders", [147, 900])
def test_members_that_score_like_others_are_not_told_apart(outsiders: int) -> None:
    """The threshold is drawn from few others: its chance counts as much as that of the members."""
    generator, members, told = torch.Generator().manual_seed(0), torch.arange(800 + outsiders) < 800, 0
    for _ in range(200):
        rate = true_positive_rate(torch.rand(len(members), generator=generator), members)
        assert rate is not None
        told += beyond(rate, 0.01).told_apart
    assert told <= 12  # five are meant to be


def test_scores_are_turned_once_and_not_for_every_draw() -> None:
    truth = (torch.arange(60) % 2).long()
    scores = -truth.float() + torch.linspace(0, 2, 60)
    measured = EITHER_WAY.measure(scores, truth, seed=0)
    assert measured.value == pytest.approx(1 - area(scores, truth))
    assert measure(area, -scores, truth, nothing=0.5, seed=0).low == measured.low


def test_what_can_be_had_without_the_run_is_not_the_run_s_doing() -> None:
    measured = Measured(0.8, 0.7, 0.9, 0.5, told_apart=True)
    plain = Finding("shop", "bank", "labels", "guessing", "nothing", "AUC", measured)
    assert plain.beyond == pytest.approx(0.6)
    assert Finding(**{**vars(plain), "at_home": 0.8}).beyond == 0.0
    assert plain.to_json()["told_apart"] is True


def test_columns_behind_noise_do_not_come_back() -> None:
    torch.manual_seed(0)
    schema = TableSchema(4)
    for _ in range(5):
        inputs, noise = torch.randn(300, 4), torch.randn(300, 8)
        guess = Inversion().guess(noise[:80], inputs[:80], representations=noise[80:], schema=schema)
        found = recovery(guess, inputs[80:], known=inputs[:80], schema=schema)
        assert sum(shares_of(found)) / 4 < max(LEAST, 0.02)
