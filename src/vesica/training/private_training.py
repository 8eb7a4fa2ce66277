"""Training with differential privacy: DP-SGD on Poisson samples of a party's rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from vesica.privacy import Mechanism, poisson_sample, private_gradient
from vesica.privacy.dp_sgd import RowLoss
from vesica.training.resume import Resume, Stateful, Straight

STEPS_A_POSITION = 100  # between two checkpoints; steps that a kill undoes were never released

TargetsOf = Callable[[Tensor], Tensor]  # positions to targets, each of which depends on its own row alone


def train_privately(
    model: nn.Module,
    inputs: Callable[[Tensor], Tensor | list[Tensor]],
    targets: TargetsOf,
    *,
    rows: int,
    loss: RowLoss,
    mechanism: Mechanism,
    clip: float,
    learning_rate: float,
    resume: Resume | None = None,
    more_parts: Mapping[str, Stateful] | None = None,
) -> None:
    """Train `model` with plain SGD, so that its weights cost what `mechanism` does.

    `inputs` and `targets` map positions of rows to what the model takes and to what it should give. No validation row
    stops the training and no average is kept: either would be one more look at the rows. Nothing is dropped out: masks
    go by a row's place in its batch, and without one row those after it would get others. `more_parts` are kept with a
    checkpoint: what changes in training beside the model.
    """
    optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate)
    parts: dict[str, Stateful] = {"model": model, "optimiser": optimiser, **(more_parts or {})}
    model.eval()
    for position in (resume or Straight()).steps(math.ceil(mechanism.steps / STEPS_A_POSITION), parts):
        first = position * STEPS_A_POSITION
        for _ in range(first, min(first + STEPS_A_POSITION, mechanism.steps)):
            batch = poisson_sample(rows, mechanism.sampling)
            private_gradient(
                model,
                inputs(batch),
                targets(batch),
                loss=loss,
                clip=clip,
                noise=mechanism.noise,
                expected_rows=rows * mechanism.sampling,
            )
            optimiser.step()
