"""Representations of one party's rows that need no labels: noise as targets, and principal components."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from vesica.nn.models import LinearEncoder
from vesica.schema import ImageSchema, Schema
from vesica.training.lesson import Lesson, Schedule, learn_alone
from vesica.training.meeting import Meet, alone
from vesica.training.resume import Resume, Straight
from vesica.training.stacked import shape_of, stackable
from vesica.training.stacked_lessons import StackedLessons


def noise_as_targets(
    encoder: nn.Module,
    inputs: Tensor,
    *,
    dim: int,
    view: Callable[[Tensor], Tensor] | None,
    epochs: int,
    frequency: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float,
    resume: Resume | None = None,
    meet: Meet = alone,
) -> None:
    """Train `encoder` towards points on the unit sphere, each of which belongs to a row of `inputs`.

    In every `frequency`th epoch a batch first shares its points out anew among its rows, to those they are nearest to
    as a whole. `view` changes the rows that are seen, as an augmentation does. Parties that `meet` and
    are alike train as one: each comes to what it would come to alone, but for rounding.
    """
    schedule = Schedule(epochs, frequency, batch_size, learning_rate, weight_decay)
    lesson = Lesson(encoder, inputs, dim=dim, view=view, schedule=schedule, resume=resume or Straight())
    meet(lesson, learn)
    lesson.draws.go_on()
    encoder.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


def learn(lessons: Sequence[Lesson]) -> None:
    """Train them all: those that are alike and stand at the same epoch as one."""
    groups: dict[Hashable, list[Lesson]] = {}
    for lesson in lessons:
        lesson.go_on()
        rows, points = lesson.inputs, lesson.targets.points
        kind = lesson.schedule, lesson.epoch, rows.shape, rows.dtype, points.shape, shape_of(lesson.encoder)
        groups.setdefault(kind, []).append(lesson)
    for group in groups.values():
        if len(group) > 1 and group[0].epoch is not None and stackable(group[0].encoder):
            StackedLessons(group).learn()
            continue
        for lesson in group:
            learn_alone(lesson)


def principal_components(encoder: LinearEncoder, inputs: Tensor, schema: Schema) -> None:
    """Make `encoder` the projection on the first principal components of `inputs`, each scaled to unit variance.

    It takes numbers as they are prepared, pixels standardised, and one column for each category. Where there are
    fewer components than outputs, the rest are 0.
    """
    columns = columns_of(encoder, inputs, schema)
    centre = columns.mean(dim=0)
    spread, directions = torch.linalg.eigh(torch.cov(columns.T, correction=0).reshape(len(centre), -1))
    largest = spread.argsort(descending=True)[: encoder.dim]
    kept = largest[spread[largest] > 1e-6 * spread.max()]
    weights = torch.zeros(encoder.dim, len(centre), dtype=columns.dtype, device=columns.device)
    weights[: len(kept)] = (directions[:, kept] / spread[kept].sqrt()).T
    set_weights(encoder, weights, shift=-weights @ centre)


def columns_of(encoder: LinearEncoder, inputs: Tensor, schema: Schema) -> Tensor:
    """What a linear encoder multiplies with its weights: (rows, columns), in float64."""
    if isinstance(schema, ImageSchema):
        return torch.cat([encoder.front(some) for some in inputs.split(4096)]).double()
    codes = inputs[:, schema.numeric :].long().unbind(dim=1)
    hot = [functional.one_hot(code, size) for code, size in zip(codes, schema.categories, strict=True)]
    return torch.cat([inputs[:, : schema.numeric], *hot], dim=1).double()


@torch.no_grad()
def set_weights(encoder: LinearEncoder, weights: Tensor, *, shift: Tensor) -> None:
    numeric = weights[:, : encoder.numeric]
    if encoder.linear is not None:
        encoder.linear.weight.copy_(numeric)
        encoder.linear.bias.copy_(shift)
    if encoder.table is not None:
        by_code = weights[:, encoder.numeric :].T.clone()
        if encoder.linear is None:  # no bias: every row has one category in the first column, which takes the shift
            by_code[: encoder.table.offsets[1] if len(encoder.table.offsets) > 1 else None] += shift
        encoder.table.embedding.weight.copy_(by_code)
