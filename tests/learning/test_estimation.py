"""Estimated representations (Eq. 10) and the gate (Eq. 9), each computed another way."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from vesica.learning import estimation
from vesica.learning.estimation import estimate, gate


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def attention_in_a_loop(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    rows = []
    for query in queries:
        weights = [math.exp(float(query @ key) / math.sqrt(len(key))) for key in keys]
        rows.append(sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights))
    return torch.stack(rows)


def test_an_estimate_is_scaled_dot_product_attention() -> None:
    queries, keys, values = drawn(9, 6), drawn(5, 6), drawn(5, 6)
    (found,) = estimate(queries, keys, [values])
    assert torch.allclose(found, scaled_dot_product_attention(queries, keys, values))
    assert torch.allclose(found, attention_in_a_loop(queries, keys, values))


def test_several_parties_of_several_sizes_are_estimated_with_the_same_weights() -> None:
    queries, keys, values = drawn(9, 6), drawn(5, 6), [drawn(5, 2), drawn(5, 11), drawn(5, 6)]
    for found, value in zip(estimate(queries, keys, values), values, strict=True):
        assert torch.allclose(found, attention_in_a_loop(queries, keys, value))


def test_many_rows_are_estimated_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, keys, values = drawn(10, 6), drawn(5, 6), drawn(5, 3)
    monkeypatch.setattr(estimation, "_ROWS_AT_ONCE", 3)
    assert torch.allclose(estimate(queries, keys, [values])[0], attention_in_a_loop(queries, keys, values))


def test_no_rows_and_no_other_parties_are_no_trouble() -> None:
    keys = drawn(5, 6)
    assert estimate(drawn(0, 6), keys, [drawn(5, 3)])[0].shape == (0, 3)
    assert estimate(drawn(9, 6), keys, []) == []


def test_a_row_much_like_an_aligned_one_gets_its_part() -> None:
    keys, values = 100 * torch.eye(4), drawn(4, 3).float()
    assert torch.allclose(estimate(keys[[2]], keys, [values])[0], values[[2]])


def eq_9(local: Tensor, joint: Tensor, threshold: float) -> list[float]:
    chances = []
    for mine, ours in zip(local.tolist(), joint.tolist(), strict=True):
        same = mine.index(max(mine)) == ours.index(max(ours))
        chances.append(max(ours) if same and max(mine) > threshold and max(ours) > threshold else 0.0)
    return chances


@pytest.mark.parametrize("threshold", [0.0, 0.4, 0.6, 0.9, 1.0])
def test_the_gate_is_the_papers(threshold: float) -> None:
    local, joint = (2 * drawn(200, 3)).softmax(dim=1), (2 * drawn(200, 3).flip(0) + drawn(200, 3)).softmax(dim=1)
    chances = gate(local, joint, threshold=threshold)
    assert chances.tolist() == pytest.approx(eq_9(local, joint, threshold))
    assert (chances > 0).any() == (threshold < 1)
    assert (chances == 0).any()


def test_each_reason_alone_shuts_the_gate() -> None:
    sure, unsure, other = [0.9, 0.1], [0.6, 0.4], [0.1, 0.9]
    local = torch.tensor([sure, unsure, sure, sure, unsure])
    joint = torch.tensor([sure, sure, unsure, other, unsure])
    assert gate(local, joint, threshold=0.7).tolist() == pytest.approx([0.9, 0, 0, 0, 0])
