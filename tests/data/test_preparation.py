"""Preparing inputs: fitted on training rows alone, exact after a round trip, never NaN."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vesica.data.kinds import recognise
from vesica.data.preparation import Preparation
from vesica.data.reading import table_from_arrays
from vesica.data.table import Table
from vesica.errors import InputError
from vesica.schema import ImageSchema, TableSchema


def table(columns: dict[str, Any]) -> Table:
    return table_from_arrays(range(len(next(iter(columns.values())))), columns)


def fit(columns: dict[str, Any], rows: int | None = None, **choices: Any) -> Preparation:
    made = table(columns)
    return Preparation.fit(made, np.arange(len(made) if rows is None else rows), party="bank", **choices)


def images(pixels: Any, columns: dict[str, Any] | None = None) -> Table:
    return table_from_arrays(range(len(pixels)), columns or {}, image=np.asarray(pixels, dtype=np.uint8))


def test_a_column_is_recognised_by_its_type() -> None:
    made = table({"f": [0.5], "i": [1], "b": [True], "s": ["x"], "d": np.array(["2020"], dtype="M8[D]")})
    assert [recognise(column) for column in made.columns.values()] == [
        "numeric",
        "numeric",
        "boolean",
        "categorical",
        "date",
    ]


def test_scales_come_from_the_training_rows_alone() -> None:
    columns = {"x": [1.0, 3.0, 1000.0]}
    assert fit(columns, 2).apply(table(columns))[:, 0].tolist() == [-1, 1, 998]
    assert fit(columns, 2, scale="minmax").apply(table(columns))[:, 0].tolist() == [0, 1, 499.5]


@pytest.mark.parametrize("scale", ["standard", "minmax"])
def test_a_constant_column_is_kept_and_divided_by_one(scale: str) -> None:
    prepared = fit({"x": [0.1, 0.1, 0.1]}, scale=scale).apply(table({"x": [0.1, 1.1]}))
    assert prepared.tolist() == [[0], [1]]


def test_a_missing_number_is_the_training_median_with_an_indicator() -> None:
    columns = {"x": [0.0, 1.0, 5.0, np.nan, 100.0]}
    fitted = fit(columns, 4)
    assert fitted.schema == TableSchema(2)
    prepared = fitted.apply(table(columns))
    assert prepared[:, 1].tolist() == [0, 0, 0, 1, 0]
    assert prepared[3, 0] == prepared[1, 0]
    observed = np.array([0.0, 1.0, 5.0])
    np.testing.assert_allclose(prepared[:3, 0], (observed - 2) / observed.std(), rtol=1e-6)


def test_a_number_missing_only_after_training_is_the_median_without_an_indicator() -> None:
    prepared = fit({"x": [1.0, 2.0, 6.0]}).apply(table({"x": [np.nan, 2.0]}))
    assert prepared.shape == (2, 1)
    assert prepared[0] == prepared[1]


def test_a_boolean_is_zero_or_one() -> None:
    assert fit({"b": [True, False, True]}).apply(table({"b": [True, False]})).tolist() == [[1], [0]]
    fitted = fit({"b": ["Yes", "no", None, "no"]}, kinds={"b": "boolean"})
    assert fitted.apply(table({"b": ["yes", None]})).tolist() == [[1, 0], [0, 1]]


def test_a_date_gives_days_and_its_place_in_year_and_week() -> None:
    days = np.array(["2021-01-01", "2021-07-02T12", "2021-01-08"], dtype="M8[us]")
    whole = days.astype("M8[D]")
    assert fit({"d": whole}).schema == TableSchema(5)
    fitted = fit({"d": days})
    assert fitted.schema == TableSchema(7)
    day, year_sine, year_cosine, week_sine, week_cosine, clock_sine, clock_cosine = fitted.apply(table({"d": days})).T
    np.testing.assert_allclose(day.numpy().mean(), 0, atol=1e-6)
    assert day[1] > day[2] > day[0]
    np.testing.assert_allclose(year_sine[:2], [0, 0], atol=1e-6)
    np.testing.assert_allclose(year_cosine[:2], [1, -1], atol=1e-6)
    np.testing.assert_allclose([week_sine[0], week_cosine[0]], [week_sine[2], week_cosine[2]], atol=1e-6)
    np.testing.assert_allclose(clock_sine, [0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(clock_cosine, [1, -1, 1], atol=1e-6)
    np.testing.assert_allclose(week_sine**2 + week_cosine**2, 1, atol=1e-6)


def test_a_missing_date_has_an_indicator() -> None:
    columns = {"d": np.array(["2021-01-01", "NaT", "2021-01-03"], dtype="M8[us]")}
    fitted = fit(columns)
    assert fitted.schema == TableSchema(6)
    assert fitted.apply(table(columns))[:, 1].tolist() == [0, 1, 0]


def test_categories_have_codes_by_frequency_then_value() -> None:
    training = ["b", "b", "a", "a", "c", "c", "c", "once", None]
    fitted = fit({"s": training})
    assert fitted.schema == TableSchema(0, (5,))
    prepared = fitted.apply(table({"s": ["c", "a", "b", "once", "new", None]}))
    assert prepared[:, 0].tolist() == [2, 3, 4, 0, 0, 1]


def test_the_vocabulary_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vesica.data.features.MOST_CATEGORIES", 2)
    fitted = fit({"s": ["a", "a", "b", "b", "c", "c", "c"]})
    assert fitted.apply(table({"s": ["c", "a", "b"]}))[:, 0].tolist() == [2, 3, 0]


def test_categories_come_from_the_training_rows_alone() -> None:
    columns = {"s": ["a", "a", "b", "b"]}
    assert fit(columns, 2).apply(table(columns))[:, 0].tolist() == [2, 2, 0, 0]


def test_numbers_come_first_and_codes_last_in_the_order_of_the_table() -> None:
    columns = {"s": ["a", "a"], "x": [0.0, 2.0], "t": [None, "b"], "u": ["c", "c"], "y": [4.0, 0.0]}
    fitted = fit(columns)
    assert fitted.ignored == {"t": "no category occurs twice in the training rows"}
    assert fitted.schema == TableSchema(2, (3, 3))
    prepared = fitted.apply(table({**columns, "extra": [1, 2]}))
    assert prepared.dtype == torch.float32
    assert prepared.is_contiguous()
    assert prepared.tolist() == [[-1, 1, 2, 2], [1, -1, 2, 2]]


def test_kinds_can_be_chosen() -> None:
    columns = {"n": [7, 7, 8], "t": ["1.5", "3.5", None], "d": ["2020-01-01", "2020-01-03", None], "z": [1, 2, 3]}
    kinds = {"n": "categorical", "t": "numeric", "d": "date", "z": "ignore"}
    fitted = fit(columns, kinds=kinds)
    assert fitted.ignored == {"z": 'set to "ignore"'}
    assert fitted.schema == TableSchema(2 + 6, (3,))
    assert fitted.categories[0].known == ("7",)
    prepared = fitted.apply(table(columns))
    assert prepared[:2, 0].tolist() == [-1, 1]
    assert prepared[:2, 2].tolist() == [-1, 1]
    assert fitted.apply(table({**columns, "n": ["7", None, "9"]}))[:, -1].tolist() == [2, 1, 0]
    assert fitted.apply(table({**columns, "n": [7.0, np.nan, 9.0]}))[:, -1].tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("columns", "choices", "words"),
    [
        ({"x": [1.0, 2.0]}, {"kinds": {"xx": "numeric"}}, ["'xx'", "did you mean 'x'"]),
        ({"x": [1.0, 2.0]}, {"kinds": {"x": "numerical"}}, ["'x'", "did you mean 'numeric'"]),
        ({"x": ["1", "two"]}, {"kinds": {"x": "numeric"}}, ["'x'", "'two'", "number"]),
        ({"x": ["1", "two"]}, {"kinds": {"x": "boolean"}}, ["'x'", "'two'", "boolean"]),
        ({"x": [1, 2]}, {"kinds": {"x": "boolean"}}, ["'x'", "'2'", "boolean"]),
        ({"x": ["soon", "late"]}, {"kinds": {"x": "date"}}, ["'x'", "'soon'", "date"]),
        ({"x": [1, 2]}, {"kinds": {"x": "date"}}, ["'x'", "'1'", "date"]),
        ({"x": [np.nan, np.nan]}, {}, ["'x'", "ignore"]),
        ({"s": np.array([None, None]), "x": [1, 2]}, {"kinds": {"s": "categorical"}}, ["'s'", "ignore"]),
        ({"x": [np.inf, 1.0, -np.inf]}, {}, ["'x'", "2 infinite"]),
        ({"x": [1, 2]}, {"kinds": {"x": "ignore"}}, ["no usable column"]),
        ({"s": ["a", "b"]}, {}, ["no usable column"]),
        ({"x": [1, 2]}, {"rows": 0}, ["no training rows"]),
        ({"x": [1, 2]}, {"scale": "standardise"}, ["did you mean 'standard'"]),
    ],
)
def test_what_cannot_be_fitted_is_refused(columns: dict[str, Any], choices: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as refusal:
        fit(columns, **choices)
    assert all(word in str(refusal.value) for word in ["bank", *words]), str(refusal.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"incme": [1.0]}, ["'income'", "did you mean 'incme'"]),
        ({"income": [np.inf]}, ["'income'", "1 infinite"]),
        ({"income": ["much"]}, ["'income'", "'much'"]),
    ],
)
def test_what_cannot_be_applied_is_refused(columns: dict[str, Any], words: list[str]) -> None:
    fitted = fit({"income": [1.0, 2.0]})
    with pytest.raises(InputError) as refusal:
        fitted.apply(table(columns))
    assert all(word in str(refusal.value) for word in ["bank", *words]), str(refusal.value)


def test_infinite_values_outside_the_training_rows_do_not_disturb_the_fit() -> None:
    assert fit({"x": [1.0, 3.0, np.inf]}, 2).apply(table({"x": [2.0]})).tolist() == [[0]]


def test_images_are_fitted_per_channel_and_turned_channels_first() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 4, 5, 3), dtype=np.uint8)
    pixels[:, :, :, 2] = 51
    fitted = Preparation.fit(images(pixels), np.arange(4), party="bank")
    schema = fitted.schema
    assert isinstance(schema, ImageSchema)
    assert (schema.channels, schema.height, schema.width) == (3, 4, 5)
    scaled = pixels[:4] / 255
    np.testing.assert_allclose(schema.mean, scaled.mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(schema.std, [*scaled.std(axis=(0, 1, 2))[:2], 1])
    prepared = fitted.apply(images(pixels))
    assert prepared.dtype == torch.uint8
    assert prepared.is_contiguous()
    np.testing.assert_array_equal(prepared.numpy(), pixels.transpose(0, 3, 1, 2))


def test_an_image_of_another_shape_is_refused() -> None:
    fitted = Preparation.fit(images(np.zeros((2, 4, 4))), np.arange(2), party="bank")
    with pytest.raises(InputError, match=r"bank.*\(5, 4, 1\).*\(4, 4, 1\)"):
        fitted.apply(images(np.zeros((2, 5, 4))))
    with pytest.raises(InputError, match=r"bank.*no image"):
        fitted.apply(table({"x": [1.0]}))


def test_images_beside_columns_are_refused_unless_ignored() -> None:
    both = images(np.zeros((2, 4, 4)), {"age": [1, 2]})
    with pytest.raises(InputError, match=r'bank.*age.*"ignore"'):
        Preparation.fit(both, np.arange(2), party="bank")
    fitted = Preparation.fit(both, np.arange(2), party="bank", kinds={"age": "ignore"})
    assert fitted.ignored == {"age": 'set to "ignore"'}


def test_an_image_preparation_survives_json() -> None:
    made = images(np.random.default_rng(0).integers(0, 256, (3, 4, 4, 3)))
    fitted = Preparation.fit(made, np.arange(3), party="bank")
    again = Preparation.from_json(json.loads(json.dumps(fitted.to_json())))
    assert again == fitted
    assert torch.equal(again.apply(made), fitted.apply(made))


FLOATS = st.floats(allow_infinity=False) | st.just(float("nan"))
ROWS = st.tuples(
    FLOATS,
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.sampled_from(["a", "b", "c", None]),
    st.datetimes() | st.none(),
)


def columns_of(rows: list[Any]) -> dict[str, Any]:
    f, i, b, s, d = (list(values) for values in zip(*rows, strict=True))
    return {"f": np.array(f), "i": np.array(i), "b": b, "s": s, "d": np.array(d, dtype="M8[us]")}


@settings(max_examples=60, deadline=None)
@given(
    training=st.lists(ROWS, min_size=1, max_size=6),
    later=st.lists(ROWS, min_size=1, max_size=4),
    scale=st.sampled_from(["standard", "minmax"]),
)
def test_the_prepared_tensor_is_finite_in_range_and_exact_after_json(
    training: list[Any], later: list[Any], scale: str
) -> None:
    anchored = [(1.0, 1, True, "a", np.datetime64("2020-01-01").item()), *training]
    fitted = fit(columns_of(anchored), scale=scale)
    again = Preparation.from_json(json.loads(json.dumps(fitted.to_json())))
    assert again == fitted
    schema = fitted.schema
    assert isinstance(schema, TableSchema)
    for rows in (anchored, later):
        prepared = fitted.apply(table(columns_of(rows)))
        assert prepared.shape == (len(rows), schema.width)
        assert torch.isfinite(prepared).all()
        for codes, count in zip(prepared[:, schema.numeric :].T, schema.categories, strict=True):
            assert set(codes.tolist()) <= set(range(count))
        assert torch.equal(again.apply(table(columns_of(rows))), prepared)


def test_quantile_scaling_maps_ranks_to_normal_scores_and_keeps_the_order() -> None:
    from scipy.stats import norm

    skewed = np.exp(np.random.default_rng(0).normal(size=4000) * 3)
    table = Table(np.arange(4000).astype(str), {"x": skewed})
    fitted = Preparation.fit(table, np.arange(3000), party="bank", scale="quantile")
    scores = fitted.apply(table)[:, 0].numpy()
    assert (np.diff(scores[np.argsort(skewed)]) >= 0).all()
    ranks = (np.argsort(np.argsort(skewed[:3000])) + 0.5) / 3000
    inner = (ranks > 0.01) & (ranks < 0.99)  # between the outermost knots a straight line is a coarse guess
    assert np.abs(scores[:3000] - norm.ppf(ranks))[inner].max() < 0.05
    again = Preparation.from_json(json.loads(json.dumps(fitted.to_json())))
    assert torch.equal(again.apply(table), fitted.apply(table))


def test_quantile_scaling_of_few_distinct_values_and_of_a_constant() -> None:
    table = Table(np.arange(4).astype(str), {"x": np.array([1.0, 1.0, 2.0, 3.0]), "y": np.full(4, 7.0)})
    scores = Preparation.fit(table, np.arange(4), party="bank", scale="quantile").apply(table)
    assert scores[0, 0] == scores[1, 0] < scores[2, 0] < scores[3, 0]
    assert scores[:, 1].tolist() == [0.0] * 4
    beyond = Table(np.array(["z"]), {"x": np.array([1e9]), "y": np.array([7.0])})
    assert Preparation.fit(table, np.arange(4), party="bank", scale="quantile").apply(beyond)[0, 0] == scores[3, 0]
