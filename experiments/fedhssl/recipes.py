"""FedHSSL (He et al., 2022): its tables and figures, on subsets of its data, on Fashion-MNIST and on credit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from vesica.experiment.recipes import Case, Recipe
from vesica.methods import (
    VFLHLP,
    FedCSSL,
    FedGSSL,
    FedHSSL,
    FedLocalSSL,
    FedOnce,
    Linear,
    Method,
    OneShot,
    SplitNN,
    Trees,
)
from vesica.methods.pretrained import Pretrained

Crossing = TypeVar("Crossing", bound=FedCSSL)

# LightGBM with its own defaults; the paper does not say how it was set.
LIGHTGBM = Trees(
    library="lightgbm",
    eta=0.1,
    max_depth=0,
    min_child_weight=1e-3,
    reg_lambda=0.0,
    max_bin=255,
    early_stopping_rounds=0,
)


@dataclass(frozen=True)
class Setting:
    """A scenario of which every party has so many rows, and how encoders are pre-trained on them."""

    data: str
    rows: int
    labelled: tuple[int, ...]
    dim: int | None = None
    encoder: str | None = None
    draws: bool = False  # every party has some of the rows; otherwise all of them, which are no more than `rows`
    pretrain_epochs: int = 40
    batch_size: int = 512
    finetune_learning_rate: float = 1e-3
    finetune_epochs: int = 100
    vanilla_learning_rate: float = 1e-3
    vanilla_epochs: int = 100

    def vanilla(self) -> SplitNN:
        """With no pre-training; all its epochs, for a tenth of 200 labels is too few to choose one by."""
        rate = self.vanilla_learning_rate
        return SplitNN(hidden=(), epochs=self.vanilla_epochs, patience=0, batch_size=128, learning_rate=rate)

    def local(self) -> FedLocalSSL:
        return FedLocalSSL(
            pretrain_epochs=self.pretrain_epochs,
            batch_size=self.batch_size,
            finetune_learning_rate=self.finetune_learning_rate,
            finetune_epochs=self.finetune_epochs,
            finetune_patience=0,
        )

    def crossing(self, kind: type[Crossing]) -> Crossing:
        """FedCSSL and what goes on from it."""
        return kind(
            pretrain_epochs=self.pretrain_epochs,
            batch_size=self.batch_size,
            finetune_learning_rate=self.finetune_learning_rate,
            finetune_epochs=self.finetune_epochs,
            finetune_patience=0,
        )

    def starred(self) -> tuple[FedGSSL, FedHSSL]:
        """With the local encoder alone."""
        kinds = self.crossing(FedGSSL), self.crossing(FedHSSL)
        return replace(kinds[0], finetune_with="local"), replace(kinds[1], finetune_with="local")

    def cases(self, methods: Iterable[Method], seeds: int, *, shares: Sequence[float]) -> list[Case]:
        """With each count of labelled rows that the aligned ones allow for."""
        return [
            Case(
                asked,
                self.data,
                seed,
                overlap=aligned,
                draw=self.rows - aligned if self.draws else None,
                labelled=labelled,
                dim=self.dim,
                encoder=self.encoder,
            )
            for aligned in (round(share * self.rows) for share in shares)
            for method in methods
            for asked, labelled in with_labels(method, [count for count in self.labelled if count <= aligned])
            for seed in range(seeds)
        ]


def with_labels(method: Method, counts: Sequence[int]) -> list[tuple[Method, int]]:
    """A run for each count; or, where there is a pre-training that serves them all, one run."""
    if isinstance(method, Pretrained) and counts:
        return [(replace(method, label_counts=tuple(counts[:-1])), counts[-1])]
    return [(method, count) for count in counts]


# Small parts of the paper's data, with so few batches of 512 that smaller ones are taken. `tune` compares that, and
# rates and epochs for all three methods alike.
BHI = Setting(
    "bhi",
    2_280,
    (200, 400),
    dim=512,
    batch_size=128,
    finetune_learning_rate=1e-4,
    finetune_epochs=30,
    vanilla_learning_rate=1e-4,
)
HALVES = Setting(
    "fashion-mnist-halves",
    12_000,
    (200, 400, 1000),
    dim=512,
    encoder="resnet18",
    draws=True,
    batch_size=128,
)
QUADRANTS = replace(HALVES, data="fashion-mnist")
AVAZU = Setting("avazu", 12_000, (200, 400, 600, 800, 1000), dim=512, encoder="mlp2")  # of 100,000 rows
# The paper's own.
NUS_WIDE = Setting("nus-wide-tags", 56_885, AVAZU.labelled, dim=512, encoder="mlp2", pretrain_epochs=10)
MODELNET = Setting("modelnet", 24_630, AVAZU.labelled, dim=512)
SETTINGS = (BHI, HALVES, QUADRANTS, AVAZU, NUS_WIDE, MODELNET)
FEW_LABELS = tuple(replace(setting, labelled=(200,)) for setting in SETTINGS)  # as in the paper's ablations
SHARES = (0.2, 0.4)  # of the rows, which are aligned
TABLES = ("avazu", "nus-wide-tags")


def table2(seeds: int) -> Sequence[Case]:
    """FedVanilla and FedSimSiam do not see which rows are aligned: a fifth is enough for them.

    So it is for LR and LightGBM, which have the columns of all parties in one place; they are for tables alone.
    The labelled rows are the same, whatever the share of aligned ones.
    """
    return [
        case
        for setting in SETTINGS
        for case in (
            *setting.cases((Linear(patience=0), LIGHTGBM) if setting.data in TABLES else (), seeds, shares=SHARES[:1]),
            *setting.cases((setting.vanilla(), setting.local()), seeds, shares=SHARES[:1]),
            *setting.cases((setting.crossing(FedHSSL),), seeds, shares=SHARES),
        )
    ]


def table3(seeds: int) -> Sequence[Case]:
    """Cross-party and local pre-training on the same share of the rows, all of them aligned."""
    return [
        case
        for setting in FEW_LABELS
        for share in (*SHARES, 1.0)
        for case in replace(setting, rows=round(share * setting.rows), draws=True).cases(
            (setting.local(), setting.crossing(FedCSSL)), seeds, shares=(1.0,)
        )
    ]


def table4(seeds: int) -> Sequence[Case]:
    """The local encoder alone: with and without aggregation, with and without guidance; with 100 %, Table 9."""
    return [
        case
        for setting in FEW_LABELS
        for case in (
            *setting.cases((setting.local(), replace(setting.local(), aggregate="top")), seeds, shares=SHARES[:1]),
            *setting.cases(setting.starred(), seeds, shares=(*SHARES, 1.0)),
        )
    ]


def fig3(seeds: int) -> Sequence[Case]:
    """Each step more: cross-party, guided local, aggregation; beside the two of Table 2 that see no alignment."""
    return [
        case
        for setting in SETTINGS
        for case in (
            *setting.cases((setting.vanilla(), setting.local()), seeds, shares=SHARES[:1]),
            *setting.cases(map(setting.crossing, (FedCSSL, FedGSSL, FedHSSL)), seeds, shares=SHARES[1:]),
        )
    ]


def fig6(seeds: int) -> Sequence[Case]:
    """How much the guidance counts; twice as much is what the authors' code does."""
    return [
        case
        for setting in FEW_LABELS
        for gamma in (0.0, 0.5, 1.0, 2.0)
        for case in setting.cases(
            [replace(method, gamma=gamma) for method in setting.starred()], seeds, shares=SHARES[:1]
        )
    ]


def fig7(seeds: int) -> Sequence[Case]:
    """Several updates on the same received projections, all of an epoch's at once, and those of the epoch before."""
    return [
        case
        for setting in FEW_LABELS
        for exchange, updates in (("batch", 1), ("batch", 4), ("batch", 8), ("epoch", 1), ("epoch", 4), ("late", 4))
        for case in setting.cases(
            [replace(setting.crossing(FedHSSL), exchange=exchange, local_updates=updates)], seeds, shares=SHARES[:1]
        )
    ]


def objectives(seeds: int) -> Sequence[Case]:
    """SimSiam, BYOL and MoCo, at home and across parties."""
    return [
        case
        for setting in FEW_LABELS
        for ssl in ("simsiam", "byol", "moco")
        for case in setting.cases(
            (replace(setting.local(), ssl=ssl), replace(setting.crossing(FedHSSL), ssl=ssl)), seeds, shares=SHARES[:1]
        )
    ]


def tune(seeds: int) -> Sequence[Case]:
    """Rates and epochs of learning from labels, the same for all three methods, and smaller batches of pre-training.

    Compared on rows that are neither test rows nor trained on; those of BHI have no patient in common with these.
    """
    return [
        replace(case, hold_out=True)
        for setting in (replace(FEW_LABELS[0], rows=1_792), FEW_LABELS[1])
        for case in setting.cases(tried(setting), seeds, shares=SHARES[:1])
    ]


def tried(setting: Setting) -> list[Method]:
    pairs = [(rate, epochs) for rate in (1e-3, 1e-4) for epochs in (30, 100)]
    vanilla = [replace(setting.vanilla(), learning_rate=rate, epochs=epochs) for rate, epochs in pairs]
    large = setting.finetune_learning_rate, 100
    pretrained = [
        replace(method, batch_size=size, finetune_learning_rate=rate, finetune_epochs=epochs)
        for method in (setting.local(), setting.crossing(FedHSSL))
        for size, (rate, epochs) in (*((128, pair) for pair in pairs), (512, large))
    ]
    return [*vanilla, *pretrained]


def longer(seeds: int) -> Sequence[Case]:
    """Larger steps and more of them: what is pre-trained on here is a fiftieth of the paper's."""
    setting = replace(FEW_LABELS[0], rows=1_792)
    return [
        replace(case, hold_out=True)
        for rate in (0.05, 0.2)
        for epochs in (40, 160)
        for case in setting.cases(
            [
                replace(method, learning_rate=rate, pretrain_epochs=epochs)
                for method in (setting.local(), setting.crossing(FedGSSL), setting.crossing(FedHSSL))
            ],
            seeds,
            shares=SHARES[1:],
        )
    ]


def table2_longer(seeds: int) -> Sequence[Case]:
    """Table 2 on BHI with four times the epochs of pre-training, which `longer` found better for that at home."""
    setting = replace(BHI, pretrain_epochs=160)
    return setting.cases([setting.crossing(FedHSSL), setting.local()], seeds, shares=SHARES[::-1])


def pretraining(seeds: int) -> Sequence[Case]:
    """How long a whole pre-training on BHI takes, with one epoch of learning from labels behind it."""
    setting = replace(BHI, labelled=BHI.labelled[:1], finetune_epochs=1)
    return setting.cases([setting.crossing(FedHSSL), setting.local()], seeds, shares=SHARES[:1])


def tune_credit(seeds: int) -> Sequence[Case]:
    """The encoder, the length of pre-training and the rate of fine-tuning for credit, on rows held out."""
    return [
        Case(method, "credit", seed, overlap=1000, hold_out=True, encoder=encoder)
        for encoder in (None, "mlp2")
        for method in (
            SplitNN(),
            *(
                kind(pretrain_epochs=epochs, finetune_learning_rate=rate)
                for kind in (FedLocalSSL, FedHSSL)
                for epochs in (0, 10, 40)
                for rate in (1e-3, 1e-4)
            ),
        )
        for seed in range(seeds)
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
    "longer": Recipe("FedHSSL with larger steps and more of them on BHI, on rows held out", longer),
    "table2-longer": Recipe("FedHSSL and SSL at home, pre-trained for longer on BHI", table2_longer, seeds=3),
    "pretraining": Recipe("How long FedHSSL's pre-training on BHI takes", pretraining),
    "tune-credit": Recipe("Settings of FedHSSL on credit, on rows held out", tune_credit, seeds=3),
    "credit": Recipe("FedHSSL and the other papers' methods on credit", credit, seeds=3),
    "wires": Recipe("FedHSSL with narrower values on the wire", wires, seeds=3),
}
