"""One party's process in a test: several runs, one after the other, over one connection of NVFlare's.

python party.py FOLDER WHO_VANISHES RUN ...

Whoever vanishes does so once it has agreed to the first run; a RUN is a method, with the seconds to wait after a colon,
or `align`.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from engines.nvflare.organisations import KEEPS, SEED, chosen
from vesica.alignment.programs import Alignment
from vesica.engines.nvflare.line import Line
from vesica.engines.nvflare.mailbox import Mailbox
from vesica.engines.nvflare.process import run_beside
from vesica.errors import VesicaError
from vesica.experiment.alignment_member import AlignmentMember
from vesica.experiment.member import Plan
from vesica.experiment.nvflare import Site, attend
from vesica.experiment.nvflare_alignment import align_over
from vesica.experiment.result import Result
from vesica.methods import Method
from vesica.protocol import Guest

LIVENESS = 20.0


def main(folder: Path, vanishing: str, runs: list[str]) -> None:
    torch.set_num_threads(1)
    site = Site.open(folder)
    if site.kit.name == vanishing:
        setattr(type(chosen(runs[0].partition(":")[0])), "guest", vanish)  # noqa: B010

    aligning = AlignmentMember.read(site.federation, site.kit.name, alignment=Alignment(), out=site.common)

    def program(line: Line) -> None:
        for run in runs:
            name, _, wait = run.partition(":")
            if name == "align":
                align_over(line, aligning, out=site.common, runs=site.runs, liveness=LIVENESS)
                gather(folder, name, vanishing)
                continue
            plan = Plan(chosen(name), seed=SEED, wait=float(wait) if wait else None)
            member = replace(site.member(plan, name), keep_messages=name == KEEPS)
            attend(line, member, finish=say, liveness=LIVENESS)
            gather(folder, name, vanishing)

    run_beside(site.kit, program, arrive=60)


def vanish(method: Method, me: Guest) -> None:
    """As by kill -9, once the host knows that this party has agreed."""
    mailbox = me.conversation.transport
    assert isinstance(mailbox, Mailbox)
    mailbox.settle()
    os._exit(9)


def say(result: Result | None) -> None:
    for statement in () if result is None else result.statements:
        print(statement)


def gather(folder: Path, name: str, vanishing: str) -> None:
    """Wait until every party has ended a run: the next one may begin."""
    (folder / f"{name}.ended").touch()
    others = [other for other in folder.parent.iterdir() if other.name != vanishing]
    while not all((other / f"{name}.ended").exists() for other in others):
        time.sleep(0.05)


if __name__ == "__main__":
    code = 0
    try:
        main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
    except VesicaError as error:
        print(error)
        code = 2
    sys.stdout.flush()
    os._exit(code)
