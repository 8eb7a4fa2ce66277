"""What a guest costs: time and memory of short runs of ever more guests, which should grow alike."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

import vesica
from benchmarks import Measurement, seconds_of

REFERENCE = 50
ROWS = 500  # aligned, and the test rows
REPEATS = 3
LIMIT = 1.25


@dataclass(frozen=True)
class Growth:
    """A method that is run with ever more guests."""

    title: str  # before the names of its rows
    method: vesica.SplitNN | vesica.FedOnce
    guests: tuple[int, ...]
    columns: Callable[[int], int]  # of each of so many guests
    measured: tuple[tuple[str, str], ...]  # seconds, then megabytes: what they are called, and their unit


GROWTHS = {
    "split-nn": Growth(
        "", vesica.SplitNN(epochs=2), (25, 50, 100, 200), lambda guests: 25, (("time", "s"), ("memory", "MB"))
    ),
    "fedonce": Growth(  # the same columns, shared out
        "FedOnce, ",
        vesica.FedOnce(guest_epochs=3, host_epochs=2),
        (10, 50, 200),
        lambda guests: 1000 // guests,
        (("time", "s"),),
    ),
}


def measure() -> list[Measurement]:
    return [measurement for name in GROWTHS for measurement in measurements_of(name)]


def measurements_of(name: str) -> list[Measurement]:
    """Each run in a process of its own, because memory that was once taken stays taken."""
    growth = GROWTHS[name]
    runs: dict[int, list[tuple[float, float]]] = {guests: [] for guests in growth.guests}
    for _ in range(REPEATS):
        for guests in growth.guests:
            runs[guests].append(in_fresh_process(name, guests))
    measurements = []
    for position, (what, unit) in enumerate(growth.measured):
        a_guest = {guests: median(run[position] for run in runs[guests]) / guests for guests in growth.guests}
        measurements += [
            Measurement(
                f"{growth.title}{what} a guest, of {guests}",
                a_guest[guests],
                f"of {REFERENCE}",
                a_guest[REFERENCE],
                REPEATS,
                limit=LIMIT if guests == max(growth.guests) else None,
                unit=unit,
            )
            for guests in growth.guests
        ]
    return measurements


def in_fresh_process(name: str, guests: int) -> tuple[float, float]:
    """The seconds and megabytes of one run."""
    command = [sys.executable, "-m", "benchmarks.guests", name, str(guests)]
    seconds, megabytes = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return seconds, megabytes


def run(growth: Growth, guests: int) -> tuple[float, float]:
    """The seconds of one run, and by how many megabytes it raises the process's peak."""
    columns = growth.columns(guests)
    vesica.fit(growth.method, federation(1, columns))  # what the first run of a process takes is no guest's
    before = peak_megabytes()
    seconds = seconds_of(lambda: vesica.fit(growth.method, federation(guests, columns)))
    return seconds, peak_megabytes() - before


def federation(guests: int, columns: int) -> vesica.Federation:
    random = np.random.default_rng(0)
    ids = np.arange(ROWS)
    host = {"id": ids, "label": random.integers(0, 2, size=ROWS)}
    tables = {
        f"guest-{guest}": {"id": ids} | {f"column_{i}": random.normal(size=ROWS) for i in range(columns)}
        for guest in range(guests)
    }
    return vesica.Federation.from_tables(host, tables, id="id", label="label")


def peak_megabytes() -> float:
    """Of this process alone: getrusage, which works beyond Linux, starts from the peak of the one that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 2**10


if __name__ == "__main__":
    print(json.dumps(run(GROWTHS[sys.argv[1]], int(sys.argv[2]))))
