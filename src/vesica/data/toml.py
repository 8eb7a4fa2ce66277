"""Reading federation.toml: every key checked, the nearest one named where one is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vesica.data.ids import Key, Rules
from vesica.data.text_files import read_toml, shown
from vesica.errors import InputError, nearest

_PARTY = {"name": str, "table": str, "id": str, "encoder": str, "dim": int, "columns": dict, "scale": str}
_KEYS: dict[str, dict[str, type]] = {
    "": {
        "task": str,
        "metric": str,
        "host": dict,
        "guest": list,
        "ids": dict,
        "test": dict,
        "overlap": dict,
        "labelled": dict,
    },
    "host": {**_PARTY, "label": str, "labels": str},
    "guest": _PARTY,
    "ids": {"trim": bool, "case": str, "pad": int},
    "test": {"fraction": float, "rows": str, "seed": int},
    "overlap": {"keep": int, "share": str, "draw": int, "seed": int},
    "labelled": {"keep": int},
}
_TYPE_NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table",
    list: "a list of tables, written [[guest]]",
}


class FederationFile:
    """A federation.toml whose keys and types have been checked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values = read_toml(path)
        self._check(self.values, "")
        for name in ("host", "ids", "test", "overlap", "labelled"):
            self._check(self.section(name), name)
        for guest in self.guests:
            if not isinstance(guest, dict):
                raise InputError(f"{path}: guest must be a list of tables, written [[guest]]")
            self._check(guest, "guest")
        self.rules = self._rules()  # for the ids of all parties

    def section(self, name: str) -> dict[str, Any]:
        return dict(self.values.get(name, {}))

    @property
    def guests(self) -> list[dict[str, Any]]:
        return list(self.values.get("guest", []))

    def parties(self, me: str) -> dict[str, dict[str, Any]]:
        """What is said of each party, by name, the host first; `me` is one of them."""
        listed = [("host", self.section("host")), *(("guest", guest) for guest in self.guests)]
        sections = {self.need(values, "name", section): values for section, values in listed}
        if len(sections) < len(listed):
            raise InputError(f"{self.path} has two parties of one name: give each a name of its own")
        if len(sections) < 2:
            raise InputError(f"{self.path} has no guest: there is nobody to talk to")
        if me not in sections:
            raise InputError(f"{self.path} has no party '{me}'{nearest(me, sections)}")
        return sections

    def need(self, values: Mapping[str, Any], key: str, section: str) -> str:
        if key not in values:
            raise InputError(f"{self.path}: [{section}] has no '{key}': add it")
        return str(values[key])

    def key(self, values: Mapping[str, Any], section: str) -> Key:
        """What makes a party's ids: its column or columns, and the rules that all parties share."""
        id = values.get("id")
        return Key(tuple(id) if isinstance(id, list) else (self.need(values, "id", section),), self.rules)

    def beside(self, name: str) -> Path:
        """A file that this one names; relative names are relative to it."""
        return self.path.parent / name

    def _rules(self) -> Rules:
        try:
            return Rules(**self.section("ids"))
        except InputError as fault:
            raise InputError(f"{self.path}: [ids] {fault}") from fault

    def _check(self, values: Mapping[str, Any], section: str) -> None:
        where = f"{self.path}: [{section}]" if section else f"{self.path}:"
        for key, value in values.items():
            if key not in _KEYS[section]:
                unused = _KEYS[section].keys() - values.keys()
                raise InputError(f"{where} has an unknown key {shown(key)}{nearest(key, unused or _KEYS[section])}")
            wanted = _KEYS[section][key]
            if key == "id" and isinstance(value, list):
                self._check_columns(value, where)
            elif type(value) is not wanted and not (wanted is float and type(value) is int):
                raise InputError(f"{where} {key} is {shown(value)} and should be {_TYPE_NAMES[wanted]}")
        for column, kind in values.get("columns", {}).items():
            if not isinstance(kind, str):
                raise InputError(f"{where} columns sets {shown(column)} to {shown(kind)}, which is no text")

    def _check_columns(self, id: list[Any], where: str) -> None:
        """Several columns that together make an id."""
        if not id or not all(isinstance(name, str) for name in id) or len(set(id)) < len(id):
            raise InputError(f"{where} id is {shown(id)} and should be a column, or a list of different columns")
