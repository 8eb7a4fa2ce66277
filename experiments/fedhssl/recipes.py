"""FedHSSL (He et al., 2022): its tables and figures, on subsets of its data, on Fashion-MNIST and on credit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vesica.experiment.recipes import Case, Recipe
from vesica.methods import VFLHLP, FedCSSL, FedGSSL, FedHSSL, FedLocalSSL, FedOnce, Method, OneShot, SplitNN
from vesica.methods.pretrained import Pretrained

EPOCHS = 100  # of fine-tuning, and of split-nn, which has no pre-training


@dataclass(frozen=True)
class Setting:
    """A scenario of which every party has so many rows."""

    data: str
    rows: int
    labelled: tuple[int, ...]
    dim: int | None = None
    encoder: str | None = None
    draws: bool = False  # every party has some of the rows; otherwise all of them, which are no more than `rows`
    pretrain_epochs: int = 40

    def cases(self, methods: Iterable[Method], seeds: int, *, shares: Sequence[float]) -> list[Case]:
        """With each count of labelled rows that the aligned ones allow for."""
        return [
            self.case(method, round(share * self.rows), labelled, seed)
            for share in shares
            for labelled in self.labelled
            for method in methods
            for seed in range(seeds)
            if labelled <= round(share * self.rows)
        ]

    def case(self, method: Method, aligned: int, labelled: int, seed: int) -> Case:
        if isinstance(method, Pretrained):
            method = replace(method, pretrain_epochs=self.pretrain_epochs)
        return Case(
            method,
            self.data,
            seed,
            overlap=aligned,
            draw=self.rows - aligned if self.draws else None,
            labelled=labelled,
            dim=self.dim,
            encoder=self.encoder,
        )


BHI = Setting("bhi", 2_280, (200, 400), dim=512)  # of 138,762 pairs
HALVES = Setting("fashion-mnist-halves", 12_000, (200, 400, 1000), dim=512, encoder="resnet18", draws=True)
QUADRANTS = replace(HALVES, data="fashion-mnist")
AVAZU = Setting("avazu", 12_000, (200, 400, 600, 800, 1000), dim=512, encoder="mlp2")  # of 100,000 rows
NUS_WIDE = Setting("nus-wide-tags", 56_885, AVAZU.labelled, dim=512, encoder="mlp2", pretrain_epochs=10)
MODELNET = Setting("modelnet", 24_630, AVAZU.labelled, dim=512)
SETTINGS = (BHI, HALVES, QUADRANTS, AVAZU, NUS_WIDE, MODELNET)

SHARES = (0.2, 0.4)
VANILLA = SplitNN(hidden=(), epochs=EPOCHS, batch_size=128)
LOCAL = FedLocalSSL()
STARRED = (FedGSSL(finetune_with="local"), FedHSSL(finetune_with="local"))


def few_labels(setting: Setting) -> Setting:
    """The 200 labelled rows that the paper's ablations have."""
    return replace(setting, labelled=(200,))


def table2(seeds: int) -> Sequence[Case]:
    """FedVanilla and FedSimSiam do not see which rows are aligned: a fifth is enough for them."""
    return [
        case
        for setting in SETTINGS
        for case in (
            *setting.cases((VANILLA, LOCAL), seeds, shares=SHARES[:1]),
            *setting.cases((FedHSSL(),), seeds, shares=SHARES),
        )
    ]


def table3(seeds: int) -> Sequence[Case]:
    """Cross-party and local pre-training on the same share of the rows."""
    return [
        case
        for setting in SETTINGS
        for share in (*SHARES, 1.0)
        for case in few_labels(only(setting, share)).cases((LOCAL, FedCSSL()), seeds, shares=(1.0,))
    ]


def only(setting: Setting, share: float) -> Setting:
    """As if a party had this share of its rows alone."""
    return replace(setting, rows=round(share * setting.rows), draws=True)


def table4(seeds: int) -> Sequence[Case]:
    """The local encoder alone: with and without aggregation, with and without guidance; with 100 %, Table 9."""
    return [
        case
        for setting in map(few_labels, SETTINGS)
        for case in (
            *setting.cases((LOCAL, replace(LOCAL, aggregate="top")), seeds, shares=SHARES[:1]),
            *setting.cases(STARRED, seeds, shares=(*SHARES, 1.0)),
        )
    ]


def fig3(seeds: int) -> Sequence[Case]:
    """Each step more: cross-party, guided local, aggregation."""
    steps = (VANILLA, LOCAL, FedCSSL(), FedGSSL(), FedHSSL())
    return [case for setting in SETTINGS for case in setting.cases(steps, seeds, shares=SHARES[1:])]


def fig6(seeds: int) -> Sequence[Case]:
    """How much the guidance counts; twice as much is what the authors' code does."""
    guided = [replace(method, gamma=gamma) for method in STARRED for gamma in (0.0, 0.5, 1.0, 2.0)]
    return [case for setting in SETTINGS for case in few_labels(setting).cases(guided, seeds, shares=SHARES[:1])]


def fig7(seeds: int) -> Sequence[Case]:
    """Several updates on the same received projections, and all of an epoch's at once."""
    often = [FedHSSL(local_updates=updates) for updates in (1, 4, 8)]
    asked = [*often, FedHSSL(exchange="epoch"), FedHSSL(exchange="epoch", local_updates=4)]
    return [case for setting in SETTINGS for case in few_labels(setting).cases(asked, seeds, shares=SHARES[:1])]


def objectives(seeds: int) -> Sequence[Case]:
    """SimSiam, BYOL and MoCo, at home and across parties."""
    methods = [kind(ssl=ssl) for kind in (FedLocalSSL, FedHSSL) for ssl in ("simsiam", "byol", "moco")]
    return [case for setting in SETTINGS for case in few_labels(setting).cases(methods, seeds, shares=SHARES[:1])]


def tune(seeds: int) -> Sequence[Case]:
    """Smaller batches and slower fine-tuning, for data sets that are small parts of the paper's.

    Compared on rows that are neither test rows nor trained on.
    """
    tried = [
        replace(kind, batch_size=size, finetune_learning_rate=rate)
        for kind in (LOCAL, FedHSSL(local_updates=4))
        for size, rate in ((512, 1e-3), (128, 1e-3), (128, 1e-4))
    ]
    return [
        replace(case, hold_out=True)
        for setting in (replace(BHI, rows=1_820), HALVES)
        for case in few_labels(setting).cases((VANILLA, *tried), seeds, shares=SHARES[:1])
    ]


def credit(seeds: int) -> Sequence[Case]:
    """Beside the other papers' methods, on the same rows: a host with 13 columns and labels, a guest with 10."""
    methods = (SplitNN(), OneShot(), FedOnce(), VFLHLP(), FedLocalSSL(), FedHSSL())
    return [
        Case(method, "credit", seed, overlap=overlap)
        for overlap in (1000, 2000)
        for method in methods
        for seed in range(seeds)
    ]


def wires(seeds: int) -> Sequence[Case]:
    """Half the bytes."""
    return [
        Case(FedHSSL(), "credit", seed, overlap=1000, wire=wire)
        for wire in ("float32", "float16")
        for seed in range(seeds)
    ]


RECIPES = {
    "table2": Recipe("FedHSSL beside vanilla VFL and local pre-training", table2, seeds=3),
    "table3": Recipe("Cross-party and local pre-training on the same rows", table3, seeds=3),
    "table4": Recipe("Guidance and aggregation for the local encoder alone", table4, seeds=3),
    "fig3": Recipe("What each step of FedHSSL brings", fig3, seeds=3),
    "fig6": Recipe("How much the guidance of FedHSSL counts", fig6, seeds=3),
    "fig7": Recipe("Several updates of FedHSSL on one exchange", fig7, seeds=3),
    "objectives": Recipe("FedHSSL with SimSiam, BYOL and MoCo", objectives, seeds=3),
    "tune": Recipe("Settings of FedHSSL on rows held out", tune),
    "credit": Recipe("FedHSSL and the other papers' methods on credit", credit, seeds=3),
    "wires": Recipe("FedHSSL with narrower values on the wire", wires, seeds=3),
}
