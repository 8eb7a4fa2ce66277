"""One column fitted on training rows: a quantity becomes scaled numbers, a category a code."""

import math
import sys
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import norm

from vesica.data.kinds import as_days, as_numbers, as_text, as_truth
from vesica.data.table import Array, Column
from vesica.errors import InputError

Scale = Literal["standard", "minmax", "quantile"]

VALUES = {"numeric": as_numbers, "boolean": as_truth, "date": as_days}
LARGEST = float(np.finfo(np.float32).max)
MOST_CATEGORIES = 100_000
MOST_KNOTS = 256
UNKNOWN, MISSING, FIRST = 0, 1, 2  # codes


@dataclass(frozen=True)
class Quantity:
    """A numeric, boolean or date column."""

    column: str
    kind: str
    median: float
    center: float
    divisor: float
    indicator: bool  # whether missing values were seen in training
    clock: bool = False  # whether dates had a time of day
    knots: tuple[float, ...] = ()  # of scale "quantile": values, rising, and the normal scores they map to
    scores: tuple[float, ...] = ()

    @classmethod
    def fit(cls, name: str, column: Column, *, kind: str, scale: Scale) -> "Quantity":
        values = finite(VALUES[kind](column, name), name)
        gaps = np.isnan(values)
        present = values[~gaps]
        if not len(present):
            raise all_missing(name)
        # In units of a power of two nothing overflows, and nothing is rounded.
        unit = math.ldexp(1.0, max(-1000, min(1000, math.frexp(np.abs(present).max())[1])))
        median = float(np.median(present / unit)) * unit
        center, divisor = (0.0, 1.0) if kind == "boolean" else scaling(present / unit, unit, scale)
        clock = kind == "date" and bool((present % 1 != 0).any())
        ranked = scale == "quantile" and kind != "boolean" and present.min() < present.max()
        knots, scores = normal_scores(present) if ranked else ((), ())
        return cls(name, kind, median, center, divisor, bool(gaps.any()), clock, knots, scores)

    @property
    def width(self) -> int:
        return 1 + self.indicator + (4 + 2 * self.clock if self.kind == "date" else 0)

    def apply(self, column: Column) -> list[Array]:
        """The value, whether it was missing, the place in the year, the week and the day: (rows,) each."""
        values = finite(VALUES[self.kind](column, self.column), self.column)
        gaps = np.isnan(values)
        filled = np.where(gaps, self.median, values)
        scaled = np.interp(filled, self.knots, self.scores) if self.knots else self.scaled(filled)
        return [scaled, *([gaps] if self.indicator else []), *self.cycles(filled)]

    def scaled(self, filled: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.clip((filled - self.center) / self.divisor, -LARGEST, LARGEST)

    def cycles(self, days: Array) -> list[Array]:
        if self.kind != "date":
            return []
        # 1 January 1970 was a Thursday; the phase does not matter, being the same in training and after.
        fractions = [year_fraction(days), days / 7, *([days] if self.clock else [])]
        return [wave(2 * np.pi * (part % 1)) for part in fractions for wave in (np.sin, np.cos)]


@dataclass(frozen=True)
class Category:
    """A categorical column; `known` are the values that have a code of their own."""

    column: str
    known: tuple[str, ...]

    @classmethod
    def fit(cls, name: str, column: Column) -> "Category":
        """The values seen at least twice, so that the rest trains the code for the unknown."""
        text = as_text(column)
        counts = np.bincount(text.codes[text.codes >= 0], minlength=len(text.values))
        if not counts.any():
            raise all_missing(name)
        often = np.flatnonzero(counts >= 2).tolist()
        ranked = sorted(often, key=lambda code: (-counts[code], text.values[code]))
        return cls(name, tuple(text.values[code] for code in ranked[:MOST_CATEGORIES]))

    @property
    def codes(self) -> int:
        return FIRST + len(self.known)

    def apply(self, column: Column) -> Array:
        text = as_text(column)
        code = {value: FIRST + position for position, value in enumerate(self.known)}
        translated = [code.get(value, UNKNOWN) for value in text.values]
        return np.array([*translated, MISSING])[text.codes]  # code -1, missing, falls on the last


def scaling(present: Array, unit: float, scale: Scale) -> tuple[float, float]:
    """Center and divisor of values given in units of `unit`; a constant column is divided by 1."""
    low, high = float(present.min()), float(present.max())
    center, divisor = (low, high - low)
    if scale != "minmax":
        center, divisor = float(present.mean()), float(present.std())
    if low == high or divisor * unit == 0:
        return low * unit, 1.0
    return center * unit, min(divisor * unit, sys.float_info.max)


def normal_scores(present: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The values at evenly spaced ranks, and where a normal distribution has the same ranks."""
    values, counts = np.unique(present, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2) / len(present)
    if len(values) > MOST_KNOTS:
        chosen = np.unique(np.searchsorted(ranks, np.linspace(0, 1, MOST_KNOTS)).clip(max=len(values) - 1))
        values, ranks = values[chosen], ranks[chosen]
    return tuple(values.tolist()), tuple(norm.ppf(ranks.clip(1e-3, 1 - 1e-3)).tolist())


def year_fraction(days: Array) -> Array:
    dates = np.floor(days).astype("datetime64[D]")
    first, last = ((dates.astype("datetime64[Y]") + year).astype("datetime64[D]").astype(np.float64) for year in (0, 1))
    return np.asarray((days - first) / (last - first))


def finite(values: Array, name: str) -> Array:
    count = int(np.isinf(values).sum())
    if count:
        raise InputError(f"column '{name}' has {count} infinite value(s); replace them or mark them as missing")
    return values


def all_missing(name: str) -> InputError:
    return InputError(f"column '{name}' has no value in any training row; set it to \"ignore\"")
