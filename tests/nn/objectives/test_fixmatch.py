"""FixMatch's loss, its thresholds and the alignment against their formulas, computed another way."""

import math

import pytest
import torch
from torch import Tensor, nn

from vesica.nn.objectives import AdaptiveThreshold, Alignment, FixedThreshold, FixMatch, unlabelled_loss


def logits(rows: int = 20, classes: int = 3, *, seed: int = 0) -> Tensor:
    return 3 * torch.randn(rows, classes, generator=torch.Generator().manual_seed(seed))


def softmax(row: list[float], temperature: float = 1.0) -> list[float]:
    powers = [math.exp(value / temperature) for value in row]
    return [power / sum(powers) for power in powers]


def make() -> nn.Module:
    return FixMatch(AdaptiveThreshold(3, momentum=0.5), alignment=Alignment(torch.ones(3), momentum=0.5))


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_loss_is_that_of_a_loop_over_rows(temperature: float) -> None:
    weak, strong = logits(seed=1), logits(seed=2)
    total, confident = 0.0, 0
    for weak_row, strong_row in zip(weak.tolist(), strong.tolist(), strict=True):
        probabilities = softmax(weak_row, temperature)
        if max(probabilities) >= 0.8:
            confident += 1
            total -= math.log(softmax(strong_row)[probabilities.index(max(probabilities))])
    assert 0 < confident < 20
    loss = FixMatch(FixedThreshold(0.8), temperature=temperature)(weak, strong)
    assert loss.item() == pytest.approx(total / 20, rel=1e-5)


def test_the_published_threshold_is_95_percent() -> None:
    probabilities = torch.tensor([[0.96, 0.04], [0.94, 0.06], [0.03, 0.97]])
    assert FixedThreshold()(probabilities).tolist() == [True, False, True]


def test_the_weak_view_teaches_and_does_not_learn() -> None:
    weak, strong = logits(seed=1).requires_grad_(), logits(seed=2).requires_grad_()
    objective = make()
    objective(weak, strong).backward()
    assert weak.grad is None
    assert not any(buffer.requires_grad for buffer in objective.buffers())
    assert strong.grad is not None
    assert strong.grad.abs().sum() > 0


def test_without_a_confident_row_the_loss_is_0_and_has_a_gradient() -> None:
    strong = logits(seed=2).requires_grad_()
    loss = unlabelled_loss(strong, torch.zeros(20, dtype=torch.long), confident=torch.zeros(20, dtype=torch.bool))
    loss.backward()
    assert loss.item() == 0
    assert strong.grad is not None
    assert not strong.grad.any()


def test_the_adaptive_threshold_follows_freematch() -> None:
    threshold = AdaptiveThreshold(3, momentum=0.9)
    overall, per_class = 1 / 3, [1 / 3] * 3
    seen = set()
    for seed in range(5):
        probabilities = logits(seed=seed).softmax(dim=1)
        rows = probabilities.tolist()
        confident = threshold(probabilities).tolist()
        overall = 0.9 * overall + 0.1 * sum(max(row) for row in rows) / len(rows)
        per_class = [0.9 * per_class[c] + 0.1 * sum(row[c] for row in rows) / len(rows) for c in range(3)]
        for row, verdict in zip(rows, confident, strict=True):
            best = row.index(max(row))
            assert verdict == (row[best] >= overall * per_class[best] / max(per_class))
            seen.add(verdict)
    assert seen == {True, False}
    assert threshold.overall.item() == pytest.approx(overall, rel=1e-5)
    assert threshold.per_class.tolist() == pytest.approx(per_class, rel=1e-5)


def test_the_threshold_of_a_rare_class_is_lower() -> None:
    threshold = AdaptiveThreshold(2, momentum=0.0)
    probabilities = torch.tensor([[0.9, 0.1]] * 9 + [[0.4, 0.6], [0.6, 0.4]])
    assert threshold(probabilities).tolist() == [True] * 9 + [True, False]


def test_alignment_moves_predictions_towards_the_target() -> None:
    alignment = Alignment(torch.tensor([1.0, 3.0]), momentum=0.8)
    probabilities = torch.tensor([[0.9, 0.1], [0.7, 0.3]])
    seen = [0.8 * 0.5 + 0.2 * 0.8, 0.8 * 0.5 + 0.2 * 0.2]
    expected = []
    for row in probabilities.tolist():
        scaled = [row[0] * 0.25 / seen[0], row[1] * 0.75 / seen[1]]
        expected.append([value / sum(scaled) for value in scaled])
    torch.testing.assert_close(alignment(probabilities), torch.tensor(expected))
    assert alignment.seen.tolist() == pytest.approx(seen)


def test_aligned_predictions_decide_the_pseudo_labels() -> None:
    weak, strong = torch.tensor([[0.2, 0.0]]), torch.tensor([[0.0, 3.0]])
    plain = FixMatch(FixedThreshold(0.5))(weak, strong)
    aligned = FixMatch(FixedThreshold(0.5), alignment=Alignment(torch.tensor([1.0, 9.0])))(weak, strong)
    assert plain.item() == pytest.approx(-math.log(softmax([0.0, 3.0])[0]), rel=1e-5)
    assert aligned.item() == pytest.approx(-math.log(softmax([0.0, 3.0])[1]), rel=1e-5)


def test_a_class_never_seen_leaves_no_gap_in_the_numbers() -> None:
    alignment = Alignment(torch.tensor([1.0, 0.0]), momentum=0.0)
    aligned = alignment(torch.tensor([[0.0, 1.0], [0.0, 1.0]]))
    assert aligned.isfinite().all()


def test_what_it_remembers_comes_back_from_its_state() -> None:
    one, two = make(), make()
    for seed in range(3):
        one(logits(seed=seed), logits(seed=seed + 10))
    two.load_state_dict(one.state_dict())
    weak, strong = logits(seed=7), logits(seed=8)
    goes_on = one(weak, strong)
    assert torch.equal(two(weak, strong), goes_on)
    assert not torch.equal(make()(weak, strong), goes_on)
    assert all(torch.equal(a, b) for a, b in zip(one.buffers(), two.buffers(), strict=True))
    assert len(list(one.buffers())) == 4
