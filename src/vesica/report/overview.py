"""`python -m vesica.report.overview RESULTS...`: every method's metric against its bytes, in one picture."""

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vesica.errors import InputError, VesicaError
from vesica.experiment.overview import Entry, entries
from vesica.experiment.tables import read_lines
from vesica.report.document import PALETTE
from vesica.report.page import LOWER_IS_BETTER, METRICS
from vesica.report.plots import (
    BYTES,
    FONT,
    IN_ONE_PLACE,
    INK,
    SERIES,
    SOFT,
    Point,
    frame,
    inline,
    label_levels,
    label_points,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 2
PANEL = (6.4, 4.6)  # inches
MARGINS = {"left": 0.05, "right": 0.92, "wspace": 0.3, "hspace": 0.28}
HEADING, LEGEND = 0.85, 1.15  # inches, above and below the panels
TEXT = "text { paint-order: stroke; stroke: var(--paper); stroke-width: 3px; stroke-linejoin: round; }"


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
    """A panel for each data set, as one SVG that needs nothing else; the same results give the same bytes."""
    from matplotlib.figure import Figure

    panels: dict[str, list[Entry]] = {}
    for entry in found:
        if entry.aligned == aligned:
            panels.setdefault(entry.data, []).append(entry)
    if not panels:
        raise InputError(f"no result has {aligned} aligned rows: give --aligned a number that was run")
    rows = -(-len(panels) // COLUMNS)
    height = rows * PANEL[1] + HEADING
    figure = Figure(figsize=(COLUMNS * PANEL[0], height), dpi=72, facecolor="none")
    figure.subplots_adjust(**MARGINS, bottom=LEGEND / height, top=1 - HEADING / height)
    for position, (data, of_data) in enumerate(panels.items(), start=1):
        draw_panel(figure.add_subplot(rows, COLUMNS, position, facecolor="none"), data, of_data)
    add_legend(figure, [entry for of_data in panels.values() for entry in of_data])
    title = f"Metric against bytes, {aligned:,} aligned rows"
    figure.suptitle(title, x=MARGINS["left"], y=1 - 0.2 / height, ha="left", color=INK, fontsize=1.4 * FONT)
    return standalone(figure, title)


def draw_panel(axes: "Axes", data: str, found: Sequence[Entry]) -> None:
    """A point a method, and a dashed line for one that sends nothing."""
    metric = found[0].metric
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
    better = "lower" if metric in LOWER_IS_BETTER else "higher"
    title = f"{data}: {METRICS.get(metric, metric)} ({better} is better)"
    axes.set_title(title, loc="left", color=INK, fontsize=1.15 * FONT, parse_math=False)
    label_levels(axes, levels)
    label_points(axes, points, levels)


def add_legend(figure: "Figure", found: Sequence[Entry]) -> None:
    from matplotlib.lines import Line2D

    shown = [family for family in (*FAMILIES, OTHERS) if any(family_of(e.method) is family for e in found if e.sent)]
    handles = [
        Line2D([], [], color=f.colour, marker=f.marker, linestyle="", markerfacecolor=f.colour if f.filled else "none")
        for f in shown
    ]
    titles = [family.title for family in shown]
    if any(not entry.sent for entry in found):
        handles.append(Line2D([], [], color=SOFT, linewidth=1, linestyle=(0, (5, 4))))
        titles.append("reference: the host alone, sends nothing")
    figure.legend(handles, titles, loc="lower center", ncols=3, frameon=False, fontsize=FONT, labelcolor=INK)


def standalone(figure: "Figure", title: str) -> str:
    """With colours of its own for light and dark."""
    drawing = inline(figure, title, "picture")
    style = f"<style>{PALETTE}svg {{ background: var(--paper); }}\n{TEXT}</style>"
    head, rest = drawing.split("</title>", 1)
    return head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "</title>" + style + rest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vesica.report.overview", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="files of results (.jsonl), a panel for each data set")
    parser.add_argument("--aligned", type=int, default=1000, help="the results with so many aligned rows")
    parser.add_argument("--out", type=Path, default=Path("docs/overview.svg"))
    asked = parser.parse_args()
    if not asked.out.parent.is_dir():
        parser.error(f"there is no directory {asked.out.parent} to write {asked.out.name} to: make it first")
    try:
        lines = [line for file in asked.results for line in read_lines(file)]
        asked.out.write_text(picture(entries(lines), aligned=asked.aligned))
    except VesicaError as error:
        print(f"vesica: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
