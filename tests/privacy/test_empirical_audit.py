"""The price of a mechanism, measured from outside: the best attack finds nearly all of epsilon, and never more.

A mechanism runs very often on two neighbouring inputs. An attacker who knows both says which one it was. How often that
is right gives a lower bound on epsilon, which holds with 99.9 % confidence (Jagielski, Ullman and Oprea, NeurIPS 2020).
All draws are seeded, so a test passes always or never.
"""

from __future__ import annotations

import math
import random
import secrets
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import beta
from torch import Tensor, nn

from vesica.privacy import Mechanism, Release, pld_epsilon, randomise, randomised_response
from vesica.training import private_training
from vesica.training.private_training import train_privately

CONFIDENCE = 0.999  # of each bound on epsilon
CLASSES = 5
ROWS, RUNS = 1000, 50  # of a training: each row is a trial of its own
CLIP, LEARNING_RATE = 2.0, 0.5
DP_SGD = Mechanism(noise=1.0, sampling=0.2, steps=10)
Scores = NDArray[np.float64]  # one for each run: the larger, the likelier the first input


def clopper_pearson(hits: int, trials: int, *, confidence: float) -> tuple[float, float]:
    """The exact interval for the chance of a hit."""
    error = (1 - confidence) / 2
    low = beta.ppf(error, hits, trials - hits + 1) if hits else 0.0
    high = beta.isf(error, hits + 1, trials - hits) if hits < trials else 1.0
    return float(low), float(high)


def bound_at(threshold: float, first: Scores, second: Scores, *, delta: float) -> float:
    """A lower bound on epsilon: the first input's runs pass the threshold more often than the second's."""
    low, _ = clopper_pearson(int((first > threshold).sum()), len(first), confidence=CONFIDENCE)
    _, high = clopper_pearson(int((second > threshold).sum()), len(second), confidence=CONFIDENCE)
    return math.log((low - delta) / high) if low > delta else -math.inf


def audited(first: Scores, second: Scores, *, delta: float = 0.0) -> float:
    """The bound at the threshold that is best on every other run, measured on the runs between them."""
    candidates = np.unique(np.quantile(first[::2], 1 - np.geomspace(1e-4, 1, 200)))
    best = max(candidates, key=lambda threshold: bound_at(threshold, first[::2], second[::2], delta=delta))
    return bound_at(best, first[1::2], second[1::2], delta=delta)


def test_the_interval_is_that_of_clopper_and_pearson() -> None:
    """For 10 hits of 20, as R's binom.test prints it; and of none and of all, by hand."""
    assert clopper_pearson(10, 20, confidence=0.95) == pytest.approx((0.2719578, 0.7280422), abs=1e-7)
    assert clopper_pearson(0, 20, confidence=0.95) == pytest.approx((0, 1 - 0.025 ** (1 / 20)))
    assert clopper_pearson(20, 20, confidence=0.95) == pytest.approx((0.025 ** (1 / 20), 1))


def responses(epsilon: float, *, trials: int) -> tuple[Scores, Scores]:
    """How the label 1 and the label 0 come out: 1 where an attacker would say that it was 1."""
    first, second = (randomise(torch.full((trials,), label), CLASSES, epsilon=epsilon) for label in (1, 0))
    return (first == 1).double().numpy(), (second == 1).double().numpy()


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_randomised_response_costs_its_epsilon_and_no_more(epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "randbelow", random.Random(1).randrange)
    bound = audited(*responses(epsilon, trials=400_000))
    assert 0.9 * epsilon < bound <= epsilon
    moving = randomised_response.moving_grains
    monkeypatch.setattr(
        randomised_response, "moving_grains", lambda classes, epsilon: moving(classes, epsilon=2 * epsilon)
    )
    assert audited(*responses(epsilon, trials=400_000)) > 1.5 * epsilon  # too few labels move, and that is seen


def releases(release: Release, *, trials: int) -> tuple[Scores, Scores]:
    """A row and its opposite, both far longer than the clip: the share of each along the line between them."""
    line = torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64)
    entropy = random.Random(2).randbytes
    first, second = (
        release((sign * 50 * line).float().expand(trials, 3), entropy=entropy).double() @ line for sign in (1, -1)
    )
    return first.numpy(), second.numpy()


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-5), (4.0, 1e-3)])
def test_a_release_costs_its_epsilon_and_no_more(epsilon: float, delta: float) -> None:
    release = Release.private(epsilon, delta, clip=0.3)
    bound = audited(*releases(release, trials=2_000_000), delta=delta)
    assert 0.5 * epsilon < bound <= epsilon
    quieter = Release(release.sigma / 2, release.clip)
    assert audited(*releases(quieter, trials=2_000_000), delta=delta) > epsilon


def trainings(mechanism: Mechanism, *, noise: float, patch: pytest.MonkeyPatch) -> tuple[Scores, Scores]:
    """DP-SGD with rows whose gradients are orthogonal to one another: each is an independent trial, there or left out.

    The attacker sees every noisy gradient, more than the weights that are released, and knows `noise`, which is what
    really was added. The score is the log likelihood ratio of the mechanism, which no attack can better.
    """
    source, sample, gradient = random.Random(3), private_training.poisson_sample, private_training.private_gradient
    seen: list[Tensor] = []

    def watched(model: nn.Module, *given: Any, **named: Any) -> None:
        gradient(model, *given, **named | {"noise": noise}, entropy=source.randbytes)
        (weight,) = model.parameters()
        assert weight.grad is not None
        seen.append(weight.grad[0] * (ROWS * mechanism.sampling / CLIP))

    patch.setattr(private_training, "poisson_sample", partial(sample, entropy=source.randbytes))
    patch.setattr(private_training, "private_gradient", watched)
    scores = []
    there = torch.arange(ROWS) % 2 == 0
    for _ in range(RUNS):
        seen.clear()
        train_privately(
            nn.Linear(ROWS, 1, bias=False),
            lambda batch: nn.functional.one_hot(batch, ROWS) * there[batch, None].float(),
            lambda batch: torch.zeros(len(batch)),
            rows=ROWS,
            loss=lambda outputs, _: 10 * CLIP * outputs.sum(dim=1),  # so that each gradient is clipped
            mechanism=mechanism,
            clip=CLIP,
            learning_rate=LEARNING_RATE,
        )
        assert len(seen) == mechanism.steps
        steps = torch.stack(seen).double()
        scores.append(torch.log1p(mechanism.sampling * torch.expm1((steps - 0.5) / noise**2)).sum(dim=0))
    together = torch.stack(scores)
    return together[:, there].flatten().numpy(), together[:, ~there].flatten().numpy()


@pytest.mark.slow
def test_a_canary_in_dp_sgd_costs_no_more_than_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    delta = 1e-2
    epsilon = pld_epsilon([DP_SGD], delta)
    with monkeypatch.context() as patch:
        bound = audited(*trainings(DP_SGD, noise=DP_SGD.noise, patch=patch), delta=delta)
    assert 0.5 * epsilon < bound <= epsilon
    with monkeypatch.context() as patch:
        assert audited(*trainings(DP_SGD, noise=DP_SGD.noise / 2, patch=patch), delta=delta) > epsilon
