"""What pictures in documents share: panels with a title and a legend, as one SVG, and the command that writes it."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vesica.errors import InputError, VesicaError
from vesica.report.document import PALETTE
from vesica.report.page import LOWER_IS_BETTER, METRICS
from vesica.report.plots import FONT, INK, inline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEFT, HEADING, LEGEND = 0.05, 0.85, 1.15  # of the width; inches, above and below the panels
TEXT = "text { paint-order: stroke; stroke: var(--paper); stroke-width: 3px; stroke-linejoin: round; }"


def sheet(
    title: str,
    panels: int,
    *,
    columns: int,
    panel: tuple[float, float],
    right: float,
    gaps: tuple[float, float] = (0.3, 0.28),
) -> "Figure":
    """Empty panels, of a size in inches with the gaps between them, which are parts of a panel's own width and height.

    They end at `right` of the whole width.
    """
    from matplotlib.figure import Figure

    rows = -(-panels // columns)
    height = rows * panel[1] + HEADING
    figure = Figure(figsize=(columns * panel[0], height), dpi=72, facecolor="none")
    below, above = LEGEND / height, 1 - HEADING / height
    figure.subplots_adjust(left=LEFT, right=right, wspace=gaps[0], hspace=gaps[1], bottom=below, top=above)
    for position in range(1, panels + 1):
        figure.add_subplot(rows, columns, position, facecolor="none")
    figure.suptitle(title, x=LEFT, y=1 - 0.2 / height, ha="left", color=INK, fontsize=1.4 * FONT)
    return figure


def head(axes: "Axes", data: str, metric: str, *, size: float = 1.15 * FONT) -> None:
    """The title of a data set's panel."""
    better = "lower" if metric in LOWER_IS_BETTER else "higher"
    title = f"{data}: {METRICS.get(metric, metric)} ({better} is better)"
    axes.set_title(title, loc="left", color=INK, fontsize=size, parse_math=False)


def add_legend(figure: "Figure", looks: Mapping[str, Mapping[str, Any]]) -> None:
    """What each look of a line or a shape means, below the panels."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **look) for look in looks.values()]
    figure.legend(handles, list(looks), loc="lower center", ncols=3, frameon=False, fontsize=FONT, labelcolor=INK)


def standalone(figure: "Figure", title: str) -> str:
    """One SVG that needs nothing else, with colours of its own for light and dark."""
    drawing = inline(figure, title, "picture")
    style = f"<style>{PALETTE}svg {{ background: var(--paper); }}\n{TEXT}</style>"
    start, rest = drawing.split("</title>", 1)
    return start.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "</title>" + style + rest


def write(out: Path, draw: Callable[[], str]) -> int:
    """What a command that draws ends with."""
    try:
        if not out.parent.is_dir():
            raise InputError(f"there is no directory {out.parent} to write {out.name} to: make it first")
        out.write_text(draw())
    except (VesicaError, OSError) as error:
        print(f"vesica: {error}", file=sys.stderr)
        return 2
    return 0
