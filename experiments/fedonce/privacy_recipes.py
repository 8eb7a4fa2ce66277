"""FedOnce (Wu, Li and He, TBD 2022) with differential privacy: Fig. 10, computed, and Table 6."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vesica.experiment.recipes import Case, Figures, Recipe
from vesica.methods import FedOnce
from vesica.privacy import Accountant, Mechanism, papers_epsilon, pld_epsilon, rdp_epsilon

DELTA = 1e-5
A_DAY = 86_400.0
GUESTS = ("guest-1", "guest-2", "guest-3")
PARTIES = (1, 2, 4, 10, 50, 100)
PUBLISHED_REDUCTION = {100: 0.889}  # section 4.1, by k
ACCOUNTANTS: dict[str, Accountant] = {"": papers_epsilon, "RDP ": rdp_epsilon, "PLD ": pld_epsilon}


def fig10() -> Iterator[Figures]:
    """What k parties' DP-SGD costs together: composed (moments), or epsilons and deltas added up (simple).

    First with the paper's own accountant, then with today's.
    """
    rows, batch, epochs = 60_000, 128, 50
    one = Mechanism(noise=1.0, sampling=batch / rows, steps=math.ceil(epochs * rows / batch))
    for parties in PARTIES:
        figures: dict[str, int | float | None] = {"k": parties}
        for name, accountant in ACCOUNTANTS.items():
            moments, simple = accountant([one] * parties, DELTA), parties * accountant([one], DELTA / parties)
            figures |= {f"{name}moments": moments, f"{name}simple": simple}
            figures |= {"reduction": 1 - moments / simple} if accountant is papers_epsilon else {}
        yield figures | {"published reduction": PUBLISHED_REDUCTION.get(parties)}


@dataclass(frozen=True)
class Setting:
    """A row of the paper's Table 10; the learning rate is the host's."""

    batch_size: int
    guest_epochs: int
    host_epochs: int
    learning_rate: float
    clip: float


@dataclass(frozen=True)
class Budgeted:
    """How a data set is run with a budget, in four parties.

    The head and d are those of Table 3; the encoders of tables are ours, those of images the paper's CNN1.
    """

    dim: int
    filters: int  # the dim of guests that are not trained: they spend nothing, however long their representations are
    settings: dict[float, Setting]  # by epsilon
    delta: float = DELTA
    hidden: tuple[int, ...] = (10,)
    encoder: str | None = None
    parties: int | None = 4
    least_seeds: int = 1  # more where runs are short and far apart


MNIST = {
    2.0: Setting(256, 6, 15, 0.8, 1.5),
    4.0: Setting(256, 6, 15, 0.9, 1.5),
    6.0: Setting(256, 7, 15, 0.9, 1.5),
    8.0: Setting(512, 10, 30, 0.9, 1.5),
}
PHISHING = {
    2.0: Setting(32, 10, 30, 0.3, 1.0),
    4.0: Setting(32, 10, 30, 0.2, 1.0),
    6.0: Setting(32, 10, 30, 0.1, 1.0),
    8.0: Setting(128, 10, 40, 0.3, 1.5),
}
GISETTE = {
    2.0: Setting(32, 10, 10, 0.3, 1.0),
    4.0: Setting(32, 6, 30, 0.2, 1.0),
    6.0: Setting(128, 10, 15, 0.6, 1.5),
    8.0: Setting(128, 10, 40, 0.6, 1.5),
}
UJI = {
    2.0: Setting(128, 10, 10, 0.5, 1.5),
    4.0: Setting(128, 12, 20, 0.5, 1.5),
    6.0: Setting(128, 12, 30, 0.5, 1.5),
    8.0: Setting(128, 12, 60, 0.3, 1.5),
}
TABLE6 = {
    "mnist": Budgeted(8, 128, MNIST, encoder="cnn1", parties=None),
    "phishing": Budgeted(3, 17, PHISHING, least_seeds=3),
    "uji-position": Budgeted(6, 64, UJI, hidden=(20, 20)),
    "pixel-pairs": Budgeted(3, 64, GISETTE, delta=1e-4),
    "gisette": Budgeted(3, 64, GISETTE, delta=1e-4),
}


def table6(seeds: int) -> Sequence[Case]:
    """Every party as host, within epsilon 2 to 8, and without any noise.

    Where guests are not trained there is one training to pay for, and nothing to divide. `heuristic-nat` is what the
    paper ran: it is trained with the noise of that epsilon, and its results state none.
    """
    return [
        Case(method, data, seed, dim=dim, encoder=budgeted.encoder, host=host, parties=budgeted.parties)
        for data, budgeted in TABLE6.items()
        for host in range(1, 5)
        for method, dim in table6_methods(budgeted)
        for seed in range(max(seeds, budgeted.least_seeds))
    ]


def table6_methods(budgeted: Budgeted) -> Iterator[tuple[FedOnce, int]]:
    for epsilon, setting in budgeted.settings.items():
        filters = FedOnce(
            representation="filters",
            epsilon=epsilon,
            delta=budgeted.delta,
            hidden=budgeted.hidden,
            batch_size=setting.batch_size,
            guest_epochs=setting.guest_epochs,
            host_epochs=setting.host_epochs,
            private_learning_rate=setting.learning_rate,
            clip=setting.clip,
        )
        fixed = replace(filters, representation="fixed")
        yield from (
            (filters, budgeted.filters),
            (fixed, budgeted.dim),
            (replace(fixed, division="simple"), budgeted.dim),
            (replace(fixed, representation="codebook"), budgeted.dim),
            (replace(fixed, representation="heuristic-nat"), budgeted.dim),
        )
    yield FedOnce(hidden=budgeted.hidden), budgeted.dim


def table6_alone(seeds: int) -> Sequence[Case]:
    """The host without any guest, with the whole budget and the same untrained filters: what guests are worth."""
    return [
        replace(case, wait=A_DAY, absent=GUESTS)
        for case in table6(seeds)
        if isinstance(case.method, FedOnce) and case.method.representation == "filters"
    ]


RECIPES = {
    "fig10": Recipe("FedOnce: what k parties spend, by moments and by simple division", compute=fig10),
    "table6": Recipe("FedOnce within epsilon 2 to 8, every party as host", table6),
    "table6-alone": Recipe("A host alone within epsilon 2 to 8", table6_alone),
}
