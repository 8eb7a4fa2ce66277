"""Isotropic noise against its formula."""

import math

import pytest
import torch

from vesica.privacy import isotropic_noise


@pytest.mark.parametrize("ratio", [0.1, 0.4, 25.0])
def test_the_noise_of_a_row_is_so_much_of_the_largest_rows_norm(ratio: float) -> None:
    torch.manual_seed(0)
    values = torch.randn(300, 64)
    values[7] *= 10
    noise = isotropic_noise(values, ratio) - values
    largest = max(math.sqrt(sum(float(x) ** 2 for x in row)) for row in values)
    assert noise.std().item() == pytest.approx(ratio * largest / math.sqrt(64), rel=0.02)
    assert noise.norm(dim=1).mean().item() == pytest.approx(ratio * largest, rel=0.02)
    assert noise.mean().abs() < 0.02 * ratio * largest


def test_a_vector_is_one_row_and_a_filter_too() -> None:
    torch.manual_seed(0)
    vector = torch.full((4096,), 2.0)
    assert (isotropic_noise(vector, 0.5) - vector).std().item() == pytest.approx(0.5 * 2.0, rel=0.05)
    filters = torch.ones(64, 3, 5, 5)
    filters[0] *= 3
    assert (isotropic_noise(filters, 1.0) - filters).std().item() == pytest.approx(3.0, rel=0.05)


def test_no_noise_draws_nothing() -> None:
    values, before = torch.randn(3, 4), torch.get_rng_state()
    assert isotropic_noise(values, 0.0) is values
    assert torch.equal(torch.get_rng_state(), before)
