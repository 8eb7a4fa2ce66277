"""Tables in documents, computed from results: no number is typed into prose."""

from __future__ import annotations

import csv
import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vesica.errors import InputError

_BLOCK = re.compile(
    r"(?P<begin><!-- table: (?P<file>\S+)( published: (?P<published>\S+))? -->\n).*?(?P<end><!-- end of table -->)",
    re.DOTALL,
)

_SETTING = ("method", "data", "aligned", "labelled", "wire")
_METRICS = ("auc", "accuracy", "f1", "rmse")
_COLUMNS = (*_SETTING, "settings", *_METRICS, "rounds", "messages", "MB", "seconds", "seeds")

Line = Mapping[str, Any]  # of results/*.jsonl
Published = Mapping[tuple[str, ...], Mapping[str, str]]  # method, data, aligned -> metric -> figure


def refresh(document: Path) -> str:
    """The document with each table computed anew from the results it names."""

    def fill(block: re.Match[str]) -> str:
        lines = read_lines(document.parent / block["file"])
        published = read_published(document.parent / block["published"]) if block["published"] else None
        return block["begin"] + table_of(lines, published) + block["end"]

    return _BLOCK.sub(fill, document.read_text())


def read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no file of results ({error}): write it with `vesica reproduce --json`") from error


def read_published(path: Path) -> Published:
    """A paper's own figures, from a CSV file with the columns table, method, data, aligned, metric, value, source."""
    found: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    try:
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                figures = found[row["method"], row["data"], f"{int(row['aligned']):,}"]
                if row["metric"] in figures:
                    raise ValueError(f"it has {row['metric']} of {row['method']} at {row['aligned']} twice")
                score = row["metric"] in _METRICS
                figures[row["metric"]] = f"{float(row['value']):.4f}" if score else row["value"]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is no file of published figures ({error}): mend it") from error
    return found


def table_of(lines: Sequence[Line], published: Published | None = None) -> str:
    """The rows of `summarise`, in Markdown."""
    heads, rows = summarise(lines, published)
    return "".join(f"| {' | '.join(row)} |\n" for row in (heads, ["---"] * len(heads), *rows))


def summarise(lines: Sequence[Line], published: Published | None = None) -> tuple[list[str], list[list[str]]]:
    """A row for each setting over its seeds, mean ± standard deviation, and the heads of the columns."""
    groups: dict[tuple[str, ...], list[Line]] = defaultdict(list)
    for line in lines:
        groups[(*setting_of(line), line["config_hash"])].append(line)
    table = []
    for (*setting, _), runs in groups.items():
        rivals = [others[0] for (*other, _), others in groups.items() if other == setting]
        named = dict(zip(_SETTING, setting, strict=True)) | differences(runs[0], rivals)
        figures = (published or {}).get(tuple(setting[:3]), {})
        beside = {f"published {metric}": figure for metric, figure in figures.items()}
        table.append(named | scores_of(runs) | costs_of(runs) | beside)
    columns = [head for column in _COLUMNS for head in (column, f"published {column}")]
    heads = [head for head in columns if any(head in row for row in table)]
    return heads, [[row.get(head, "–") for head in heads] for row in table]


def setting_of(line: Line) -> tuple[str, ...]:
    """What a reader tells rows by."""
    aligned, labelled = (f"{line['rows'][kind]:,}" for kind in ("aligned", "labelled"))
    return line.get("title") or line["method"], line["data"], aligned, labelled, line["wire"] or "–"


def differences(line: Line, rivals: Sequence[Line]) -> dict[str, str]:
    """The method's fields that tell this row from others that would look the same."""
    mine, theirs = line["config"]["method"], [rival["config"]["method"] for rival in rivals]
    differ = [name for name in mine if any(other.get(name) != mine[name] for other in theirs)]
    return {"settings": ", ".join(f"{name}={mine[name]}" for name in differ)} if differ else {}


def scores_of(runs: Sequence[Line]) -> dict[str, str]:
    values = {name: [run["metrics"].get(name) for run in runs] for name in _METRICS}
    return {name: spread(known, digits=4) for name, known in values.items() if any(v is not None for v in known)}


def costs_of(runs: Sequence[Line]) -> dict[str, str]:
    sent = [run["bytes"]["wire"] for run in runs]
    return {
        "rounds": spread([run["rounds"] for run in runs]),
        "messages": spread([run["messages"] for run in runs]),
        "MB": spread([None if count is None else count / 1e6 for count in sent], digits=3),
        "seconds": spread([run["seconds"] for run in runs], digits=1),
        "seeds": str(len(runs)),
    }


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
