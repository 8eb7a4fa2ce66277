"""FedOnce (Wu, Li and He, TBD 2022) without a budget: its figures and tables, and guests that are late or absent.

The head, d, f and k are those of the paper's Tables 2 and 5. How guests with images learn is what `tune-mnist` found
best for NAT; the other settings are our defaults.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

from vesica.experiment.recipes import Case, Recipe
from vesica.methods import FedOnce, Linear, LocalOnly, Method, Pooled, SplitNN, VerticalTrees
from vesica.methods.fedonce import Representation
from vesica.protocol.end_to_end import Augment
from vesica.training.pretext import SelfSupervision
from vesica.training.self_supervised import usual_rate

BATCH = 128
MORE_EPOCHS = 50
SECURE_BOOST = VerticalTrees(eta=0.1)  # the rate of the authors' code
# About what one tree of depth 6 takes, an aligned row, with one guest: the gradient in 8 bytes, and which way the row
# goes at every split (the slope from 2,000 to 8,000 rows of credit). With more guests each takes more.
TREE_BYTES = 13
MOST_TREE_PROCESSES = 50  # one a party, all on one machine


@dataclass(frozen=True)
class Setting:
    """How a data set is run; every party is host in turn."""

    rows: int  # aligned
    dims: tuple[int, ...]  # d, by who is host
    hidden: tuple[int, ...]  # of the host's head
    frequency: int = 1
    parties: int | None = None  # where the scenario has another number
    guest_epochs: int = 30
    guest_learning_rate: float = 1e-3
    guest_augment: Augment = "none"
    beside: tuple[Representation, ...] = ()  # what Figure 5 also has, in place of NAT
    trees: bool = True

    @property
    def hosts(self) -> range:
        return range(1, len(self.dims) + 1)

    def fedonce(self) -> FedOnce:
        return FedOnce(
            guest_epochs=self.guest_epochs,
            frequency=self.frequency,
            guest_augment=self.guest_augment,
            guest_learning_rate=self.guest_learning_rate,
            batch_size=BATCH,
            hidden=self.hidden,
        )

    def solo(self) -> LocalOnly:
        return LocalOnly(batch_size=BATCH, hidden=self.hidden)

    def combine(self) -> Pooled:
        return Pooled(batch_size=BATCH, hidden=self.hidden)

    def split_nn(self) -> SplitNN:
        return SplitNN(batch_size=BATCH, hidden=self.hidden)

    def sent(self, host: int) -> int:
        """The bytes of FedOnce's representations."""
        return 4 * self.rows * self.dims[host - 1] * (len(self.dims) - 1)


def images(rows: int) -> Setting:
    """The paper's; rate, views and epochs are those of the best NAT of `tune-mnist`.

    On its hold-out principal components were better still, so Figure 5 has them beside. Trees with a column for every
    pixel and ten of them a round are too slow here and left out.
    """
    return Setting(
        rows,
        dims=(16,) * 4,
        hidden=(128,),
        frequency=3,
        guest_epochs=100,
        guest_learning_rate=1e-4,
        guest_augment="weak",
        beside=("pca",),
        trees=False,
    )


UJI = Setting(19_937, (3,) * 10, (30, 10), parties=10)
GISETTE = Setting(4_800, (3,) * 10, (30, 30))
CIFAR = images(50_000)
SETTINGS = {
    "mnist": images(60_000),
    "fashion-mnist": images(60_000),
    "phishing": Setting(8_844, (3,) * 10, (30,)),
    "uji-position": UJI,
    "uji-floor": UJI,
    "kmnist": images(60_000),
    "covtype": Setting(464_810, (3,) * 10, (30, 30)),
    "gisette": GISETTE,
    "superconduct": Setting(17_010, (3,) * 10, (30, 10)),
    "nus-wide": Setting(161_789, (8,) * 5, (50,)),
    "movielens-1m": Setting(800_167, (3, 48), (10,)),
}
TABLE7 = {"pixel-pairs": GISETTE} | {
    name: SETTINGS[name] for name in ("phishing", "mnist", "fashion-mnist", "gisette", "kmnist")
}


def run(method: Method, data: str, setting: Setting, seed: int, *, host: int = 1) -> Case:
    """With the paper's d, where there are representations that cross."""
    dim = setting.dims[host - 1] if isinstance(method, FedOnce | SplitNN) else None
    return Case(method, data, seed, dim=dim, host=host, parties=setting.parties)


def fig5(seeds: int) -> Sequence[Case]:
    """Each party as host: alone (Solo), pooled (Combine), linear, SplitNN, SplitNN with FedOnce's bytes, FedOnce.

    On images FedOnce also with principal components, on tables also SecureBoost.
    """
    return [
        case
        for data, setting in SETTINGS.items()
        for host in setting.hosts
        for seed in range(seeds)
        for case in fig5_of(data, setting, seed, host=host)
    ]


def fig5_of(data: str, setting: Setting, seed: int, *, host: int) -> list[Case]:
    fedonce = [setting.fedonce(), *(replace(setting.fedonce(), representation=other) for other in setting.beside)]
    methods: list[Method] = [setting.solo(), setting.combine(), Linear(), *fedonce, setting.split_nn()]
    cases = [run(method, data, setting, seed, host=host) for method in methods]
    stopped = replace(cases[-1], stop_at_bytes=setting.sent(host))
    return [*cases, stopped, *secure_boost(data, setting, seed, host=host)]


def secure_boost(data: str, setting: Setting, seed: int, *, host: int = 1) -> list[Case]:
    """On tables; also with FedOnce's bytes, where one tree fits into them.

    With a d of 3 none does, on the data at hand as in the paper, which has SecureBoost-Comm missing for that reason.
    """
    if not setting.trees:
        return []
    whole = run(SECURE_BOOST, data, setting, seed, host=host)
    one_fits = 4 * setting.dims[host - 1] > TREE_BYTES
    return [whole, replace(whole, stop_at_bytes=setting.sent(host))] if one_fits else [whole]


def table4(seeds: int) -> Sequence[Case]:
    """Seconds of FedOnce and of SplitNN, one after the other."""
    return [
        run(method, data, setting, seed)
        for data, setting in SETTINGS.items()
        for seed in range(seeds)
        for method in (setting.split_nn(), setting.fedonce())
    ]


def fig6(seeds: int) -> Sequence[Case]:
    """FedOnce that goes on end to end, and SplitNN: validation metric against bytes; on tables SecureBoost's end."""
    return [case for data, setting in SETTINGS.items() for case in more_rounds(data, setting, seeds)]


def fig11(seeds: int) -> Sequence[Case]:
    """The same on CIFAR-10, a quadrant of 16 x 16 each."""
    return more_rounds("cifar10-quadrants", CIFAR, seeds)


def more_rounds(data: str, setting: Setting, seeds: int) -> list[Case]:
    methods = (setting.split_nn(), replace(setting.fedonce(), more_epochs=MORE_EPOCHS))
    cases = [run(method, data, setting, seed) for method in methods for seed in range(seeds)]
    return cases + [case for seed in range(seeds) for case in secure_boost(data, setting, seed)]


def tune_more(seeds: int) -> Sequence[Case]:
    """The rate of the rounds that go on, on rows held out; SplitNN's is .001."""
    return [
        replace(
            run(replace(setting.fedonce(), more_epochs=MORE_EPOCHS, more_learning_rate=rate), data, setting, seed),
            hold_out=True,
        )
        for data, setting in SETTINGS.items()
        if setting.trees
        for rate in (1e-4, 3e-4, 1e-3)
        for seed in range(seeds)
    ]


def fig7(seeds: int) -> Sequence[Case]:
    """How long representations are: d from 2 to 64."""
    return [
        replace(run(SETTINGS["mnist"].fedonce(), "mnist", SETTINGS["mnist"], seed, host=host), dim=dim)
        for dim in (2, 4, 8, 16, 32, 64)
        for host in SETTINGS["mnist"].hosts
        for seed in range(seeds)
    ]


def fig8(seeds: int) -> Sequence[Case]:
    """From 10 to 200 parties, on 5,000 columns; SecureBoost to 50. No tree fits into FedOnce's bytes."""
    return [
        replace(run(method, data, GISETTE, seed, host=host), parties=parties)
        for data in ("pixel-pairs", "gisette")
        for parties in (10, 20, 50, 100, 200)
        for method in (GISETTE.solo(), GISETTE.split_nn(), GISETTE.fedonce(), SECURE_BOOST)
        for host in (1, 2, 3)
        for seed in range(seeds)
        if method is not SECURE_BOOST or parties <= MOST_TREE_PROCESSES
    ]


def fig9(seeds: int) -> Sequence[Case]:
    """Two parties, the host with a ratio alpha of the columns that matter most."""
    return [
        replace(run(method, data, setting, seed), parties=None, alpha=alpha)
        for data, setting in {"phishing": SETTINGS["phishing"], "uji-position": UJI, "uji": UJI}.items()
        for alpha in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
        for method in (setting.solo(), setting.combine(), setting.split_nn(), setting.fedonce())
        for seed in range(seeds)
    ]


def table7(seeds: int) -> Sequence[Case]:
    """Principal components, fitted and applied to rows prepared alike, with the d and the head of NAT."""
    return [
        run(method, data, setting, seed, host=host)
        for data, setting in TABLE7.items()
        for host in setting.hosts
        for method in (setting.fedonce(), replace(setting.fedonce(), representation="pca"))
        for seed in range(seeds)
    ]


def representations(seeds: int) -> Sequence[Case]:
    """FedOnce does not depend on noise as targets (section 5.6): the other representations, on phishing."""
    setting = SETTINGS["phishing"]
    plain = setting.fedonce()
    kinds = get_args(SelfSupervision)
    methods: list[Method] = [
        setting.solo(),
        plain,
        *(replace(plain, representation=kind) for kind in ("pca", "filters")),
        *(replace(plain, representation=ssl, guest_learning_rate=usual_rate(ssl, BATCH)) for ssl in kinds),
    ]
    return [run(method, "phishing", setting, seed) for method in methods for seed in range(seeds)]


def tune_mnist(seeds: int) -> Sequence[Case]:
    """How guests of images are to learn, compared on rows that are neither test rows nor trained on.

    The rate 1e-4 is the paper's, weak views are its code's.
    """
    paper = replace(SETTINGS["mnist"].fedonce(), guest_augment="none")
    fast = replace(paper, guest_learning_rate=1e-3)
    tried = [
        *(paper, replace(paper, guest_augment="weak")),
        *(fast, replace(fast, guest_augment="weak"), replace(fast, frequency=1)),
        replace(fast, representation="pca"),
    ]
    return [
        replace(run(method, "mnist", SETTINGS["mnist"], seed), hold_out=True)
        for method in tried
        for seed in range(seeds)
    ]


def table8(seeds: int) -> Sequence[Case]:
    """Noise on the representations: of a scale (no guarantee), then clipped and to a guarantee a released row."""
    return [
        run(method, data, SETTINGS[data], seed, host=host)
        for data in ("mnist", "phishing", "nus-wide", "movielens-1m")
        for method in noised(SETTINGS[data])
        for host in SETTINGS[data].hosts
        for seed in range(seeds)
    ]


def noised(setting: Setting) -> list[Method]:
    plain = setting.fedonce()
    return [
        setting.solo(),
        plain,
        *(replace(plain, sigma_r=sigma) for sigma in (0.1, 0.5, 1.0, 1.5)),
        *(replace(plain, representation_epsilon=epsilon) for epsilon in (2.0, 8.0, 32.0)),
    ]


A_DAY = 86_400.0
LAGGY = {"phishing": (0, 3, 6, 9), "mnist": (0, 1, 2, 3)}  # how many guests are absent


def laggy(seeds: int) -> Sequence[Case]:
    """None to all of the guests absent in training. `without.py` has them leave later."""
    return [
        replace(run(method, data, SETTINGS[data], seed), wait=A_DAY, absent=guests(absent))
        for data, counts in LAGGY.items()
        for method in laggy_methods(SETTINGS[data].fedonce())
        for absent in counts
        for seed in range(seeds)
    ]


def laggy_methods(plain: FedOnce) -> list[FedOnce]:
    """Without party dropout the fill has no part in training: what it would have learned is zero."""
    zero = replace(plain, fill="zero")
    return [zero, replace(zero, party_dropout=0.3), replace(plain, party_dropout=0.3)]


def guests(count: int) -> tuple[str, ...]:
    return tuple(f"guest-{number}" for number in range(1, count + 1))


RECIPES = {
    "fig5": Recipe("FedOnce beside its references, each party as host", fig5),
    "table4": Recipe("FedOnce and SplitNN: seconds", table4),
    "fig6": Recipe("FedOnce that goes on end to end, beside SplitNN", fig6),
    "tune-more": Recipe("FedOnce that goes on end to end: its rate, on rows held out", tune_more),
    "fig7": Recipe("FedOnce on MNIST quadrants: how long representations are", fig7),
    "fig8": Recipe("FedOnce with 10 to 200 parties", fig8),
    "fig9": Recipe("FedOnce where one party has the columns that matter", fig9),
    "fig11": Recipe("FedOnce that goes on end to end, on CIFAR-10 quadrants", fig11),
    "table7": Recipe("FedOnce with NAT and with principal components", table7),
    "representations": Recipe("FedOnce with other representations than noise as targets", representations, seeds=3),
    "tune-mnist": Recipe("FedOnce on MNIST quadrants: how guests learn, on rows held out", tune_mnist),
    "table8": Recipe("FedOnce with noise on the representations", table8),
    "laggy": Recipe("FedOnce with absent guests", laggy, seeds=3),
}
