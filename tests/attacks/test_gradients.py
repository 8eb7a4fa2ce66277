"""Labels from gradients: a leaky run is caught, a view of noise is not."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from vesica.attacks.gradients import clusters, cosines, direction_scores, norm_scores
from vesica.training.cluster import mean_recall, purity


def of_a_head(labels: Tensor, *, classes: int, batches: int, spread: float = 0.1) -> list[tuple[Tensor, Tensor]]:
    """What a linear head's gradients are like: (chances - label) through its weights, a batch after the other."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(classes, 8, generator=generator)
    chances = torch.full((classes,), 1 / classes)
    observed = []
    for _ in range(batches):
        for rows in torch.randperm(len(labels), generator=generator).split(32):
            errors = chances - torch.nn.functional.one_hot(labels[rows], classes).float()
            noise = spread * torch.randn(len(rows), 8, generator=generator)
            observed.append((rows, (errors @ weights) * torch.rand(len(rows), 1, generator=generator) + noise))
    return observed


def of_nothing(rows: int) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [(some, torch.randn(len(some), 8, generator=generator)) for some in torch.arange(rows).split(32)]


LABELS = (torch.arange(400) % 5 == 0).long()  # a fifth are of the rarer class


def test_the_direction_gives_two_classes_away() -> None:
    rows, scores = direction_scores(of_a_head(LABELS, classes=2, batches=3))
    assert torch.equal(rows, torch.arange(400))
    assert roc_auc_score(LABELS, scores) > 0.95  # not 1 - that: the rarer class is meant


def test_the_norm_gives_a_rare_class_away_where_its_gradients_are_longer() -> None:
    longer = [
        (rows, torch.randn(len(rows), 8) * (1 + 3 * LABELS[rows])[:, None]) for rows in torch.arange(400).split(32)
    ]
    torch.manual_seed(0)
    _, scores = norm_scores(longer)
    assert roc_auc_score(LABELS, scores) > 0.95


def test_messages_about_a_row_count_together() -> None:
    once = direction_scores(of_a_head(LABELS, classes=2, batches=1, spread=1.0))[1]
    often = direction_scores(of_a_head(LABELS, classes=2, batches=12, spread=1.0))[1]
    assert area(often, LABELS) > area(once, LABELS) + 0.05


@pytest.mark.parametrize("every", [2, 5])  # as many of each class, and a fifth of one
def test_noise_drawn_anew_for_every_message_averages_out(every: int) -> None:
    labels = (torch.arange(400) % every == 0).long()
    observed = of_a_head(labels, classes=2, batches=60, spread=4.0)
    assert 0.5 <= area(direction_scores(observed[:13])[1], labels) < 0.8  # after one epoch little is seen
    assert area(direction_scores(observed)[1], labels) > 0.95
    torch.manual_seed(0)
    rows, found = clusters(observed, 2)
    assert mean_recall(found, labels[rows]) > 0.9


def area(scores: Tensor, labels: Tensor) -> float:
    """Whichever class is meant."""
    return max(roc_auc_score(labels, scores), roc_auc_score(labels, -scores))


def test_rows_that_are_known_point_the_way() -> None:
    known = LABELS.nonzero().squeeze(1)[:3]
    rows, scores = cosines(of_a_head(LABELS, classes=2, batches=5, spread=1.0), known)
    others = ~torch.isin(rows, known)
    assert roc_auc_score(LABELS[rows[others]], scores[others]) > 0.75


def test_clusters_give_many_classes_away() -> None:
    labels = torch.arange(400) % 4
    torch.manual_seed(0)
    rows, found = clusters(of_a_head(labels, classes=4, batches=2), 4)
    assert purity(found, labels[rows]) > 0.95
    assert mean_recall(found, labels[rows]) > 0.95


def test_noise_tells_nothing() -> None:
    """By what labels given at random would score: 200 draws, none more than 1 in 40 beyond."""
    torch.manual_seed(0)
    shuffled = [LABELS[torch.randperm(400)] for _ in range(200)]
    for scores in (norm_scores(of_nothing(400))[1], direction_scores(of_nothing(400))[1]):
        chance = sorted(roc_auc_score(labels, scores) for labels in shuffled)
        assert chance[5] <= roc_auc_score(LABELS, scores) <= chance[-6]
    found = clusters(of_nothing(400), 2)[1]
    chance = sorted(mean_recall(found, labels) for labels in shuffled)
    assert mean_recall(found, LABELS) <= chance[-6]


def test_gradients_that_are_zero_are_no_error() -> None:
    rows, scores = norm_scores([(torch.arange(3), torch.zeros(3, 2))])
    assert torch.equal(rows, torch.arange(3))
    assert scores.isfinite().all()
    assert direction_scores([(torch.arange(3), torch.zeros(3, 2))])[1].isfinite().all()
