"""Representations of one party's rows that need no labels: noise as targets, and principal components."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from vesica.learning.recording import keep_layout
from vesica.learning.resume import Resume, Stateful, Straight
from vesica.learning.training import batches
from vesica.models import LinearEncoder
from vesica.objectives import assign, distance, points_on_sphere
from vesica.schema import ImageSchema, Schema


class Targets(nn.Module):
    """Every row's point on the sphere; it stays the row's own until an assignment hands it on."""

    points: Tensor

    def __init__(self, rows: int, dim: int, *, device: torch.device) -> None:
        super().__init__()
        self.register_buffer("points", points_on_sphere(rows, dim, device=device))


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
) -> None:
    """Train `encoder` towards points on the unit sphere, each of which belongs to a row of `inputs`.

    In every `frequency`th epoch a batch first shares its points out anew among its rows, to those they are nearest to
    as a whole. `view` changes the rows that are seen, as an augmentation does.
    """
    targets = Targets(len(inputs), dim, device=inputs.device)
    optimiser = torch.optim.Adam(encoder.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True)
    keep_layout(optimiser)
    encoder.train()
    encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    parts: dict[str, Stateful] = {"encoder": encoder, "optimiser": optimiser, "targets": targets}
    for epoch in (resume or Straight()).steps(epochs, parts):
        moves = (epoch + 1) % frequency == 0
        for batch in batches(len(inputs), batch_size):
            rows = batch.to(inputs.device)
            seen = inputs[rows] if view is None else view(inputs[rows])
            if seen.ndim == 4:
                seen = seen.contiguous(memory_format=torch.channels_last)
            outputs: Tensor = encoder(seen)
            points = targets.points[rows]
            if moves:
                points = points[assign(outputs, points)]
                targets.points[rows] = points
            optimiser.zero_grad()
            distance(outputs, points).mean().backward()
            optimiser.step()
    encoder.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


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
