"""Cutting one table into several parties' tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vesica.data import Table, Text
from vesica.data.table import Column
from vesica.datasets import cuts
from vesica.errors import InputError


def table(columns: int, *, rows: int = 3) -> Table:
    return Table(np.arange(rows).astype(str), {f"c{i}": np.full(rows, float(i)) for i in range(columns)})


def pictures(height: int, width: int) -> Table:
    image = np.arange(2 * height * width, dtype=np.uint8).reshape(2, height, width, 1)
    return Table(np.array(["a", "b"]), image=image)


def names(tables: list[Table]) -> list[list[str]]:
    return [list(one.columns) for one in tables]


def test_contiguous_keeps_neighbours_together_in_parts_that_differ_by_one_at_most() -> None:
    assert names(cuts.contiguous(table(7), 3)) == [["c0", "c1"], ["c2", "c3"], ["c4", "c5", "c6"]]
    assert names(cuts.contiguous(table(3), 1)) == [["c0", "c1", "c2"]]


def test_equal_deals_every_column_to_one_party_by_its_seed() -> None:
    parts = names(cuts.equal(table(10), 3, seed=1))
    assert sorted(map(len, parts)) == [3, 3, 4]
    assert sorted(name for part in parts for name in part) == [f"c{i}" for i in range(10)]
    assert parts == names(cuts.equal(table(10), 3, seed=1)) != names(cuts.equal(table(10), 3, seed=2))


def test_by_list_gives_what_is_asked_in_that_order() -> None:
    first, second = cuts.by_list(table(4), [["c2", "c0"], ["c3"]])
    assert names([first, second]) == [["c2", "c0"], ["c3"]]
    assert np.array_equal(first.columns["c2"], [2.0, 2.0, 2.0])  # type: ignore[arg-type]


@pytest.mark.parametrize(("alpha", "dominant"), [(0, 0), (0.5, 2), (1, 4)])
def test_by_importance_gives_the_first_party_a_ratio_alpha_of_the_dominant_columns(alpha: float, dominant: int) -> None:
    importance = np.array([0, 9, 0, 8, 0, 7, 0, 6, 0, 0])
    first, second = names(cuts.by_importance(table(10), importance, dominant=4, alpha=alpha))
    top = {"c1", "c3", "c5", "c7"}
    assert (len(first), len(second)) == (5, 5)
    assert (len(top & set(first)), len(top & set(second))) == (dominant, 4 - dominant)
    assert not set(first) & set(second)


def test_by_importance_gives_the_first_party_the_odd_column() -> None:
    parts = cuts.by_importance(table(5), np.arange(5), dominant=2, alpha=0)
    assert [len(part.columns) for part in parts] == [3, 2]
    assert names(parts)[1] == ["c3", "c4"]


@pytest.mark.parametrize("regression", [False, True])
def test_the_importance_finds_the_column_that_matters(regression: bool) -> None:
    random = np.random.default_rng(0)
    label = random.integers(0, 2, 200)
    noise: dict[str, Column] = {"a": random.normal(size=200), "b": Text.of(random.choice(["x", "y"], 200).tolist())}
    hidden = np.where(np.arange(200) == 0, np.nan, label + 0.1 * random.normal(size=200))
    data = Table(np.arange(200).astype(str), {**noise, "matters": hidden})
    importance = cuts.importance_of(data, label, np.arange(150), regression=regression)
    assert importance.argmax() == 2


def test_halves_are_the_left_and_the_right_of_each_image() -> None:
    whole = pictures(2, 6)
    assert whole.image is not None
    left, right = cuts.halves(whole)
    assert left.image is not None
    assert right.image is not None
    assert np.array_equal(np.concatenate([left.image, right.image], axis=2), whole.image)
    assert left.image.shape == right.image.shape == (2, 2, 3, 1)
    assert left.ids.tolist() == ["a", "b"]


def test_quadrants_are_the_quarters_row_by_row() -> None:
    corners = [one.image[0, :, :, 0].tolist() for one in cuts.quadrants(pictures(2, 2)) if one.image is not None]
    assert corners == [[[0]], [[1]], [[2]], [[3]]]


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "more parties than columns": (lambda: cuts.contiguous(table(2), 3), "2 columns cannot be shared out to 3"),
    "no party": (lambda: cuts.equal(table(2), 0), "2 columns cannot be shared out to 0"),
    "columns of an image": (lambda: cuts.contiguous(pictures(2, 2), 2), "0 columns cannot be shared out"),
    "unknown column": (lambda: cuts.by_list(table(2), [["c0"], ["d1"]]), "no column 'd1' .* did you mean 'c1'"),
    "alpha beyond 1": (
        lambda: cuts.by_importance(table(4), np.arange(4), dominant=1, alpha=1.5),
        "alpha is 1.5",
    ),
    "too many dominant columns": (
        lambda: cuts.by_importance(table(4), np.arange(4), dominant=3, alpha=0.5),
        "3 of 4 columns cannot be the dominant ones: give 1 to 2",
    ),
    "no dominant column": (
        lambda: cuts.by_importance(table(4), np.arange(4), dominant=0, alpha=0.5),
        "0 of 4 columns cannot be the dominant ones",
    ),
    "halves of a table": (lambda: cuts.halves(table(2)), "only images can be cut"),
    "quadrants of a table": (lambda: cuts.quadrants(table(2)), "only images can be cut"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_impossible_cut_is_refused(case: str) -> None:
    cut, telling = REFUSED[case]
    with pytest.raises(InputError, match=telling):
        cut()
