"""`vesica nvflare align`: the ids that all parties have, over NVFlare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vesica.cli.align import asked_for, counts_of, one_a_core, outcome_of
from vesica.cli.nvflare_process import ending_the_process, where_the_server_is
from vesica.cli.options import (
    Arrive,
    Cardinality,
    Case,
    Doctor,
    Duplicates,
    Liveness,
    Pad,
    PreparedFolder,
    Trim,
    Workers,
)
from vesica.cli.places import refuse_unwritable

if TYPE_CHECKING:
    from vesica.engines.nvflare.line import Line


def align(
    folder: PreparedFolder,
    trim: Trim = None,
    case: Case = None,
    pad: Pad = None,
    duplicates: Duplicates = "refuse",
    cardinality: Cardinality = False,
    doctor: Doctor = False,
    wait: Annotated[
        float | None, typer.Option(help="the host's: seconds a guest's message may take [default: any]")
    ] = None,
    liveness: Liveness = 300.0,
    arrive: Arrive = 300.0,
    workers: Workers = None,
) -> None:
    """Find the ids that all parties have, and no others, by private set intersection, for `vesica nvflare start`.

    Rules for ids that are not given here are those of the federation.toml; the ids go to the file of common ids that
    local.toml names. Stopped or killed, it starts over at every party, since its secret must not be stored.
    """
    from vesica.cli.display import announce, say, watch
    from vesica.data.toml import FederationFile
    from vesica.engines.nvflare import need_nvflare
    from vesica.experiment.alignment_member import AlignmentMember
    from vesica.experiment.checks import check_wait

    need_nvflare()
    from vesica.engines.nvflare.process import run_beside
    from vesica.experiment.nvflare import Site
    from vesica.experiment.nvflare_alignment import align_over

    check_wait(wait)
    site = Site.open(folder)
    out, me = None if cardinality else site.common, site.kit.name
    refuse_unwritable(out)
    rules = FederationFile(site.federation).rules
    alignment = asked_for(rules, trim=trim, case=case, pad=pad, cardinality=cardinality, doctor=doctor)
    member = AlignmentMember.read(site.federation, me, alignment=alignment, out=out, duplicates=duplicates)  # type: ignore[arg-type]
    site.check_host(member.host)
    say(counts_of(me, member.ids))
    announce(where_the_server_is(site.kit))

    def program(line: Line) -> None:
        aligned = align_over(
            line,
            member,
            out=out,
            runs=site.runs,
            liveness=liveness,
            arrive=arrive,
            wait=wait,
            workers=one_a_core(workers),
            progress=progress,
            tell=lambda sentence: announce(f"{me}: {sentence}"),
        )
        for sentence in outcome_of(member, aligned, federation=site.federation, out=out):
            say(sentence)

    with ending_the_process(), watch() as progress:
        run_beside(site.kit, program, arrive=arrive)
