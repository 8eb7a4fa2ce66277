"""A reference for credit: gradient boosted trees on the labelled overlapping rows, all columns in one table."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

from vesica import __version__
from vesica.data import Federation, Text, split_rows
from vesica.data.rows import Split, hold_out
from vesica.data.table import Array, Column
from vesica.datasets.scenario import make_federation
from vesica.errors import VesicaError
from vesica.experiment.account import count_rows
from vesica.experiment.recipes import circumstances
from vesica.metrics import Task, score

DATA = "credit-two-guests"

Settings = Mapping[str, float | None]

DEFAULT: Settings = {}
STOPS: list[Settings] = [{"early_stopping": True, "max_iter": 1000}, *({"max_iter": n} for n in (50, 100, 200))]
TRIED: list[Settings] = [
    {"max_depth": depth, "learning_rate": rate, **stop}
    for depth, rate, stop in product((3, None), (0.03, 0.05, 0.1), STOPS)
]
CHOSEN: Settings = {"max_depth": 3, "learning_rate": 0.03, "max_iter": 50}  # of TRIED, the first of --choose


def numbers(column: Column) -> Array:
    """The values as the file has them: categories are numbers there."""
    return np.array([float(value) for value in column.values])[column.codes] if isinstance(column, Text) else column


def pool(federation: Federation, split: Split, part: str) -> Array:
    """All parties' columns of the aligned or the test rows, which have the same order everywhere."""
    tables = [party.table.take(getattr(split.parties[party.name], part)) for party in federation.parties]
    return np.column_stack([numbers(column) for table in tables for column in table.columns.values()])


def run(seed: int, *, overlap: int, held_out: bool, settings: Settings = DEFAULT) -> dict[str, Any]:
    """One line of results: train on the rows that SplitNN would have, score on the same test rows."""
    federation = make_federation(DATA, overlap=overlap, seed=seed)
    federation = hold_out(federation) if held_out else federation
    split, host, began = split_rows(federation), federation.host.name, time.monotonic()
    labels = split.label[split.parties[host].aligned[split.labelled]]
    tree = HistGradientBoostingClassifier(random_state=seed, **settings)
    tree.fit(pool(federation, split, "aligned")[split.labelled], labels)
    chances = torch.from_numpy(tree.decision_function(pool(federation, split, "test")))
    truth = torch.from_numpy(split.label[split.parties[host].test])
    task = Task(federation.task, federation.metric, split.classes)
    metrics = score(task, torch.stack([torch.zeros_like(chances), chances], dim=1), truth)
    used = {name: value for name, value in tree.get_params().items() if name != "random_state"}
    config = {"method": used | {"scikit_learn": sklearn.__version__}, "overlap": overlap}
    names = [party.name for party in federation.parties]
    line = {"method": "pooled-tree", "data": federation.name, "seed": seed, "parties": names}
    line |= {"rows": count_rows(split), "metrics": metrics, "rounds": None, "messages": None}
    line |= {"bytes": dict.fromkeys(("payload", "wire", "up", "down")), "wire": None, "epsilon": None, "delta": None}
    line |= {"seconds": round(time.monotonic() - began, 3), "config": config, "version": __version__, "statements": []}
    line |= {"config_hash": hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:16]}
    return line | circumstances("tree", device="cpu", sha256=federation.sha256)


def results(overlaps: Sequence[int], *, seeds: int, held_out: bool) -> str:
    """A line for each case, with the default settings and with those that were chosen."""
    cases = product(overlaps, (DEFAULT, CHOSEN), range(seeds))
    lines = (run(seed, overlap=overlap, held_out=held_out, settings=settings) for overlap, settings, seed in cases)
    return "".join(json.dumps(line) + "\n" for line in lines)


def comparison(overlaps: Sequence[int], *, seeds: int) -> str:
    """The settings that are tried and their mean AUC on rows held out, the best first: no test row is looked at."""
    found: list[tuple[float, str]] = []
    for settings in TRIED:
        cases = product(overlaps, range(seeds))
        lines = (run(seed, overlap=overlap, held_out=True, settings=settings) for overlap, seed in cases)
        found.append((mean(line["metrics"]["auc"] for line in lines), json.dumps(settings)))
    return "".join(f"{auc:.5f} {settings}\n" for auc, settings in sorted(found, reverse=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--overlap", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--hold-out", action="store_true", help="leave the test rows out, test on others")
    parser.add_argument("--choose", action="store_true", help="compare settings on rows held out instead")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    asked = parser.parse_args()
    if asked.json and not asked.json.parent.is_dir():
        parser.error(f"there is no directory {asked.json.parent} to write {asked.json.name} to: make it first")
    try:
        if asked.choose:
            text = comparison(asked.overlap, seeds=asked.seeds)
        else:
            text = results(asked.overlap, seeds=asked.seeds, held_out=asked.hold_out)
    except VesicaError as error:
        sys.exit(f"vesica: {error}")
    asked.json.write_text(text) if asked.json else print(text, end="")
