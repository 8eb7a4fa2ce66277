"""What a party's ids look like, in counts: all that the alignment doctor gets to see of the other side's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from numbers import Integral, Number
from typing import Any

import numpy as np

from vesica.alignment.normalisation import Column, Columns
from vesica.data.ids import Rules
from vesica.errors import ProtocolError

LONGEST = 64  # longer keys count as this long
TYPES = {"text", "whole numbers", "numbers", "dates", "other values"}


@dataclass(frozen=True)
class Summary:
    """Counts over one key column, by the rules in force: all that another party gets to see of it."""

    keys: int
    lengths: Mapping[int, int]
    digits: int  # nothing but digits
    lower: int  # with a lower-case letter
    upper: int  # with an upper-case letter
    other: int  # with a sign that is neither letter, digit nor white space
    zeros: int  # with a leading zero
    spaces: int  # with white space around it
    types: Mapping[str, int]  # before it became text

    @property
    def mostly_digits(self) -> bool:
        return 2 * self.digits > self.keys

    @property
    def range(self) -> tuple[int, int]:
        return min(self.lengths), max(self.lengths)


def summarise(columns: Columns, rules: Rules) -> tuple[Summary, ...]:
    """One a key column."""
    return tuple(_summary(column, rules) for column in columns)


def _summary(column: Column, rules: Rules) -> Summary:
    lengths: Counter[int] = Counter()
    seen: Counter[str] = Counter()
    types: Counter[str] = Counter()
    for value in column:
        text = rules.text(value)
        if text is not None:
            lengths[min(len(text), LONGEST)] += 1
            seen.update(_looks(text))
            types[_type_of(value)] += 1
    names = ("digits", "lower", "upper", "other", "zeros", "spaces")
    return Summary(lengths.total(), dict(lengths), types=dict(types), **{name: seen[name] for name in names})


def _looks(text: str) -> list[str]:
    looks = {
        "digits": text.isascii() and text.isdigit(),
        "lower": any(sign.islower() for sign in text),
        "upper": any(sign.isupper() for sign in text),
        "other": any(not (sign.isalnum() or sign.isspace()) for sign in text),
        "zeros": text.startswith("0") and len(text) > 1,
        "spaces": text != text.strip(),
    }
    return [look for look, true in looks.items() if true]


def _type_of(value: object) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | bytes):
        return "text"
    if isinstance(value, Integral) or (isinstance(value, float) and value.is_integer()):
        return "whole numbers"
    return "numbers" if isinstance(value, Number) else "dates" if isinstance(value, date) else "other values"


def to_text(summaries: Sequence[Summary]) -> str:
    return json.dumps([asdict(summary) for summary in summaries])


def from_text(text: str, *, keys: int, party: str) -> tuple[Summary, ...]:
    """The summaries another party gives, one a key column; anything else is refused."""
    try:
        listed = [_from_json(each) for each in json.loads(text)]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"the summary of '{party}' cannot be read ({error!r})") from error
    if len(listed) != keys:
        raise ProtocolError(f"the summary of '{party}' is about {len(listed)} key(s), expected {keys}")
    return tuple(listed)


def _from_json(said: Mapping[str, Any]) -> Summary:
    lengths = {int(length): _count(count) for length, count in said["lengths"].items()}
    types = {name: _count(count) for name, count in said["types"].items()}
    if not types.keys() <= TYPES:
        raise ValueError("types")
    if not lengths or not all(1 <= length <= LONGEST for length in lengths):
        raise ValueError("lengths")
    names = ("keys", "digits", "lower", "upper", "other", "zeros", "spaces")
    return Summary(lengths=lengths, types=types, **{name: _count(said[name]) for name in names})


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value
