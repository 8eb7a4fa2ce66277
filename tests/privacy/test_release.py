"""Rows that may be shown: the noise a budget asks for, the clip, and the noise that is really there."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import kstest, norm

from vesica.errors import InputError
from vesica.privacy import Mechanism, Release, gaussian_epsilon, gaussian_noise, pld_epsilon
from vesica.privacy.release import long_tailed_normals


def seeded(seed: int) -> Callable[[int], bytes]:
    """In place of the operating system's entropy, so that a bound holds always or never."""
    return random.Random(seed).randbytes


def algorithm_1(epsilon: float, delta: float) -> float:
    """Balle and Wang's Algorithm 1 as printed, for sensitivity 1."""
    turning = norm.cdf(0) - math.exp(epsilon) * norm.cdf(-math.sqrt(2 * epsilon))
    if delta >= turning:
        v = brentq(
            lambda v: (
                norm.cdf(math.sqrt(epsilon * v)) - math.exp(epsilon) * norm.cdf(-math.sqrt(epsilon * (v + 2))) - delta
            ),
            0,
            1e6,
        )
        alpha = math.sqrt(1 + v / 2) - math.sqrt(v / 2)
    else:
        u = brentq(
            lambda u: (
                norm.cdf(-math.sqrt(epsilon * u)) - math.exp(epsilon) * norm.cdf(-math.sqrt(epsilon * (u + 2))) - delta
            ),
            0,
            1e6,
        )
        alpha = math.sqrt(1 + u / 2) + math.sqrt(u / 2)
    return alpha / math.sqrt(2 * epsilon)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 4.0, 8.0, 32.0])
def test_the_noise_is_that_of_the_analytic_gaussian_mechanism(epsilon: float, delta: float) -> None:
    noise, exact = gaussian_noise(epsilon, delta), algorithm_1(epsilon, delta)
    assert exact - 1e-8 <= noise <= exact * (1 + 2e-6)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_no_event_is_likelier_than_epsilon_and_delta_allow(epsilon: float) -> None:
    """By numerical integration of the densities, without the formula."""
    noise = gaussian_noise(epsilon, 1e-3)

    def excess(x: float) -> float:
        return max(0.0, norm.pdf(x, 1, noise) - math.exp(epsilon) * norm.pdf(x, 0, noise))

    begins = noise**2 * epsilon + 0.5  # where the densities are e^epsilon apart
    assert quad(excess, begins, begins + 20 * noise, epsabs=1e-12)[0] == pytest.approx(1e-3, rel=1e-4)


def test_several_releases_compose_to_one_with_less_noise() -> None:
    noise = gaussian_noise(2.0, 1e-5)
    one = Mechanism(noise, 1.0, 1)
    together = gaussian_epsilon([one] * 3, 1e-5)
    assert together == gaussian_epsilon([Mechanism(noise, 1.0, 3)], 1e-5)
    assert together == pytest.approx(gaussian_epsilon([Mechanism(noise / math.sqrt(3), 1.0, 1)], 1e-5), rel=1e-9)
    assert together == pytest.approx(pld_epsilon([one] * 3, 1e-5), rel=1e-3)
    assert 2 < together < 6
    assert gaussian_epsilon([], 1e-5) == 0


def test_a_sampled_mechanism_is_not_priced_as_a_release() -> None:
    with pytest.raises(InputError, match=r"a release has no sampling and this one has 0\.5"):
        gaussian_epsilon([Mechanism(1.0, 0.5, 1)], 1e-5)


def test_a_private_release_has_noise_for_twice_its_clip() -> None:
    """A clipped row can become its opposite."""
    release = Release.private(8.0, 1e-5, clip=0.3)
    assert release.sigma == pytest.approx(2 * 0.3 * algorithm_1(8.0, 1e-5), rel=2e-6)
    assert gaussian_epsilon([release.mechanism], 1e-5) == pytest.approx(8, abs=1e-4)
    assert gaussian_epsilon([release.mechanism], 1e-5) <= 8


def test_no_row_is_longer_than_the_clip_and_short_ones_stay_as_they_are() -> None:
    lengths = torch.logspace(-6, 6, 500)[:, None]
    rows = (
        torch.nn.functional.normalize(torch.randn(500, 7, generator=torch.Generator().manual_seed(1)), dim=1) * lengths
    )
    shown = Release(1e-6, clip=2.0)(rows, entropy=seeded(0))  # hardly any noise
    assert shown.norm(dim=1).max() <= 2 + 1e-4
    short = rows.norm(dim=1) < 2
    assert 0 < int(short.sum()) < 500
    torch.testing.assert_close(shown[short], rows[short], rtol=0, atol=1e-4)
    torch.testing.assert_close(shown[~short], rows[~short] * 2 / lengths[~short], rtol=0, atol=1e-4)


@pytest.mark.parametrize("clip", [None, 1.0])
def test_the_noise_is_gaussian_of_the_stated_deviation(clip: float | None) -> None:
    rows = torch.full((20_000, 4), 0.25)
    noise = (Release(0.7, clip)(rows, entropy=seeded(3)) - rows).flatten().double().numpy()
    deviations = (noise.var() / 0.49 - 1) / math.sqrt(2 / len(noise))  # of the sample variance
    assert abs(deviations) < 4
    assert abs(noise.mean()) < 4 * 0.7 / math.sqrt(len(noise))
    assert kstest(noise, norm(scale=0.7).cdf).pvalue > 0.001
    assert abs(np.corrcoef(noise[::2], noise[1::2])[0, 1]) < 4 / math.sqrt(len(noise) / 2)


def test_a_row_is_noised_anew_every_time_from_the_operating_system() -> None:
    rows = torch.zeros(50, 4)
    torch.manual_seed(0)
    first = Release(1.0)(rows)
    torch.manual_seed(0)
    second = Release(1.0)(rows)
    assert (first != second).any(dim=1).all()  # a value of a row may come twice by chance: noise lies on a grid


def test_the_last_bits_say_nothing() -> None:
    """All rows come on one grid, whatever they were."""
    rows = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0)) * 1e-3
    grid = 2.0**-1 / 2**16  # for a deviation of .7
    steps = Release(0.7, 1.0)(rows).double() / grid
    assert torch.equal(steps, steps.round())


def test_the_tails_reach_far_enough_for_a_large_epsilon() -> None:
    """The least uniform number gives the longest noise, and the greatest gives none."""
    longest = long_tailed_normals(2, entropy=bytes)
    assert longest.tolist() == pytest.approx([math.sqrt(2 * 129 * math.log(2)), 0])
    assert long_tailed_normals(2, entropy=lambda count: b"\xff" * count).tolist() == [0, 0]
    shift = 1 / gaussian_noise(62.0, 1e-5)
    assert norm.sf(float(longest[0]) - shift) < 1e-7  # noise that a neighbour's cannot reach, well below delta
    with pytest.raises(InputError, match="epsilon 100 at delta 1e-05 needs noise with longer tails"):
        gaussian_noise(100.0, 1e-5)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_row_that_is_not_finite_is_not_released(value: float) -> None:
    rows = torch.zeros(3, 2)
    rows[1, 1] = value
    with pytest.raises(InputError, match="not finite"):
        Release(1.0, 1.0)(rows)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_bad_values_are_refused(bad: float) -> None:
    with pytest.raises(InputError, match=r"the noise on released rows is .*: give a number from 1e-30 to"):
        Release(bad)
    with pytest.raises(InputError, match=r"the clip of released rows is .*: give a number from 1e-30 to"):
        Release(1.0, bad)
    with pytest.raises(InputError, match=r"epsilon is .*: give a positive number"):
        gaussian_noise(bad, 1e-5)
    with pytest.raises(InputError, match=r"delta is .*: give a number between 0 and 1"):
        gaussian_noise(1.0, bad)
