"""What may keep the labels from the guests where gradients cross batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from vesica.errors import InputError
from vesica.methods import label_claims as claims
from vesica.methods.label_release import release_labels
from vesica.privacy import GradientProtection, refuse_epsilon
from vesica.protocol import Host


@dataclass(frozen=True)
class LabelDefences:
    """Fields of methods that train end to end; by default nothing keeps the labels from the guests.

    The two noises on gradients make guessing harder and guarantee nothing. `label_epsilon` is accounted.
    """

    iso_gradients: float = 0.0  # noise on the gradients, as a share of the largest row's norm: lambda_g of FedHSSL
    marvell: float = 0.0  # or noise that follows the two classes of a task: s, in squared distances of their means
    label_epsilon: float | None = None  # label differential privacy, by randomised response; None: the labels show

    def __post_init__(self) -> None:
        self.protection()
        if self.label_epsilon is not None:
            refuse_epsilon(self.label_epsilon)

    @property
    def hides_labels(self) -> bool:
        """Whether no message may show more than noisy labels: nor may the choice of validation rows, then."""
        return self.label_epsilon is not None

    def protection(self) -> GradientProtection:
        """Of the gradients of one training."""
        return GradientProtection(self.iso_gradients, self.marvell)

    @contextmanager
    def hiding(self, me: Host) -> Iterator[None]:
        """Within, the host has no labels to learn or to choose by but those that may show."""
        if self.marvell and me.task.outputs != 2:
            raise InputError(
                f"marvell hides two classes from each other and the task '{me.task.kind}' here has {me.task.outputs} "
                "outputs: take iso_gradients"
            )
        truth = me.labels
        if self.label_epsilon is not None:
            released = release_labels(me, me.known, epsilon=self.label_epsilon)
            me.labels = truth.index_copy(0, me.known, released)
            me.conversation.statements.append(claims.learned_noisy(len(me.known), me.task, self.label_epsilon))
        try:
            yield
        finally:
            me.labels = truth
