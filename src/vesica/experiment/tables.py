"""Tables in documents, computed from results: no number is typed into prose."""

from __future__ import annotations

import math
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vesica.data.text_files import parse_json
from vesica.errors import InputError
from vesica.experiment.overview import Entry, entries
from vesica.experiment.published import METRICS, Published, figures_for, read_published
from vesica.experiment.reach import Reach, reaches

_BLOCK = re.compile(
    r"(?P<begin><!-- (?P<kind>table|bytes to reach|by overlap|picture|audit): (?P<file>\S+)"
    r"( published: (?P<published>\S+))?( of: (?P<attack>[^>]+?))? -->\n).*?(?P<end><!-- end of (table|picture) -->)",
    re.DOTALL,
)

# Columns that a table shows where a row of it is not as usual.
_USUAL = {"host": "1", "parties": "–", "alpha": "–", "epsilon": "–", "predicted without": "–"}
_SETTING = ("method", "data", "host", "parties", "alpha", "aligned", "labelled", "wire", "epsilon")
_COLUMNS = (*_SETTING, "predicted without", "settings", *METRICS, "rounds", "messages", "MB", "seconds", "seeds")

_AUDITED = ("method", "data", "aligned", "labelled", "epsilon", "settings")

_KNOWN = re.compile(r"(?:, )?(\d+) (?:labels|rows known)")  # in the name of an attack

Line = Mapping[str, Any]  # of results/*.jsonl


def refresh(document: Path) -> str:
    """The document with each table computed anew from the results it names."""
    return _BLOCK.sub(
        lambda block: block["begin"] + contents(document.parent, block) + block["end"], document.read_text()
    )


def contents(folder: Path, block: re.Match[str]) -> str:
    """What stands between a block's begin and end; the overview may be written before it is run."""
    file, kind = folder / block["file"], block["kind"]
    if kind in ("by overlap", "picture") and not file.exists():
        return "Not run yet.\n"
    if kind == "picture":
        return f"![Metric against bytes]({block['file']})\n"
    lines = read_lines(file)
    if kind == "by overlap":
        return markdown(*by_overlap(lines))
    if kind == "bytes to reach":
        return markdown(*bytes_to_reach(lines))
    if kind == "audit":
        return markdown(*audited(lines, attack=block["attack"] or ""))
    tables = {line["table"] for line in lines if "table" in line}
    published = read_published(folder / block["published"], tables=tables) if block["published"] else None
    return markdown(*summarise(lines, published))


def read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [parse_json(line) for line in path.read_text().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no file of results ({error}): write it with `vesica reproduce --json`") from error


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (heads, ["---"] * len(heads), *rows))


def summarise(lines: Sequence[Line], published: Published | None = None) -> tuple[list[str], list[list[str]]]:
    """A row for each setting over its seeds, mean ± standard deviation, and the heads of the columns."""
    if any("figures" in line for line in lines):
        return computed([line["figures"] for line in lines])
    table = []
    for named, runs in grouped(lines):
        figures = figures_for(named, settings_of(runs[0]), published or {})
        beside = {f"published {metric}": figure for metric, figure in figures.items()}
        table.append(named | scores_of(runs) | costs_of(runs) | beside)
    usual = {head for head, cell in _USUAL.items() if all(row[head] == cell for row in table)}
    columns = [head for column in _COLUMNS for head in (column, f"published {column}") if head not in usual]
    heads = [head for head in columns if any(head in row for row in table)]
    return heads, [[row.get(head, "–") for head in heads] for row in table]


def grouped(lines: Sequence[Line]) -> list[tuple[dict[str, str], list[Line]]]:
    """The seeds of each setting, with what a reader tells it by."""
    groups: dict[tuple[object, ...], list[Line]] = defaultdict(list)
    for line in lines:
        groups[(*setting_of(line).items(), line["config_hash"])].append(line)
    telling: dict[str, dict[str, None]] = defaultdict(dict)  # method: names of settings, in order
    for (*setting, _), runs in groups.items():
        rivals = [others[0] for (*other, _), others in groups.items() if other == setting]
        telling[title_of(runs[0])] |= dict.fromkeys(differences(runs[0], rivals))
    found = []
    for runs in groups.values():
        named, settings = setting_of(runs[0]), settings_of(runs[0])
        said = ", ".join(f"{name}={settings[name]}" for name in telling[title_of(runs[0])] if name in settings)
        found.append((named | ({"settings": said} if said else {}), runs))
    return found


def audited(lines: Sequence[Line], *, attack: str = "") -> tuple[list[str], list[list[str]]]:
    """A row for each setting and attacker: what the run was worth, and what each attack with this text found.

    In brackets what knowing nothing gives, and where there is one, the best without the run and the bound. What was
    found with more or fewer rows known is a row of its own.
    """
    rows: list[dict[str, str]] = []
    for named, runs in grouped(lines):
        metric = runs[0]["config"]["metric"]
        worth = {metric: spread([run["metrics"][metric] for run in runs], digits=3)}
        shown = {head: cell for head, cell in named.items() if head in _AUDITED and cell != _USUAL.get(head)}
        by_attacker: dict[tuple[str, int], dict[str, list[Line]]] = defaultdict(lambda: defaultdict(list))
        for run in runs:
            for head, finding in headed(by_known(f for f in run.get("audit", ()) if attack in f["attack"])):
                by_attacker[finding["attacker"], finding.get("known", 0)][head].append(finding)
        for attacker, known in sorted(by_attacker):
            cells = {head: cell_of(found) for head, found in by_attacker[attacker, known].items()}
            who = {"seeds": str(len(runs)), "attacker": attacker} | ({"known": str(known)} if known else {})
            rows.append(shown | worth | who | cells)
    if not rows:
        raise InputError(f"no attack of these audits has '{attack}' in its name: write another after 'of:'")
    metrics = [head for head in METRICS if any(head in row for row in rows)]
    first = [*(head for head in _AUDITED if any(head in row for row in rows)), *metrics, "seeds", "attacker"]
    first += ["known"] if any("known" in row for row in rows) else []
    attacks = sorted({head for row in rows for head in row} - set(first), key=natural)
    heads = [*first, *attacks]
    return heads, [[row.get(head, "–") for head in heads] for row in rows]


def by_known(findings: Iterable[Line]) -> list[Line]:
    """Where the findings of a run differ in how many rows were known, that as a part of its own."""
    found = list(findings)
    if len({count for f in found for count in _KNOWN.findall(f["attack"])}) < 2:
        return found
    return [
        {
            **f,
            "known": int(next(iter(_KNOWN.findall(f["attack"])), 0)),
            "attack": _KNOWN.sub("", f["attack"]).replace(" ()", ""),
            "secret": re.sub(r" of \d+ (common )?rows", "", f["secret"]),  # those that are not known
        }
        for f in found
    ]


def natural(text: str) -> list[tuple[int, str]]:
    """A key that sorts 80 before 400."""
    return [(int(part or 0), rest) for part, rest in re.findall(r"(\d*)(\D*)", text)]


def headed(findings: Iterable[Line]) -> list[tuple[str, Line]]:
    """The findings of a run with the heads of their columns; whose secret it is, and which, if that tells two apart."""
    found = list(findings)
    heads = [f"{f['attack']}, {f['measure']}" for f in found]
    for more in ("owner", "secret"):
        differ: dict[tuple[str, str], set[str]] = defaultdict(set)
        for head, f in zip(heads, found, strict=True):
            differ[f["attacker"], head].add(f[more])
        heads = [
            f"{head} ({f[more].strip(',')})" if len(differ[f["attacker"], head]) > 1 else head
            for head, f in zip(heads, found, strict=True)
        ]
    return list(zip(heads, found, strict=True))


def cell_of(findings: Sequence[Line]) -> str:
    """What an attack found, over seeds."""
    beside = {"": "nothing", "without the run ": "at_home", "at most ": "bound"}
    said = [
        f"{word}{spread([f[key] for f in findings], digits=3)}"
        for word, key in beside.items()
        if findings[0][key] is not None
    ]
    return f"{spread([f['value'] for f in findings], digits=3)} ({'; '.join(said)})"


def computed(rows: Sequence[Mapping[str, int | float | None]]) -> tuple[list[str], list[list[str]]]:
    """The heads and the cells of figures that were computed, with four digits, or three after the point."""

    def cell(value: int | float | None) -> str:
        if value is None:
            return "–"
        return f"{value:,}" if isinstance(value, int) else f"{value:.3f}" if abs(value) < 1 else f"{value:#.4g}"

    return list(rows[0]), [[cell(row.get(head)) for head in rows[0]] for row in rows]


def setting_of(line: Line) -> dict[str, str]:
    """What a reader tells rows by."""
    cut, spent = line["config"].get("cut", {}), line.get("epsilon")
    return {
        "method": title_of(line),
        "data": line["data"],
        **{name: str(cut.get(name, _USUAL[name])) for name in ("host", "parties", "alpha")},
        "aligned": f"{line['rows']['aligned']:,}",
        "labelled": f"{line['rows']['labelled']:,}",
        "wire": line["wire"] or "–",
        "epsilon": "–" if spent is None else f"{math.ceil(round(spent * 100, 9)) / 100:.2f}",  # never less
        "predicted without": ", ".join(line.get("without", ())) or "–",
    }


def settings_of(line: Line) -> dict[str, Any]:
    """The method's fields, the encoders and how long representations are."""
    encoders = [spec for spec in line["config"].get("encoders", {}).values() if spec]
    names, dims = ({spec[part] for spec in encoders} for part in (0, 1))
    return {
        **line["config"]["method"],
        "encoder": ", ".join(sorted(names)),
        "dim": ", ".join(str(dim) for dim in sorted(dims)),
    }


def title_of(line: Line) -> str:
    """Rows of one title say the same settings, also where only some of them need it to be told apart."""
    return str(line.get("title") or line["method"])


def differences(line: Line, rivals: Sequence[Line]) -> list[str]:
    """The settings that tell this row from others that would look the same."""
    mine, theirs = settings_of(line), [settings_of(rival) for rival in rivals]
    return [name for name in mine if any(other.get(name) != mine[name] for other in theirs)]


def scores_of(runs: Sequence[Line]) -> dict[str, str]:
    values = {name: [run["metrics"].get(name) for run in runs] for name in METRICS}
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


def by_overlap(lines: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    """A row for each method: its metric and what it costs, for each number of aligned rows."""
    found = entries(lines)
    if len({entry.data for entry in found}) != 1:
        raise InputError("a table by overlap is of one data set: give the results of each a file of its own")
    parts: dict[str, Callable[[Entry], str]] = {
        found[0].metric: lambda entry: spread(entry.values, digits=4),
        "rounds": lambda entry: f"{entry.rounds:,.0f}",
        "messages": lambda entry: f"{entry.messages:,.0f}",
        "MB": lambda entry: f"{entry.sent / 1e6:,.2f}",
    }
    columns = [(part, aligned) for part in parts for aligned in sorted({entry.aligned for entry in found})]
    rows: dict[str, dict[tuple[str, int], str]] = defaultdict(dict)
    for entry in found:
        rows[entry.title] |= {(part, entry.aligned): words(entry) for part, words in parts.items()}
    heads = ["method", *(f"{part}, {aligned:,}" for part, aligned in columns)]
    return heads, [[title, *(row.get(column, "–") for column in columns)] for title, row in rows.items()]


def bytes_to_reach(lines: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    """For each data set and host: split-nn's bytes over FedOnce's when it is as good on the validation rows."""
    groups: dict[tuple[str, int, str], list[Reach]] = defaultdict(list)
    for reach in reaches(lines):
        groups[reach.data, reach.host, reach.config_hash].append(reach)
    rows = []
    for (data, host, _), found in groups.items():
        ratios = [reach.ratio for reach in found if reach.ratio is not None]
        ratio = f"{spread(ratios, digits=1)} times" if ratios else "not reached"
        if 0 < len(ratios) < len(found):
            ratio += f", not reached in {len(found) - len(ratios)} of {len(found)} runs"
        value = spread([abs(reach.value) for reach in found], digits=4)
        rows.append([data, str(host), value, spread([reach.sent / 1e6 for reach in found], digits=3), ratio])
    return ["data", "host", "fedonce, validation rows", "fedonce, MB", "split-nn to be as good"], rows


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
