"""Whole runs through the Python interface: every kind of table, task and size, and predictions afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import vesica
from federations import REFUSE_REGRESSION, quick
from vesica.data.reading import table_from
from vesica.errors import InputError
from vesica.experiment import predict_from
from vesica.methods import METHODS

ROWS = 80
TINY = vesica.SplitNN(epochs=2, hidden=(4,))
Columns = Mapping[str, Any]

LIBRARIES: dict[str, Callable[[Columns], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "NumPy": lambda columns: {name: np.asarray(values) for name, values in columns.items()},
}
LABELS: dict[str, tuple[str, list[Any]]] = {
    "binary": ("classification", ["no", "yes"] * 40),
    "multi-class": ("classification", [3, 1, 2, 7] * 20),
    "regression": ("regression", [i / 3 for i in range(80)]),
}


def bank(*, first: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(first)
    return {
        "id": [f"p{i:03d}" for i in range(first, first + ROWS)],
        "age": [None if i % 9 == 0 else float(i) for i in range(ROWS)],
        "city": [("Ulm", "Bonn", "Jena")[i % 3] for i in range(ROWS)],
        "since": np.datetime64("2020-01-01") + random.integers(0, 900, ROWS),
    }


def shop(*, first: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(first + 1)
    return {"id": bank(first=first)["id"][::-1], "spent": random.normal(size=ROWS), "member": random.random(ROWS) < 0.5}


def camera(*, first: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(first + 2)
    return {"id": np.array(bank(first=first)["id"]), "image": random.integers(0, 255, (ROWS, 6, 6, 3), dtype=np.uint8)}


def federation(make: Callable[[Columns], Any] = dict, *, label: str = "binary") -> vesica.Federation:
    """Tables at the bank and the shop, images at the camera."""
    task, values = LABELS[label]
    guests = {"shop": make(shop()), "camera": camera()}
    return vesica.Federation.from_tables(
        make({**bank(), "y": values}), guests, id="id", label="y", task=task, host_name="bank"
    )


def new_rows(make: Callable[[Columns], Any] = dict) -> dict[str, Any]:
    return {"bank": make(bank(first=500)), "shop": make(shop(first=500)), "camera": camera(first=500)}


@pytest.mark.parametrize("library", LIBRARIES)
def test_images_and_tables_of_any_library_train_and_predict_alike(library: str) -> None:
    make = LIBRARIES[library]
    expected = vesica.fit(TINY, federation()).predict(new_rows())
    result = vesica.fit(TINY, federation(make))
    predictions = result.predict(new_rows(make))
    assert result.parties == ("bank", "shop", "camera")
    assert predictions.ids.tolist() == bank(first=500)["id"]
    assert np.array_equal(predictions.probabilities, expected.probabilities)
    assert predictions.ledger.wire > 0


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("method", METHODS)
def test_a_saved_run_predicts_bit_for_bit_what_the_result_predicts(tmp_path: Path, method: str, label: str) -> None:
    if label == "regression" and method in REFUSE_REGRESSION:
        with pytest.raises(InputError, match="cannot learn a regression"):
            vesica.fit(quick(method), federation(label=label))
        return
    result = vesica.fit(quick(method), federation(label=label), out=tmp_path / "run")
    tables = {party: table_from(rows, id="id") for party, rows in new_rows().items()}
    now, later = result.predict(tables), predict_from(tmp_path / "run", tables)
    assert now.ids.tolist() == later.ids.tolist()
    assert now.values.tolist() == later.values.tolist()
    if label == "regression":
        assert now.probabilities is later.probabilities is None
        assert now.values.dtype == np.float32
    else:
        assert now.probabilities is not None
        assert later.probabilities is not None
        assert now.probabilities.tobytes() == later.probabilities.tobytes()
        assert now.probabilities.shape == (ROWS, len(set(LABELS[label][1])))


@pytest.mark.parametrize(
    ("label", "classes"), [("binary", ("no", "yes")), ("multi-class", ("1", "2", "3", "7")), ("regression", ())]
)
def test_predictions_speak_of_the_classes_by_name(label: str, classes: tuple[str, ...]) -> None:
    result = vesica.fit(TINY, federation(label=label))
    predictions = result.predict(new_rows())
    assert predictions.classes == classes
    if classes:
        assert set(predictions.values) <= set(classes)
        assert result.metrics["accuracy"] is not None
    else:
        assert result.metrics["rmse"] is not None
        assert -100 < predictions.values.min() <= predictions.values.max() < 100


def test_unseen_categories_and_missing_values_do_not_stop_a_prediction() -> None:
    result = vesica.fit(TINY, federation())
    rows = new_rows()
    rows["bank"] |= {"city": ["Atlantis", None] * 40, "age": [None] * ROWS, "since": np.full(ROWS, "NaT", "M8[us]")}
    rows["shop"] |= {"spent": np.full(ROWS, np.nan), "member": [True, None] * 40}
    predictions = result.predict(rows)
    assert predictions.probabilities is not None
    assert np.isfinite(predictions.probabilities).all()


def test_new_rows_may_have_more_columns_another_order_and_fewer_people() -> None:
    result = vesica.fit(TINY, federation())
    expected = result.predict(new_rows())
    rows = new_rows()
    order = np.random.default_rng(0).permutation(ROWS)[:30]
    some = {
        name: np.asarray(values, dtype=object)[order].tolist() for name, values in reversed(shop(first=500).items())
    }
    rows["shop"] = {**some, "new": [1] * 30}
    predictions = result.predict(rows)
    assert len(predictions.ids) == 30
    same = np.isin(expected.ids.astype(str), predictions.ids.astype(str))
    assert expected.probabilities is not None
    assert predictions.probabilities is not None
    assert np.allclose(expected.probabilities[same], predictions.probabilities, atol=1e-6)


def test_new_rows_go_by_the_id_one_names() -> None:
    result = vesica.fit(TINY, federation())
    renamed = {
        party: {("key" if name == "id" else name): values for name, values in columns.items()}
        for party, columns in new_rows().items()
    }
    assert len(result.predict(renamed, id="key").ids) == ROWS
    with pytest.raises(InputError, match="no column 'id' to take the ids from"):
        result.predict(renamed)


def test_a_party_that_is_missing_or_left_out_is_named() -> None:
    result = vesica.fit(TINY, federation())
    rows = new_rows()
    with pytest.raises(InputError, match="cannot predict without 'camera'"):
        result.predict(rows, without=["camera"])
    del rows["camera"]
    with pytest.raises(InputError, match="rows of 'camera' are needed"):
        result.predict(rows)


def test_alone_the_host_needs_no_guest_to_predict() -> None:
    result = vesica.fit(vesica.LocalOnly(epochs=1), federation())
    predictions = result.predict({"bank": bank(first=500)})
    assert len(predictions.ids) == ROWS
    assert (result.ledger.rounds, len(predictions.ledger.messages)) == (0, 0)


@pytest.mark.parametrize("guests", [1, 200])
def test_one_guest_and_two_hundred_take_part(guests: int) -> None:
    random = np.random.default_rng(0)
    ids = np.arange(30)
    host = {"id": ids, "y": ids % 2}
    tables = {f"guest-{i}": {"id": ids, "x": random.normal(size=30)} for i in range(guests)}
    made = vesica.Federation.from_tables(host, tables, id="id", label="y")
    result = vesica.fit(vesica.SplitNN(epochs=1, hidden=()), made)
    # One batch up and down, the validation rows up, the verdict down; each from or to every guest.
    assert (result.ledger.rounds, len(result.ledger.messages)) == (4, 4 * guests)
    assert len(result.predict(tables).ids) == 30


def test_people_without_a_label_train_nothing_and_change_nothing() -> None:
    values = [None if i % 4 == 0 else i % 2 for i in range(ROWS)]
    made = vesica.Federation.from_tables(
        {**bank(), "y": values}, {"shop": shop()}, id="id", label="y", host_name="bank"
    )
    result = vesica.fit(TINY, made)
    assert (result.rows["labelled"], result.rows["test"], result.rows["aligned"]) == (48, 12, 68)


def test_a_fit_that_failed_leaves_its_folder_to_the_next(tmp_path: Path) -> None:
    with pytest.raises(vesica.VesicaError, match="nothing was sent"):
        vesica.fit(TINY, federation(), budget=vesica.Budget(rounds=1), out=tmp_path / "run")
    assert vesica.fit(TINY, federation(), out=tmp_path / "run").ledger.rounds > 1
