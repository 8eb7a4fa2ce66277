"""One organisation's part of a private alignment: its own keys, and a carrier to the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vesica.alignment.key_files import read_keys, write_rows
from vesica.alignment.member import Member
from vesica.alignment.normalisation import Column, Duplicates, Ids, prepare
from vesica.alignment.programs import Aligned, Alignment
from vesica.data.toml import FederationFile
from vesica.errors import InputError
from vesica.experiment.alignment import bulk_of
from vesica.experiment.member import Carrier
from vesica.protocol import Budget, Ledger, Link
from vesica.protocol.budget import Meter
from vesica.protocol.journal import Journal
from vesica.protocol.link import Conversation, Progress, silently


@dataclass(frozen=True)
class AlignmentMember:
    """One organisation, with the keys of its own table and who the others are."""

    alignment: Alignment
    me: str
    parties: tuple[str, ...]  # everyone, the host first
    keys: Mapping[str, Column]  # by their names, as they stand in the table
    ids: Ids

    @classmethod
    def read(
        cls,
        federation: Path,
        me: str,
        *,
        alignment: Alignment,
        out: Path | None,
        duplicates: Duplicates = "refuse",
    ) -> AlignmentMember:
        """From a federation.toml, of which the own section and the others' names are read; `out` is to be written."""
        file = FederationFile(federation)
        sections = file.parties(me)
        table, names = file.beside(file.need(sections[me], "table", me)), file.key(sections[me], me).columns
        check_target(out, alignment, table=table)
        columns = read_keys(table, names)
        ids = prepare(columns, alignment.rules, duplicates=duplicates, where=str(table))
        return cls(alignment, me, tuple(sections), dict(zip(names, columns, strict=True)), ids)

    @property
    def host(self) -> str:
        return self.parties[0]

    @property
    def peers(self) -> tuple[str, ...]:
        """Whom this party talks to."""
        return self.parties[1:] if self.me == self.host else (self.host,)

    def take_part(
        self, carrier: Carrier, journal: Journal, *, workers: int = 1, progress: Progress = silently
    ) -> Aligned:
        """Run this party's program to its end. Its secret is stored nowhere: the journal must be a new one."""
        carrier.resume(journal)
        talk = Conversation(self.me, carrier, journal, Ledger(self.me, host=self.host), Meter(Budget()))
        links = {peer: Link(peer, talk) for peer in self.peers}
        with bulk_of(workers, most=len(self.ids)) as bulk:
            member = Member(self.me, self.parties, links, self.ids, list(self.keys.values()), bulk, progress)
            return self.alignment.host(member) if self.me == self.host else self.alignment.guest(member)

    def write(self, aligned: Aligned, out: Path | None) -> None:
        """The common ids as they stand in this party's table, where the result is more than their number."""
        if aligned.rows is not None and out is not None:
            write_rows(out, self.keys, rows=aligned.rows)


def check_target(out: Path | None, alignment: Alignment, *, table: Path) -> None:
    """A table that is read is never written over."""
    if (out is None) != (alignment.reveal == "size"):
        raise InputError("give either --out FILE.csv for the common ids, or --cardinality to learn only how many")
    if out is not None and out.suffix.lower() != ".csv":
        raise InputError(f"the common ids cannot be written to {out}: give a .csv file")
    if out is not None and out.resolve() == table.resolve():
        raise InputError(f"{out} is the table itself: give another file for the common ids")
