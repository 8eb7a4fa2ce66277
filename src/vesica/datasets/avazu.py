"""Avazu click-through data (Kaggle, 2014), for two parties of mixed type or three of categories."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vesica.data.table import Array, Column, Table, Text
from vesica.datasets.columns import row_ids
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import File, Files
from vesica.datasets.parse import classes, header, strings
from vesica.datasets.source import Source

FIELDS = (
    *("hour", "C1", "banner_pos", "site_id", "site_domain", "site_category", "app_id"),
    *("app_domain", "app_category", "device_id", "device_ip", "device_model"),
    *("device_type", "device_conn_type", "C14", "C15", "C16", "C17", "C18", "C19", "C20", "C21"),
)
NUMERIC = ("C15", "C16", "C18", "C1", "banner_pos", "device_type", "device_conn_type")
ACTIVE = ("device_ip", "device_model", "C14", "C17", "C19", "C20", "C21", "C15", "C16", "C18")
PASSIVE = (
    *("site_id", "site_domain", "site_category", "app_id", "app_domain", "app_category", "device_id"),
    *("C1", "banner_pos", "device_type", "device_conn_type"),
)
OPTIONAL = "device_ip"  # some circulating samples lack it
SAMPLES = ("avazu_random15000.csv", "avazu_first9999.csv")

Clicks = dict[str, tuple[str, ...]]  # the strings of each column


def load(data_dir: Path | None) -> DataSet:
    """Two views as FedHSSL divides the fields, each of categories and numbers; hour and id are left out."""
    files = Files("avazu", SOURCE, data_dir)
    file = files.read("train.csv", "train", *SAMPLES)
    clicks = _clicks(file)
    label = _label(file, clicks)
    views = {
        "active": Table(row_ids(len(label)), _mixed(file, clicks, ACTIVE)),
        "passive": Table(row_ids(len(label)), _mixed(file, clicks, PASSIVE)),
    }
    return DataSet("avazu", "classification", "auc", views, label, None, files.sha256)


def load_three(data_dir: Path | None) -> DataSet:
    """Three views of seven, seven and the remaining fields, in the order of the file, as in VFLHLP.

    All are categories; of the hour only that of the day is kept, and the id is left out.
    """
    files = Files("avazu-three", THREE_SOURCE, data_dir)
    file = files.read("train.csv", "train", *SAMPLES)
    clicks = _clicks(file)
    label = _label(file, clicks)
    clicks["hour"] = _hours(file, clicks["hour"])
    fields = [name for name in FIELDS if name in clicks]
    parts = {"first": fields[:7], "second": fields[7:14], "third": fields[14:]}
    views = {
        view: Table(row_ids(len(label)), {name: Text.of(clicks[name]) for name in names})
        for view, names in parts.items()
    }
    return DataSet("avazu-three", "classification", "auc", views, label, None, files.sha256)


def _clicks(file: File) -> Clicks:
    names = header(file)
    for name in ("click", *FIELDS):
        if name not in names and name != OPTIONAL:
            raise file.wrong(f"lacks the column {name!r}")
    return dict(zip(names, strings(file, len(names), delimiter=",", skip=1), strict=True))


def _label(file: File, clicks: Clicks) -> Array:
    return classes(file, _numbers(file, clicks, "click"), (0, 1))


def _mixed(file: File, clicks: Clicks, names: Sequence[str]) -> dict[str, Column]:
    return {
        name: _numbers(file, clicks, name) if name in NUMERIC else Text.of(clicks[name])
        for name in names
        if name in clicks
    }


def _numbers(file: File, clicks: Clicks, name: str) -> Array:
    try:
        return np.array(clicks[name], dtype=np.float64)
    except ValueError as error:
        raise file.wrong(f"has a value in column {name!r} that is not a number") from error


def _hours(file: File, hours: Sequence[str]) -> tuple[str, ...]:
    """ "14102103" (YYMMDDHH) and "03" are both the hour 3."""
    try:
        known = {hour: str(int(hour[-2:])) for hour in set(hours)}
    except ValueError as error:
        raise file.wrong("has a value in column 'hour' that is not YYMMDDHH") from error
    return tuple(known[hour] for hour in hours)


WHERE = "the Kaggle competition avazu-ctr-prediction (take a random sample: the papers use 120,000 rows)"

SOURCE = Source(
    load,
    folder="avazu",
    about="Avazu clicks as in FedHSSL: two views of categories and numbers",
    files=("train.csv",),
    where=WHERE,
)
THREE_SOURCE = Source(
    load_three,
    folder="avazu",
    about="Avazu clicks as in VFLHLP: three views of categories",
    files=("train.csv",),
    where=WHERE,
)
