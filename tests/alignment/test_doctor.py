"""The alignment doctor: one sentence a cause, from one's own ids and counts of the others'."""

import json
from datetime import date

import pytest

from vesica.alignment.doctor import examine, few
from vesica.alignment.summary import from_text, summarise, to_text
from vesica.data.ids import Rules
from vesica.errors import ProtocolError

AS_THEY_ARE = Rules()
NUMBERS = [str(10_000 + number) for number in range(20)]


def hints(ours: list[object], theirs: list[object], rules: Rules = AS_THEY_ARE) -> list[str]:
    """As they come out after the counts have crossed."""
    crossed = from_text(to_text(summarise([theirs], rules)), keys=1, party="shop")
    return [hint.removeprefix("'shop': ") for hint in examine(summarise([ours], rules), crossed, party="shop")]


def test_leading_zeros_on_one_side_ask_for_padding() -> None:
    ours, theirs = [f"{number:08}" for number in range(5, 10**7, 10**6)], list(range(123_456, 10**8, 10**7))
    expected = "yours have 8 digits with leading zeros, theirs have 6 to 8 without: use --pad 8"
    assert hints(ours, theirs) == [expected]
    assert hints(ours, theirs, Rules(pad=8)) == [ALIKE]


def test_spaces_ask_for_trimming() -> None:
    assert hints(NUMBERS, [f"{number} " for number in NUMBERS])[0] == (
        "20 of theirs have white space around them: use --trim"
    )
    assert hints(NUMBERS, [f"{number} " for number in NUMBERS], Rules(trim=True)) == [ALIKE]


def test_cases_that_differ_ask_for_one_case() -> None:
    upper, lower = ["AB1", "CD2"], ["ab1", "cd2"]
    assert hints(upper, lower) == ["yours have upper-case letters, theirs have lower-case ones: use --case lower"]
    assert "yours have upper-case and lower-case letters" in hints(["Ab1"], lower)[0]
    assert hints(upper, lower, Rules(case="lower")) == [ALIKE]


def test_other_signs_are_named() -> None:
    assert hints(["12-34", "56-78"], ["12a34", "56a78"])[0] == (
        "yours have signs such as dashes or points, theirs have none: write both alike"
    )


def test_digits_against_letters_may_be_other_ids() -> None:
    assert hints(NUMBERS, ["abcde"]) == [
        "yours are mostly digits alone, theirs are not: these may be different kinds of ids"
    ]


def test_lengths_that_never_meet_may_be_other_ids() -> None:
    assert hints(NUMBERS, ["1" * 9, "2" * 10]) == [
        "yours have 5 characters, theirs have 9 to 10: these may be different kinds of ids"
    ]


def test_types_that_differ_are_named_and_whole_numbers_are_as_good_as_text() -> None:
    assert hints(["2020-01-02"], [date(2020, 1, 3)]) == [
        "yours are text, theirs are dates: store both as text, written alike"
    ]
    assert hints(NUMBERS, [int(number) for number in NUMBERS]) == [ALIKE]


def test_several_keys_are_examined_one_by_one() -> None:
    ours, theirs = summarise([["a"], ["B"]], Rules()), summarise([["a"], ["b"]], Rules())
    (hint,) = examine(ours, theirs, party="shop")
    assert hint.startswith("'shop', key 2: yours have upper-case letters")


def test_a_summary_holds_counts_and_no_id() -> None:
    text = to_text(summarise([["secret-id-4711", "Other", None]], Rules()))
    assert "4711" not in text
    (said,) = json.loads(text)
    assert said == {
        "keys": 2,
        "lengths": {"14": 1, "5": 1},
        "digits": 0,
        "lower": 2,
        "upper": 1,
        "other": 1,
        "zeros": 0,
        "spaces": 0,
        "types": {"text": 2},
    }


@pytest.mark.parametrize(
    "change",
    [
        {"keys": -1},
        {"digits": 1.5},
        {"digits": True},
        {"lengths": {}},
        {"lengths": {"65": 1}},
        {"lengths": {"0": 1}},
        {"lengths": {"x": 1}},
        {"lengths": [1]},
        {"types": None},
    ],
)
def test_a_summary_that_is_none_is_refused(change: dict[str, object]) -> None:
    (good,) = json.loads(to_text(summarise([["a"]], Rules())))
    with pytest.raises(ProtocolError, match="'shop' cannot be read"):
        from_text(json.dumps([{**good, **change}]), keys=1, party="shop")


@pytest.mark.parametrize("text", ["", "7", '["a"]', "[" * 100_000])
def test_text_that_is_no_summary_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="'shop' cannot be read"):
        from_text(text, keys=1, party="shop")


def test_a_summary_of_other_keys_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"about 2 key\(s\), expected 1"):
        from_text(to_text(summarise([["a"], ["b"]], Rules())), keys=1, party="shop")


def test_few_is_less_than_half_of_the_smallest() -> None:
    assert few(4, {"a": 9, "b": 100})
    assert not few(5, {"a": 10, "b": 100})
    assert not few(0, {"a": 0, "b": 100})


ALIKE = "the ids look alike on both sides: ask whether they are the same kind of id, and about the same people"
