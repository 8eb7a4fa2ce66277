"""Federations: what makes one, and what is refused before any row is looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from vesica.data import Federation, Overlap, PartyData, Table, TestRows, Text
from vesica.data.labels import class_numbers, distinct, known
from vesica.errors import InputError

IDS = np.array(["a", "b", "c", "d"])


def party(name: str, *columns: str) -> PartyData:
    return PartyData(name, Table(IDS, {column: np.arange(4.0) for column in columns}))


def federation(*guests: PartyData, host: PartyData | None = None) -> Federation:
    return Federation(
        host or party("bank", "income"),
        np.array([0, 1, 0, 1]),
        guests or (party("shop", "basket"),),
        task="classification",
        metric="auc",
    )


def test_the_host_comes_first() -> None:
    assert [one.name for one in federation(party("shop", "x"), party("phone", "x")).parties] == [
        "bank",
        "shop",
        "phone",
    ]


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "unknown task": (lambda: replace(federation(), task="clasification"), "did you mean 'classification'"),
    "metric of another task": (lambda: replace(federation(), metric="rmse"), "none of classification"),
    "unknown metric": (lambda: replace(federation(), metric="acuracy"), "did you mean 'accuracy'"),
    "unknown labels": (lambda: replace(federation(), labels="every"), "labels is 'every'"),
    "no label kept": (lambda: replace(federation(), labelled=0), r"\[labelled\] keep is 0"),
    "no guest": (lambda: replace(federation(), guests=()), "there are 0 guests"),
    "too many guests": (lambda: federation(*[party(f"g{i}", "x") for i in range(201)]), "there are 201 guests"),
    "guest called as the host": (lambda: federation(party("bank", "x")), "two parties are called 'bank'"),
    "two guests of one name": (lambda: federation(party("a", "x"), party("a", "y")), "two parties are called 'a'"),
    "guest without columns": (lambda: federation(party("shop")), "guest 'shop' has no column to learn from"),
    "guest with ignored columns": (
        lambda: federation(replace(party("shop", "x"), kinds={"x": "ignore"})),
        "guest 'shop' has no column to learn from",
    ),
    "name with a slash": (lambda: party("a/b"), "cannot be called 'a/b'"),
    "name with dots": (lambda: party(".."), "cannot be called '..'"),
    "no name": (lambda: party(""), "cannot be called ''"),
    "very long name": (lambda: party("a" * 65), "cannot be called"),
    "name with a line break": (lambda: party("a\n"), "cannot be called"),
    "unknown scale": (lambda: PartyData("a", Table(IDS), scale="minmaks"), "did you mean 'minmax'"),  # type: ignore[arg-type]
    "test fraction of 1": (lambda: TestRows(1.0), "fraction is 1.0"),
    "test fraction of 0": (lambda: TestRows(0.0), "fraction is 0.0"),
    "test fraction that is no number": (lambda: TestRows(float("nan")), "fraction is nan"),
    "negative test seed": (lambda: TestRows(seed=-1), r"\[test\] seed is -1"),
    "negative overlap seed": (lambda: Overlap(seed=-1), r"\[overlap\] seed is -1"),
    "no overlap": (lambda: Overlap(0), r"\[overlap\] keep is 0"),
    "negative overlap": (lambda: Overlap(-5), r"\[overlap\] keep is -5"),
    "unknown share": (lambda: Overlap(1, "everyon"), "did you mean 'everyone'"),
    "draw without a number": (lambda: Overlap(1, "draw"), "go together"),
    "a number without draw": (lambda: Overlap(1, "disjoint", 5), "go together"),
    "negative draw": (lambda: Overlap(1, "draw", -5), r"\[overlap\] draw is -5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_federation_is_refused(case: str) -> None:
    make, telling = REFUSED[case]
    with pytest.raises(InputError, match=telling) as refusal:
        make()
    assert "\n" not in str(refusal.value)


def test_two_hundred_guests_are_welcome() -> None:
    assert len(federation(*[party(f"g{i}", "x") for i in range(200)]).parties) == 201


def test_a_host_may_have_labels_only() -> None:
    assert not federation(host=party("bank")).host.has_features
    assert PartyData("camera", Table(IDS, image=np.zeros((4, 2, 2, 1), np.uint8))).has_features


COLUMNS = {"key": [1, 2, 3, 4], "x": [0.5, 1.5, 2.5, 3.5], "bad": ["no", "yes", "no", "yes"]}
SOURCES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "NumPy": lambda columns: {name: np.array(values) for name, values in columns.items()},
}


@pytest.mark.parametrize("library", SOURCES)
def test_a_federation_is_made_from_data_frames_and_arrays(library: str) -> None:
    make = SOURCES[library]
    guest = make({"key": COLUMNS["key"], "z": COLUMNS["x"]})
    made = Federation.from_tables(make(COLUMNS), {"shop": guest}, id="key", label="bad", host_name="bank")
    assert [one.name for one in made.parties] == ["bank", "shop"]
    assert list(made.host.table.columns) == ["x"]
    assert isinstance(made.label, Text)
    assert distinct(made.label) == ("no", "yes")
    assert (made.task, made.metric) == ("classification", "auc")


@pytest.mark.parametrize(
    ("task", "label", "metric"),
    [
        ("classification", [0, 1, 0, 1], "auc"),
        ("classification", [0, 1, 2, 1], "accuracy"),
        ("regression", [0, 1, 2, 1], "rmse"),
    ],
)
def test_the_metric_follows_from_the_task_and_the_classes(task: str, label: list[int], metric: str) -> None:
    host = {"id": IDS, "y": np.array(label)}
    guest = {"id": IDS, "x": np.arange(4)}
    assert Federation.from_tables(host, {"shop": guest}, id="id", label="y", task=task).metric == metric


def test_a_missing_label_column_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="'host' has no label column 'defalt'; did you mean 'default'"):
        Federation.from_tables({"id": IDS, "default": np.arange(4)}, {}, id="id", label="defalt")


def test_missing_labels_are_known_for_every_type() -> None:
    assert known(np.array([1.0, np.nan])).tolist() == [True, False]
    assert known(np.array(["2020-01-01", "NaT"], dtype="datetime64[us]")).tolist() == [True, False]
    assert known(np.array([True, False])).tolist() == [True, True]
    assert known(Text.of(["a", None, "", " "])).tolist() == [True, False, False, False]


def test_class_numbers_are_positions_and_minus_one_where_a_label_is_missing() -> None:
    assert class_numbers(np.array([3.0, np.nan, 1.0]), ("1", "3")).tolist() == [1, -1, 0]
    assert class_numbers(Text.of(["b", None, "a", ""]), ("a", "b")).tolist() == [1, -1, 0, -1]
