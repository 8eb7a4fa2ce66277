"""VFLHLP (Li et al., 2024): its tables and its figure, on subsets of the data, and on the whole where that is there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vesica.experiment.recipes import Case, Recipe
from vesica.methods import VFLHLP, VFLHLPA, VFLHLPP, FedHSSL, FedLocalSSL, FedOnce, LocalOnly, Method, OneShot, SplitNN

# All end in the paper's linear layer; split-nn that keeps its best epoch on the validation rows, and its tenth epoch.
SPLIT = (SplitNN(hidden=()), SplitNN(hidden=(), patience=0, epochs=10))
LOCAL = LocalOnly(hidden=(), batch_size=128, patience=0, epochs=3)
HALVES = (VFLHLP(), VFLHLPA(), VFLHLPP(), VFLHLPP(guest_steps=0))  # the last has neither half, at the same rates
IN_FEDHSSLS_FRAME = [  # fine-tuned as the second split-nn learns: 20 validation rows are too few to keep an epoch by
    kind(ssl=ssl, finetune_epochs=10, finetune_patience=0, finetune_batch_size=SPLIT[1].batch_size)
    for kind in (FedLocalSSL, FedHSSL)
    for ssl in ("simsiam", "byol", "moco")
]


@dataclass(frozen=True)
class Clicks:
    """A scenario of which every party has so many rows, aligned ones among them: half of what is not for testing."""

    data: str
    own: int
    aligned: tuple[int, ...]

    def cases(self, methods: Iterable[Method], seeds: int) -> list[Case]:
        return [
            self.case(lasting(method, aligned), aligned, seed)
            for aligned in self.aligned
            for method in methods
            for seed in range(seeds)
        ]

    def case(self, method: Method, aligned: int, seed: int) -> Case:
        """The host has labels for all its rows; representations are 16 numbers, as in the paper's Table 1."""
        return Case(method, self.data, seed, overlap=aligned, draw=self.own - aligned, labels="all", dim=16)


def lasting(method: Method, aligned: int) -> Method:
    """VFLHLP for fewer epochs than its twenty where there are many aligned rows: a round rule, after `tune-rows`."""
    if isinstance(method, VFLHLPA | VFLHLPP) and method.epochs == VFLHLP().epochs:
        return replace(method, epochs=max(1, min(method.epochs, 10_000 // aligned)))
    return method


AVAZU = Clicks("avazu-three", 6_000, (250, 500, 1000, 2000, 4000))  # of 15,000 rows
CRITEO = Clicks("criteo", 3_200, (200, 400, 600, 800, 1000, 2000))  # of 8,000 rows
TWO_PARTIES = Clicks("avazu", 6_000, (200, 400, 600, 800, 1000))
WHOLE_AVAZU = Clicks("avazu-three", 48_000, (*AVAZU.aligned, 8000))  # of 120,000 rows, a fifth for testing
WHOLE_CRITEO = Clicks("criteo", 40_000, CRITEO.aligned)  # of 100,000
FEW = (replace(AVAZU, aligned=(250, 1000)), replace(CRITEO, aligned=(200, 1000)))

TRIED = [  # one field at a time, around the defaults
    VFLHLP(),
    *(VFLHLP(beta=beta) for beta in (0.0, 1e-3, 1e-2, 0.1, 10.0)),
    *(VFLHLP(start="warm", beta=beta) for beta in (0.0, 1e-3, 1e-2, 0.1, 1.0, 10.0)),
    *(VFLHLP(eta_1=rate) for rate in (1e-3, 1e-2)),
    *(VFLHLP(eta_2=rate) for rate in (1e-5, 1e-3)),
    *(VFLHLP(epochs=epochs) for epochs in (10, 40)),
    VFLHLP(epochs=100, patience=20),
    *(VFLHLP(guest_steps=steps) for steps in (0, 300, 3000)),
    *(VFLHLP(corruption=corruption) for corruption in (0.3, 0.8)),
    *(VFLHLP(tau=tau) for tau in (0.1, 0.3)),
    *(SplitNN(hidden=(), patience=0, epochs=epochs) for epochs in (5, 10, 20)),
    *(LocalOnly(hidden=(), batch_size=128, patience=0, epochs=epochs) for epochs in (1, 2, 3, 5, 8)),
    LocalOnly(hidden=(), batch_size=128, patience=20, epochs=100),
]


def table2(seeds: int) -> Sequence[Case]:
    """Also each guest's columns alone, as if it had the labels."""
    alone = [replace(AVAZU.case(LOCAL, 250, seed), host=host) for host in (2, 3) for seed in range(seeds)]
    return [*AVAZU.cases((LOCAL, *SPLIT, VFLHLP()), seeds), *alone]


def table3(seeds: int) -> Sequence[Case]:
    return CRITEO.cases((LOCAL, *SPLIT, VFLHLP()), seeds)


def table2_whole(seeds: int) -> Sequence[Case]:
    return WHOLE_AVAZU.cases((LOCAL, *SPLIT, VFLHLP()), seeds)


def table3_whole(seeds: int) -> Sequence[Case]:
    return WHOLE_CRITEO.cases((LOCAL, *SPLIT, VFLHLP()), seeds)


def table4(seeds: int) -> Sequence[Case]:
    """Two parties of FedHSSL's fields."""
    return TWO_PARTIES.cases((LOCAL, *SPLIT, *IN_FEDHSSLS_FRAME, VFLHLP()), seeds)


def fig5(seeds: int) -> Sequence[Case]:
    return CRITEO.cases((*SPLIT, *HALVES), seeds)


def ablation(seeds: int) -> Sequence[Case]:
    return [case for clicks in FEW for case in clicks.cases((LOCAL, *SPLIT, *HALVES), seeds)]


def start(seeds: int) -> Sequence[Case]:
    return [case for clicks in FEW for case in clicks.cases((VFLHLP(), VFLHLP(start="warm")), seeds)]


def credit(seeds: int) -> Sequence[Case]:
    """A host with labels only, and one with 13 columns and labels for all its rows, which can also learn alone."""
    together = (VFLHLP(), OneShot(), FedOnce(), SplitNN())
    settings = {"credit-two-guests": together, "credit": (*together, LocalOnly())}
    return [
        Case(method, data, seed, overlap=overlap, labels="all")
        for data, methods in settings.items()
        for overlap in (1000, 2000)
        for method in methods
        for seed in range(seeds)
    ]


def tune(seeds: int) -> Sequence[Case]:
    """Settings compared on rows that are neither test rows nor trained on."""
    few = [replace(clicks, aligned=clicks.aligned[:1]) for clicks in (AVAZU, CRITEO)]
    return [replace(case, hold_out=True) for clicks in few for case in clicks.cases(TRIED, seeds)]


def tune_rows(seeds: int) -> Sequence[Case]:
    """How long to train where more rows are aligned, on rows held out too."""
    more = replace(AVAZU, aligned=(1000, 2000, 4000)), replace(CRITEO, aligned=(400, 1000, 2000))
    return [
        replace(clicks.case(VFLHLP(epochs=epochs), aligned, seed), hold_out=True)
        for clicks in more
        for aligned in clicks.aligned
        for epochs in (2, 5, 10, 20)
        for seed in range(seeds)
    ]


RECIPES = {
    "table2": Recipe("VFLHLP beside vanilla VFL and the host alone on 15,000 rows of Avazu", table2, seeds=3),
    "table3": Recipe("VFLHLP beside vanilla VFL and the host alone on 8,000 rows of Criteo", table3, seeds=3),
    "table2-whole": Recipe("Table 2 on 120,000 rows of Avazu", table2_whole, seeds=5),
    "table3-whole": Recipe("Table 3 on 100,000 rows of Criteo", table3_whole, seeds=5),
    "table4": Recipe("VFLHLP beside FedHSSL on 15,000 rows of Avazu, two parties", table4, seeds=3),
    "fig5": Recipe("The two halves of VFLHLP on 8,000 rows of Criteo", fig5, seeds=3),
    "ablation": Recipe("What each half of VFLHLP brings where few rows are aligned", ablation, seeds=3),
    "start": Recipe("VFLHLP from a fresh host and from one that starts where it learned alone", start, seeds=3),
    "credit": Recipe("VFLHLP beside one-shot, FedOnce and SplitNN on credit", credit, seeds=3),
    "tune": Recipe("Settings of VFLHLP on rows held out", tune, seeds=2),
    "tune-rows": Recipe("How long VFLHLP trains with more aligned rows, on rows held out", tune_rows, seeds=2),
}
