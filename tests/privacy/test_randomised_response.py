"""Randomised response: its frequencies, its exact ratio, where its draws come from, and what it refuses."""

import math
import secrets
from decimal import Decimal, localcontext
from typing import Any

import pytest
import torch
from scipy.stats import binomtest

from vesica.errors import InputError
from vesica.privacy import moved_with, randomise
from vesica.privacy.randomised_response import GRAINS, moving_grains

ONCE_IN = 1e9


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 0.5), (3, 2.0), (10, 1.0)])
def test_every_class_becomes_every_class_as_often_as_the_formula_says(classes: int, epsilon: float) -> None:
    each = 20_000
    labels = torch.arange(classes).repeat_interleave(each)
    noisy = randomise(labels, classes, epsilon=epsilon)
    counts = torch.zeros(classes, classes, dtype=torch.int64)
    counts.index_put_((labels, noisy), torch.ones(len(labels), dtype=torch.int64), accumulate=True)
    total = math.exp(epsilon) + classes - 1
    for before in range(classes):
        for after in range(classes):
            chance = (math.exp(epsilon) if before == after else 1) / total
            assert binomtest(int(counts[before, after]), each, chance).pvalue > 1 / (ONCE_IN * classes**2)
    kept = int(counts.diagonal().sum())
    assert binomtest(kept, len(labels), math.exp(epsilon) / total).pvalue > 1 / ONCE_IN


@pytest.mark.parametrize("classes", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("epsilon", [5e-324, 1e-15, 1e-14, 1e-13, 1e-12, 1e-9, 0.1, 1.0, 3.0, 20.0, 40.0, 1000.0])
def test_rounding_never_costs_more_than_epsilon(classes: int, epsilon: float) -> None:
    moving = moving_grains(classes, epsilon=epsilon)
    assert moving / (GRAINS * classes) == pytest.approx(moved_with(classes, epsilon=epsilon), abs=1e-14)
    with localcontext(prec=400):
        kept, any_other = Decimal(GRAINS * classes - moving), Decimal(moving) / (classes - 1)
        assert 1 <= kept / any_other <= Decimal(epsilon).exp()


@pytest.mark.parametrize("classes", [2, 100, 1000])
def test_the_draw_is_of_all_the_grains_and_of_all_the_other_classes(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    below: list[int] = []
    monkeypatch.setattr(secrets, "randbelow", lambda count: below.append(count) or 0)
    assert randomise(torch.zeros(1, dtype=torch.int64), classes, epsilon=1e-15).item() == 1
    assert below == [GRAINS * classes, classes - 1]


def test_a_large_epsilon_gives_the_labels_back() -> None:
    labels = torch.randint(7, (1000,), generator=torch.Generator().manual_seed(0))
    for epsilon in (50.0, 1e6):
        assert torch.equal(randomise(labels, 7, epsilon=epsilon), labels)


def test_what_comes_back_are_classes_of_the_same_type_and_the_labels_are_left_alone() -> None:
    labels = torch.arange(5).repeat(100)
    noisy = randomise(labels, 5, epsilon=0.1)
    assert (noisy.dtype, noisy.shape) == (labels.dtype, labels.shape)
    assert sorted(set(noisy.tolist())) == [0, 1, 2, 3, 4]
    assert torch.equal(labels, torch.arange(5).repeat(100))
    assert len(randomise(labels[:0], 5, epsilon=0.1)) == 0


def test_the_draws_are_not_those_of_a_seed() -> None:
    labels = torch.zeros(500, dtype=torch.int64)
    torch.manual_seed(0)
    first, state = randomise(labels, 2, epsilon=0.1), torch.get_rng_state()
    torch.manual_seed(0)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(randomise(labels, 2, epsilon=0.1), first)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, "1"])
def test_an_epsilon_that_is_no_positive_number_is_refused(epsilon: Any) -> None:
    with pytest.raises(InputError, match=f"label_epsilon is {epsilon!r}: give a positive number"):
        randomise(torch.zeros(3, dtype=torch.int64), 2, epsilon=epsilon)
