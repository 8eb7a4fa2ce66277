"""A federation: the parties, their tables, the task, and which rows are for what."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from vesica.data.features import Scale
from vesica.data.labels import default_metric, take_label
from vesica.data.reading import read_table, table_from
from vesica.data.table import Array, Column, Table
from vesica.data.toml import FederationFile
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
    scale: Scale = "quantile"  # numbers by their rank, as normal scores; or "standard", "minmax"
    encoder: str | None = None  # None: one that fits the data
    dim: int | None = None
    elsewhere: bool = False  # at another organisation: of its table only the ids that all parties have are known

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(f"a party cannot be called {self.name!r}: use letters, digits, '_' and '-'")
        if self.scale not in get_args(Scale):
            raise InputError(f"'{self.name}' has the scale '{self.scale}'{nearest(self.scale, get_args(Scale))}")

    @property
    def has_features(self) -> bool:
        ignored = {column for column, kind in self.kinds.items() if kind == "ignore"}
        return self.elsewhere or self.table.image is not None or bool(set(self.table.columns) - ignored)


@dataclass(frozen=True)
class TestRows:
    """Which of the common labelled rows are for testing: a fraction, or these ids.

    With `groups`, one for each of the host's rows, a fraction is drawn of whole groups: rows that are alike, such as
    those of one patient, are never trained on and tested with.
    """

    __test__ = False  # its name is no invitation to pytest

    fraction: float = 0.2
    ids: Array | None = None
    seed: int = 0
    groups: Array | None = None  # (rows of the host,)

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
    source: Mapping[str, Any] = field(default_factory=dict)  # how to make it again: what was asked for, by name
    cut: Mapping[str, Any] = field(default_factory=dict)  # where a public data set is not cut in its usual way

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
        if self.test.groups is not None and len(self.test.groups) != len(self.host.table):
            raise InputError(
                f"'{self.host.name}' has {len(self.host.table)} rows and {len(self.test.groups)} groups to test by: "
                "give one for each row"
            )
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
        guests: Mapping[str, Any] | Sequence[PartyData],
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
        """From pandas or polars DataFrames, or mappings of columns to arrays, one a party, with the same id column.

        A `PartyData` instead says how a party's columns and its encoder are to be taken; its table has its own ids.
        """
        mine = host if isinstance(host, PartyData) else PartyData(host_name, table_from(host, id=id))
        theirs = guests if isinstance(guests, Mapping) else {guest.name: guest for guest in guests}
        table, column = take_label(mine.table, label, party=mine.name)
        return cls(
            replace(mine, table=table),
            column,
            tuple(g if isinstance(g, PartyData) else PartyData(n, table_from(g, id=id)) for n, g in theirs.items()),
            task=task,
            metric=metric or default_metric(task, column),
            labels=labels,
            test=test,
            overlap=overlap,
            labelled=labelled,
            name=name,
        )

    @classmethod
    def from_toml(cls, path: Path | str) -> Federation:
        """From a federation.toml; the paths in it are relative to it."""
        file = FederationFile(Path(path))
        values, test, overlap = file.section("host"), file.section("test"), file.section("overlap")
        host = read_party(file, values, "host")
        table, label = take_label(host.table, file.need(values, "label", "host"), party=host.name)
        task = str(file.values.get("task", "classification"))
        seed = int(test.get("seed", 0))
        ids = read_table(file.beside(test["rows"]), id=file.key(values, "host")).ids if "rows" in test else None
        return cls(
            replace(host, table=table),
            label,
            tuple(read_party(file, guest, "guest") for guest in file.guests),
            task=task,
            metric=str(file.values.get("metric") or default_metric(task, label)),
            labels=str(values.get("labels", "aligned")),
            test=TestRows(float(test.get("fraction", 0.2)), ids, seed),
            overlap=Overlap(**{"seed": seed, **overlap}),
            labelled=file.section("labelled").get("keep"),
            name=file.path.stem,
            source={"federation": str(file.path.resolve())},
        )


def read_new_rows(path: Path) -> dict[str, Table]:
    """The parties' tables of rows to predict; no label is needed, and one that is there is not looked at."""
    file = FederationFile(path)
    parties = [read_party(file, guest, "guest") for guest in file.guests]
    values = file.section("host")
    if values:  # a host with labels only has nothing to bring
        host = read_party(file, values, "host")
        columns = [name for name in host.table.columns if name != values.get("label")]
        parties.insert(0, replace(host, table=host.table.only(columns)))
    refuse_same_names(parties)
    return {party.name: party.table for party in parties}


def read_party(file: FederationFile, values: Mapping[str, Any], section: str) -> PartyData:
    """One party with its table, which lies beside the file."""
    name, table = (file.need(values, key, section) for key in ("name", "table"))
    return PartyData(
        name,
        read_table(file.beside(table), id=file.key(values, section)),
        kinds=values.get("columns", {}),
        scale=values.get("scale", "quantile"),
        encoder=values.get("encoder"),
        dim=values.get("dim"),
    )


def refuse_same_names(parties: Sequence[PartyData]) -> None:
    names = [party.name for party in parties]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two parties are called '{name}': give each a name of its own")
