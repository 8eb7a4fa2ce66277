"""A paper's own figures, and which of our results they stand beside."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from vesica.errors import InputError

METRICS = ("auc", "accuracy", "f1", "rmse")
_MATCHED = ("method", "data", "aligned")
_SAID = ("table", "metric", "value", "source")

# Method, data, aligned (an empty one is any), then "field=value" that a result must have: metric -> figure
Published = Mapping[tuple[str, ...], Mapping[str, str]]


def read_published(path: Path, *, tables: Collection[str] = ()) -> Published:
    """A paper's own figures, from a CSV file with the columns table, method, data, aligned, metric, value, source.

    A further column, such as host or epsilon, is one that a result must agree with, unless it is empty. Where tables
    are named, the figures are theirs alone.
    """
    found: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    try:
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if tables and row["table"] not in tables:
                    continue
                aligned = "" if row["aligned"] == "" else f"{int(row['aligned']):,}"
                more = [f"{name}={row[name]}" for name in row if name not in (*_MATCHED, *_SAID) and row[name]]
                figures = found[row["method"], row["data"], aligned, *more]
                if row["metric"] in figures:
                    raise ValueError(f"it has {row['metric']} of {row['method']} at {row['aligned']} twice")
                score = row["metric"] in METRICS
                figures[row["metric"]] = f"{float(row['value']):.4f}" if score else row["value"]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is no file of published figures ({error}): mend it") from error
    return found


def figures_for(named: Mapping[str, str], settings: Mapping[str, Any], published: Published) -> dict[str, str]:
    """The figures for a result, by what a table names it and by its settings."""
    facts = {f"{name}={value}" for name, value in {**named, **settings}.items()}
    found: dict[str, str] = {}
    for (method, data, aligned, *more), figures in published.items():
        asked = zip((method, data, aligned), _MATCHED, strict=True)
        if all(text in ("", named[name]) for text, name in asked) and facts.issuperset(more):
            if found.keys() & figures.keys():
                raise InputError(f"two published figures are for {method} on {data}: tell them apart in their file")
            found |= figures
    return found
