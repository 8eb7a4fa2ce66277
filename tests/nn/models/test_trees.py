"""Trees as a head: bins lead the same way as values, and what is saved is what was planted."""

import json
import sys

import numpy as np
import pytest
import torch
import xgboost

from vesica.errors import InputError
from vesica.nn.models import Bins, TreesModel
from vesica.nn.models.trees import over_bins, thresholds_of
from vesica.schema import ImageSchema, TableSchema
from vesica.training.boosting import Boosting, Share, boost_leafwise


def grown(columns: np.ndarray, *, objective: str = "binary:logistic", classes: int | None = None) -> bytes:
    label = (columns.sum(axis=1) > 0).astype(np.float32) + (0 if classes is None else columns[:, 0] > 1)
    parameters = {"objective": objective, "nthread": 1, **({} if classes is None else {"num_class": classes})}
    return bytes(xgboost.train(parameters, xgboost.DMatrix(columns, label), 5).save_raw("json"))


@pytest.fixture
def columns() -> np.ndarray:
    drawn = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    drawn[:, 3] = np.round(drawn[:, 3])  # many values lie on a threshold, or next to one
    return drawn


def test_trees_over_bins_are_the_trees_over_the_values(columns: np.ndarray) -> None:
    trees = grown(columns)
    theirs = range(2, 4)
    thresholds = thresholds_of(trees, theirs)
    for column, some in zip(theirs, thresholds, strict=True):
        columns[: len(some), column] = some  # exactly on a threshold a row goes right
    guest = Bins(TableSchema(2), 1).use(thresholds)
    bins = guest(torch.from_numpy(columns[:, 2:]))
    assert torch.equal(bins, bins.round())
    schemas = {"bank": TableSchema(2), "shop": TableSchema(2)}
    plain = TreesModel(schemas, 2).plant(trees)(torch.from_numpy(columns).split(2, dim=1))
    binned = TreesModel(schemas, 2).plant(over_bins(trees, theirs))([torch.from_numpy(columns[:, :2]), bins])
    assert torch.equal(plain, binned)


def test_the_head_over_bins_holds_no_threshold_of_a_guest(columns: np.ndarray) -> None:
    trees = over_bins(grown(columns), range(2, 4))
    values = torch.cat(thresholds_of(trees, range(2, 4)))
    assert len(values) > 5
    assert torch.equal(values % 1, torch.full_like(values, 0.5))
    assert any(value % 1 != 0.5 for value in torch.cat(thresholds_of(trees, range(2))).tolist())


def test_a_column_that_only_xgboost_needed_is_dropped(columns: np.ndarray) -> None:
    columns[:, 0] = 0
    trees = grown(columns)
    thresholds = thresholds_of(trees, range(1, 4))
    bins = Bins(TableSchema(3), 1).use(thresholds)(torch.from_numpy(columns[:, 1:]))
    head = TreesModel({"shop": TableSchema(3)}, 2).plant(over_bins(trees, range(1, 4), drop=1))
    plain = TreesModel({"all": TableSchema(4)}, 2).plant(trees)
    assert torch.equal(head([bins]), plain([torch.from_numpy(columns)]))


@pytest.mark.parametrize(
    ("objective", "outputs"), [("reg:squarederror", 1), ("binary:logistic", 2), ("multi:softprob", 3)]
)
def test_the_outputs_are_what_xgboost_predicts(columns: np.ndarray, objective: str, outputs: int) -> None:
    trees = grown(columns, objective=objective, classes=3 if outputs == 3 else None)
    head = TreesModel({"bank": TableSchema(4)}, outputs).plant(trees)
    booster = xgboost.Booster()
    booster.load_model(bytearray(trees))
    theirs = torch.from_numpy(booster.predict(xgboost.DMatrix(columns)))
    ours = head([torch.from_numpy(columns)])
    assert ours.shape == (300, outputs)
    chances = ours[:, 0] if outputs == 1 else ours.softmax(dim=1)
    torch.testing.assert_close(chances[:, 1] if outputs == 2 else chances, theirs)


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_the_outputs_are_what_lightgbm_predicts(columns: np.ndarray, outputs: int) -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'vesica[trees]'")
    label = columns.sum(axis=1) if outputs == 1 else np.digitize(columns[:, 0], np.linspace(-0.5, 0.5, outputs - 1))
    parameters = {"eta": 0.1, "gamma": 0.0, "subsample": 0.8}
    boosting = Boosting.of(outputs, parameters=parameters, rounds=12, early_stopping_rounds=5, seed=1)
    trees = boost_leafwise(Share(columns, label, np.arange(250), np.arange(250, 300)), boosting)
    head = TreesModel({"bank": TableSchema(4)}, outputs, library="lightgbm").plant(trees)
    again = TreesModel.from_spec(json.loads(json.dumps(head.spec())))
    again.load_state_dict(head.state_dict())
    ours = again([torch.from_numpy(columns)])
    assert (ours.shape, ours.dtype) == ((300, outputs), torch.float32)
    theirs = torch.from_numpy(lightgbm.Booster(model_str=trees.decode()).predict(columns)).float()
    chances = ours[:, 0] if outputs == 1 else ours.softmax(dim=1)
    torch.testing.assert_close(chances[:, 1] if outputs == 2 else chances, theirs)
    if outputs > 1:
        assert (ours.argmax(dim=1).numpy() == label).mean() > 0.9


def test_lightgbm_stops_where_the_validation_rows_say_and_keeps_the_best(columns: np.ndarray) -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'vesica[trees]'")
    label = np.random.default_rng(1).integers(0, 2, 300)  # nothing to learn
    share = Share(columns, label, np.arange(250), np.arange(250, 300))
    trees = {
        patience: boost_leafwise(
            share, Boosting.of(2, parameters={"gamma": 0.0}, rounds=40, early_stopping_rounds=patience, seed=1)
        )
        for patience in (3, 0)
    }
    grown = {patience: lightgbm.Booster(model_str=some.decode()).num_trees() for patience, some in trees.items()}
    assert grown[3] < 20 < grown[0] == 40


def test_a_head_and_bins_come_back_from_their_state_as_they_were(columns: np.ndarray) -> None:
    trees = grown(columns)
    head = TreesModel({"bank": TableSchema(4)}, 2, reads="bins").plant(trees)
    again = TreesModel.from_spec(json.loads(json.dumps(head.spec())))
    again.load_state_dict(head.state_dict())
    assert (again.trees, again.reads, again.schemas) == (trees, "bins", head.schemas)
    bins = Bins(TableSchema(4), 1).use(thresholds_of(trees, range(4)))
    other = Bins(TableSchema(4), 1)
    other.load_state_dict(bins.state_dict())
    assert torch.equal(bins(torch.from_numpy(columns)), other(torch.from_numpy(columns)))


def test_every_pixel_is_a_column() -> None:
    image = torch.randint(0, 256, (20, 1, 2, 2), dtype=torch.uint8)
    schema = ImageSchema(1, 2, 2, (0.5,), (0.5,))
    bins = Bins(schema, 1).use([torch.tensor([100.0, 200.0])] * 4)(image)
    assert torch.equal(bins, (image.flatten(1) >= 100).float() + (image.flatten(1) >= 200).float())


def test_without_xgboost_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(InputError, match=r"pip install 'vesica\[trees\]'"):
        TreesModel({"bank": TableSchema(4)}, 2).plant(b"{}")
