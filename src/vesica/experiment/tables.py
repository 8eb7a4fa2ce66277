"""Tables in documents, computed from results: no number is typed into prose."""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vesica.errors import InputError

_BLOCK = re.compile(r"(<!-- table: (?P<file>\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

_METRICS = ("auc", "accuracy", "f1", "rmse")


def refresh(document: Path) -> str:
    """The document with each table computed anew from the results it names."""

    def fill(block: re.Match[str]) -> str:
        return block[1] + table_of(read_lines(document.parent / block["file"])) + block[3]

    return _BLOCK.sub(fill, document.read_text())


def read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no file of results ({error}): write it with `vesica reproduce --json`") from error


def table_of(lines: Sequence[Mapping[str, Any]]) -> str:
    """The rows of `summarise`, in Markdown."""
    heads, rows = summarise(lines)
    return "".join(f"| {' | '.join(row)} |\n" for row in (heads, ["---"] * len(heads), *rows))


def summarise(lines: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """A row for each setting over its seeds, mean ± standard deviation, and the heads of the columns."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        rows = line["rows"]
        key = (line["method"], line["data"], f"{rows['aligned']:,}", f"{rows['labelled']:,}", line["wire"])
        groups[(*key, line["config_hash"])].append(line)
    metrics = [name for name in _METRICS if any(line["metrics"].get(name) is not None for line in lines)]
    heads = ["method", "data", "aligned", "labelled", "wire", *metrics, "rounds", "messages", "MB", "seconds", "seeds"]
    table = []
    for key, runs in groups.items():
        scores = [spread([run["metrics"].get(name) for run in runs], digits=4) for name in metrics]
        costs = [spread([run[name] for run in runs]) for name in ("rounds", "messages")]
        megabytes = spread([run["bytes"]["wire"] / 1e6 for run in runs], digits=3)
        seconds = spread([run["seconds"] for run in runs], digits=1)
        table.append([*key[:-1], *scores, *costs, megabytes, seconds, str(len(runs))])
    return heads, table


def spread(values: Sequence[float | None], *, digits: int = 0) -> str:
    """The mean, and the deviation where there are several values that differ."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    mean = f"{statistics.mean(known):,.{digits}f}"
    return f"{mean} ± {statistics.stdev(known):,.{digits}f}" if len(set(known)) > 1 else mean


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(refresh(Path(name)))
