"""k-means into classes, and how much of the labels its clusters give away."""

import pytest
import torch

from vesica.training.cluster import cluster, mean_recall, purity


def blobs(classes: int, rows: int = 120) -> tuple[torch.Tensor, torch.Tensor]:
    """Clouds far apart, of unequal sizes."""
    random = torch.Generator().manual_seed(0)
    labels = torch.cat([torch.arange(classes), torch.randint(classes, (rows - classes,), generator=random)])
    centres = 10 * torch.randn(classes, 8, generator=random)
    return centres[labels] + 0.1 * torch.randn(rows, 8, generator=random), labels


def test_purity_by_hand() -> None:
    clusters = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])
    labels = torch.tensor([5, 5, 1, 1, 1, 0, 5, 1])
    # Two of three are a 5, two of two a 1, and of the last three one is as good as another.
    assert purity(clusters, labels) == pytest.approx((2 + 2 + 1) / 8)


def test_purity_does_not_mind_the_clusters_names() -> None:
    labels = torch.tensor([0, 1, 2, 2, 1, 0, 0])
    assert purity(torch.tensor([7, 3, 0])[labels], labels) == 1
    assert purity(torch.zeros(7, dtype=torch.int64), labels) == pytest.approx(3 / 7)


def test_mean_recall_by_hand() -> None:
    clusters = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])
    labels = torch.tensor([5, 5, 1, 1, 1, 0, 5, 1])
    # Cluster 0 has two of three 5s, cluster 1 two of four 1s, cluster 2 the only 0.
    assert mean_recall(clusters, labels) == pytest.approx((2 / 3 + 2 / 4 + 1 / 1) / 3)


def test_a_cluster_is_matched_to_one_class_only() -> None:
    clusters, labels = torch.tensor([0, 0, 0, 0, 1]), torch.tensor([0, 0, 1, 1, 1])
    assert mean_recall(clusters, labels) == pytest.approx((2 / 2 + 1 / 3) / 2)  # not 2 / 3 of the 1s in cluster 0 too


@pytest.mark.parametrize("classes", [2, 5])
def test_mean_recall_tells_by_guessing_one_in_so_many_classes_however_unequal_they_are(classes: int) -> None:
    random = torch.Generator().manual_seed(0)
    labels = (torch.rand(20_000, generator=random) > 0.9) * torch.randint(1, classes, (20_000,), generator=random)
    blind = torch.randint(classes, (20_000,), generator=random)
    assert purity(blind, labels) > 0.85  # which reads as if much were found
    assert mean_recall(blind, labels) == pytest.approx(1 / classes, abs=0.03)
    assert mean_recall(torch.zeros_like(labels), labels) == pytest.approx(1 / classes)
    assert mean_recall(labels, labels) == mean_recall(classes - labels, labels) == 1


def test_classes_that_do_not_occur_do_not_count_for_mean_recall() -> None:
    labels = torch.tensor([0, 0, 7, 7])
    assert mean_recall(torch.tensor([0, 0, 3, 3]), labels) == 1


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_clouds_that_lie_apart_are_found(classes: int) -> None:
    rows, labels = blobs(classes)
    torch.manual_seed(0)
    found = cluster(rows, classes)
    assert (found.dtype, found.shape) == (torch.int64, labels.shape)
    assert found.unique().tolist() == list(range(classes))
    assert purity(found, labels) == purity(labels, found) == 1


def test_the_clusters_follow_from_torchs_seed_alone() -> None:
    rows = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))  # no clusters, so the start matters

    def clusters(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return cluster(rows, 6)

    assert torch.equal(clusters(0), clusters(0))
    assert any(not torch.equal(clusters(0), clusters(seed)) for seed in range(1, 6))


def test_ten_starts_find_what_a_single_one_may_miss() -> None:
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(200) % 20
    rows = (10 * torch.randn(20, 3, generator=random))[labels] + 0.5 * torch.randn(200, 3, generator=random)
    for seed in range(20):  # at a single start each, eight of these go wrong
        torch.manual_seed(seed)
        assert purity(cluster(rows, 20), labels) == 1


def test_fewer_rows_than_classes_are_a_cluster_each() -> None:
    assert sorted(cluster(torch.eye(3), 10).tolist()) == [0, 1, 2]
    assert cluster(torch.ones(1, 4), 2).tolist() == [0]


def test_rows_that_carry_gradients_or_few_bits_are_taken() -> None:
    rows, labels = blobs(3)
    assert purity(cluster(rows.bfloat16().requires_grad_(), 3), labels) == 1
