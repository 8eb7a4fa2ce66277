"""`vesica post align`: the ids that all parties have, by files that are carried while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vesica.cli.align import (
    Cardinality,
    Case,
    Doctor,
    Duplicates,
    Pad,
    Trim,
    Workers,
    asked_for,
    counts_of,
    one_a_core,
    outcome_of,
)
from vesica.cli.commands import refuse_unwritable

if TYPE_CHECKING:
    from vesica.engines.post.folder import DeskFolder

LOOK_EVERY = 1.0  # seconds


def align(
    federation: Annotated[Path, typer.Argument(help="federation.toml; of the other parties their names are enough")],
    desk: Annotated[Path, typer.Option(help="this party's desk")],
    out: Annotated[
        Path | None, typer.Option(help="CSV: the ids that all parties have, for `vesica post run --common`")
    ] = None,
    label: Annotated[str, typer.Option("--run", help="new for a new alignment, the same at every party")] = "align",
    trim: Trim = None,
    case: Case = None,
    pad: Pad = None,
    duplicates: Duplicates = "refuse",
    cardinality: Cardinality = False,
    doctor: Doctor = False,
    wait: Annotated[float | None, typer.Option(help="seconds to wait for a file [default: for ever]")] = None,
    workers: Workers = None,
) -> None:
    """Find the ids that all parties have, and no others, by private set intersection.

    Rules for ids that are not given here are those of the federation.toml. It waits for files, since its secret must
    not be stored: carry them while it runs. If it is stopped, all parties begin again under another name.
    """
    from vesica.cli.display import watch
    from vesica.data.toml import FederationFile
    from vesica.engines.post.folder import DeskFolder
    from vesica.experiment.alignment_member import AlignmentMember
    from vesica.experiment.post_alignment import PostedAlignment

    refuse_unwritable(out)
    folder = DeskFolder(desk)
    me = folder.identity().name
    rules = FederationFile(federation).rules
    alignment = asked_for(rules, trim=trim, case=case, pad=pad, cardinality=cardinality, doctor=doctor)
    member = AlignmentMember.read(federation, me, alignment=alignment, out=out, duplicates=duplicates)  # type: ignore[arg-type]
    typer.echo(counts_of(me, member.ids))
    posted = PostedAlignment(member, folder, label, lingering(folder, label), wait)
    with watch() as progress:
        aligned = posted.run(out, workers=one_a_core(workers), progress=progress)
    for sentence in [*to_carry(folder.leaving(label)), *outcome_of(member, aligned, federation=federation, out=out)]:
        typer.echo(sentence)


def lingering(folder: DeskFolder, label: str) -> Callable[[str], None]:
    """Says what is waited for, and what is to be carried meanwhile, whenever that changes."""
    said = [""]

    def linger(sentence: str) -> None:
        if sentence != said[-1]:
            for each in [*to_carry(folder.leaving(label)), sentence]:
                typer.echo(each)
            said.append(sentence)
        time.sleep(LOOK_EVERY)

    return linger


def to_carry(files: Iterable[Path]) -> list[str]:
    return [f"carry {path} to '{path.parent.name}'" for path in files]
