"""What the messages of one-shot and few-shot VFL show, in words."""

from __future__ import annotations

from torch import Tensor

from vesica.methods.label_claims import OPEN, randomised
from vesica.metrics import Task
from vesica.training.cluster import mean_recall, purity


def disclosed(rows: int, found: str) -> str:
    """Without label privacy."""
    return (
        f"The gradients disclose the labels of the {rows} labelled aligned rows to every guest, up to renaming: "
        f"k-means on them puts {found}."
    )


def noisy(rows: int, task: Task, epsilon: float) -> str:
    """What label differential privacy covers here, and what it does not."""
    return f"{randomised(f'{rows} labelled aligned rows', task, epsilon)} {still_open('the head')}"


def noised(rows: int, epsilon: float, delta: float) -> str:
    """The same, of noise on the gradients."""
    return (
        f"The gradients of each of the {rows} labelled aligned rows, those for all guests as one, were clipped to a "
        "norm that follows from no label and carry Gaussian noise, drawn from the operating system's entropy: label "
        f"differential privacy, epsilon {epsilon:g} at delta {delta:g}, neighbours differ in one row's label, one "
        "release (the analytic Gaussian mechanism, exact), after which the guests were sent nothing that follows from "
        f"the labels. {still_open('the models')}"
    )


def still_open(trained: str) -> str:
    return f"{OPEN} how long the host trains {trained} that it keeps, and what it shows of its result."


def still_found(found: str) -> str:
    """With label privacy: no more than a measurement."""
    return (
        f"k-means on the gradients still puts {found}: these shares are measured with the true labels, and no "
        "guarantee covers them."
    )


def disclosed_again(rows: int) -> str:
    """By finetuning, without label privacy."""
    return (
        f"The gradients of finetuning disclose the labels of the {rows} labelled aligned rows "
        "that do not validate to every guest again, batch by batch, and its verdicts whether the validation "
        "rows were predicted better."
    )


def unaligned_given(rows: int, threshold: float, *, chosen_on: int, joining: int) -> str:
    return (
        f"The guests gave the host the representations of {rows} unaligned rows. The "
        f"threshold t = {threshold} was chosen on {chosen_on} validation rows; about {joining} rows get a pseudo-label."
    )


def shares_found(clusterings: list[Tensor], labels: Tensor) -> str:
    """How much of the labels the clusters show where they show most, beside what clusters without a clue would."""
    share, recall = (max(measure(each, labels) for each in clusterings) for measure in (purity, mean_recall))
    sizes = labels.unique(return_counts=True)[1]
    return (
        f"{share:.1%} of the rows with their own class ({int(sizes.max()) / len(labels):.1%} without knowing anything) "
        f"and, on average over the classes, {recall:.1%} of a class into a cluster of its own "
        f"({1 / len(sizes):.1%} without knowing anything)"
    )
