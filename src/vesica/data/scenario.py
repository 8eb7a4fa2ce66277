"""Scenarios: public data sets cut into federations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vesica.data import cuts
from vesica.data.datasets import load_dataset
from vesica.data.datasets.dataset import DataSet
from vesica.data.federation import Federation, Overlap, PartyData, TestRows
from vesica.data.table import Table
from vesica.errors import InputError, nearest

Cut = Callable[[DataSet], list[Table]]


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
    "phishing": Scenario("phishing", columns_of(10), "web sites; ten parties, 6 or 7 columns each (FedOnce)"),
    "uji": Scenario("uji", columns_of(10), "Wi-Fi fingerprints, time stamp; ten parties (FedOnce)"),
    "uji-floor": Scenario("uji-floor", columns_of(4), "Wi-Fi fingerprints, building and floor; four parties"),
    "covtype": Scenario("covtype", columns_of(10), "forest cover; ten parties, 5 or 6 columns each (FedOnce)"),
    "gisette": Scenario("gisette", columns_of(10), "4 against 9; ten parties, 500 columns each (FedOnce)"),
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
) -> Federation:
    """A scenario as a federation. The test rows are always the same; `seed` draws the others."""
    if name not in SCENARIOS:
        raise InputError(f"there is no data set '{name}'{nearest(name, SCENARIOS)}")
    scenario = SCENARIOS[name]
    data = load_dataset(scenario.data, data_dir)
    tables = scenario.cut(data)
    return federate(
        data,
        tables if not scenario.label_only_host else [Table(tables[0].ids), *tables],
        name=name,
        encoder=scenario.encoder,
        labels=labels or scenario.labels,
        overlap=Overlap(overlap, share or ("draw" if draw is not None else scenario.share), draw, seed),
        labelled=labelled,
        dim=dim,
    )


def federate(
    data: DataSet,
    tables: list[Table],
    *,
    name: str | None = None,
    encoder: str | None = None,
    labels: str = "aligned",
    overlap: Overlap = Overlap(),
    labelled: int | None = None,
    dim: int | None = None,
) -> Federation:
    """A data set whose tables are cut already, the host's first, as a federation."""
    names = ["host", *(f"guest-{i}" for i in range(1, len(tables)))]
    parties = [
        PartyData(party, table, encoder=encoder if table.image is not None else None, dim=dim)
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
        test=TestRows() if data.test is None else TestRows(ids=ids[data.test]),
        overlap=overlap,
        labelled=labelled,
        name=name or data.name,
        sha256=data.sha256,
    )
