"""What defences of the labels guarantee and what they do not, in words."""

from __future__ import annotations

from vesica.metrics import Task
from vesica.privacy import GradientProtection, moved_with

OPEN = (
    "Not covered: the features, the names of the classes, which rows are aligned, labelled and for test, that a run is "
    "refused whose labels are of one class only,"
)


def randomised(rows: str, task: Task, epsilon: float) -> str:
    """Of the labels of these rows, if all that leaves is computed from what came out."""
    kept = 1 - moved_with(task.outputs, epsilon=epsilon)
    return (
        f"Each label of the {rows} went through {task.outputs}-ary randomised response "
        f"(epsilon = {epsilon:g}, kept with probability {kept:.3f}) before anything was computed from "
        "it for the guests: label differential privacy, pure epsilon, neighbours differ in one row's label, one "
        "release, drawn from the operating system's entropy."
    )


def learned_noisy(rows: int, task: Task, epsilon: float) -> str:
    """Of end-to-end training."""
    return (
        f"{randomised(f'{rows} rows that the host learns from', task, epsilon)} The head that the host keeps was "
        "trained, the epoch chosen and the curve measured with the labels that came out. "
        f"{OPEN} and what the host shows of its result."
    )


def noise_on(what: str, ratio: float) -> str:
    return (
        f"On {what} there is isotropic Gaussian noise, whose norm a row is about {ratio:g} times the largest row's. It "
        "carries no guarantee of differential privacy: no epsilon is stated for it, and who sees much of it can "
        "average it out."
    )


def protected(protect: GradientProtection, what: str = "the gradients") -> list[str]:
    """Of the noise on gradients, if there is any; where it is Marvell's, with what it came to."""
    if protect.iso:
        return [noise_on(what, protect.iso)]
    if not protect.marvell:
        return []
    leaks = protect.leaks
    bound = (
        f"nobody who sees one message alone could tell the classes apart with an AUC above {leaks.largest:.3f} "
        f"({leaks.total / leaks.measured:.3f} on average), the largest bound of {leaks.measured} messages; who sees "
        "the same rows in many can."
        if leaks.measured
        else "there would be a bound on how well the classes can be told apart, but no message had two rows of each."
    )
    few = f" In {leaks.unmeasured} more, with fewer than two rows of a class, it was alike for both, with no bound."
    return [
        f"On {what} there is Marvell's Gaussian noise, whose squared norm a row is on average {protect.marvell:g} "
        "times the squared distance of the two classes' means in a batch. It carries no guarantee of differential "
        "privacy: no epsilon is stated for it. If the gradients of a class were Gaussian, alike in all directions, "
        + bound
        + (few if leaks.unmeasured else "")
    ]
