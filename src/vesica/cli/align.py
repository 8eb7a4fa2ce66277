"""`vesica align`: the ids that several tables have in common; and what every alignment says of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vesica.cli.options import Cardinality, Case, Doctor, Duplicates, Pad, Trim, Workers
from vesica.cli.places import usable

if TYPE_CHECKING:
    from vesica.alignment.normalisation import Ids
    from vesica.alignment.programs import Aligned, Alignment
    from vesica.data.ids import Rules
    from vesica.experiment.alignment_member import AlignmentMember


@dataclass(frozen=True)
class Source:
    """One party's table on the command line, FILE:COLUMN or FILE:COLUMN,COLUMN."""

    path: Path
    keys: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Source:
        from vesica.errors import InputError

        file, colon, columns = text.rpartition(":")
        keys = tuple(key for key in columns.split(",") if key)
        if not colon or not file or not keys:
            raise InputError(f"'{text}' does not name a table and its id column: write FILE:COLUMN")
        return cls(Path(file), keys)


def align(
    tables: Annotated[list[str], typer.Argument(help="FILE:ID_COLUMN, or FILE:COLUMN,COLUMN where several make an id")],
    trim: Trim = None,
    case: Case = None,
    pad: Pad = None,
    duplicates: Duplicates = "refuse",
    cardinality: Cardinality = False,
    doctor: Doctor = False,
    out: Annotated[Path | None, typer.Option(help="a folder: the common ids, in one order, a CSV file a party")] = None,
    workers: Workers = None,
) -> None:
    """Find the ids that all tables have in common, as private set intersection would between organisations."""
    from vesica.alignment.key_files import read_keys, write_rows
    from vesica.cli.display import say, watch
    from vesica.data.ids import Rules
    from vesica.experiment.alignment import align as align_tables

    sources = named([Source.parse(text) for text in tables])
    targets = prepare_folder(out, sources, cardinality=cardinality)
    alignment = asked_for(Rules(), trim=trim, case=case, pad=pad, cardinality=cardinality, doctor=doctor)
    columns = {name: read_keys(source.path, source.keys) for name, source in sources.items()}
    with watch() as progress:
        found = align_tables(
            columns,
            alignment,
            duplicates=duplicates,  # type: ignore[arg-type]
            workers=one_a_core(workers),
            progress=progress,
        )
    shared = {name: result.rows for name, result in found.results.items() if name in targets}
    for name, rows in shared.items():
        if rows is not None:
            write_rows(targets[name], dict(zip(sources[name].keys, columns[name], strict=True)), rows=rows)
    for name, ids in found.ids.items():
        say(counts_of(name, ids))
    say(f"ids in common: {found.size:,}; {len(found.ledger.messages)} messages, {found.ledger.wire / 1e6:.3f} MB")
    for name, result in found.results.items():
        for hint in result.hints:
            say(f"{name} beside {hint}")
        if result.rows is not None and name in targets:
            say(f"{name}: its common ids to {targets[name]}")


def asked_for(
    rules: Rules, *, trim: bool | None, case: str | None, pad: int | None, cardinality: bool, doctor: bool
) -> Alignment:
    """What the options say; a rule that none of them names stays as it is in `rules`."""
    from vesica.alignment.programs import Alignment

    given = {name: value for name, value in (("trim", trim), ("case", case), ("pad", pad)) if value is not None}
    return Alignment(replace(rules, **given), reveal="size" if cardinality else "ids", doctor=doctor)  # type: ignore[arg-type]


def counts_of(name: str, ids: Ids) -> str:
    """What became of a party's rows: none is left out without a word."""
    left_out = f"{ids.missing:,} without an id, {ids.repeated:,} repeated"
    return f"{name}: {len(ids):,} ids of {ids.given:,} rows; {left_out}"


def outcome_of(member: AlignmentMember, aligned: Aligned, *, federation: Path, out: Path | None) -> list[str]:
    """What one organisation is told in the end; to train with these ids it needs the rules they were found by."""
    from vesica.data.toml import FederationFile

    said = [f"{member.me} beside {hint}" for hint in aligned.hints]
    said.append(f"ids in common: {aligned.size:,}" + (f"; to {out}" if out else ""))
    rules = member.alignment.rules
    if out and rules != FederationFile(federation).rules:
        found_by = f'trim = {str(rules.trim).lower()}, case = "{rules.case}", pad = {rules.pad}'
        said.append(f"To train with them, every party needs the same rules in {federation}, [ids]: {found_by}")
    return said


def one_a_core(workers: int | None) -> int:
    return (os.cpu_count() or 1) if workers is None else workers


def named(sources: Sequence[Source]) -> dict[str, Source]:
    """The parties by the names of their files; of equal names, later ones are numbered."""
    parties: dict[str, Source] = {}
    for source in sources:
        name, number = source.path.stem, 2
        while name in parties:
            name, number = f"{source.path.stem}-{number}", number + 1
        parties[name] = source
    return parties


def prepare_folder(out: Path | None, sources: Mapping[str, Source], *, cardinality: bool) -> dict[str, Path]:
    """Where each party's ids go; a table that is read is never written over."""
    from vesica.errors import InputError

    if (out is None) != cardinality:
        raise InputError("give either --out FOLDER for the common ids, or --cardinality to learn only how many")
    if out is None:
        return {}
    targets = {name: out / f"{name}.csv" for name in sources}
    with usable(out):
        if out.exists() and not out.is_dir():
            raise InputError(f"{out} is a file: give a folder to write to")
        read = {source.path.resolve() for source in sources.values()}
        for target in targets.values():
            if target.resolve() in read:
                raise InputError(f"{target} is one of the tables: give --out another folder")
            if target.is_dir():
                raise InputError(f"{target} is a directory: give --out another folder")
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
    return targets
