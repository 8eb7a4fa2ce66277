"""Aligning tables that are all in one place: every party a thread, its messages as real as on a wire."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from vesica.alignment.member import Member
from vesica.alignment.normalisation import Columns, Duplicates, Ids, prepare
from vesica.alignment.points import Bulk
from vesica.alignment.programs import Aligned, Alignment
from vesica.engines import InProcess
from vesica.errors import InputError
from vesica.protocol import Budget, Ledger, Link
from vesica.protocol.budget import Meter
from vesica.protocol.journal import Journal
from vesica.protocol.link import Conversation, Progress, silently

WORTH_PROCESSES = 2**14  # ids: a second or two of work, more than it takes to start them


@dataclass(frozen=True)
class AlignedTables:
    """What each party knows in the end, by party, the host first."""

    ids: Mapping[str, Ids]
    results: Mapping[str, Aligned]
    ledger: Ledger  # the host's

    @property
    def size(self) -> int:
        return next(iter(self.results.values())).size


def align(
    tables: Mapping[str, Columns],
    alignment: Alignment,
    *,
    duplicates: Duplicates = "refuse",
    workers: int = 1,
    progress: Progress = silently,
) -> AlignedTables:
    """The ids that all tables have in common, each given by its key columns; the first party is the host.

    With more `workers`, so many processes share the arithmetic; a script must then begin it under
    `if __name__ == "__main__":`, as they import it.
    """
    if len(tables) < 2:
        raise InputError("an alignment needs two tables or more")
    ids = {
        name: prepare(columns, alignment.rules, duplicates=duplicates, where=f"'{name}'")
        for name, columns in tables.items()
    }
    host, *guests = tables
    carrier, ledgers = InProcess(list(tables)), {name: Ledger(name, host=host) for name in tables}
    with bulk_of(workers, most=max(map(len, ids.values()))) as bulk:
        programs = {}
        for name, columns in tables.items():
            peers = guests if name == host else [host]
            talk = Conversation(name, carrier, Journal(None, peers), ledgers[name], Meter(Budget()))
            links = {peer: Link(peer, talk) for peer in peers}
            me = Member(name, tuple(tables), links, ids[name], columns, bulk, progress)
            programs[name] = partial(alignment.host if name == host else alignment.guest, me)
        results = carrier.run(programs, dict.fromkeys(tables, 0))
    return AlignedTables(ids, {name: results[name] for name in tables}, ledgers[host])


@contextmanager
def bulk_of(workers: int, *, most: int) -> Iterator[Bulk]:
    """How a function is applied to many pieces: here, or in so many processes where a party has many ids."""
    if workers < 1:
        raise InputError(f"{workers} processes cannot do anything: give 1 or more")
    if workers == 1 or most < WORTH_PROCESSES:
        yield map
        return
    # Spawned: a fork of a process with threads may hang.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool.map
