"""Noise as targets: points on the sphere, and who gets which."""

from itertools import permutations

import pytest
import torch

from vesica.nn.objectives import assign, distance, points_on_sphere

CPU = torch.device("cpu")


def test_points_are_uniform_on_the_sphere() -> None:
    torch.manual_seed(0)
    points = points_on_sphere(20_000, 3, device=CPU)
    torch.testing.assert_close(points.norm(dim=1), torch.ones(20_000))
    # On a sphere in three dimensions every coordinate is uniform on [-1, 1] (Archimedes).
    for coordinate in points.T:
        shares = torch.histc(coordinate, bins=10, min=-1, max=1) / 20_000
        assert (shares - 0.1).abs().max() < 0.012


@pytest.mark.parametrize("seed", range(5))
def test_the_assignment_has_the_least_sum_of_squared_distances(seed: int) -> None:
    torch.manual_seed(seed)
    outputs, targets = 2 * torch.randn(6, 3), points_on_sphere(6, 3, device=CPU)
    chosen = assign(outputs, targets)
    assert sorted(chosen.tolist()) == list(range(6))
    least = min(distance(outputs, targets[list(order)]).sum().item() for order in permutations(range(6)))
    assert distance(outputs, targets[chosen]).sum().item() == pytest.approx(least)


def test_the_distance_is_the_squared_norm_of_the_difference() -> None:
    outputs, targets = torch.tensor([[3.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.0, 4.0], [1.0, 0.0]])
    assert distance(outputs, targets).tolist() == [25.0, 1.0]
