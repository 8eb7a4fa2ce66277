"""`python -m vesica.report.curves RESULTS...`: the metric on validation rows against bytes as they are sent."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vesica.errors import InputError
from vesica.experiment.tables import Line, read_lines, title_of
from vesica.report.overview import family_of
from vesica.report.page import LOWER_IS_BETTER
from vesica.report.plots import BYTES, FONT, Point, frame
from vesica.report.sheet import add_legend, head, sheet, standalone, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = ((0, (4, 2)), "solid", "dotted", "dashdot")
Look = Mapping[str, Any]  # of a line, as matplotlib names its parts


def picture(lines: Sequence[Line]) -> str:
    """A panel for each data set, a curve a run that has one; the same results give the same bytes."""
    whole = [line for line in lines if line.get("curve")]
    if not whole:
        raise InputError("no result has a curve: give those of `vesica reproduce fedonce fig6`, or of another recipe")
    panels: dict[str, list[Line]] = {}
    for line in whole:
        panels.setdefault(line["data"], []).append(line)
    title, looks = "Metric on validation rows against bytes, after every epoch", looks_of(whole)
    figure = sheet(title, len(panels), columns=3, panel=(4.3, 3.6), right=0.98, gaps=(0.2, 0.4))
    for axes, (data, runs) in zip(figure.axes, panels.items(), strict=True):
        draw_panel(axes, data, runs, looks)
    add_legend(figure, looks)
    return standalone(figure, title)


def looks_of(lines: Sequence[Line]) -> dict[str, Look]:
    """By title: colour and shape are the method's, lines differ in style too; what has one place is a shape alone."""
    methods = {title_of(line): line["method"] for line in lines}
    drawn = [title for title in methods if any(title_of(line) == title and len(line["curve"]) > 1 for line in lines)]
    styles = {title: STYLES[number % len(STYLES)] for number, title in enumerate(drawn)}
    return {
        title: {"color": family.colour, "marker": family.marker, "linestyle": styles.get(title, ""), "linewidth": 1.2}
        for title, method in methods.items()
        for family in [family_of(method)]
    }


def draw_panel(axes: "Axes", data: str, runs: Sequence[Line], looks: Mapping[str, Look]) -> None:
    """Each curve with a shape where it begins; a line a seed."""
    if len({(title_of(run), run["config_hash"]) for run in runs}) > len({title_of(run) for run in runs}):
        raise InputError(f"runs of one title on {data} differ in more than the seed: give those of one setting")
    metric = str(runs[0]["config"]["metric"])
    points = [point_of(run, lower=metric in LOWER_IS_BETTER) for run in runs]
    for point in reversed(points):  # the first on top
        axes.plot(*zip(*point.curve, strict=True), markevery=[0], markersize=8, **looks[point.label])
    frame(axes, points, BYTES, room=(2, 2))
    head(axes, data, metric, size=FONT)


def point_of(run: Line, *, lower: bool) -> Point:
    """Where a run's curve begins, and the curve; a metric that is to be low has its sign back."""
    places = [(float(sent), -value if lower else value) for sent, value in run["curve"]]
    return Point(title_of(run), *places[0], 0.0, places)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vesica.report.curves", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="files of results (.jsonl) with curves")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    return write(asked.out, lambda: picture([line for file in asked.results for line in read_lines(file)]))


if __name__ == "__main__":
    sys.exit(main())
