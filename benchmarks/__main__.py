"""`python -m benchmarks [NAME ...] [--json FILE]`: measure, print one table, and keep the figures if asked."""

import argparse
import importlib
import importlib.util
import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks import Measurement
from vesica import __version__

BENCHMARKS = (  # modules
    "message",
    "step",
    "csv-loading",
    "guests",
    "fixmatch",
    "nat",
    "stacked",
    "dp-sgd",
    "fedhssl",
    "alignment",
    "nvflare",
    "journal",
)
LIBRARIES = ("torch", "numpy", "polars")
ROW = "{:<44} {:>12} {:>24} {:>12} {:>7} {:>6} {:>5} {:>8}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; all if left out")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the figures here, with the machine's; of some, others that are there stay",
    )
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark '{name}'; there are: {', '.join(BENCHMARKS)}")
    before = None
    if arguments.names and arguments.json is not None and arguments.json.exists():
        try:
            before = read_figures(arguments.json)
        except (ValueError, KeyError, TypeError) as error:
            parser.error(f"{arguments.json} has no figures of benchmarks ({error!r}): give another file")
    measurements = measure(arguments.names or list(BENCHMARKS))
    if arguments.json is not None:
        figures = {"machine": machine(), "measurements": [each.to_json() for each in measurements]}
        if before is not None:
            figures = replaced(before, figures)
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


def measure(names: Sequence[str]) -> list[Measurement]:
    """Each benchmark's rows are printed as soon as they are there."""
    print(ROW.format("median of", "cost", "peer", "its cost", "ratio", "limit", "met", "repeats"))
    measurements = []
    for name in names:
        for measurement in importlib.import_module(f"benchmarks.{name.replace('-', '_')}").measure():
            print(line(measurement), flush=True)
            measurements.append(measurement)
    return measurements


def read_figures(file: Path) -> dict[str, Any]:
    figures = json.loads(file.read_text())
    return {"machine": dict(figures["machine"]), "measurements": [row | {} for row in figures["measurements"]]}


def replaced(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The rows that were measured now, and those of before that were not, if they are of the same machine."""
    if before["machine"] != now["machine"]:
        print("the other rows of the file are of another machine or other libraries and are dropped")
        return now
    rows = {(row["name"], row["peer"]): row for row in (*before["measurements"], *now["measurements"])}
    return now | {"measurements": list(rows.values())}


def line(each: Measurement) -> str:
    limit = "" if each.limit is None else f"{each.limit:g}"
    met = {None: "", True: "yes", False: "NO"}[each.met]
    cost, peer_cost = amount(each.cost, each.unit), amount(each.peer_cost, each.unit)
    return ROW.format(each.name, cost, each.peer, peer_cost, f"{each.ratio:.2f}", limit, met, each.repeats)


def amount(cost: float, unit: str) -> str:
    return f"{1000 * cost:,.2f} ms" if unit == "s" else f"{cost:,.2f} {unit}"


def machine() -> dict[str, Any]:
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch_threads": torch.get_num_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
        "vesica": __version__,
        **{library: version(library) for library in LIBRARIES if importlib.util.find_spec(library)},
    }


def cpu_model() -> str:
    """Linux names it in a file; elsewhere the platform's word has to do."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [text.partition(":")[2].strip() for text in lines if text.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
