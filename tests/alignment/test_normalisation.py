"""Ids by explicit rules: what is the same, what is missing, what is repeated."""

from datetime import date, datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vesica.alignment.normalisation import digest_of, prepare
from vesica.data.ids import Rules
from vesica.errors import InputError


@pytest.mark.parametrize(
    ("rules", "value", "text"),
    [
        (Rules(), " Ab ", " Ab "),
        (Rules(trim=True), "\t Ab\u00a0", "Ab"),
        (Rules(case="lower"), "ÄB", "äb"),
        (Rules(case="upper"), "äb", "ÄB"),
        (Rules(pad=5), "-12", "00-12"),
        (Rules(pad=2), "123", "123"),
        (Rules(trim=True, pad=4), " 12 ", "0012"),
        (Rules(), 7, "7"),
        (Rules(), 7.0, "7"),
        (Rules(), date(2020, 1, 2), "2020-01-02"),
        (Rules(), datetime(2020, 1, 2), "2020-01-02"),
        (Rules(), b"ab", "ab"),
    ],
)
def test_a_key_is_compared_as_the_rules_say(rules: Rules, value: object, text: str) -> None:
    assert rules.text(value) == text


@pytest.mark.parametrize("value", [None, float("nan"), "", b"", np.datetime64("NaT")])
def test_a_missing_key_stays_missing_even_when_padded(value: object) -> None:
    assert Rules(pad=8).text(value) is None


def test_white_space_alone_is_a_key_unless_trimmed() -> None:
    assert Rules().text("  ") == "  "
    assert Rules(trim=True, pad=3).text("  ") is None


def test_rows_without_an_id_are_left_out_and_counted() -> None:
    ids = prepare([["a", None, "b", ""], [1, 2, None, 4]], Rules())
    assert (len(ids), ids.given, ids.missing, ids.repeated, ids.keys) == (1, 4, 3, 0, 2)
    assert ids.rows.tolist() == [0]


def test_a_repeated_id_is_refused_with_its_row() -> None:
    with pytest.raises(InputError, match=r"^bank.csv has 2 row\(s\) whose id an earlier row has .* row 3; keep one"):
        prepare([["a", "b", "A ", "a"]], Rules(trim=True, case="lower"), where="bank.csv")


def test_of_a_repeated_id_the_first_row_is_kept_where_the_rule_says_so() -> None:
    ids = prepare([["b", "a", None, "b", "a", "c"]], Rules(), duplicates="first")
    assert ids.rows.tolist() == [0, 1, 5]
    assert (ids.missing, ids.repeated) == (1, 2)


@pytest.mark.parametrize(("columns", "words"), [([], "or none"), ([["a"], ["b", "c"]], "of different length")])
def test_columns_must_be_there_and_equally_long(columns: list[list[str]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        prepare(columns, Rules())


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(InputError, match="case 'lowr' is not known; did you mean 'lower'"):
        Rules(case="lowr")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="width of -1"):
        Rules(pad=-1)
    with pytest.raises(InputError, match=r"no rule 'frist'.*'first'"):
        prepare([["a"]], Rules(), duplicates="frist")  # type: ignore[arg-type]


Keys = st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=3)


@given(Keys, Keys)
def test_several_keys_are_joined_so_that_only_the_same_ones_are_the_same(ours: list[str], theirs: list[str]) -> None:
    assert (digest_of(ours) == digest_of(theirs)) == (ours == theirs)
    assert digest_of(["".join(ours), ""]) != digest_of(["", "".join(ours)])


@given(st.lists(st.text(st.characters(), max_size=3) | st.none(), max_size=20))
def test_ids_are_distinct_and_the_first_of_their_kind(values: list[str | None]) -> None:
    """Surrogates included, which no UTF-8 has."""
    ids = prepare([values], Rules(), duplicates="first")
    seen = {value: row for row, value in reversed(list(enumerate(values))) if value}
    assert ids.rows.tolist() == sorted(seen.values())
    assert len(ids) + ids.missing + ids.repeated == len(values)
    assert len({digest.tobytes() for digest in ids.digests}) == len(ids)


def test_halves_of_surrogate_pairs_are_told_apart() -> None:
    """As broken files have them; UTF-8 has no bytes for them."""
    assert len({digest_of([text]) for text in ("\ud800", "\ud801", "?", "\ufffd")}) == 4


def test_the_same_ids_are_the_same_whatever_they_came_in() -> None:
    digests = [
        prepare([column], Rules()).digests.tolist()
        for column in ([3, 1], ["3", "1"], np.array([3.0, 1.0]), pl.Series([3, 1]), np.array(["3", "1"]))
    ]
    assert all(each == digests[0] for each in digests)
