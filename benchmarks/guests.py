"""What a guest costs: time and memory of a short split-nn run of ever more guests, which should grow alike."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import numpy as np

import vesica
from benchmarks import Measurement, seconds_of

GUESTS = (25, 50, 100, 200)
REFERENCE = 50
COLUMNS = 25
ROWS = 500  # aligned, and the test rows
REPEATS = 3
LIMIT = 1.25
METHOD = vesica.SplitNN(epochs=2)


def measure() -> list[Measurement]:
    """Each run in a process of its own, because memory that was once taken stays taken."""
    runs: dict[int, list[tuple[float, float]]] = {guests: [] for guests in GUESTS}
    for _ in range(REPEATS):
        for guests in GUESTS:
            runs[guests].append(in_fresh_process(guests))
    measurements = []
    for position, (what, unit) in enumerate((("time", "s"), ("memory", "MB"))):
        a_guest = {guests: median(run[position] for run in runs[guests]) / guests for guests in GUESTS}
        measurements += [
            Measurement(
                f"{what} a guest, of {guests}",
                a_guest[guests],
                f"of {REFERENCE}",
                a_guest[REFERENCE],
                REPEATS,
                limit=LIMIT if guests == max(GUESTS) else None,
                unit=unit,
            )
            for guests in GUESTS
        ]
    return measurements


def in_fresh_process(guests: int) -> tuple[float, float]:
    """The seconds and megabytes of one run."""
    command = [sys.executable, "-m", "benchmarks.guests", str(guests)]
    seconds, megabytes = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return seconds, megabytes


def run(guests: int) -> tuple[float, float]:
    """The seconds of one run, and by how many megabytes it raises the process's peak."""
    vesica.fit(METHOD, federation(1))  # what the first run of a process takes is no guest's
    before = peak_megabytes()
    seconds = seconds_of(lambda: vesica.fit(METHOD, federation(guests)))
    return seconds, peak_megabytes() - before


def federation(guests: int) -> vesica.Federation:
    random = np.random.default_rng(0)
    ids = np.arange(ROWS)
    host = {"id": ids, "label": random.integers(0, 2, size=ROWS)}
    tables = {
        f"guest-{guest}": {"id": ids} | {f"column_{i}": random.normal(size=ROWS) for i in range(COLUMNS)}
        for guest in range(guests)
    }
    return vesica.Federation.from_tables(host, tables, id="id", label="label")


def peak_megabytes() -> float:
    """Of this process alone: getrusage, which works beyond Linux, starts from the peak of the one that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 2**10


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]))))
