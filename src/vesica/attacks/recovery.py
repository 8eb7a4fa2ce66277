"""How much of a party's inputs a guess gives back: of each column, so that one sees which."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from vesica.attacks.inversion import numbers_in, unit
from vesica.errors import InputError
from vesica.schema import ImageSchema, Schema


@dataclass(frozen=True)
class CodesBack:
    """A column of categories: the share of rows guessed right, beside that of always naming the commonest known one."""

    right: float
    commonest: float


@dataclass(frozen=True)
class Recovery:
    """How much of the inputs came back.

    An error is the mean squared error over that of guessing the known rows' mean: 0 where all came back, 1 where
    nothing was learned; None where the mean is never wrong. `numbers` has one a numeric column, or a channel of images.
    """

    error: float | None
    numbers: tuple[float | None, ...]
    codes: tuple[CodesBack, ...] = ()


def recovery(guess: Tensor, truth: Tensor, *, known: Tensor, schema: Schema) -> Recovery:
    """What a guess is worth, for whoever has the true inputs to say; `known` are the inputs that the guesser had."""
    if guess.shape != truth.shape or truth.shape[1:] != schema.row_shape or not len(truth) or not len(known):
        raise InputError(
            f"a guess of inputs is scored against as many true rows of shape {schema.row_shape} and not "
            f"{tuple(guess.shape)} against {tuple(truth.shape)}: give the same rows, and some known ones"
        )
    numeric = numbers_in(schema)
    columns = schema.channels if isinstance(schema, ImageSchema) else numeric
    guess, truth, known = unit(guess), unit(truth), unit(known)
    missed = _squares(guess[:, :numeric], truth[:, :numeric], columns=columns)
    usual = _squares(known[:, :numeric].double().mean(dim=0), truth[:, :numeric], columns=columns)
    codes = zip(guess[:, numeric:].T, truth[:, numeric:].T, known[:, numeric:].T, strict=True)
    return Recovery(
        error=_ratio(sum(missed), sum(usual)),
        numbers=tuple(map(_ratio, missed, usual)),
        codes=tuple(
            CodesBack(_agreeing(ours, theirs), _agreeing(seen.mode().values, theirs)) for ours, theirs, seen in codes
        ),
    )


def _squares(guess: Tensor, truth: Tensor, *, columns: int) -> list[float]:
    """The squared errors of each column, or channel, summed."""
    each = (guess - truth.double()).square().sum(dim=0)
    sums: list[float] = each.reshape(columns, len(each) // max(columns, 1)).sum(dim=1).tolist()
    return sums


def _agreeing(ours: Tensor, theirs: Tensor) -> float:
    return (ours == theirs).double().mean().item()


def _ratio(error: float, usual: float) -> float | None:
    return error / usual if usual > 0 else None
