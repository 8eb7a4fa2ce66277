"""One-shot and few-shot VFL (Sun et al., ICCV 2023): their figures, on the data sets that are at hand."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from vesica.experiment.recipes import Case, Recipe
from vesica.methods import FedBCD, FedCVT, FedHSSL, FedLocalSSL, FedOnce, FewShot, Method, OneShot, SplitNN
from vesica.protocol.end_to_end import Augment

FINETUNE = {256: 400, 512: 480, 1024: 900, 2048: 1000}  # aligned rows: iterations, as the paper's bytes have them
FINETUNE_SMALL = 500
VIEWS: tuple[Augment, ...] = ("none", "weak")
ENCODER = "quick-wide"  # of CIFAR-10's guests, as `tune-guests` chose, where it is not the paper's
SMALL_ENCODER = "quick"  # less than half of its operations, for a CPU

TRIED = [  # one field or two at a time, around the defaults
    OneShot(),
    OneShot(learning_rate=0.01),
    OneShot(learning_rate=0.1),
    OneShot(guest_steps=500),
    OneShot(guest_steps=2000),
    OneShot(guest_steps=2000, guest_patience=8),
    OneShot(lambda_u=0.3),
    OneShot(lambda_u=3.0),
    OneShot(mu=1),
    OneShot(mu=7),
    OneShot(threshold="fixed"),
    OneShot(labelled_views="both"),
    OneShot(host_learning_rate=1e-3),
    OneShot(host_weight_decay=0.0),
    OneShot(hidden=(64,)),
    OneShot(hidden=(64,), host_learning_rate=1e-3),
]

# Thresholds, then loss weights, around the defaults; with a threshold of 1 no row gets a pseudo-label. The last two
# were added once the others had been seen.
TRIED_FEDCVT = [
    FedCVT(),
    *(FedCVT(joint_threshold=sure, local_threshold=sure) for sure in (0.5, 0.9, 0.95, 1.0)),
    *(FedCVT(lambda_sim=weight) for weight in (0.01, 1.0)),
    *(FedCVT(lambda_diff=weight) for weight in (0.0, 0.1)),
    *(FedCVT(lambda_est=weight) for weight in (0.01, 1.0)),
    FedCVT(joint_threshold=0.95, local_threshold=0.95, lambda_sim=1.0),
    FedCVT(joint_threshold=0.95, local_threshold=0.95, lambda_diff=0.0),
]

# The best AUC of `tune-fedcvt`, though its two seeds differ as much as the settings do. With the defaults nearly every
# row gets a pseudo-label, and F1 is lower.
FEDCVT = FedCVT(joint_threshold=0.95, local_threshold=0.95, lambda_sim=1.0)

# What one-shot is compared with on CIFAR-10. A tenth of 256 rows says nothing about when to stop (by them, SplitNN ends
# a third below the published): the number of epochs is fixed, as in the paper. `tune-baselines` chose FedBCD's rate.
COMPARED = (
    SplitNN(epochs=200, patience=0),
    FedBCD(epochs=100, patience=0),
    FedCVT(epochs=100, patience=0),
)

# The other papers' methods on the same rows. FedOnce's guests of images learn as its `tune-mnist` chose; no epoch is
# chosen by a tenth of 256 rows here either. A host with labels only has no view for FedHSSL, so there it has the left
# half.
NOISE_AS_TARGETS = FedOnce(
    guest_epochs=100,
    guest_learning_rate=1e-4,
    guest_augment="weak",
    hidden=(128,),
    host_epochs=100,
    host_patience=0,
)
AT_HOME = FedLocalSSL(batch_size=512, finetune_epochs=100, finetune_patience=0)
FEDHSSL = FedHSSL(batch_size=512, finetune_epochs=100, finetune_patience=0)
OTHERS: tuple[tuple[Method, str], ...] = (
    (NOISE_AS_TARGETS, "cifar10"),
    (replace(NOISE_AS_TARGETS, representation="pca"), "cifar10"),
    (AT_HOME, "cifar10"),
    (FEDHSSL, "cifar10-halves"),
)


def cifar(overlap: int) -> FewShot:
    """The settings for CIFAR-10."""
    return FewShot(
        guest_steps=45_000,
        steps_again=11_000,
        guest_patience=0,
        mu=7,
        lambda_u=2.0,
        threshold="adaptive",
        align="left",
        labelled_views="both",
        strong_chance=1.0,
        learning_rate=0.03,
        weight_decay=1e-3,
        host_learning_rate=1e-3,
        host_weight_decay=0.0,
        join="unit",
        thresholds=(0.95,),  # or 1: rows that the guests have learned by heart cannot choose among more
        finetune_iterations=FINETUNE[overlap],
    )


def table1(seeds: int) -> Sequence[Case]:
    """Accuracy on CIFAR-10; a run with finetuning gives the one-shot and the few-shot result too.

    Those that the paper compares it with have no augmentation, as they seem to have there, or the guests' own weak
    views; beside them, as nobody has shown, the other papers' methods. With the paper's kind of encoder and, but for
    what has no augmentation, with one that learns faster.
    """
    with_views: list[Method] = [replace(method, augment="weak") for method in COMPARED]
    without: list[Method] = [replace(method, augment="none") for method in COMPARED]
    return [
        Case(method, data, seed, overlap=overlap, encoder=encoder)
        for overlap in FINETUNE
        for encoder, methods, others in ((None, [*without, *with_views], ()), (ENCODER, with_views, OTHERS))
        for method, data in (*((method, "cifar10") for method in (cifar(overlap), *methods)), *others)
        for seed in range(seeds)
    ]


def one_shot_cifar(seeds: int) -> Sequence[Case]:
    """Table 1's row of one-shot by itself: in a fraction of the time, with seconds of its own."""
    return [
        Case(one_shot_of(cifar(overlap)), "cifar10", seed, overlap=overlap, encoder=ENCODER)
        for overlap in (256, 1024)
        for seed in range(seeds)
    ]


def table1_cpu(seeds: int) -> Sequence[Case]:
    """The methods of Table 1 whose guests learn from all their images, on a CPU: a smaller encoder, much less training.

    Steps and batches are of fewer images, so that there are more of them.
    """
    pretraining = {"pretrain_epochs": 6, "batch_size": 128, "finetune_epochs": 25}
    return [
        Case(method, data, seed, overlap=overlap, encoder=SMALL_ENCODER)
        for overlap in FINETUNE
        for method, data in (
            (replace(cifar(overlap), guest_steps=3_200, steps_again=800, mu=3), "cifar10"),
            (replace(NOISE_AS_TARGETS, guest_epochs=8), "cifar10"),
            (replace(AT_HOME, **pretraining), "cifar10"),
            (replace(FEDHSSL, **pretraining), "cifar10-halves"),
        )
        for seed in range(seeds)
    ]


def one_shot_of(method: FewShot) -> OneShot:
    """One-shot with the same settings."""
    return OneShot(**{field.name: getattr(method, field.name) for field in fields(OneShot)})


def figure6(seeds: int) -> Sequence[Case]:
    """AUC against bytes (Fig. 6) and rounds (Fig. 7) on credit.

    A few-shot run gives a one-shot result too, but one that keeps the validation labels from the guests. The paper
    stops its iterative baselines after 20 rounds without improvement; here these are epochs, on validation rows.
    """
    return [
        Case(method, "credit-two-guests", seed, overlap=overlap)
        for overlap in (1000, 2000)
        for method in (SplitNN(), FedBCD(), FEDCVT, FedCVT(), OneShot(), FewShot())
        for seed in range(seeds)
    ]


def finetune(seeds: int) -> Sequence[Case]:
    """Few-shot and end-to-end training after it: a run gives all three results."""
    return [
        Case(FewShot(finetune_iterations=FINETUNE_SMALL), data, seed, overlap=overlap)
        for data, overlap in (("credit-two-guests", 1000), ("credit-two-guests", 2000), ("fashion-mnist-guests", 500))
        for seed in range(seeds)
    ]


def label_privacy(seeds: int) -> Sequence[Case]:
    """What hiding the labels costs, from no epsilon down to 1."""
    return [
        Case(OneShot(label_epsilon=epsilon), "credit-two-guests", seed, overlap=overlap)
        for overlap in (1000, 2000)
        for epsilon in (None, 8.0, 4.0, 2.0, 1.0)
        for seed in range(seeds)
    ]


def wires(seeds: int) -> Sequence[Case]:
    """What narrower values on the wire cost one-shot."""
    return [
        Case(OneShot(), data, seed, overlap=overlap, wire=wire)
        for data, overlap in (("credit-two-guests", 2000), ("fashion-mnist-guests", 500))
        for wire in ("float32", "float16", "int8")
        for seed in range(seeds)
    ]


def fashion(seeds: int) -> Sequence[Case]:
    """Four guests with a quadrant each and few overlapping rows."""
    return [
        Case(method, "fashion-mnist-guests", seed, overlap=500)
        for method in (OneShot(), SplitNN())
        for seed in range(seeds)
    ]


def tune_credit(seeds: int) -> Sequence[Case]:
    """Settings for credit, compared on rows that are neither test rows nor trained on."""
    return [
        Case(method, "credit-two-guests", seed, overlap=overlap, hold_out=True)
        for overlap in (1000, 2000)
        for method in TRIED
        for seed in range(seeds)
    ]


def tune_fedcvt(seeds: int) -> Sequence[Case]:
    """FedCVT's thresholds and loss weights for credit, compared on rows that are neither test rows nor trained on."""
    return [
        Case(method, "credit-two-guests", seed, overlap=1000, hold_out=True)
        for method in TRIED_FEDCVT
        for seed in range(seeds)
    ]


def tune_cifar(seeds: int) -> Sequence[Case]:
    """The settings for CIFAR-10, one changed at a time, in short runs on training images held out.

    A step of a warm-up sees twice as many images as one of the guests' own: with it they see as many as with twice the
    steps and none.
    """
    chosen = replace(one_shot_of(cifar(256)), guest_steps=6_000)
    changed: tuple[dict[str, Any], ...] = (
        {},
        {"strong_chance": 0.5},
        {"weight_decay": 5e-4},
        {"labelled_views": "weak"},
        {"lambda_u": 1.0},
        {"align": "none"},
        {"threshold": "fixed"},
        {"guest_steps": 12_000},
        *({"warm_up": ssl, "warm_up_steps": 3_000} for ssl in ("simsiam", "byol", "simclr", "moco")),
    )
    return [
        Case(replace(chosen, **change), "cifar10", seed, overlap=256, hold_out=True)
        for change in changed
        for seed in range(seeds)
    ]


def tune_guests(seeds: int) -> Sequence[Case]:
    """The encoder that the guests learn with on CIFAR-10, in short runs on images held out."""
    chosen = replace(one_shot_of(cifar(256)), guest_steps=8_000, align="uniform")
    return [
        Case(chosen, "cifar10", seed, overlap=256, hold_out=True, encoder=encoder)
        for encoder in ("wrn", "quick", "quick-wide")
        for seed in range(seeds)
    ]


def tune_few_shot(seeds: int) -> Sequence[Case]:
    """What few-shot's second training gains, on training images held out.

    With a t of 1 no row joins, which says what the training gains by itself. A result's statement has the t it had:
    that is 1 too where the validation rows say that no other is worth it. And where pseudo-labels are drawn to, in
    both trainings on CIFAR-10. The guests learn the labels of the validation rows too, as in `table1`. The last cases
    are short and have a small encoder, for a CPU.
    """
    chosen = replace(cifar(256), guest_steps=20_000, steps_again=10_000, finetune_iterations=0)
    on_cifar = (chosen, replace(chosen, align="uniform"), replace(chosen, thresholds=(1.0,)))
    short = replace(cifar(512), guest_steps=2_400, steps_again=800, mu=3, finetune_iterations=0)
    on_a_cpu = (short, replace(short, thresholds=(1.0,)))
    on_fashion = (FewShot(guest_patience=0, thresholds=(threshold,)) for threshold in (0.6, 0.95, 1.0))
    return [
        Case(method, data, seed, overlap=overlap, hold_out=True, encoder=encoder)
        for data, overlap, encoder, methods in (
            ("fashion-mnist-guests", 500, None, on_fashion),
            ("cifar10", 256, ENCODER, on_cifar),
            ("cifar10", 512, SMALL_ENCODER, on_a_cpu),
        )
        for method in methods
        for seed in range(seeds)
    ]


def tune_baselines(seeds: int) -> Sequence[Case]:
    """The learning rate of the methods that one-shot is compared with, on CIFAR-10's training images."""
    return [
        Case(method, "cifar10", seed, overlap=256, hold_out=True)
        for tried in COMPARED
        for views in VIEWS
        for method in (replace(tried, augment=views, learning_rate=rate) for rate in (1e-3, 3e-4))
        for seed in range(seeds)
    ]


RECIPES = {
    "table1": Recipe("One-shot and few-shot VFL on CIFAR-10: accuracy against overlapping rows", table1),
    "one-shot-cifar": Recipe("One-shot VFL alone on CIFAR-10", one_shot_cifar),
    "table1-cpu": Recipe("Table 1 in a few steps of a small encoder, for a CPU", table1_cpu),
    "figure6": Recipe("One-shot and few-shot VFL on credit: AUC against bytes and rounds", figure6, seeds=5),
    "finetune": Recipe("Few-shot VFL and end-to-end training after it", finetune, seeds=3),
    "label-privacy": Recipe("One-shot VFL on credit with private labels", label_privacy, seeds=5),
    "wires": Recipe("One-shot VFL with narrower values on the wire", wires, seeds=3),
    "fashion": Recipe("One-shot VFL with four guests on Fashion-MNIST", fashion, seeds=3),
    "tune-cifar": Recipe("Settings of one-shot VFL on CIFAR-10, on rows held out", tune_cifar),
    "tune-guests": Recipe("What the guests of one-shot VFL learn with on CIFAR-10, on rows held out", tune_guests),
    "tune-few-shot": Recipe("What the second training of few-shot VFL gains, on rows held out", tune_few_shot, seeds=2),
    "tune-baselines": Recipe("Learning rates of SplitNN, FedBCD and FedCVT, on rows held out", tune_baselines),
    "tune-credit": Recipe("Settings of one-shot VFL on credit, on rows held out", tune_credit, seeds=3),
    "tune-fedcvt": Recipe("Settings of FedCVT on credit, on rows held out", tune_fedcvt, seeds=2),
}
