"""Marvell's noise against its theorems, another optimiser, and its own draws."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from vesica.errors import InputError
from vesica.privacy import GradientProtection, Leaks, auc_bound, marvell_noise
from vesica.privacy.marvell import Class, Solution, solve

PROBLEMS = [  # variances of the negatives and the positives, their distance squared, share of positives, dim, power
    (0.1, 1.0, 2.0, 0.5, 8, 4.0),
    (1.0, 0.1, 2.0, 0.5, 8, 4.0),
    (0.02, 0.5, 0.3, 0.1, 32, 0.6),
    (0.5, 0.02, 0.3, 0.9, 32, 6.0),
    (0.3, 0.3, 5.0, 0.25, 16, 1.0),
    (0.01, 4.0, 1.0, 0.4, 1, 3.0),
    (2.0, 0.001, 10.0, 0.05, 64, 100.0),
    (0.01, 0.02, 10.0, 0.3, 4, 1000.0),
]


def solved(u: float, v: float, g: float, p: float, d: int, power: float) -> Solution:
    return solve(Class(1 - p, u), Class(p, v), distance=g, dim=d, power=power)


def covariances(found: Solution, u: float, v: float, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Of what a guest sees of each class."""
    along, everywhere = torch.outer(direction, direction), torch.eye(len(direction), dtype=torch.float64)
    return tuple(  # type: ignore[return-value]
        (variance + noise.across) * everywhere + (noise.along - noise.across) * along
        for variance, noise in ((u, found.negative), (v, found.positive))
    )


@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_other_noise_of_that_power_leaves_less(problem: tuple[float, float, float, float, int, float]) -> None:
    u, v, g, p, d, power = problem
    weights = power * np.array([1 - p, (1 - p) * (d - 1), p, p * (d - 1)])

    def left(noise: np.ndarray) -> float:
        a, b = power * noise[0] + u, power * noise[2] + v
        across, over = power * noise[1] + u, power * noise[3] + v
        return ((d - 1) * (across / over + over / across) + (a + g) / b + (b + g) / a) / 2 - d

    constraints = [
        {"type": "ineq", "fun": lambda noise: 1 - weights @ noise / power},
        {"type": "ineq", "fun": lambda noise: noise[0] - noise[1]},
        {"type": "ineq", "fun": lambda noise: noise[2] - noise[3]},
    ]
    random, best = np.random.default_rng(0), math.inf
    for _ in range(10):
        share = random.dirichlet([1, 1, 1])
        start = np.array([share[0] / (1 - p), 0.5 * share[0] / (1 - p), share[1] / p, 0.5 * share[1] / p]) / d
        found = minimize(
            left, start, method="SLSQP", bounds=[(0, None)] * 4, constraints=constraints, options={"ftol": 1e-12}
        )
        best = min(best, float(found.fun)) if found.success else best
    ours = solved(*problem)
    assert best < math.inf
    assert ours.sum_kl == pytest.approx(best, rel=1e-4, abs=1e-6)
    noise = np.array([ours.negative.along, ours.negative.across, ours.positive.along, ours.positive.across])
    assert weights @ noise / power == pytest.approx(power, rel=1e-6)  # the whole power, and no more
    assert left(noise / power) == pytest.approx(ours.sum_kl, rel=1e-9)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_what_is_left_is_the_divergence_both_ways(problem: tuple[float, float, float, float, int, float]) -> None:
    u, v, g, _, d, _ = problem
    found = solved(*problem)
    direction = torch.nn.functional.normalize(torch.arange(1.0, d + 1, dtype=torch.float64), dim=0)
    zero, one = (
        MultivariateNormal(mean, covariance)
        for mean, covariance in zip(
            (torch.zeros_like(direction), math.sqrt(g) * direction), covariances(found, u, v, direction), strict=True
        )
    )
    both = kl_divergence(zero, one) + kl_divergence(one, zero)
    assert found.sum_kl == pytest.approx(float(both), rel=1e-6, abs=1e-9)


def batch(rows: int, dim: int, *, share: float = 0.3, apart: float = 1.5) -> tuple[Tensor, Tensor]:
    """Two classes that lie apart, the positives scattered three times as far."""
    torch.manual_seed(0)
    labels = (torch.arange(rows) < share * rows).long()
    scatter = torch.where(labels == 1, 0.3, 0.1)[:, None] * torch.randn(rows, dim)
    return scatter + torch.where(labels == 1, apart, 0.0)[:, None] * torch.ones(dim), labels


def test_the_noise_of_each_class_has_its_covariance() -> None:
    gradients, labels = batch(60_000, 5, apart=0.3)
    noised = marvell_noise(gradients, labels, power=1.0)
    noise = (noised.gradients - gradients).double()
    ones, zeros = gradients[labels == 1].double(), gradients[labels == 0].double()
    apart = ones.mean(0) - zeros.mean(0)
    g, u, v = (float(x) for x in (apart.square().sum(), zeros.var(0).mean(), ones.var(0).mean()))
    found = solved(u, v, g, 0.3, 5, g)
    assert found.negative.across > 0.1 * found.negative.along  # of the class that scatters less, and of no other
    assert found.positive.across == 0
    expected = covariances(found, 0.0, 0.0, apart / apart.norm())
    for number, covariance in enumerate(expected):
        drawn = noise[labels == number]
        assert drawn.mean(0).abs().max() < 0.03 * math.sqrt(found.positive.along)
        assert torch.cov(drawn.T) == pytest.approx(covariance, abs=0.03 * float(covariance.diagonal().max()))
        line = apart / apart.norm()
        assert (drawn @ line).var().item() == pytest.approx(float(line @ covariance @ line), rel=0.03)
    assert float(noise.square().sum(1).mean()) == pytest.approx(g, rel=0.02)
    assert noised.sum_kl == pytest.approx(found.sum_kl, rel=1e-3)
    assert torch.cov(noise.T)[0, 1] > 0  # along the line between the means, which no isotropic noise is


def test_isotropic_noise_of_the_same_power_leaves_more() -> None:
    gradients, labels = batch(400, 32)
    found = marvell_noise(gradients, labels, power=2.0).sum_kl
    ones, zeros = gradients[labels == 1], gradients[labels == 0]
    g, u, v = (
        float(x) for x in ((ones.mean(0) - zeros.mean(0)).square().sum(), zeros.var(0).mean(), ones.var(0).mean())
    )
    u, v = u + 2 * g / 32, v + 2 * g / 32
    alike = (31 * (u / v + v / u) + (u + g) / v + (v + g) / u) / 2 - 32
    assert found is not None
    assert found < 0.5 * alike


def test_nobody_tells_gaussian_classes_apart_better_than_the_bound() -> None:
    """The best there is, the ratio of the densities; the bound is not far above it."""
    for power in (1.0, 4.0, 16.0):
        gradients, labels = batch(20_000, 4, share=0.5)
        noised = marvell_noise(gradients, labels, power=power)
        ones, zeros = (noised.gradients[labels == number].double() for number in (1, 0))
        densities = [MultivariateNormal(rows.mean(0), torch.cov(rows.T)) for rows in (ones, zeros)]
        ratio = densities[0].log_prob(noised.gradients.double()) - densities[1].log_prob(noised.gradients.double())
        assert noised.sum_kl is not None
        auc, bound = float(roc_auc_score(labels, ratio)), auc_bound(noised.sum_kl)
        assert bound - 0.25 < auc < bound
    assert auc_bound(0.0) == 0.5
    assert auc_bound(0.64) == pytest.approx(0.5 + 0.4 - 0.08)
    assert auc_bound(4.0) == auc_bound(math.inf) == 1.0


def test_a_class_of_one_row_gets_noise_alike_in_all_directions_of_the_same_power() -> None:
    gradients, labels = batch(3000, 6)
    labels = torch.zeros_like(labels)
    labels[7] = 1
    noised = marvell_noise(gradients, labels, power=3.0)
    noise = noised.gradients - gradients
    apart = gradients[7] - gradients[labels == 0].mean(0)
    expected = 3.0 * float(apart.square().sum()) / 6
    assert noised.sum_kl is None
    assert torch.cov(noise.T) == pytest.approx(expected * torch.eye(6), abs=0.08 * expected)


@pytest.mark.parametrize("number", [0, 1])
def test_a_batch_of_one_class_takes_its_longest_row_for_the_distance(number: int) -> None:
    gradients, labels = batch(3000, 6)
    noised = marvell_noise(gradients, torch.full_like(labels, number), power=3.0)
    longest = float(gradients.norm(dim=1).max())
    noise = noised.gradients - gradients
    assert noised.sum_kl is None
    assert float(noise.square().sum(1).mean()) == pytest.approx(3.0 * longest**2, rel=0.05)
    assert torch.cov(noise.T) == pytest.approx(longest**2 / 2 * torch.eye(6), abs=0.08 * longest**2 / 2)


def test_gradients_that_do_not_scatter_or_do_not_differ_are_no_trouble() -> None:
    labels = torch.tensor([0, 0, 1, 1])
    flat = marvell_noise(torch.tensor([[0.0, 0.0]] * 2 + [[3.0, 4.0]] * 2), labels, power=4.0)
    assert flat.sum_kl == pytest.approx(1 / 4)  # all noise along the line: g / 4g of each class
    assert flat.gradients.isfinite().all()
    equal = marvell_noise(torch.ones(4, 2), labels, power=4.0)
    assert torch.equal(equal.gradients, torch.ones(4, 2))
    assert equal.sum_kl == 0.0


def test_protection_is_one_noise_or_none() -> None:
    gradients, labels = batch(50, 4)
    before = torch.get_rng_state()
    assert GradientProtection()(gradients, labels) is gradients
    assert torch.equal(torch.get_rng_state(), before)
    iso = GradientProtection(iso=2.0)(gradients, labels) - gradients
    assert float(iso.norm(dim=1).mean()) == pytest.approx(2 * float(gradients.norm(dim=1).max()), rel=0.15)
    with pytest.raises(InputError, match="iso_gradients and marvell are two noises on the same gradients: give one of"):
        GradientProtection(iso=1.0, marvell=1.0)


def test_what_was_left_is_counted_and_outlives_a_checkpoint() -> None:
    gradients, labels = batch(50, 4)
    protect = GradientProtection(marvell=2.0)
    first, second, third = gradients[:40], gradients, gradients[20:]  # the last has no positives
    for some, these in ((first, labels[:40]), (second, labels), (third, labels[20:])):
        assert not torch.equal(protect(some, these), some)
    bounds = [
        auc_bound(marvell_noise(g, y, power=2.0).sum_kl or 0) for g, y in ((first, labels[:40]), (second, labels))
    ]
    leaks = Leaks()
    leaks.load_state_dict(protect.leaks.state_dict())
    assert (leaks.measured, leaks.unmeasured, leaks.largest) == (2, 1, max(bounds))
    assert leaks.total == pytest.approx(sum(bounds))
