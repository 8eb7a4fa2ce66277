"""What a host may show of its labels: drawn once a run, and kept before anything computed from it is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.privacy import Release, Spent, randomise
from vesica.protocol import Host


def release_labels(me: Host, rows: Tensor, *, epsilon: float) -> Tensor:
    """The labels of these rows, (rows,), through randomised response: all that leaves is to be computed from these."""
    if me.task.kind != "classification":
        raise InputError("label_epsilon draws other classes and a regression has none: leave it out")
    labels = me.labels[rows]
    shown = drawn_once(me, "released-labels", labels, draw=lambda: randomise(labels, me.task.outputs, epsilon=epsilon))
    me.conversation.privacy = Spent(epsilon, 0.0, "labels")
    return shown


def release_gradients(
    me: Host, gradients: Sequence[Tensor], *, clip: float, epsilon: float, delta: float
) -> list[Tensor]:
    """Every guest's gradients, (rows, dim) each, clipped and noised as one: all guests together see (epsilon, delta).

    A row's gradients may depend on no other row's label, and `clip` on none.
    """
    together, release = torch.cat(list(gradients), dim=1), Release.private(epsilon, delta, clip=clip)
    shown = drawn_once(me, "released-gradients", together, draw=lambda: release(together))
    me.conversation.privacy = Spent(epsilon, delta, "labels")
    return list(shown.split([gradient.shape[1] for gradient in gradients], dim=1))


def drawn_once(me: Host, name: str, like: Tensor, *, draw: Callable[[], Tensor]) -> Tensor:
    """What is drawn, of this shape, kept where there is a run folder: a run that goes on must not draw again."""
    kept = nn.Module()
    kept.register_buffer("values", torch.zeros_like(like))
    for _ in me.resumable(name).steps(1, {"released": kept}):
        kept.get_buffer("values").copy_(draw())
    return kept.get_buffer("values")
