"""A federation: the parties, their tables, the task, and which rows are for what."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np

from vesica.data.features import Scale
from vesica.data.reading import table_from
from vesica.data.table import Array, Column, Table, Text
from vesica.errors import InputError, nearest

TASKS = {"classification": ("auc", "accuracy", "f1"), "regression": ("rmse",)}
SHARES = ("disjoint", "everyone", "draw")
LABELS = ("aligned", "all")
MOST_GUESTS = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class PartyData:
    """What one party brings: its table, and how its columns and its encoder are to be taken."""

    name: str
    table: Table  # a host with labels only has a table without columns
    kinds: Mapping[str, str] = field(default_factory=dict)  # column -> numeric, categorical, boolean, date, ignore
    scale: Scale = "standard"
    encoder: str | None = None  # None: one that fits the data
    dim: int | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(f"a party cannot be called {self.name!r}: use letters, digits, '_' and '-'")
        if self.scale not in get_args(Scale):
            raise InputError(f"'{self.name}' has the scale '{self.scale}'{nearest(self.scale, get_args(Scale))}")

    @property
    def has_features(self) -> bool:
        ignored = {column for column, kind in self.kinds.items() if kind == "ignore"}
        return self.table.image is not None or bool(set(self.table.columns) - ignored)


@dataclass(frozen=True)
class TestRows:
    """Which of the common labelled rows are for testing: a fraction, or these ids."""

    __test__ = False  # its name is no invitation to pytest

    fraction: float = 0.2
    ids: Array | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.ids is None and not 0 < self.fraction < 1:
            raise InputError(f"[test] fraction is {self.fraction}: give a number between 0 and 1")
        _check_seed("test", self.seed)


@dataclass(frozen=True)
class Overlap:
    """How many of the common rows are taken as aligned, and who gets the others."""

    keep: int | None = None  # None: all of them
    share: str = "disjoint"
    draw: int | None = None  # with share "draw": so many unaligned rows a party
    seed: int = 0

    def __post_init__(self) -> None:
        if self.keep is not None and self.keep < 1:
            raise InputError(f"[overlap] keep is {self.keep}: give the number of overlapping rows, 1 or more")
        if self.share not in SHARES:
            raise InputError(f"[overlap] share is '{self.share}'{nearest(self.share, SHARES)}")
        if (self.share == "draw") != (self.draw is not None):
            raise InputError('[overlap] share = "draw" and draw = N (rows a party) go together')
        if self.draw is not None and self.draw < 0:
            raise InputError(f"[overlap] draw is {self.draw}: give the number of rows a party draws, 0 or more")
        _check_seed("overlap", self.seed)


def _check_seed(section: str, seed: int) -> None:
    if seed < 0:
        raise InputError(f"[{section}] seed is {seed}: give 0 or more")


@dataclass(frozen=True)
class Federation:
    """The parties of one learning task. Rows are sorted out later, by `split_rows`."""

    host: PartyData
    label: Column | None  # of the host's rows, in their order; None where there is only something to predict
    guests: tuple[PartyData, ...]
    task: str
    metric: str
    labels: str = "aligned"
    test: TestRows = TestRows()
    overlap: Overlap = Overlap()
    labelled: int | None = None
    name: str = "federation"
    sha256: str | None = None  # of a public data set's files

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise InputError(f"task is '{self.task}'{nearest(self.task, TASKS)}")
        if self.metric not in TASKS[self.task]:
            raise InputError(
                f"metric is '{self.metric}', which is none of {self.task}{nearest(self.metric, TASKS[self.task])}"
            )
        if self.labels not in LABELS:
            raise InputError(f"[host] labels is '{self.labels}'{nearest(self.labels, LABELS)}")
        if self.labelled is not None and self.labelled < 1:
            raise InputError(f"[labelled] keep is {self.labelled}: give the number of labelled rows, 1 or more")
        if not 1 <= len(self.guests) <= MOST_GUESTS:
            raise InputError(f"there are {len(self.guests)} guests: a federation has 1 to {MOST_GUESTS}")
        refuse_same_names(self.parties)
        for guest in self.guests:
            if not guest.has_features:
                raise InputError(f"guest '{guest.name}' has no column to learn from: a guest brings features")

    @property
    def parties(self) -> tuple[PartyData, ...]:
        """The host first."""
        return (self.host, *self.guests)

    @classmethod
    def from_tables(
        cls,
        host: Any,
        guests: Mapping[str, Any],
        *,
        id: str,
        label: str,
        task: str = "classification",
        metric: str | None = None,
        host_name: str = "host",
        labels: str = "aligned",
        test: TestRows = TestRows(),
        overlap: Overlap = Overlap(),
        labelled: int | None = None,
        name: str = "tables",
    ) -> Federation:
        """From pandas or polars DataFrames, or mappings of columns to arrays, one a party."""
        table, column = take_label(table_from(host, id=id), label, party=host_name)
        parties = tuple(PartyData(guest, table_from(source, id=id)) for guest, source in guests.items())
        return cls(
            PartyData(host_name, table),
            column,
            parties,
            task=task,
            metric=metric or default_metric(task, column),
            labels=labels,
            test=test,
            overlap=overlap,
            labelled=labelled,
            name=name,
        )


def refuse_same_names(parties: Sequence[PartyData]) -> None:
    names = [party.name for party in parties]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two parties are called '{name}': give each a name of its own")


def take_label(table: Table, label: str, *, party: str) -> tuple[Table, Column]:
    """The host's table without its label column, and that column."""
    if label not in table.columns:
        raise InputError(f"'{party}' has no label column '{label}'{nearest(label, table.columns)}")
    return table.only([name for name in table.columns if name != label]), table.columns[label]


def default_metric(task: str, label: Column) -> str:
    if task == "regression":
        return "rmse"
    return "auc" if len(distinct(label)) == 2 else "accuracy"


def known(label: Column) -> Array:
    """Where a label is not missing; an empty text is none."""
    if isinstance(label, Text):
        filled = np.array([bool(value.strip()) for value in label.values] + [False])  # code -1 falls on the last
        return np.asarray(filled[label.codes])
    return ~(np.isnat(label) if label.dtype.kind == "M" else np.isnan(label.astype(float)))


def distinct(label: Column) -> tuple[str, ...]:
    """The classes, as text, in order: numbers by value, the rest by alphabet."""
    if isinstance(label, Text):
        return tuple(sorted(label.values[code] for code in np.unique(label.codes[known(label)])))
    return tuple(as_text(value) for value in np.unique(label[known(label)]))


def as_text(value: Any) -> str:
    """A class's name: 1 and 1.0 are the same."""
    return str(int(value)) if isinstance(value, np.floating | float) and float(value).is_integer() else str(value)


def class_numbers(label: Column, classes: Sequence[str]) -> Array:
    """Each label's position in `classes`; -1 where it is missing."""
    number = {name: i for i, name in enumerate(classes)}
    if isinstance(label, Text):
        codes = np.array([number.get(value, -1) for value in label.values] + [-1], dtype=np.int64)
        return np.asarray(codes[label.codes])
    values, inverse = np.unique(label, return_inverse=True)
    of_value = [number.get(as_text(value), -1) for value in values]
    return np.where(known(label), np.array(of_value, dtype=np.int64)[inverse], -1)
