"""`python -m vesica.report.gaps RESULTS... --published CSV`: metric against bytes, ours joined to the published."""

import argparse
import statistics
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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

Place = tuple[float, float]  # bytes, metric


@dataclass(frozen=True)
class Mark:
    """A method in a panel: where it came out here, where it was published, or both."""

    title: str
    method: str
    ours: Place | None
    published: Place | None

    @property
    def point(self) -> Point:
        """Where its name belongs; the curve is the line from ours to the published."""
        both = () if self.ours is None or self.published is None else (self.ours, self.published)
        place = self.ours or self.published
        assert place is not None
        return Point(self.title, *place, 0.0, both)


def picture(lines: Sequence[Line], published: Mapping[str, Published]) -> str:
    """A panel for each number of aligned rows of which something is published, the figures by recipe.

    What was published and has not been run on so many rows is there too. The same results give the same bytes.
    """
    panels: dict[tuple[str, int, str], list[Mark]] = {}
    entries = together(last_given(lines))
    for entry in entries:
        if entry.sent:
            panels.setdefault((entry.data, entry.aligned, entry.metric), []).append(mark_of(entry, published))
    panels = {place: marks for place, marks in panels.items() if any(mark.published for mark in marks)}
    if not panels:
        raise InputError("no result has a published figure: give results and figures of one paper")
    for place, marks in panels.items():
        run = {entry.title for entry in entries if (entry.data, entry.aligned) == place[:2]}
        marks += only_published(*place, published, run=run)
    title = "Metric on test rows against bytes, ours and the published"
    figure = sheet(title, len(panels), columns=2, panel=(6.4, 5.4), right=0.96, gaps=(0.15, 0.28))
    for axes, (place, marks) in zip(figure.axes, sorted(panels.items()), strict=True):
        draw_panel(axes, *place, marks)
    hollow = {"color": SOFT, "marker": "o", "linewidth": 0.8, "markerfacecolor": PAPER}
    looks = looks_of(mark.method for marks in panels.values() for mark in marks)
    filled = {title: look | {"markerfacecolor": look["color"]} for title, look in looks.items()}
    add_legend(figure, filled | {"hollow: published, joined to ours where we have run it": hollow})
    return standalone(figure, title)


def last_given(lines: Sequence[Line]) -> list[Line]:
    """Of the settings that a title was run with on so many aligned rows the one given last, with all its seeds."""
    titles = [(line["data"], line["rows"]["aligned"], line["title"]) for line in lines]
    last = {title: line["config_hash"] for title, line in zip(titles, lines, strict=True)}
    return [line for title, line in zip(titles, lines, strict=True) if line["config_hash"] == last[title]]


def mark_of(entry: Entry, published: Mapping[str, Published]) -> Mark:
    """The mean of the seeds, and the published figure where there is one with its bytes."""
    run = entry.runs[0]
    figures = figures_for(setting_of(run), settings_of(run), published.get(run.get("table", ""), {}))
    ours = (entry.sent, statistics.fmean(entry.values))
    return Mark(entry.title, entry.method, ours, place_of(figures, entry.metric))


def only_published(
    data: str, aligned: int, metric: str, published: Mapping[str, Published], *, run: Collection[str]
) -> list[Mark]:
    """What was published of so many rows under a title that was not run on them."""
    found: dict[str, Place] = {}
    for table in published.values():
        for (title, *where), figures in table.items():
            place = place_of(figures, metric)
            if where != [data, f"{aligned:,}"] or title in run or place is None:
                continue
            if found.setdefault(title, place) != place:
                raise InputError(f"two published figures are for {title} on {data}: give results of one recipe")
    return [Mark(title, title.split(" + ")[0], None, place) for title, place in found.items()]


def place_of(figures: Mapping[str, str], metric: str) -> Place | None:
    """None without both numbers; nothing sent has no place on a logarithmic axis."""
    sent = 1e6 * float(figures.get("MB", 0))
    return (sent, float(figures[metric])) if sent and metric in figures else None


def draw_panel(axes: "Axes", data: str, aligned: int, metric: str, marks: Sequence[Mark]) -> None:
    """A filled shape a method, the hollow one of the published figure, and a thin line between them."""
    for mark in marks:
        family = family_of(mark.method)
        look: dict[str, Any] = {"color": family.colour, "marker": family.marker, "markersize": 8}
        if mark.ours and mark.published:
            axes.plot(*zip(mark.ours, mark.published, strict=True), linewidth=0.8, color=family.colour)
        if mark.published:
            axes.plot(*mark.published, markerfacecolor=PAPER, **look)
        if mark.ours:
            axes.plot(*mark.ours, zorder=3, **look)
    points = [mark.point for mark in marks]
    frame(axes, points, BYTES, room=(2, 3))
    head(axes, f"{data}, {aligned:,} aligned rows", metric)
    label_points(axes, points, [], rivals=[place for mark in marks for place in (mark.ours, mark.published) if place])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vesica.report.gaps", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="files of results (.jsonl); the last setting counts")
    parser.add_argument("--published", type=Path, required=True, help="the paper's own figures (.csv)")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()

    def draw() -> str:
        lines = [line for file in asked.results for line in read_lines(file)]
        recipes = {line["table"] for line in lines if "table" in line}
        return picture(lines, {recipe: read_published(asked.published, tables=[recipe]) for recipe in sorted(recipes)})

    return write(asked.out, draw)


if __name__ == "__main__":
    sys.exit(main())
