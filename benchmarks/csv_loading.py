"""What checking and converting costs: a large CSV file as a table, beside polars reading the same file."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from benchmarks import Measurement, time_in_turn
from vesica.data.reading import read_table
from vesica.data.table import Array

ROWS = 1_000_000
FLOATS, INTEGERS, TEXTS = 40, 7, 2  # with the id: 50 columns
REPEATS = 7
LIMIT = 1.5
PEER = "polars.read_csv"


def measure() -> list[Measurement]:
    name = f"reading a CSV file of {ROWS:,} rows"
    with TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")
        write(path)
        seconds = time_in_turn({name: lambda: read_table(path, id="id"), PEER: lambda: pl.read_csv(path)}, REPEATS)
    return [Measurement(name, seconds[name], PEER, seconds[PEER], REPEATS, limit=LIMIT)]


def write(path: Path) -> None:
    random = np.random.default_rng(0)
    towns = np.array([f"town {number}" for number in range(200)])
    columns: dict[str, Array] = {"id": random.permutation(ROWS)}
    columns |= {f"float_{i}": random.normal(size=ROWS) for i in range(FLOATS)}
    columns |= {f"integer_{i}": random.integers(0, 10**6, size=ROWS) for i in range(INTEGERS)}
    columns |= {f"text_{i}": random.choice(towns, size=ROWS) for i in range(TEXTS)}
    pl.DataFrame(columns).write_csv(path, float_precision=6)
