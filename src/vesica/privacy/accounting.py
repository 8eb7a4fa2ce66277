"""What DP-SGD costs in privacy, the noise that a budget asks for, and how parties divide one budget."""

import importlib
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, gammasgn, log_ndtr, logsumexp

from vesica.errors import InputError
from vesica.privacy.spent import Spent

PAPERS_ORDERS = (1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 4.5, *range(5, 64), 128, 256, 512)
_TERMS = 1024  # of the series, more than the largest order: what is left out is below 1e-9
_LEAST_NOISE, _MOST_NOISE = 2.0**-10, 2.0**20
_FINEST = 1e-4  # the grid of losses of an epsilon below 100
_PRECISION = 1e-6  # of a calibrated noise, relative
Orders = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Training:
    """A party's steps of DP-SGD, each on a Poisson sample: `sampling` is the probability of a row to be in it."""

    sampling: float
    steps: int

    def with_noise(self, noise: float) -> "Mechanism":
        return Mechanism(noise, self.sampling, self.steps)


@dataclass(frozen=True)
class Mechanism:
    """A Poisson-subsampled Gaussian, so many steps; `noise` is its standard deviation over the clipping norm."""

    noise: float
    sampling: float
    steps: int

    def __post_init__(self) -> None:
        if not 0 < self.noise < math.inf:
            raise InputError(f"the noise multiplier is {self.noise}: give a positive number")
        if not 0 <= self.sampling <= 1:
            raise InputError(f"the sampling probability is {self.sampling}: give one from 0 to 1")
        if self.steps < 0:
            raise InputError(f"the number of steps is {self.steps}: give 0 or more")


Accountant = Callable[[Iterable[Mechanism], float], float]  # mechanisms and delta to epsilon


def rdp_epsilon(mechanisms: Iterable[Mechanism], delta: float) -> float:
    """Rényi accounting with today's conversion; neighbours are a record apart (one more or one less).

    Orders and conversion are dp-accounting's. The divergences are ours: its series of them often does not converge at
    the low orders, which it then leaves out, so that more noise could cost more.
    """
    _check_delta(delta)
    rdp = _dp_accounting("rdp").rdp_privacy_accountant
    orders = np.array(rdp.DEFAULT_RDP_ORDERS, dtype=np.float64)
    spent = _spent(mechanisms, orders)
    with _quietly():
        return float(rdp.compute_epsilon(orders, spent, delta)[0]) if spent.any() else 0.0


def pld_epsilon(mechanisms: Iterable[Mechanism], delta: float, *, grid: float | None = None) -> float:
    """Privacy loss distributions: nearly exact, and slower; neighbours are a record apart (one more or one less).

    A coarser grid of losses is faster and never reports less than is spent; by default it has about a million points.
    """
    mechanisms = list(mechanisms)
    if grid is None:
        grid = max(_FINEST, _FINEST * rdp_epsilon(mechanisms, delta) / 100)
    return _epsilon(_dp_accounting("pld").PLDAccountant(value_discretization_interval=grid), mechanisms, delta)


def papers_epsilon(mechanisms: Iterable[Mechanism], delta: float) -> float:
    """FedOnce's accountant: Rényi divergences at its orders, and the loose conversion of Mironov 2017."""
    _check_delta(delta)
    orders = np.array(PAPERS_ORDERS, dtype=np.float64)
    spent = _spent(mechanisms, orders)
    return float((spent - math.log(delta) / (orders - 1)).min()) if spent.any() else 0.0


def calibrate(
    epsilon: float,
    delta: float,
    *,
    mechanisms_at: Callable[[float], list[Mechanism]],
    accountant: Accountant = rdp_epsilon,
) -> float:
    """The smallest noise multiplier, to a millionth of it, whose price is at most epsilon."""
    if not 0 < epsilon < math.inf:
        raise InputError(f"epsilon is {epsilon}: give a positive number")

    def affordable(noise: float) -> bool:
        return accountant(mechanisms_at(noise), delta) <= epsilon

    enough = 1.0
    while not affordable(enough):
        enough *= 2
        if enough > _MOST_NOISE:
            raise InputError(f"no noise keeps this training within epsilon {epsilon} at delta {delta}: allow more")
    little = enough / 2
    while little > _LEAST_NOISE and affordable(little):
        little, enough = little / 2, little
    while enough - little > _PRECISION * enough:
        middle = (little + enough) / 2
        little, enough = (little, middle) if affordable(middle) else (middle, enough)
    return enough


@dataclass(frozen=True)
class Division:
    """The mechanism of every party, and what they spend together as the division counts it.

    Another accountant may price the same mechanisms lower: `pld_epsilon(division.mechanisms.values(), delta)`.
    """

    mechanisms: dict[str, Mechanism]
    spent: Spent


def divide(
    division: Literal["moments", "simple"],
    trainings: Mapping[str, Training],
    *,
    epsilon: float,
    delta: float,
    accountant: Accountant = rdp_epsilon,
) -> Division:
    """Noise for every party, so that all of them together spend at most (epsilon, delta) on a record.

    `moments` (FedOnce): one noise for everybody, its price composed over all parties' steps. `simple` (Priv-Baseline):
    each of k parties gets (epsilon / k, delta / k) and a noise of its own; epsilons and deltas add up.
    """
    if division not in ("moments", "simple"):
        raise InputError(f"there is no division '{division}': use 'moments' or 'simple'")
    if not trainings:
        raise InputError("there is no party to divide epsilon among: give at least one")
    return (_by_moments if division == "moments" else _simply)(trainings, epsilon, delta, accountant)


def _by_moments(trainings: Mapping[str, Training], epsilon: float, delta: float, accountant: Accountant) -> Division:
    def mechanisms_at(noise: float) -> list[Mechanism]:
        return [training.with_noise(noise) for training in trainings.values()]

    noise = calibrate(epsilon, delta, mechanisms_at=mechanisms_at, accountant=accountant)
    price = accountant(mechanisms_at(noise), delta)
    return Division({party: training.with_noise(noise) for party, training in trainings.items()}, Spent(price, delta))


def _simply(trainings: Mapping[str, Training], epsilon: float, delta: float, accountant: Accountant) -> Division:
    share = Spent(epsilon / len(trainings), delta / len(trainings))

    @cache  # most parties' trainings are alike
    def settled(training: Training) -> tuple[Mechanism, float]:
        noise = calibrate(
            share.epsilon, share.delta, mechanisms_at=lambda noise: [training.with_noise(noise)], accountant=accountant
        )
        return training.with_noise(noise), accountant([training.with_noise(noise)], share.delta)

    price = math.fsum(settled(training)[1] for training in trainings.values())
    return Division({party: settled(training)[0] for party, training in trainings.items()}, Spent(price, delta))


def _epsilon(accountant: Any, mechanisms: Iterable[Mechanism], delta: float) -> float:
    _check_delta(delta)
    events = _dp_accounting("dp_event")
    with _quietly():
        for (noise, sampling), steps in _together(mechanisms).items():
            accountant.compose(events.PoissonSampledDpEvent(sampling, events.GaussianDpEvent(noise)), steps)
        return float(accountant.get_epsilon(delta))


def _spent(mechanisms: Iterable[Mechanism], orders: Orders) -> Orders:
    """The Rényi divergences of all of them together."""
    spent = np.zeros(len(orders))
    for (noise, sampling), steps in _together(mechanisms).items():
        spent += steps * _divergences(noise, sampling, orders)
    return spent


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what dp-accounting has to say of orders that are no use."""
    log = logging.getLogger("absl")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _together(mechanisms: Iterable[Mechanism]) -> Counter[tuple[float, float]]:
    """The steps of each (noise, sampling); without those that cost nothing."""
    steps: Counter[tuple[float, float]] = Counter()
    for each in mechanisms:
        steps[each.noise, each.sampling] += each.steps if each.sampling else 0
    return +steps


def _dp_accounting(module: Literal["rdp", "pld", "dp_event"]) -> Any:
    try:
        return importlib.import_module(f"dp_accounting.{module}")
    except ModuleNotFoundError as missing:
        raise InputError("pricing privacy needs dp-accounting: pip install 'vesica[privacy]'") from missing


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise InputError(f"delta is {delta}: give a number between 0 and 1")


def _divergences(noise: float, sampling: float, orders: Orders) -> Orders:
    """Rényi divergence of one step at each order. Mironov, Talwar and Zhang 2019, section 3.3, in log space.

    The expectation is cut where both parts of the mixture weigh alike, and each half is expanded by the binomial
    theorem into Gaussian integrals; at a whole order the series ends.
    """
    if sampling == 1:
        return orders / (2 * noise**2)
    order, i = np.broadcast_arrays(orders[:, None], np.arange(_TERMS, dtype=np.float64))
    inside, outside = math.log(sampling), math.log1p(-sampling)
    cut = noise**2 * (outside - inside) + 0.5
    log_binomial = gammaln(order + 1) - gammaln(i + 1) - gammaln(order - i + 1)
    sign = np.where(np.isinf(log_binomial), 0, gammasgn(order - i + 1))

    def half(power: Orders, log_mass: Orders) -> Orders:
        moment = (power**2 - power) / (2 * noise**2)
        return power * inside + (order - power) * outside + moment + log_mass

    below = half(i, log_ndtr((cut - i) / noise))
    above = half(order - i, log_ndtr((order - i - cut) / noise))
    return logsumexp(np.logaddexp(below, above) + log_binomial, axis=1, b=sign) / (orders - 1)  # type: ignore[no-any-return]
