"""What an attack got out of runs against what the runs scored, as a picture: a line an attacker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain, pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from vesica.report.findings import Finding
from vesica.report.plots import FONT, INK, MARKERS, SERIES, SOFT, Point, dress, inline, label_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (5.6, 3.7)  # inches
SHAPES = "●■◆▲▼✚"  # of MARKERS, in words of the page


@dataclass(frozen=True)
class Spot:
    """One setting of a defence on one line."""

    label: str
    score: float
    finding: Finding


def panel(lines: Mapping[str, Sequence[Spot]], *, across: str, up: str, name: str) -> str:
    """HTML: the picture and whose lines these are; `name` must be unique on the page."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=72, facecolor="none")
    draw_lines(figure.add_axes((0.1, 0.15, 0.87, 0.76), facecolor="none"), lines, across=across, up=up)
    whose = " ".join(_key(number, label) for number, label in enumerate(lines))
    return f"{inline(figure, f'{up} against {across}', name)}<figcaption>{whose}</figcaption>"


def draw_lines(axes: "Axes", lines: Mapping[str, Sequence[Spot]], *, across: str, up: str) -> None:
    """Lines from one strength of a defence to the next, each as its place among them says; one may have no spot.

    A dashed line is for knowing nothing, a dash-dotted one for the same attack without the run.
    """
    spots = list(chain.from_iterable(lines.values()))
    nothing = fmean(spot.finding.nothing for spot in spots)
    axes.axhline(nothing, color=SOFT, linewidth=1, linestyle=(0, (5, 4)))
    homes = [spot.finding.at_home for spot in spots if spot.finding.at_home is not None]
    if homes:
        axes.axhline(fmean(homes), color=SOFT, linewidth=1, linestyle="dashdot")
    for number, line in enumerate(lines.values()):
        _draw(axes, line, **look_of(number))
    _limit(axes, spots)
    dress(axes, across)
    axes.set_title(up, loc="left", color=INK, fontsize=FONT, parse_math=False)
    label_points(axes, [point for line in lines.values() for point in _points(line)], [("", nothing)])


def look_of(number: int) -> dict[str, str]:
    return {"color": SERIES[number % len(SERIES)], "marker": MARKERS[number % len(MARKERS)]}


def _draw(axes: "Axes", line: Sequence[Spot], *, color: str, marker: str) -> None:
    scores, found = [spot.score for spot in line], [spot.finding for spot in line]
    below, above = [max(f.value - f.low, 0) for f in found], [max(f.high - f.value, 0) for f in found]
    values = [f.value for f in found]
    axes.errorbar(scores, values, [below, above], color=color, marker=marker, linewidth=1.2, capsize=3)
    bounds = [(spot.score, spot.finding.bound) for spot in line if spot.finding.bound is not None]
    axes.plot([x for x, _ in bounds], [y for _, y in bounds], color=color, linewidth=1.8, linestyle="dotted")


def _limit(axes: "Axes", spots: Sequence[Spot]) -> None:
    """Up to everything, so that a little leakage looks little."""
    from matplotlib.ticker import MaxNLocator

    left, right = min(spot.score for spot in spots), max(spot.score for spot in spots)
    floor = min(min(spot.finding.low, spot.finding.nothing) for spot in spots)
    aside = 0.15 * (right - left) or 0.05 * abs(right) or 1.0
    axes.set_xlim(left - aside, right + aside)
    axes.set_ylim(floor - 0.06 * (1 - floor), 1 + 0.06 * (1 - floor))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.ticklabel_format(useOffset=False, style="plain")


def _points(line: Sequence[Spot]) -> list[Point]:
    """What labels must keep clear of: each spot, its whiskers and the way to the next one."""
    places = [(spot.score, spot.finding.value) for spot in line]
    ways = [*pairwise(places), ()]
    reach = [max(spot.finding.high - y, y - spot.finding.low, 0) for spot, (_, y) in zip(line, places, strict=True)]
    return [Point(spot.label, x, y, far, way) for spot, (x, y), far, way in zip(line, places, reach, ways, strict=True)]


def _key(number: int, label: str) -> str:
    shape, colour = SHAPES[number % len(SHAPES)], f"var(--series-{number % len(SERIES) + 1})"
    return f'<span style="color: {colour}">{shape}</span> {escape(label)}'
