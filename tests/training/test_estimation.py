"""Estimated representations (Eq. 10) and the gate (Eq. 9), each computed another way; what is judged by them."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from vesica.nn.models import Head
from vesica.training import estimation
from vesica.training.estimation import Judge, choose_threshold, estimate, gate


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


def test_a_judge_estimates_every_other_party_and_joins_them_in_the_heads_order() -> None:
    torch.manual_seed(0)
    dims = {"bank": 3, "shop1": 5, "shop2": 2}
    aligned = {name: torch.randn(12, dim) for name, dim in dims.items()}
    joint, local, rows = Head(dims, 4), Head({"shop1": 5}, 4), torch.randn(7, 5)
    alone, together = Judge("shop1", local, joint, aligned).judge(rows)
    bank, shop2 = estimate(rows, aligned["shop1"], [aligned["bank"], aligned["shop2"]])
    assert torch.allclose(together, joint([bank, rows, shop2]).softmax(dim=1))
    assert torch.allclose(alone, local([rows]).softmax(dim=1))


def test_rows_held_out_are_judged_as_if_the_others_did_not_have_them() -> None:
    torch.manual_seed(0)
    aligned = {"a": torch.randn(12, 3), "b": torch.randn(12, 3)}
    judge = Judge("a", Head({"a": 3}, 2), Head({"a": 3, "b": 3}, 2), aligned)
    held_out = torch.arange(12) % 4 == 0
    expected = judge.held_out(held_out)
    altered = {"a": aligned["a"], "b": torch.where(held_out[:, None], 99.0, aligned["b"])}
    assert all(map(torch.equal, replace(judge, aligned=altered).held_out(held_out), expected))


def judging(*sureness: tuple[float, bool]) -> Any:
    """A judge whose two classifiers agree, so sure, on rows of class 0, rightly or not."""
    chances = torch.tensor([[sure, 1 - sure] if right else [1 - sure, sure] for sure, right in sureness])
    return SimpleNamespace(held_out=lambda rows: (chances, chances))


@pytest.mark.parametrize(
    ("sureness", "threshold"),
    [
        ([(0.97, True)] * 8 + [(0.85, True)] * 2 + [(0.75, True)], 0.7),  # all right: the largest that lets all through
        ([(0.97, True)] * 12 + [(0.85, True)] * 9 + [(0.85, False)], 0.95),  # nine right ones and a wrong one: no gain
        ([(0.97, True)] * 12 + [(0.85, True)] * 10 + [(0.85, False)], 0.8),
        ([(0.97, True)] * 9, 1.0),  # all right, but too few to tell
        ([(0.97, True)] * 10, 0.95),
        ([(0.85, True)] * 18 + [(0.85, False)], 1.0),
        ([(0.85, True)] * 19 + [(0.85, False)], 0.8),
        ([(0.99, False)], 1.0),
    ],
)
def test_the_threshold_lets_most_right_ones_through_less_nine_times_the_wrong_ones_and_one_more(
    sureness: list[tuple[float, bool]], threshold: float
) -> None:
    assert choose({"a": judging(*sureness)}) == threshold


def test_each_party_must_show_enough_by_itself() -> None:
    """What one has to spare does not pay for another's guesses; a party that says nothing costs nothing."""
    knowing, silent = [(0.97, True)] * 20, [(0.5, True)] * 20
    guessing, learned = ([(0.65, True)] * rows + silent[rows:] for rows in (9, 10))
    assert choose({"a": judging(*knowing), "b": judging(*guessing)}) == 0.95
    assert choose({"a": judging(*knowing), "b": judging(*silent)}) == 0.95
    assert choose({"a": judging(*guessing)}) == 1
    assert choose({"a": judging(*knowing), "b": judging(*learned)}) == 0.6


def choose(judges: dict[str, Any]) -> float:
    """On as many rows as the judges judge, all of class 0."""
    rows = len(judges["a"].held_out(None)[0])
    everyone = torch.ones(rows, dtype=torch.bool)
    tried = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    return choose_threshold(judges, everyone, torch.zeros(rows, dtype=torch.int64), thresholds=tried)
