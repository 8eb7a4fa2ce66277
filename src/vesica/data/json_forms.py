"""Forms that a value read from JSON must have, and the check of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vesica.data.text_files import shown

_NAMES = {str: "a text", int: "a whole number from 0 on", float: "a finite number", bool: "true or false"}


@dataclass(frozen=True)
class Maybe:
    """Something, or null."""

    form: Any


@dataclass(frozen=True)
class Either:
    """One of several objects, told apart by their field `kind`."""

    forms: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Texts:
    """An object of any fields, each a text."""


class Lacking(str):
    """A field that models of earlier versions lack."""


def one_of(values: Iterable[str]) -> frozenset[str]:
    return frozenset(values)


def check(value: Any, form: Any, *, where: str = "it") -> None:
    """Refuse a value that is not of the form, with a ValueError that says where it is not."""
    if isinstance(form, Maybe):
        if value is not None:
            check(value, form.form, where=where)
    elif isinstance(form, list):
        for number, each in enumerate(_need(value, list, where, "a list")):
            check(each, form[0], where=f"{where}[{number}]")
    elif isinstance(form, tuple):
        if len(_need(value, list, where, "a list")) != len(form):
            raise ValueError(f"{where} has {len(value)} values and should have {len(form)}")
        for number, (each, wanted) in enumerate(zip(value, form, strict=True)):
            check(each, wanted, where=f"{where}[{number}]")
    elif isinstance(form, Either):
        kind = _need(value, dict, where, "an object").get("kind")
        check(kind, frozenset(form.forms), where=f"{where}.kind")
        check(value, form.forms[kind], where=where)
    elif isinstance(form, dict):
        _check_fields(_need(value, dict, where, "an object"), form, where)
    elif isinstance(form, Texts):
        for name, each in _need(value, dict, where, "an object").items():
            check(each, str, where=f"{where}[{shown(name)}]")
    elif isinstance(form, frozenset):
        if not isinstance(value, str) or value not in form:
            raise ValueError(f"{where} is {shown(value)} and should be one of {', '.join(sorted(form))}")
    elif not _is(value, form):
        raise ValueError(f"{where} is {shown(value)} and should be {_NAMES[form]}")


def _check_fields(value: dict[str, Any], form: dict[str, Any], where: str) -> None:
    for name in value:
        if name not in form:
            raise ValueError(f"{where} has an unknown field {shown(name)}")
    for name, wanted in form.items():
        if name in value:
            check(value[name], wanted, where=name if where == "it" else f"{where}.{name}")
        elif not isinstance(name, Lacking):
            raise ValueError(f"{where} has no field '{name}'")


def _need(value: Any, kind: type, where: str, words: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{where} is {shown(value)} and should be {words}")
    return value


def _is(value: Any, kind: type) -> bool:
    """JSON writes 1.0 as 1 in some programs; true is no number."""
    if kind is int:
        return type(value) is int and 0 <= value < 2**63
    if kind is float:
        return type(value) in (int, float) and abs(value) < 2**1023 and math.isfinite(value)
    return type(value) is kind
