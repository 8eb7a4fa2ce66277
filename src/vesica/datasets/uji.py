"""UJIIndoorLoc: Wi-Fi fingerprints in three buildings (Torres-Sospedra et al., UCI)."""

from pathlib import Path

import numpy as np

from vesica.data.table import Array, Column, Table
from vesica.datasets.columns import categories, row_ids, scaled
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import Files
from vesica.datasets.parse import named_numbers
from vesica.datasets.source import Source

SIGNALS = tuple(f"WAP{number:03d}" for number in range(1, 521))
CATEGORIES = ("BUILDINGID", "SPACEID", "RELATIVEPOSITION", "USERID", "PHONEID")
COLUMNS = (*SIGNALS, "LONGITUDE", "LATITUDE", "FLOOR", *CATEGORIES, "TIMESTAMP")
NOT_DETECTED, BELOW_ANY_SIGNAL = 100, -105  # dBm; the weakest signal in the files is -104


def load(data_dir: Path | None) -> DataSet:
    """The time of the measurement, scaled to [0, 1], from the 528 other columns of the training file.

    An odd task, kept because FedOnce's published numbers are for it: its code takes the last column as the
    label, which is TIMESTAMP, and reads trainingData.csv alone. For a sane one take `uji-floor`.
    """
    files = Files("uji", SOURCE, data_dir)
    numbers = named_numbers(files.read("trainingData.csv"), COLUMNS)
    label = scaled(numbers.pop("TIMESTAMP"))
    columns: dict[str, Column] = {
        name: categories(values) if name in CATEGORIES else values for name, values in numbers.items()
    }
    views = {"fingerprints": Table(row_ids(len(label)), columns)}
    return DataSet("uji", "regression", "rmse", views, label, None, files.sha256)


def load_floor(data_dir: Path | None) -> DataSet:
    """Building and floor (13 classes) from the 520 signals; the official validation rows are the test rows.

    What the data were collected for: where am I, from what my phone hears. No column gives the place away,
    and the test rows were measured months later. A signal that was not detected, 100 in the
    files, becomes -105 dBm: weaker than any that was, where 100 would read as the strongest.
    """
    files = Files("uji-floor", FLOOR_SOURCE, data_dir)
    numbers, view, is_test = _signals(files)
    # Buildings 0 and 1 have four floors, building 2 has five.
    label = (4 * numbers["BUILDINGID"] + numbers["FLOOR"]).astype(np.int64)
    return DataSet("uji-floor", "classification", "accuracy", {"fingerprints": view}, label, is_test, files.sha256)


def load_position(data_dir: Path | None) -> DataSet:
    """How far east, in metres: the longitude of the files, from what `load_floor` learns from and with its test rows.

    One coordinate of the position, for a label is one number.
    """
    files = Files("uji-position", POSITION_SOURCE, data_dir)
    numbers, view, is_test = _signals(files)
    label = numbers["LONGITUDE"]
    return DataSet("uji-position", "regression", "rmse", {"fingerprints": view}, label, is_test, files.sha256)


def _signals(files: Files) -> tuple[dict[str, Array], Table, Array]:
    """All columns of both files, the signals as a table, and which rows are the official validation rows."""
    train, test = (named_numbers(files.read(name), COLUMNS) for name in FLOOR_SOURCE.files)
    numbers = {name: np.concatenate([train[name], test[name]]) for name in COLUMNS}
    columns = {name: np.where(numbers[name] == NOT_DETECTED, BELOW_ANY_SIGNAL, numbers[name]) for name in SIGNALS}
    rows = len(numbers["FLOOR"])
    return numbers, Table(row_ids(rows), columns), np.arange(rows) >= len(train["FLOOR"])


WHERE = "the UCI Machine Learning Repository, data set 310 (UJIIndoorLoc)"

SOURCE = Source(
    load,
    folder="uji_indoorloc",
    about="UJIIndoorLoc as FedOnce used it: 19,937 rows, 528 columns, regression of the time stamp",
    files=("trainingData.csv",),
    where=WHERE,
)
FLOOR_SOURCE = Source(
    load_floor,
    folder="uji_indoorloc",
    about="UJIIndoorLoc: building and floor (13 classes) from 520 Wi-Fi signals, 19,937 + 1,111 rows",
    files=("trainingData.csv", "validationData.csv"),
    where=WHERE,
)
POSITION_SOURCE = Source(
    load_position,
    folder="uji_indoorloc",
    about="UJIIndoorLoc: how far east, in metres, from 520 Wi-Fi signals, 19,937 + 1,111 rows",
    files=FLOOR_SOURCE.files,
    where=WHERE,
)
