"""A federation as one organisation sees it: its own table, and of the others only which ids all have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from vesica.data.federation import Federation, Overlap, PartyData, TestRows, read_party
from vesica.data.labels import take_label
from vesica.data.reading import read_table
from vesica.data.rows import PartyRows
from vesica.data.table import Array, Table
from vesica.data.toml import FederationFile
from vesica.errors import InputError, nearest

_DRAWN = ("keep", "share", "draw")  # who has which rows is drawn in simulation only


def read_membership(path: Path, me: str, *, common: Array) -> Federation:
    """The federation.toml that all organisations have alike, of which `me` reads its own table alone.

    `common` are the ids that every party has. Where others read theirs, their sections need a name and no more.
    """
    file = FederationFile(path)
    sections = [("host", file.section("host")), *(("guest", guest) for guest in file.guests)]
    names = [file.need(values, "name", section) for section, values in sections]
    if me not in names:
        raise InputError(f"{path} has no party '{me}'{nearest(me, names)}")
    for key in _DRAWN:
        if key in file.section("overlap"):
            raise InputError(f"{path}: [overlap] {key} draws rows in simulation: between organisations leave it out")
    if "metric" not in file.values:
        raise InputError(f"{path} has no 'metric': not all parties see the label, so say what is measured")
    host, *guests = (
        read_party(file, values, section) if name == me else _elsewhere(name, common)
        for name, (section, values) in zip(names, sections, strict=True)
    )
    label = None
    if me == host.name:
        table, label = take_label(host.table, file.need(file.section("host"), "label", "host"), party=me)
        host = PartyData(**{**vars(host), "table": table})
    federation = Federation(
        host,
        label,
        tuple(guests),
        task=str(file.values.get("task", "classification")),
        metric=str(file.values["metric"]),
        labels=str(file.section("host").get("labels", "aligned")),
        test=_test_rows(file, reads=me == host.name),
        overlap=Overlap(seed=int(file.section("test").get("seed", 0))),
        labelled=file.section("labelled").get("keep"),
        name=path.stem,
    )
    _check_common(next(party for party in federation.parties if party.name == me), common)
    return federation


def rows_of_guest(party: PartyData, common: Array, test: Array) -> tuple[PartyRows, Array, Array]:
    """A guest's own rows, once it is told which of the common ids, by position in their order, are for testing.

    Also the ids of the aligned and of the test rows.
    """
    ids = np.array(sorted(common.tolist()), dtype=object)
    of_id = {id: row for row, id in enumerate(party.table.ids.tolist())}
    rows = np.array([of_id[id] for id in ids.tolist()], dtype=np.int64)
    tested = np.zeros(len(ids), dtype=bool)
    tested[test] = True
    alone = np.setdiff1d(np.arange(len(party.table)), rows)
    return PartyRows(rows[~tested], alone, rows[tested]), ids[~tested], ids[tested]


def _elsewhere(name: str, common: Array) -> PartyData:
    return PartyData(name, Table(common), elsewhere=True)


def _test_rows(file: FederationFile, *, reads: bool) -> TestRows:
    """The host alone reads which rows are for testing, where a file names them."""
    values: dict[str, Any] = file.section("test")
    ids = None
    if "rows" in values:
        ids = np.empty(0, dtype=object)
        if reads:
            ids = read_table(file.beside(values["rows"]), id=file.key(file.section("host"), "host")).ids
    return TestRows(float(values.get("fraction", 0.2)), ids, int(values.get("seed", 0)))


def _check_common(mine: PartyData, common: Array) -> None:
    own = mine.table.ids.tolist()
    if len(set(own)) < len(own):
        raise InputError(f"'{mine.name}' has {len(own) - len(set(own))} duplicated ids: keep a row an id")
    strange = sorted(set(common.tolist()) - set(own))
    if strange:
        raise InputError(
            f"{len(strange)} of the {len(common)} common ids, such as {strange[0]!r}, are not in the table of "
            f"'{mine.name}': align again, with the table as it is now"
        )
