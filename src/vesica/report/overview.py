"""`python -m vesica.report.overview RESULTS...`: every method's metric against its bytes, in one picture."""

import argparse
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vesica.errors import InputError
from vesica.experiment.overview import Entry, entries
from vesica.experiment.tables import read_lines
from vesica.report.plots import BYTES, IN_ONE_PLACE, INK, SERIES, SOFT, Point, frame, label_levels, label_points
from vesica.report.sheet import add_legend, head, sheet, standalone, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Family:
    """Methods that talk alike. They differ in shape too, for who sees no colours."""

    title: str
    methods: tuple[str, ...]
    marker: str
    colour: str
    filled: bool = True


FAMILIES = (
    Family("few messages", ("one-shot", "few-shot", "fedonce"), "o", SERIES[0]),
    Family("a batch at a time", ("split-nn", "fedbcd", "fedcvt"), "s", SERIES[1]),
    Family(
        "pre-trained first",
        ("fedhssl", "fedgssl", "fedcssl", "fedlocalssl", "vflhlp", "vflhlp-a", "vflhlp-p"),
        "^",
        SERIES[2],
    ),
    Family("trees", ("vertical-trees",), "D", SERIES[3]),
    Family("reference: raw columns in one place", IN_ONE_PLACE, "o", SOFT, filled=False),
)
OTHERS = Family("others", (), "P", INK)


def family_of(method: str) -> Family:
    return next((family for family in FAMILIES if method in family.methods), OTHERS)


def picture(found: Sequence[Entry], *, aligned: int) -> str:
    """A panel for each data set; the same results give the same bytes."""
    panels: dict[str, list[Entry]] = {}
    for entry in found:
        if entry.aligned == aligned:
            panels.setdefault(entry.data, []).append(entry)
    if not panels:
        raise InputError(f"no result has {aligned} aligned rows: give --aligned a number that was run")
    title = f"Metric against bytes, {aligned:,} aligned rows"
    figure = sheet(title, len(panels), columns=2, panel=(6.4, 4.6), right=0.92)
    for axes, (data, of_data) in zip(figure.axes, panels.items(), strict=True):
        draw_panel(axes, data, of_data)
    shown = [entry for of_data in panels.values() for entry in of_data]
    looks = looks_of(entry.method for entry in shown if entry.sent)
    if any(not entry.sent for entry in shown):
        looks["reference: the host alone, sends nothing"] = {"color": SOFT, "linewidth": 1, "linestyle": (0, (5, 4))}
    add_legend(figure, looks)
    return standalone(figure, title)


def draw_panel(axes: "Axes", data: str, found: Sequence[Entry]) -> None:
    """A point a method, and a dashed line for one that sends nothing."""
    levels = [(entry.title, statistics.fmean(entry.values)) for entry in found if not entry.sent]
    talking = [entry for entry in found if entry.sent]
    points = [Point(entry.title, entry.sent, statistics.fmean(entry.values), 0.0, ()) for entry in talking]
    for _, y in levels:
        axes.axhline(y, color=SOFT, linewidth=1, linestyle=(0, (5, 4)))
    for entry, point in zip(talking, points, strict=True):
        family = family_of(entry.method)
        face = family.colour if family.filled else "none"
        axes.plot(point.x, point.y, family.marker, color=family.colour, markerfacecolor=face, markersize=8)
    frame(axes, points, BYTES)
    head(axes, data, found[0].metric)
    label_levels(axes, levels)
    label_points(axes, points, levels)


def looks_of(methods: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The shape of each family that some method is of."""
    shown = {family_of(method) for method in methods}
    return {
        family.title: {
            "color": family.colour,
            "marker": family.marker,
            "linestyle": "",
            "markerfacecolor": family.colour if family.filled else "none",
        }
        for family in (*FAMILIES, OTHERS)
        if family in shown
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vesica.report.overview", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="files of results (.jsonl), a panel for each data set")
    parser.add_argument("--aligned", type=int, default=1000, help="the results with so many aligned rows")
    parser.add_argument("--out", type=Path, default=Path("docs/overview.svg"))
    asked = parser.parse_args()

    def draw() -> str:
        return picture(entries([line for file in asked.results for line in read_lines(file)]), aligned=asked.aligned)

    return write(asked.out, draw)


if __name__ == "__main__":
    sys.exit(main())
