"""`vesica post align`: the ids that all parties have, by files that are carried while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from vesica.cli.align import asked_for, counts_of, one_a_core, outcome_of
from vesica.cli.options import Cardinality, Case, Desk, Doctor, Duplicates, KnownFederation, Pad, Trim, Workers
from vesica.cli.places import refuse_unwritable
from vesica.errors import printable

LOOK_EVERY = 1.0  # seconds


def align(
    federation: KnownFederation,
    desk: Desk,
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
    tell = telling_once()

    def linger(sentence: str) -> None:
        tell([*to_carry(folder.leaving(label)), sentence])
        time.sleep(LOOK_EVERY)

    posted = PostedAlignment(member, folder, label, linger, wait)
    with watch() as progress:
        aligned = posted.run(out, workers=one_a_core(workers), progress=progress)
    tell([*to_carry(folder.leaving(label)), *outcome_of(member, aligned, federation=federation, out=out)])
    tell([f"once all parties have ended, {label}.*.post may be removed from the inbox and the outbox in {desk}"])


def telling_once() -> Callable[[Iterable[str]], None]:
    """Says what is waited for and what is to be carried, but nothing twice: files stay where they are."""
    said: set[str] = set()

    def tell(sentences: Iterable[str]) -> None:
        for sentence in sentences:
            if sentence not in said:
                typer.echo(printable(sentence))
                said.add(sentence)

    return tell


def to_carry(files: Iterable[Path]) -> list[str]:
    return [f"carry {path} to '{path.parent.name}'" for path in files]
