"""Scenarios: public data sets cut into federations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vesica.data.federation import Federation, Overlap, PartyData, TestRows
from vesica.data.rows import split_rows
from vesica.data.table import Array, Table
from vesica.datasets import cuts, load_dataset
from vesica.datasets.dataset import DataSet
from vesica.errors import InputError, nearest

Cut = Callable[[DataSet], list[Table]]
RANKED_BY = 2_000  # rows that columns are ranked on


@dataclass(frozen=True)
class Scenario:
    """How a data set is cut, and what its papers take for granted."""

    data: str  # a name in DATASETS
    cut: Cut  # the parties' tables, the host's first if it has features
    about: str
    label_only_host: bool = False
    share: str = "disjoint"
    labels: str = "aligned"
    encoder: str | None = None
    dominant: int | None = None  # columns that count as the ones that matter, where its paper biases the cut


def the_view(data: DataSet) -> Table:
    (view,) = data.views.values()
    return view


def each_view(data: DataSet) -> list[Table]:
    return list(data.views.values())


def columns_of(parties: int) -> Cut:
    return lambda data: cuts.contiguous(the_view(data), parties)


def left_and_right(data: DataSet) -> list[Table]:
    return cuts.halves(the_view(data))


def four_quarters(data: DataSet) -> list[Table]:
    return cuts.quadrants(the_view(data))


def last_thirteen_first_ten(data: DataSet) -> list[Table]:
    names = list(the_view(data).columns)
    return cuts.by_list(the_view(data), [names[10:], names[:10]])


def first_ten_last_thirteen(data: DataSet) -> list[Table]:
    return last_thirteen_first_ten(data)[::-1]


SCENARIOS: dict[str, Scenario] = {
    "credit": Scenario("credit", last_thirteen_first_ten, "card default; host 13 columns, guest 10 (FATE's split)"),
    "credit-two-guests": Scenario(
        "credit",
        first_ten_last_thirteen,
        "card default; host labels only, guests 10 and 13 columns (one-shot VFL)",
        label_only_host=True,
    ),
    "mnist": Scenario("mnist", four_quarters, "digits; four parties, a quadrant each (FedOnce)"),
    "mnist-halves": Scenario("mnist", left_and_right, "digits; two parties, a half each"),
    "fashion-mnist": Scenario("fashion-mnist", four_quarters, "clothes; four parties, a quadrant each (FedOnce)"),
    "fashion-mnist-halves": Scenario("fashion-mnist", left_and_right, "clothes; two parties, a half each"),
    "fashion-mnist-guests": Scenario(
        "fashion-mnist",
        four_quarters,
        "clothes; host labels only, four guests with a quadrant each",
        label_only_host=True,
    ),
    "kmnist": Scenario("kmnist", four_quarters, "cursive Japanese; four parties, a quadrant each (FedOnce)"),
    "cifar10": Scenario(
        "cifar10",
        left_and_right,
        "photographs; host labels only, guests left and right half (one-shot VFL)",
        label_only_host=True,
        encoder="wrn",
    ),
    "cifar10-halves": Scenario("cifar10", left_and_right, "photographs; two parties, a half each", encoder="wrn"),
    "cifar10-quadrants": Scenario("cifar10", four_quarters, "photographs; four parties, a quadrant each (FedOnce)"),
    "phishing": Scenario(
        "phishing", columns_of(10), "web sites; ten parties, 6 or 7 columns each (FedOnce)", dominant=30
    ),
    "uji": Scenario("uji", columns_of(10), "Wi-Fi fingerprints, time stamp; ten parties (FedOnce)", dominant=100),
    "uji-floor": Scenario(
        "uji-floor", columns_of(4), "Wi-Fi fingerprints, building and floor; four parties", dominant=100
    ),
    "uji-position": Scenario(
        "uji-position", columns_of(10), "Wi-Fi fingerprints, metres to the east; ten parties", dominant=100
    ),
    "covtype": Scenario("covtype", columns_of(10), "forest cover; ten parties, 5 or 6 columns each (FedOnce)"),
    "gisette": Scenario("gisette", columns_of(10), "4 against 9; ten parties, 500 columns each (FedOnce)"),
    "pixel-pairs": Scenario("pixel-pairs", columns_of(10), "4 against 9, built as gisette was; ten parties"),
    "superconduct": Scenario("superconduct", columns_of(10), "critical temperature; ten parties (FedOnce)"),
    "nus-wide": Scenario("nus-wide", each_view, "web photographs, sky or not; five views (FedOnce)"),
    "nus-wide-tags": Scenario(
        "nus-wide-tags", each_view, "web photographs, ten classes; image and tags (FedHSSL)", share="everyone"
    ),
    "movielens-1m": Scenario("movielens-1m", each_view, "film ratings; ids and side information (FedOnce)"),
    "avazu": Scenario("avazu", each_view, "clicks; two mixed-type parties (FedHSSL)", share="everyone"),
    "avazu-three": Scenario("avazu-three", each_view, "clicks; three categorical parties (VFLHLP)", labels="all"),
    "criteo": Scenario("criteo", each_view, "clicks; categorical host, numeric guest (VFLHLP)", labels="all"),
    "bhi": Scenario(
        "bhi",
        each_view,
        "tissue patches in pairs; two parties (FedHSSL)",
        share="everyone",
        encoder="resnet18",
    ),
    "modelnet": Scenario(
        "modelnet",
        each_view,
        "rendered objects; four parties, a view each (FedHSSL)",
        share="everyone",
        encoder="resnet18",
    ),
}


def make_federation(
    name: str,
    data_dir: Path | None = None,
    *,
    overlap: int | None = None,
    share: str | None = None,
    draw: int | None = None,
    labelled: int | None = None,
    labels: str | None = None,
    seed: int = 0,
    dim: int | None = None,
    encoder: str | None = None,
    host: int | None = None,
    parties: int | None = None,
    alpha: float | None = None,
) -> Federation:
    """A scenario as a federation. The test rows are always the same; `seed` draws the others.

    `host` is which of the parts, from 1 on, the labelled party has; `parties` cuts the columns into so many parts;
    `alpha` cuts them in two, the host with this ratio of the columns that matter most. `encoder` is that of every party
    with features.
    """
    if name not in SCENARIOS:
        raise InputError(f"there is no data set '{name}'{nearest(name, SCENARIOS)}")
    scenario = SCENARIOS[name]
    data = load_dataset(scenario.data, data_dir)
    tables = host_first(name, cut_as_asked(name, data, parties=parties, alpha=alpha, seed=seed), host)
    asked = {"host": None if host == 1 else host, "parties": parties, "alpha": alpha}
    rows = {"overlap": overlap, "share": share, "draw": draw, "labelled": labelled, "labels": labels}
    wanted = {"data": name, **rows, "seed": seed, "dim": dim, "encoder": encoder, **asked}
    made = federate(
        data,
        tables if not scenario.label_only_host else [Table(tables[0].ids), *tables],
        name=name,
        cut={part: value for part, value in asked.items() if value is not None},
        encoder=encoder or scenario.encoder,
        labels=labels or scenario.labels,
        overlap=Overlap(overlap, share or ("draw" if draw is not None else scenario.share), draw, seed),
        labelled=labelled,
        dim=dim,
    )
    return replace(made, source={part: value for part, value in wanted.items() if value is not None})


def cut_as_asked(
    name: str, data: DataSet, *, parties: int | None = None, alpha: float | None = None, seed: int = 0
) -> list[Table]:
    """The parts of a data set: as the scenario has them, or its columns in so many parts, or in two that differ."""
    scenario = SCENARIOS[name]
    if parties is None and alpha is None:
        return scenario.cut(data)
    if parties is not None and alpha is not None:
        raise InputError(f"alpha cuts '{name}' into two parties: leave parties out")
    if len(data.views) > 1 or the_view(data).image is not None:
        raise InputError(f"'{name}' is no single table that could be cut by its columns: leave parties and alpha out")
    if parties is not None:
        return columns_of(parties)(data)
    if scenario.dominant is None:
        raise InputError(f"no columns of '{name}' are known to be the dominant ones: leave alpha out")
    assert alpha is not None
    return cuts.by_importance(
        the_view(data), importance_outside_test(data), dominant=scenario.dominant, alpha=alpha, seed=seed
    )


def importance_outside_test(data: DataSet) -> Array:
    """How much each column matters, as rows tell that are not for testing."""
    view = the_view(data)
    hidden = split_rows(federate(data, cuts.contiguous(view, 2))).test_ids
    rows = np.random.default_rng(0).permutation(np.flatnonzero(~np.isin(view.ids, hidden.astype(str))))[:RANKED_BY]
    return cuts.importance_of(view, data.label, rows, regression=data.task == "regression")


def host_first(name: str, tables: list[Table], host: int | None) -> list[Table]:
    """The labelled party's part before the others'."""
    if host is None or host == 1:
        return tables
    if SCENARIOS[name].label_only_host:
        raise InputError(f"the host of '{name}' has labels only and no part of the columns: leave host out")
    if not 1 <= host <= len(tables):
        raise InputError(f"host is {host} and '{name}' has {len(tables)} parts: give 1 to {len(tables)}")
    return [tables[host - 1], *tables[: host - 1], *tables[host:]]


def federate(
    data: DataSet,
    tables: list[Table],
    *,
    name: str | None = None,
    cut: Mapping[str, Any] | None = None,
    encoder: str | None = None,
    labels: str = "aligned",
    overlap: Overlap = Overlap(),
    labelled: int | None = None,
    dim: int | None = None,
) -> Federation:
    """A data set whose tables are cut already, the host's first, as a federation."""
    names = ["host", *(f"guest-{i}" for i in range(1, len(tables)))]
    parties = [
        PartyData(party, table, encoder=encoder if table.image is not None or table.columns else None, dim=dim)
        for party, table in zip(names, tables, strict=True)
    ]
    ids = tables[0].ids
    return Federation(
        parties[0],
        data.label,
        tuple(parties[1:]),
        task=data.task,
        metric=data.metric,
        labels=labels,
        test=TestRows(ids=None if data.test is None else ids[data.test], groups=data.groups),
        overlap=overlap,
        labelled=labelled,
        name=name or data.name,
        sha256=data.sha256,
        cut=cut or {},
    )
