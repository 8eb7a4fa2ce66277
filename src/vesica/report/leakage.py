"""`python -m vesica.report.leakage RESULTS`: what attacks found against what the runs scored, as noise grows."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vesica.errors import InputError
from vesica.experiment.tables import read_lines
from vesica.report.page import METRICS
from vesica.report.plots import FONT, INK, SOFT
from vesica.report.sheet import add_legend, standalone, write
from vesica.report.sweep import Setting, settings_of
from vesica.report.trade_off import Spot, draw_lines, look_of

PANEL = (6.4, 4.2)  # inches
ATTACKS = {"model completion, the best style": "completion", "the direction of the gradients": "direction"}
Line = Mapping[str, Any]  # of results/*.jsonl


def picture(lines: Sequence[Line], *, field: str) -> str:
    """A row of panels for each data set, a panel an attack, a line a method; one SVG that needs nothing else."""
    from matplotlib.figure import Figure

    found = {data: of_methods([each for each in lines if each["data"] == data], field) for data in names(lines, "data")}
    height = len(found) * PANEL[1] + 1.4
    figure = Figure(figsize=(len(ATTACKS) * PANEL[0], height), dpi=72, facecolor="none")
    figure.subplots_adjust(left=0.05, right=0.98, wspace=0.15, hspace=0.35, bottom=1.3 / height, top=1 - 0.7 / height)
    for row, (data, methods) in enumerate(found.items()):
        metric = METRICS.get(metric_of(lines, data), metric_of(lines, data))
        for column, (title, text) in enumerate(ATTACKS.items()):
            curves = {method: spots_of(methods.get(method, ()), text) for method in names(lines, "method")}
            if any(curves.values()):
                axes = figure.add_subplot(len(found), len(ATTACKS), len(ATTACKS) * row + column + 1, facecolor="none")
                draw_lines(axes, curves, across=f"the run's {metric}", up=f"{data}: AUC of {title}")
    add_legend(figure, looks_of(names(lines, "method")))
    title = f"What a guest finds out of the labels, as {field} grows"
    figure.suptitle(title, x=0.05, y=1 - 0.2 / height, ha="left", color=INK, fontsize=1.4 * FONT)
    return standalone(figure, title)


def names(lines: Sequence[Line], what: str) -> list[str]:
    return list(dict.fromkeys(line[what] for line in lines))


def metric_of(lines: Sequence[Line], data: str) -> str:
    (metric,) = {str(line["config"]["metric"]) for line in lines if line["data"] == data}
    return metric


def of_methods(lines: Sequence[Line], field: str) -> dict[str, list[Setting]]:
    """A data set's runs, by method and by strength of the defence; seeds together."""
    for method in names(lines, "method"):
        settings = [line["config"]["method"] for line in lines if line["method"] == method]
        if any({**one, field: None} != {**settings[0], field: None} for one in settings):
            raise InputError(f"the runs of {method} differ in more than '{field}': give those of one sweep")
    return {
        method: settings_of(
            [{"run": line, "findings": line["audit"]} for line in lines if line["method"] == method],
            field,
            metric_of(lines, lines[0]["data"]),
        )
        for method in names(lines, "method")
    }


def spots_of(settings: Sequence[Setting], attack: str) -> list[Spot]:
    """The best of the attacks with this text, at each strength."""
    spots = []
    for setting in settings:
        found = [finding for ((name, _), _), finding in setting.found.items() if attack in name]
        if found:
            spots.append(Spot(setting.value, setting.score, max(found, key=lambda finding: finding.value)))
    return spots


def looks_of(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    looks: dict[str, dict[str, Any]] = {m: {"linewidth": 1.2, **look_of(number)} for number, m in enumerate(methods)}
    levels = {"knowing nothing": (0, (5, 4)), "what it can do without the run": "dashdot"}
    return looks | {said: {"linewidth": 1, "color": SOFT, "linestyle": style} for said, style in levels.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vesica.report.leakage", description=__doc__)
    parser.add_argument("results", type=Path, help="a file of audited results (.jsonl)")
    parser.add_argument("--field", default="iso_gradients", help="the setting of the defence")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()

    def draw() -> str:
        lines = [line for line in read_lines(asked.results) if line.get("audit")]
        if not lines:
            raise InputError(f"{asked.results} has no audited run: give what `vesica reproduce audit` wrote")
        return picture(lines, field=asked.field)

    return write(asked.out, draw)


if __name__ == "__main__":
    sys.exit(main())
