"""Metrics against their definitions."""

import math

import pytest
import torch

from vesica.metrics import Task, score, standing

BINARY = Task("classification", "auc", ("no", "yes"))
THREE = Task("classification", "accuracy", ("a", "b", "c"))


def test_auc_is_the_chance_that_a_positive_stands_above_a_negative() -> None:
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(200, 2, generator=generator)
    labels = (torch.rand(200, generator=generator) > 0.6).long()
    chance = outputs.softmax(1)[:, 1].double()
    positives, negatives = chance[labels == 1], chance[labels == 0]
    pairs = (positives[:, None] > negatives[None, :]).double().mean().item()
    assert score(BINARY, outputs, labels)["auc"] == pytest.approx(pairs, abs=1e-12)


def test_accuracy_and_f1_are_counted_by_hand() -> None:
    labels = torch.tensor([1, 1, 1, 0, 0, 0])
    outputs = torch.nn.functional.one_hot(torch.tensor([1, 1, 0, 0, 0, 1]), 2).float()
    metrics = score(BINARY, outputs, labels)
    assert metrics["accuracy"] == pytest.approx(4 / 6)
    assert metrics["f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert metrics["rmse"] is None


def test_auc_is_none_where_a_class_is_absent() -> None:
    assert score(THREE, torch.eye(3)[:2], torch.tensor([0, 1]))["auc"] is None
    assert score(THREE, torch.eye(3), torch.tensor([0, 1, 2]))["auc"] == 1.0


def test_rmse_is_in_the_labels_own_unit() -> None:
    task = Task("regression", "rmse", centre=100.0, spread=10.0)
    outputs, labels = torch.tensor([[0.0], [1.0]]), torch.tensor([0.5, 1.0])
    assert score(task, outputs, labels)["rmse"] == pytest.approx(math.sqrt((5.0**2 + 0) / 2))
    assert task.predictions(outputs).tolist() == [100.0, 110.0]


def test_standing_prefers_the_metric_then_the_loss_and_lower_rmse() -> None:
    labels = torch.tensor([0, 1])
    sure, unsure = torch.tensor([[4.0, 0.0], [0.0, 4.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    wrong = -sure
    assert standing(BINARY, sure, labels) > standing(BINARY, unsure, labels) > standing(BINARY, wrong, labels)
    task = Task("regression", "rmse")
    assert standing(task, torch.zeros(2, 1), torch.zeros(2)) > standing(task, torch.ones(2, 1), torch.zeros(2))


def test_an_undefined_metric_is_the_worst_standing_but_still_ordered_by_loss() -> None:
    labels = torch.tensor([1, 1])
    better, worse = torch.tensor([[0.0, 3.0]] * 2), torch.tensor([[0.0, 1.0]] * 2)
    assert standing(BINARY, better, labels)[0] == -math.inf
    assert standing(BINARY, better, labels) > standing(BINARY, worse, labels)
