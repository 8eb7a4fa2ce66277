"""The seeds of one configuration as one point, and the points as pictures."""

import io
import re
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import cos, isfinite, pi, sin
from typing import TYPE_CHECKING, Any

from vesica.report.conversation import Entry, shorten, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALONE, IN_ONE_PLACE = ("local-only", "local-trees"), ("pooled", "linear", "trees")
REFERENCES = dict.fromkeys(ALONE, "the host alone, sends nothing") | dict.fromkeys(
    IN_ONE_PLACE, "raw data in one place, simulation only"
)
# Colours that stand in for the page's own, so that a picture follows the light or dark of the page.
INK, SOFT, RULE, *SERIES, PAPER = (f"#0101{i:02x}" for i in range(1, 13))
VARIABLES = {INK: "var(--ink)", SOFT: "var(--soft)", RULE: "var(--rule)", PAPER: "var(--paper)"} | {
    colour: f"var(--series-{i})" for i, colour in enumerate(SERIES, start=1)
}
MARKERS = "osD^vP"
FONT = 10.5  # points; a pixel of the figure is a point too
FAR = 24  # pixels between a point and its name, from which on a hairline joins them

Box = tuple[float, float, float, float]  # left, bottom, right, top, in pixels of the figure


@dataclass(frozen=True)
class ReportedRun:
    """A run as the report sees it: the result, the host's ledger, and how the metric went."""

    result: Mapping[str, Any]
    ledger: Sequence[Entry]
    curve: Sequence[Mapping[str, float]] = ()


@dataclass(frozen=True)
class Summary:
    """The seeds of one configuration, under the label that tells it from the others."""

    label: str
    runs: tuple[ReportedRun, ...]

    @property
    def reference(self) -> str | None:
        """What kind of reference the method is; None for a federated one."""
        return REFERENCES.get(str(self.runs[0].result["method"]))

    def values(self, *path: str) -> list[float]:
        found = (number(run.result, *path) for run in self.runs)
        return [value for value in found if value is not None]

    def mean(self, *path: str) -> float | None:
        values = self.values(*path)
        return statistics.fmean(values) if values else None

    def deviation(self, *path: str) -> float:
        values = self.values(*path)
        return statistics.stdev(values) if len(values) > 1 else 0.0


def number(result: Mapping[str, Any], *path: str) -> float | None:
    """The finite number at a path of names; None where there is none."""
    value: Any = result
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    usable = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return float(value) if usable else None


@dataclass(frozen=True)
class Cost:
    """What a plot has on its horizontal axis."""

    title: str
    path: tuple[str, ...]
    in_curve: str
    words: Callable[[float], str]


BYTES = Cost("bytes sent in training (log scale)", ("bytes", "wire"), "bytes", lambda n: re.sub(r"\.0+ ", " ", size(n)))
ROUNDS = Cost("rounds of training (log scale)", ("rounds",), "round", lambda count: f"{count:,.0f}")


@dataclass(frozen=True)
class Point:
    label: str
    x: float
    y: float
    deviation: float
    curve: Sequence[tuple[float, float]]


def plot(summaries: Sequence[Summary], metric: str, *, cost: Cost, axis: str, title: str, name: str) -> str:
    """The metric against a cost as an inline SVG; `name` must be unique on the page."""
    from matplotlib.figure import Figure

    points = [point for s in summaries if (point := _point(s, metric, cost))]
    lines = [s for s in summaries if _point(s, metric, cost) is None]
    levels = [(s.label, y) for s in lines if (y := s.mean("metrics", metric)) is not None]
    height = max(4.9 if len(points) + len(levels) > 2 else 3.6, 0.25 * len(summaries))
    figure = Figure(figsize=(9.4, height), dpi=72, facecolor="none")
    axes = figure.add_axes((0.07, 0.6 / height, 0.75 if levels else 0.92, 1 - 0.95 / height), facecolor="none")
    _draw(axes, points, levels)
    frame(axes, points, cost)
    axes.set_title(axis, loc="left", color=INK, fontsize=FONT, parse_math=False)
    label_levels(axes, levels)
    label_points(axes, points, levels)
    return inline(figure, title, name)


def _point(summary: Summary, metric: str, cost: Cost) -> Point | None:
    """A reference, or a run that cost nothing, has no place on a logarithmic axis: it becomes a line."""
    x, y = summary.mean(*cost.path), summary.mean("metrics", metric)
    if summary.reference or y is None or not x:
        return None
    curve = [(at[cost.in_curve], at["value"]) for at in summary.runs[0].curve if at[cost.in_curve] > 0]
    return Point(summary.label, x, y, summary.deviation("metrics", metric), curve)


def _draw(axes: "Axes", points: Sequence[Point], levels: Sequence[tuple[str, float]]) -> None:
    for _, y in levels:
        axes.axhline(y, color=SOFT, linewidth=1, linestyle=(0, (5, 4)))
    for i, point in enumerate(points):
        colour, marker = SERIES[i % len(SERIES)], MARKERS[i // len(SERIES) % len(MARKERS)]
        axes.plot([x for x, _ in point.curve], [y for _, y in point.curve], color=colour, linewidth=1.2, alpha=0.6)
        whisker = [point.deviation] if point.deviation else None
        axes.errorbar([point.x], [point.y], whisker, color=colour, marker=marker, markersize=8, capsize=3)


def frame(axes: "Axes", points: Sequence[Point], cost: Cost, *, room: tuple[float, float] = (4, 6)) -> None:
    """The axes around points; `room` on both sides, as factors, is for their labels."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    across = [x for point in points for x in (point.x, *(at for at, _ in point.curve))] or [1.0]
    axes.set_xlim(min(across) / room[0], max(across) * room[1])
    axes.margins(y=0.12)
    axes.set_ylim(axes.get_ylim())  # settled now: the labels are placed by it
    axes.xaxis.set_major_locator(LogLocator(numticks=9))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: cost.words(x) if points and x >= 1 else ""))
    axes.xaxis.set_minor_formatter(NullFormatter())
    dress(axes, cost.title)


def dress(axes: "Axes", across: str) -> None:
    """The look of every plot; `across` names the horizontal axis."""
    axes.tick_params(which="both", color=RULE, labelcolor=SOFT, labelsize=FONT)
    axes.set_xlabel(across, color=INK, fontsize=FONT, parse_math=False)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_color(RULE)
        spine.set_visible(side in ("left", "bottom"))


def _pixel(axes: "Axes", x: float, y: float) -> tuple[float, float]:
    across, up = axes.transData.transform((x, y))
    return float(across), float(up)


def label_levels(axes: "Axes", levels: Sequence[tuple[str, float]]) -> None:
    """Names of the dashed lines in the right margin, pushed apart where lines lie close together."""
    floor = float("-inf")
    for label, y in sorted(levels, key=lambda level: level[1]):
        up = max(_pixel(axes, 1, y)[1], floor)
        floor = up + 1.4 * FONT
        _text(axes, shorten(label, 24), axes.bbox.x1 + 6, up, SOFT)


def label_points(
    axes: "Axes",
    points: Sequence[Point],
    levels: Sequence[tuple[str, float]],
    *,
    rivals: Sequence[tuple[float, float]] = (),
) -> None:
    """Each name at the nearest place around its point where it covers nothing; a hairline if that is far.

    If it is not, the name stands no nearer to one of the rivals, which are other points that it could be taken for.
    """
    left, bottom, right, top = (float(side) for side in axes.bbox.extents)
    others = [_pixel(axes, *rival) for rival in rivals]
    taken = [(left, up - 2, right, up + 2) for _, y in levels for up in [_pixel(axes, 1, y)[1]]]
    taken += [box for point in points for box in _ink(axes, point)]
    taken += [(x - 6, y - 6, x + 6, y + 6) for x, y in others]
    for point in points:
        place = _pixel(axes, point.x, point.y)
        label = shorten(point.label, 32)
        inside = [b for b in _around(*place, label) if _within(b, (left, bottom, right, top))]
        free = (b for b in inside if _free(b, taken))
        box = next((b for b in free if _distance(b, place) > FAR or _nearest(b, place, others)), inside[0])
        taken.append(box)
        if _distance(box, place) > FAR:
            axes.plot(*zip(place, _edge(box, place), strict=True), color=SOFT, linewidth=0.6, transform=None, zorder=1)
        _text(axes, label, box[0], (box[1] + box[3]) / 2, INK)


def _edge(box: Box, place: tuple[float, float]) -> tuple[float, float]:
    """What of a box is nearest to a place."""
    return min(max(place[0], box[0]), box[2]), min(max(place[1], box[1]), box[3])


def _distance(box: Box, place: tuple[float, float]) -> float:
    return sum(abs(here - there) for here, there in zip(_edge(box, place), place, strict=True))


def _nearest(box: Box, place: tuple[float, float], others: Sequence[tuple[float, float]]) -> bool:
    return all(_distance(box, place) <= _distance(box, other) for other in others)


def _ink(axes: "Axes", point: Point) -> Iterator[Box]:
    """What a point covers: its marker, its whiskers, and its curve in small steps."""
    (x, y), (_, end) = _pixel(axes, point.x, point.y), _pixel(axes, point.x, point.y + point.deviation)
    yield x - 6, y - 6, x + 6, y + 6
    yield x - 4, 2 * y - end - 2, x + 4, end + 2
    corners = [_pixel(axes, *at) for at in point.curve]
    for (x, y), (across, up) in pairwise(corners):
        for step in (i / 40 for i in range(41)):
            at, height = x + step * (across - x), y + step * (up - y)
            yield at - 2, height - 2, at + 2, height + 2


def _around(x: float, y: float, label: str) -> Iterator[Box]:
    """Places for a label, nearest first: to the right, to the left, above, below, and on growing circles."""
    width, height = 0.62 * FONT * len(label), 1.25 * FONT
    for distance in range(10, 2000, 6):
        for turn in (0, 4, 2, 6, 1, 7, 3, 5):
            across, up = round(cos(turn * pi / 4), 6), round(sin(turn * pi / 4), 6)
            left = x + distance * across - width * (1 - across) / 2
            bottom = y + distance * up - height * (1 - up) / 2
            yield left, bottom, left + width, bottom + height


def _within(box: Box, frame: Box) -> bool:
    return frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]


def _free(box: Box, taken: Sequence[Box]) -> bool:
    return not any(box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in taken)


def _text(axes: "Axes", words: str, x: float, y: float, colour: str) -> None:
    axes.text(x, y, words, transform=None, color=colour, fontsize=FONT, va="center_baseline", parse_math=False)


def inline(figure: "Figure", title: str, name: str) -> str:
    """The SVG element alone: deterministic, with ids of its own and no address of anything outside."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has fonts of its own
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    drawing = buffer.getvalue()
    view = re.search(r'viewBox="[\d. ]+"', drawing)
    assert view
    drawing = drawing[drawing.index(">", view.end()) + 1 :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r'(\sid="|url\(#|href="#)', rf"\1{name}-", drawing).replace("xlink:href", "href")
    for stand_in, variable in VARIABLES.items():
        drawing = drawing.replace(stand_in, variable)
    return f'<svg class="plot" role="img" {view[0]}><title>{escape(title)}</title>{drawing}'
