"""`python -m vesica.report.gaps RESULTS... --published CSV`: metric against bytes, ours joined to the published."""

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vesica.errors import InputError
from vesica.experiment.overview import Entry, together
from vesica.experiment.published import Published, figures_for, read_published
from vesica.experiment.tables import Line, read_lines, setting_of, settings_of
from vesica.report.overview import family_of, looks_of
from vesica.report.plots import BYTES, PAPER, SOFT, Point, frame, label_points
from vesica.report.sheet import add_legend, head, sheet, standalone, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Marked = tuple[Entry, Point]


def picture(lines: Sequence[Line], published: Mapping[str, Published]) -> str:
    """A panel for each number of aligned rows of which something is published, the figures by recipe.

    The same results give the same bytes.
    """
    panels: dict[tuple[str, int], list[Marked]] = {}
    for entry in together(last_given(lines)):
        if entry.sent:  # nothing has no place on a logarithmic axis
            panels.setdefault((entry.data, entry.aligned), []).append((entry, point_of(entry, published)))
    panels = {place: found for place, found in panels.items() if any(point.curve for _, point in found)}
    marked = [each for found in panels.values() for each in found]
    if not marked:
        raise InputError("no result has a published figure: give results and figures of one paper")
    title = "Metric on test rows against bytes, ours and the published"
    figure = sheet(title, len(panels), columns=2, panel=(6.4, 5.4), right=0.96, gaps=(0.15, 0.28))
    for axes, (_, found) in zip(figure.axes, sorted(panels.items()), strict=True):
        draw_panel(axes, found)
    hollow = {"color": SOFT, "marker": "o", "linewidth": 0.8, "markerfacecolor": PAPER}
    add_legend(figure, looks_of([entry for entry, _ in marked]) | {"hollow, joined to ours: published": hollow})
    return standalone(figure, title)


def last_given(lines: Sequence[Line]) -> list[Line]:
    """Of the settings that a title was run with on so many aligned rows the one given last, with all its seeds."""
    titles = [(line["data"], line["rows"]["aligned"], line["title"]) for line in lines]
    last = {title: line["config_hash"] for title, line in zip(titles, lines, strict=True)}
    return [line for title, line in zip(titles, lines, strict=True) if line["config_hash"] == last[title]]


def point_of(entry: Entry, published: Mapping[str, Published]) -> Point:
    """The mean of the seeds; its curve leads to the published figure, where there is one with its bytes."""
    run, ours = entry.runs[0], (entry.sent, statistics.fmean(entry.values))
    figures = figures_for(setting_of(run), settings_of(run), published.get(run.get("table", ""), {}))
    if not {"MB", entry.metric} <= figures.keys():
        return Point(entry.title, *ours, 0.0, ())
    return Point(entry.title, *ours, 0.0, (ours, (1e6 * float(figures["MB"]), float(figures[entry.metric]))))


def draw_panel(axes: "Axes", found: Sequence[Marked]) -> None:
    """A filled shape a method, over the hollow one of the published figure; a thin line between them."""
    for entry, point in found:
        family = family_of(entry.method)
        look: dict[str, Any] = {"color": family.colour, "marker": family.marker, "markersize": 8}
        if point.curve:
            axes.plot(*zip(*point.curve, strict=True), linewidth=0.8, markevery=[1], markerfacecolor=PAPER, **look)
        axes.plot(point.x, point.y, zorder=3, markerfacecolor=family.colour if family.filled else PAPER, **look)
    entry, points = found[0][0], [point for _, point in found]
    frame(axes, points, BYTES, room=(2, 3))
    head(axes, f"{entry.data}, {entry.aligned:,} aligned rows", entry.metric)
    label_points(axes, points, [], rivals=[at for point in points for at in ((point.x, point.y), *point.curve)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vesica.report.gaps", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="files of results (.jsonl); the last setting counts")
    parser.add_argument("--published", type=Path, required=True, help="the paper's own figures (.csv)")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()

    def draw() -> str:
        lines = [line for file in asked.results for line in read_lines(file)]
        recipes = {line["table"] for line in lines if "table" in line}
        return picture(lines, {recipe: read_published(asked.published, tables=[recipe]) for recipe in recipes})

    return write(asked.out, draw)


if __name__ == "__main__":
    sys.exit(main())
