"""One organisation's part of a private alignment by post."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from vesica.alignment.key_files import read_keys, write_rows
from vesica.alignment.member import Member
from vesica.alignment.normalisation import prepare
from vesica.alignment.programs import Aligned, Alignment
from vesica.data.toml import FederationFile
from vesica.engines.post.desk import Desk
from vesica.engines.post.envelope import Mark
from vesica.engines.post.folder import DeskFolder
from vesica.engines.post.keys import check_name
from vesica.experiment.alignment import bulk_of
from vesica.experiment.post import sections_of
from vesica.protocol import Budget, Ledger, Link
from vesica.protocol.budget import Meter
from vesica.protocol.journal import Journal
from vesica.protocol.link import Conversation, Progress, silently


def align_by_post(
    federation: Path,
    folder: DeskFolder,
    *,
    label: str,
    out: Path,
    linger: Callable[[str], None],
    workers: int = 1,
    progress: Progress = silently,
) -> Aligned:
    """Write the ids that all parties have in common, in one order, to `out`.

    The secret of an alignment is never stored, so it has no second life: it waits for files, and calls `linger`
    with a sentence that says for which.
    """
    check_name(label, "a run")
    file, me = FederationFile(federation), folder.identity().name
    sections = sections_of(file, me)
    table = file.beside(file.need(sections[me], "table", me))
    column = file.need(sections[me], "id", me)
    columns, alignment = read_keys(table, [column]), Alignment()
    ids = prepare(columns, alignment.rules, where=str(table))
    host, *guests = sections
    cards = folder.cards(list(sections))
    mark = Mark.of(label, federation={"parties": list(cards)}, method={"name": "align"}, cards=list(cards.values()))
    for left in list(folder.leaving(label)):  # of an earlier alignment, which nothing goes on from
        left.unlink()
    desk = Desk(folder, mark, cards, host=host, linger=linger)
    journal = Journal(None, guests if me == host else [host])
    desk.resume(journal)
    talk = Conversation(me, desk, journal, Ledger(me, host=host), Meter(Budget()))
    links = {peer: Link(peer, talk) for peer in (guests if me == host else [host])}
    with bulk_of(workers, most=len(ids)) as bulk:
        member = Member(me, tuple(sections), links, ids, columns, bulk, progress)
        aligned = alignment.host(member) if me == host else alignment.guest(member)
    assert aligned.rows is not None
    write_rows(out, {column: columns[0]}, rows=aligned.rows)
    desk.clear()
    return aligned
