"""What the messages of one-shot and few-shot VFL show, in words."""

from __future__ import annotations

from torch import Tensor

from vesica.learning.cluster import mean_recall, purity
from vesica.metrics import Task
from vesica.privacy import moved_with


def disclosed(rows: int, found: str) -> str:
    """Without label privacy."""
    return (
        f"The gradients disclose the labels of the {rows} labelled aligned rows to every guest, up to renaming: "
        f"k-means on them puts {found}."
    )


def noisy(labels: Tensor, task: Task, epsilon: float, found: str) -> str:
    """What label differential privacy covers here, what it does not, and what k-means still finds."""
    kept = 1 - moved_with(task.outputs, epsilon=epsilon)
    return (
        f"Each label of the {len(labels)} labelled aligned rows went through {task.outputs}-ary randomised response "
        f"(epsilon = {epsilon:g}, kept with probability {kept:.3f}) before anything was computed from "
        "it for the guests: label differential privacy, pure epsilon, neighbours differ in one row's label, one "
        "release, drawn from the operating system's entropy. Not covered: the features, the names of the classes, "
        "which rows are aligned, labelled and for test, that a run is refused whose labels are of one class only, "
        "how long the host trains the head that it keeps, and what it shows of its result. "
        f"k-means on the gradients still puts {found}: these shares are measured with the true labels, and are not "
        "covered either."
    )


def disclosed_again(rows: int) -> str:
    """By finetuning, without label privacy."""
    return (
        f"The gradients of finetuning disclose the labels of the {rows} labelled aligned rows "
        "that do not validate to every guest again, batch by batch, and its verdicts whether the validation "
        "rows were predicted better."
    )


def unaligned_given(rows: int, threshold: float, *, chosen_on: int) -> str:
    return (
        f"The guests gave the host the representations of {rows} unaligned rows. The "
        f"threshold t = {threshold} was chosen on {chosen_on} validation rows."
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
