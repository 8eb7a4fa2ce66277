"""Every method beside the others: its seeds on one data set with so many aligned rows, taken together."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vesica.errors import InputError
from vesica.methods import METHODS


@dataclass(frozen=True)
class Entry:
    """The seeds of a method."""

    data: str
    aligned: int
    method: str
    title: str
    metric: str
    runs: tuple[Mapping[str, Any], ...]  # lines of results/*.jsonl

    @property
    def values(self) -> list[float]:
        """The metric, of each seed."""
        return [run["metrics"][self.metric] for run in self.runs]

    @property
    def rounds(self) -> float:
        return statistics.fmean(run["rounds"] for run in self.runs)

    @property
    def messages(self) -> float:
        return statistics.fmean(run["messages"] for run in self.runs)

    @property
    def sent(self) -> float:
        """Bytes, of all messages of training."""
        return statistics.fmean(run["bytes"]["wire"] for run in self.runs)


def entries(lines: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """The methods' own.

    Milestones are left out: they have the settings of the method that goes on from them, and no seconds of their own.
    """
    return together(line for line in lines if line["seconds"] is not None)


def together(lines: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """In the order of the registry. A title has one setting for a data set and a number of aligned rows."""
    groups: dict[tuple[str, int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[line["data"], line["rows"]["aligned"], line["title"]].append(line)
    found = [_entry(*key, runs) for key, runs in groups.items()]
    order = list(METHODS)
    return sorted(found, key=lambda entry: order.index(entry.method) if entry.method in METHODS else len(order))


def _entry(data: str, aligned: int, title: str, runs: list[Mapping[str, Any]]) -> Entry:
    where = f"'{title}' on {data} with {aligned} aligned rows"
    if len({run["config_hash"] for run in runs}) > 1:
        raise InputError(f"{where} was run with several settings: keep the results of one of them")
    if len({run["seed"] for run in runs}) < len(runs):
        raise InputError(f"{where} was run twice with one seed: keep one of the results")
    return Entry(data, aligned, runs[0]["method"], title, runs[0]["config"]["metric"], tuple(runs))
