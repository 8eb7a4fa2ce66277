"""The methods that the papers compare with, beside SplitNN: what each does with its messages."""

from collections.abc import Sequence
from dataclasses import replace

from vesica.experiment.recipes import Case, Recipe
from vesica.methods import FedBCD, FedCVT, OneShot, SplitNN, VerticalTrees

Q = 5  # updates of FedBCD for every exchange
# Epochs of FedBCD, the rows of a batch, and FedBCD's rate, which `tune-messages` chose; SplitNN has its default one.
SETTINGS = {"credit": (3, 32, 1e-4), "mnist": (2, 128, 3e-4)}


def messages(seeds: int) -> Sequence[Case]:
    """FedBCD and SplitNN with as many updates, which take FedBCD a fifth of the epochs.

    All rows are aligned. The best epoch by the validation rows is kept; the patience is longer than any training here.
    """
    return [
        Case(method, data, seed)
        for data, (epochs, batch_size, rate) in SETTINGS.items()
        for method in (
            SplitNN(epochs=Q * epochs, batch_size=batch_size),
            FedBCD(epochs=epochs, batch_size=batch_size, local_steps=Q, learning_rate=rate),
        )
        for seed in range(seeds)
    ]


def tune_messages(seeds: int) -> Sequence[Case]:
    """Rates and lengths, compared on rows that are neither test rows nor trained on."""
    return [
        Case(method, data, seed, hold_out=True)
        for data, lengths, batch_size in (("credit", (3, 6), 32), ("mnist", (2, 4, 6), 128))
        for epochs in lengths
        for rate in (1e-3, 3e-4, 1e-4, 3e-5)
        for method in (
            SplitNN(epochs=Q * epochs, batch_size=batch_size, learning_rate=rate),
            FedBCD(epochs=epochs, batch_size=batch_size, learning_rate=rate, local_steps=Q),
            FedBCD(epochs=epochs, batch_size=batch_size, learning_rate=100 * rate, local_steps=Q, descent="sgd"),
        )
        for seed in range(seeds)
    ]


ONE_SHOT_SENDS = {1000: 768_832, 2000: 1_536_832}  # aligned rows: bytes, the same in every run of `comm`


def comm(seeds: int) -> Sequence[Case]:
    """What the others come to with the bytes that one-shot takes in all: SplitNN-Comm, SecureBoost-Comm and so on."""
    stopped = (SplitNN(), FedBCD(), FedCVT(), VerticalTrees())
    return [
        case
        for rows, its_bytes in ONE_SHOT_SENDS.items()
        for seed in range(seeds)
        for case in (
            Case(OneShot(), "credit-two-guests", seed, overlap=rows),
            *(Case(method, "credit-two-guests", seed, overlap=rows, stop_at_bytes=its_bytes) for method in stopped),
        )
    ]


def attempts(seeds: int) -> Sequence[Case]:
    """What might bring FedBCD to SplitNN's accuracy on MNIST with a fifth of its messages, on rows held out."""
    few = FedBCD(epochs=8, local_steps=Q)
    methods = (
        SplitNN(epochs=8 * Q),
        SplitNN(epochs=8),
        few,
        *(replace(few, learning_rate=rate) for rate in (1e-3, 1e-4)),
        replace(few, descent="sgd", learning_rate=0.01),
        replace(few, order="sequential"),
        *(replace(few, proximal=mu) for mu in (0.1, 1.0)),
        replace(few, hidden=()),
        replace(few, hidden=(), join="mean"),
    )
    return [
        Case(method, "mnist", seed, overlap=2000, draw=0, hold_out=True) for method in methods for seed in range(seeds)
    ]


RECIPES = {
    "messages": Recipe("FedBCD with a fifth of SplitNN's messages, on credit and MNIST", messages, seeds=3),
    "comm": Recipe("The baselines on credit, stopped at one-shot's bytes", comm, seeds=3),
    "attempts": Recipe("Ways of FedBCD with a fifth of SplitNN's messages on MNIST, on rows held out", attempts),
    "tune-messages": Recipe("Rates and lengths of FedBCD and SplitNN, on rows held out", tune_messages),
}
