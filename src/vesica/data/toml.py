"""Reading federation.toml: every key checked, the nearest one named where one is unknown."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vesica.data.federation import (
    Federation,
    Overlap,
    PartyData,
    TestRows,
    default_metric,
    refuse_same_names,
    take_label,
)
from vesica.data.reading import read_table
from vesica.data.table import Table
from vesica.errors import InputError, nearest

_PARTY = {"name": str, "table": str, "id": str, "encoder": str, "dim": int, "columns": dict, "scale": str}
_KEYS: dict[str, dict[str, type]] = {
    "": {
        "task": str,
        "metric": str,
        "host": dict,
        "guest": list,
        "test": dict,
        "overlap": dict,
        "labelled": dict,
    },
    "host": {**_PARTY, "label": str, "labels": str},
    "guest": _PARTY,
    "test": {"fraction": float, "rows": str, "seed": int},
    "overlap": {"keep": int, "share": str, "draw": int, "seed": int},
    "labelled": {"keep": int},
}
_TYPE_NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    dict: "a table",
    list: "a list of tables, written [[guest]]",
}


class _File:
    """A federation.toml whose keys and types have been checked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values = self._parse()
        self._check(self.values, "")
        for name in ("host", "test", "overlap", "labelled"):
            self._check(self.section(name), name)
        for guest in self.guests:
            if not isinstance(guest, dict):
                raise InputError(f"{path}: guest must be a list of tables, written [[guest]]")
            self._check(guest, "guest")

    def section(self, name: str) -> dict[str, Any]:
        return dict(self.values.get(name, {}))

    @property
    def guests(self) -> list[dict[str, Any]]:
        return list(self.values.get("guest", []))

    def need(self, values: Mapping[str, Any], key: str, section: str) -> str:
        if key not in values:
            raise InputError(f"{self.path}: [{section}] has no '{key}': add it")
        return str(values[key])

    def party(self, values: Mapping[str, Any], section: str) -> PartyData:
        """One party with its table, read from beside this file."""
        name = self.need(values, "name", section)
        for column, kind in values.get("columns", {}).items():
            if not isinstance(kind, str):
                raise InputError(f"{self.path}: [{section}] columns sets '{column}' to {kind!r}, which is no text")
        table = read_table(self.path.parent / self.need(values, "table", section), id=self.need(values, "id", section))
        return PartyData(
            name,
            table,
            kinds=values.get("columns", {}),
            scale=values.get("scale", "standard"),
            encoder=values.get("encoder"),
            dim=values.get("dim"),
        )

    def _parse(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"there is no file {self.path}: give the path of a federation.toml") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"{self.path} cannot be read as TOML: {error}") from error

    def _check(self, values: Mapping[str, Any], section: str) -> None:
        where = f"{self.path}: [{section}]" if section else f"{self.path}:"
        for key, value in values.items():
            if key not in _KEYS[section]:
                unused = _KEYS[section].keys() - values.keys()
                raise InputError(f"{where} has an unknown key '{key}'{nearest(key, unused or _KEYS[section])}")
            wanted = _KEYS[section][key]
            if type(value) is not wanted and not (wanted is float and type(value) is int):
                raise InputError(f"{where} {key} is {value!r} and should be {_TYPE_NAMES[wanted]}")


def read_federation(path: Path) -> Federation:
    """A federation from its file; the paths in it are relative to it."""
    file = _File(path)
    values = file.section("host")
    host = file.party(values, "host")
    table, label = take_label(host.table, file.need(values, "label", "host"), party=host.name)
    task = str(file.values.get("task", "classification"))
    test = file.section("test")
    seed = int(test.get("seed", 0))
    ids = read_table(path.parent / test["rows"], id=file.need(values, "id", "host")).ids if "rows" in test else None
    return Federation(
        replace(host, table=table),
        label,
        tuple(file.party(guest, "guest") for guest in file.guests),
        task=task,
        metric=str(file.values.get("metric") or default_metric(task, label)),
        labels=str(values.get("labels", "aligned")),
        test=TestRows(float(test.get("fraction", 0.2)), ids, seed),
        overlap=Overlap(**{"seed": seed, **file.section("overlap")}),
        labelled=file.section("labelled").get("keep"),
        name=path.stem,
    )


def read_new_rows(path: Path) -> dict[str, Table]:
    """The parties' tables of rows to predict; no label is needed, and one that is there is not looked at."""
    file = _File(path)
    parties = [file.party(guest, "guest") for guest in file.guests]
    values = file.section("host")
    if values:  # a host with labels only has nothing to bring
        host = file.party(values, "host")
        columns = [name for name in host.table.columns if name != values.get("label")]
        parties.insert(0, replace(host, table=host.table.only(columns)))
    refuse_same_names(parties)
    return {party.name: party.table for party in parties}
