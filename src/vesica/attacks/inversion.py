"""Inputs from representations: an inverse learned from a few known rows (He, Zhang and Lee, ACSAC 2019)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.nn.models import MLP
from vesica.schema import ImageSchema, Schema, TableSchema

ROWS_AT_ONCE = 4096
FARTHEST = 10.0  # standard deviations: beyond what the known rows show, a line or a network would guess anything
Inverse = Callable[[Tensor], Tensor]  # from standardised representations to targets
CLEARLY = 1.25  # times fewer errors on the few rows held out: else pairs that were made up are not relied on
Pairs = tuple[Tensor, Tensor]  # representations and inputs, row by row


@dataclass(frozen=True)
class Inversion:
    """Learns to give back a party's inputs from its representations, by ridge regression and by a small network.

    Which of them, how strong the ridge and after how many steps of the network is chosen on a `held_out` share of the
    known rows, for each column of a table and each channel of images on its own; then all known rows are learned from.
    A strength of infinity is the known rows' mean: where nothing can be learned, it is what is guessed.
    """

    strengths: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, math.inf)  # for each known row
    steps: tuple[int, ...] = (100, 300, 1000)  # ascending; none: no network
    hidden: tuple[int, ...] = (256,)
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 1e-3
    held_out: float = 0.2

    def __post_init__(self) -> None:
        if not self.strengths or min(self.strengths) <= 0:
            raise InputError(f"inversion needs positive ridge strengths and not {self.strengths}: change strengths")
        if list(self.steps) != sorted(set(self.steps)) or min(self.steps, default=1) < 1:
            raise InputError(f"inversion needs ascending numbers of steps from 1 on and not {self.steps}: change steps")
        if not 0 < self.held_out < 1 or self.batch_size < 1:
            raise InputError("inversion needs held_out between 0 and 1 and batches of a row or more: change them")

    def guess(
        self,
        known_representations: Tensor,
        known_inputs: Tensor,
        *,
        representations: Tensor,
        schema: Schema,
        make_up: Callable[[Pairs], Pairs] | None = None,
    ) -> Tensor:
        """The inputs (rows, *row shape) behind `representations`, as floats; images in [0, 1], codes whole numbers.

        `make_up` gives more pairs from some known ones. Inverses that learn from them too are tried beside the others;
        rows held out are always known ones, of which nothing was made up. They are taken where they clearly do
        better over all columns.
        """
        _check(known_representations, known_inputs, representations, schema)
        columns = Columns(known_inputs, schema)
        scale = Standard(known_representations)

        def learned_from(rows: Tensor) -> list[Inverse]:
            pairs = known_representations[rows], known_inputs[rows]
            known, targets = scaled(pairs[0]), columns.encode(pairs[1])
            inverses = list(self._inverses(known, targets))
            if make_up is not None:
                more, inputs = make_up(pairs)
                whole = torch.cat([known, scaled(more)]), torch.cat([targets, columns.encode(inputs)])
                inverses += self._inverses(*whole)
            return inverses

        def scaled(rows: Tensor) -> Tensor:
            return scale(rows).clamp(-FARTHEST, FARTHEST)

        order = torch.randperm(len(known_inputs)).to(known_inputs.device)
        held, learned = order.tensor_split([max(1, round(self.held_out * len(order)))])
        truth = columns.encode(known_inputs[held])
        tried = [
            columns.squared_errors(inverse(scaled(known_representations[held])), truth)
            for inverse in learned_from(learned)
        ]
        errors = torch.stack(tried)
        if make_up is not None:
            plain, helped = errors.chunk(2)
            errors = errors if CLEARLY * helped.amin(dim=0).sum() < plain.amin(dim=0).sum() else plain
        best = errors.argmin(dim=0)[columns.column_of]  # (targets,)
        inverses = learned_from(torch.arange(len(known_inputs), device=known_inputs.device))
        others = scaled(representations).split(ROWS_AT_ONCE)
        return torch.cat([columns.decode(_combine(inverses, some, best=best)) for some in others])

    def _inverses(self, known: Tensor, targets: Tensor) -> Iterator[Inverse]:
        """Every candidate, always in the same order."""
        yield from _ridges(known, targets, strengths=self.strengths)
        if self.steps:
            yield from self._networks(known, targets)

    def _networks(self, known: Tensor, targets: Tensor) -> Iterator[Inverse]:
        """One network, at each of the numbers of steps."""
        network = MLP(known.shape[1], self.hidden, targets.shape[1]).to(known.device)
        optimiser = torch.optim.AdamW(network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
        for step in range(1, self.steps[-1] + 1):
            some = torch.randint(len(known), (self.batch_size,), device=known.device)
            optimiser.zero_grad()
            nn.functional.mse_loss(network(known[some]), targets[some]).backward()
            optimiser.step()
            if step in self.steps:
                yield copy.deepcopy(network).requires_grad_(False)


class Standard:
    """Values in units of the known rows: their mean 0, their standard deviation 1, or 0 where they are all equal."""

    def __init__(self, rows: Tensor) -> None:
        values = rows.detach().flatten(1).float()
        self.mean = values.mean(dim=0)
        spread = (values - self.mean).square().mean(dim=0).sqrt()
        self.spread = torch.where(spread > 1e-6 * self.mean.abs(), spread, 1)  # the mean of equal values is rounded

    def __call__(self, rows: Tensor) -> Tensor:
        return (rows.detach().flatten(1).float() - self.mean) / self.spread


class Columns:
    """What is learned in place of inputs: standardised numbers, and 0 or 1 for each code that the known rows have."""

    def __init__(self, known: Tensor, schema: Schema) -> None:
        values = unit(known)
        self._shape = schema.row_shape
        self._numeric = numbers_in(schema)
        self._standard = Standard(values[:, : self._numeric])
        self._codes = [column.unique() for column in values[:, self._numeric :].T]
        widths = [1] * self._numeric + [len(codes) for codes in self._codes]
        if isinstance(schema, ImageSchema):
            self._standard.spread.fill_(1)  # the rim of an image, almost constant, would count as much as its middle
            widths = [schema.height * schema.width] * schema.channels
        columns = torch.arange(len(widths)).repeat_interleave(torch.tensor(widths))
        self.column_of = columns.to(known.device)  # (targets,); a channel of images is a column

    def encode(self, inputs: Tensor) -> Tensor:
        """(rows, targets)"""
        values = unit(inputs)
        codes = zip(values[:, self._numeric :].T, self._codes, strict=True)
        flags = [(column[:, None] == known).float() for column, known in codes]
        return torch.cat([self._standard(values[:, : self._numeric]), *flags], dim=1)

    def decode(self, targets: Tensor) -> Tensor:
        numbers, *flags = targets.split([self._numeric, *map(len, self._codes)], dim=1)
        numbers = numbers * self._standard.spread + self._standard.mean
        codes = [known[flag.argmax(dim=1)] for flag, known in zip(flags, self._codes, strict=True)]
        values = torch.cat([numbers, *(column[:, None] for column in codes)], dim=1)
        return values if len(self._shape) == 1 else values.clamp(0, 1).reshape(-1, *self._shape)

    def squared_errors(self, guess: Tensor, truth: Tensor) -> Tensor:
        """Of each column (columns,): the sum over its targets and over rows."""
        each = (guess - truth).square().sum(dim=0)
        return torch.zeros(int(self.column_of.max()) + 1, device=each.device).index_add_(0, self.column_of, each)


def numbers_in(schema: Schema) -> int:
    """How many values of a row are plain numbers; the codes of a table follow them."""
    return schema.numeric if isinstance(schema, TableSchema) else math.prod(schema.row_shape)


def unit(inputs: Tensor) -> Tensor:
    """Rows of plain numbers (rows, values); the bytes of images in [0, 1]."""
    values = inputs.detach().flatten(1).float()
    return values / 255 if inputs.dtype == torch.uint8 else values


def _ridges(known: Tensor, targets: Tensor, *, strengths: Sequence[float]) -> Iterator[Inverse]:
    """One regression, at each of the strengths."""
    centre, mean = known.mean(dim=0), targets.mean(dim=0)  # of these rows, which may be a part of those standardised
    left, sizes, right = torch.linalg.svd((known - centre).double(), full_matrices=False)
    along = left.T @ (targets - mean).double()
    for strength in strengths:
        shrunk = sizes / (sizes.square() + strength * len(known))
        yield partial(_linear, centre=centre, weights=(right.T @ (shrunk[:, None] * along)).float(), mean=mean)


def _linear(rows: Tensor, *, centre: Tensor, weights: Tensor, mean: Tensor) -> Tensor:
    return (rows - centre) @ weights + mean


def _combine(inverses: list[Inverse], rows: Tensor, *, best: Tensor) -> Tensor:
    """Each target by the inverse that is best for it."""
    guess = torch.zeros(len(rows), len(best), device=rows.device)
    for number, inverse in enumerate(inverses):
        if (best == number).any():
            guess[:, best == number] = inverse(rows)[:, best == number]
    return guess


def _check(known_representations: Tensor, known_inputs: Tensor, representations: Tensor, schema: Schema) -> None:
    if len(known_inputs) < 3 or len(known_representations) != len(known_inputs):
        raise InputError(
            f"inversion needs three or more known rows with a representation each and got {len(known_inputs)} rows and "
            f"{len(known_representations)} representations: give both"
        )
    if known_inputs.shape[1:] != schema.row_shape or representations.shape[1:] != known_representations.shape[1:]:
        raise InputError(
            f"inversion needs known inputs of shape {schema.row_shape} and representations all alike and got "
            f"{tuple(known_inputs.shape[1:])}, {tuple(known_representations.shape[1:])} and "
            f"{tuple(representations.shape[1:])}: give those of one party"
        )
    if not (known_representations.isfinite().all() and representations.isfinite().all()):
        raise InputError("inversion needs finite representations and some are not: leave those rows out")
