"""What each party could learn, measured: FedHSSL's Table 6 and Figure 4, one-shot's labels, FedOnce's members."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vesica.experiment.recipes import Case, Recipe
from vesica.methods import FedHSSL, FedLocalSSL, FedOnce, Method, OneShot, SplitNN

EPSILONS = (None, 8.0, 4.0, 2.0, 1.0)
LABELS = ("gradients", "completion")


def disclosure(seeds: int) -> Sequence[Case]:
    """One-shot's gradients give the labels of the aligned rows away; what label privacy makes of that, and costs."""
    return [
        Case(OneShot(label_epsilon=epsilon), "credit", seed, overlap=overlap, audit=("gradients",))
        for overlap in (1000, 2000)
        for epsilon in EPSILONS
        for seed in range(seeds)
    ]


def disclosure_cifar(seeds: int) -> Sequence[Case]:
    """The same on photographs, with most settings of one-shot's Table 1 as they were, and a short training."""
    settings = OneShot(
        guest_steps=4_000,
        guest_patience=0,
        mu=7,
        lambda_u=2.0,
        threshold="adaptive",
        align="uniform",
        labelled_views="both",
        learning_rate=0.03,
        host_learning_rate=1e-3,
        host_weight_decay=0.0,
    )
    return [
        Case(replace(settings, label_epsilon=epsilon), "cifar10", seed, overlap=overlap, audit=("gradients",))
        for overlap in (256, 1024)
        for epsilon in EPSILONS
        for seed in range(seeds)
    ]


# Of each data set: its name, how many aligned rows, labelled rows and rows a party has alone; encoder and dim.
FEDHSSL = {
    "credit": {"overlap": 4800, "labelled": 200},
    "avazu": {"overlap": 2400, "labelled": 200, "draw": 9600, "encoder": "mlp2", "dim": 512},
    "bhi": {"overlap": 456, "labelled": 200, "dim": 512},
}
TABLES = {"pretrain_epochs": 10, "batch_size": 512, "finetune_learning_rate": 1e-3, "finetune_epochs": 100}
PRETRAINED = {
    "credit": TABLES,
    "avazu": TABLES,
    "bhi": {"pretrain_epochs": 20, "batch_size": 128, "finetune_learning_rate": 1e-4, "finetune_epochs": 30},
}
VANILLA = {"credit": 1e-3, "avazu": 1e-3, "bhi": 1e-4}  # rates of split-nn; those of BHI as FedHSSL's `tune` chose them


def table6(seeds: int) -> Sequence[Case]:
    """Model completion on what pre-training left at the guest, and what the run is worth once it is fine-tuned."""
    return [
        Case(
            FedHSSL(**(PRETRAINED[data] | epochs), finetune_patience=0, iso_representations=noise),
            data,
            seed,
            **options,
            audit=("completion",),
        )
        for data, options in FEDHSSL.items()
        for noise in (0.0, 0.1, 0.4)
        for epochs in ({"finetune_epochs": 0}, {})
        for seed in range(seeds)
    ]


def figure4(seeds: int) -> Sequence[Case]:
    """Utility against leakage, as the noise on the gradients grows."""
    return [
        Case(method, data, seed, **options, audit=LABELS)
        for data, options in FEDHSSL.items()
        for noise in (0.0, 1.0, 5.0, 25.0)
        for method in with_noise(noise, rate=VANILLA[data], **PRETRAINED[data])
        for seed in range(seeds)
    ]


def auxiliary(seeds: int) -> Sequence[Case]:
    """How many labels from elsewhere model completion needs, and how many rows the inverse of representations."""
    known = (10, 20, 40, 80, 160, 400)
    return [
        Case(method, "credit", seed, overlap=1000, audit=("completion", "columns"), known=known)
        for method in (SplitNN(), OneShot(), FedOnce(), FedLocalSSL(), FedHSSL())
        for seed in range(seeds)
    ]


def with_noise(noise: float, *, rate: float, **settings: Any) -> tuple[Method, ...]:
    return (
        SplitNN(hidden=(), patience=0, batch_size=128, learning_rate=rate, iso_gradients=noise),
        FedLocalSSL(**settings, finetune_patience=0, iso_gradients=noise),
        FedHSSL(**settings, finetune_patience=0, iso_gradients=noise),
    )


def noise(seeds: int) -> Sequence[Case]:
    """What noise without a guarantee does to the gradients of end-to-end training: isotropic, and Marvell's."""
    return [
        Case(SplitNN(patience=0, **{kind: strength}), "credit", seed, overlap=1000, audit=LABELS)
        for kind in ("iso_gradients", "marvell")
        for strength in (0.0, 1.0, 5.0, 25.0)
        if strength or kind == "marvell"
        for seed in range(seeds)
    ]


def membership(seeds: int) -> Sequence[Case]:
    """FedOnce L0 and L1 with one guest; before them, models that are made to learn their rows by heart."""
    by_heart = SplitNN(epochs=150, patience=0, weight_decay=0.0, learning_rate=3e-3, hidden=(256,))
    host_by_heart = FedOnce(host_epochs=500, host_patience=0, host_weight_decay=0.0, hidden=(256,))
    methods = (
        FedOnce(),
        FedOnce(representation="filters"),
        FedOnce(representation="filters", epsilon=2.0),
        FedOnce(representation="filters", epsilon=8.0),
        FedOnce(representation="fixed", epsilon=2.0),
    )
    tried = [(by_heart, "credit", 500, None), (host_by_heart, "phishing", 1000, 2)]
    tried += [(method, "phishing", None, 2) for method in methods]
    return [
        Case(method, data, seed, overlap=overlap, parties=parties, audit=("membership",), shadows=8)
        for method, data, overlap, parties in tried
        for seed in range(seeds)
    ]


RECIPES = {
    "disclosure": Recipe(
        "What one-shot's gradients tell of the labels, and what label privacy costs", disclosure, seeds=3
    ),
    "disclosure-cifar": Recipe("What one-shot's gradients tell of the labels of photographs", disclosure_cifar),
    "table6": Recipe("FedHSSL's Table 6: model completion after pre-training", table6, seeds=3),
    "figure4": Recipe("FedHSSL's Figure 4: utility against leakage under noise", figure4, seeds=3),
    "noise": Recipe("What noise without a guarantee hides", noise, seeds=3),
    "auxiliary": Recipe("How much an attacker has to know from elsewhere", auxiliary),
    "membership": Recipe("Membership inference on FedOnce with and without differential privacy", membership),
}
