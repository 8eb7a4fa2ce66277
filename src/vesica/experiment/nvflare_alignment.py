"""One organisation's part of a private alignment over NVFlare."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from vesica.alignment.programs import Aligned
from vesica.engines.nvflare.line import Line
from vesica.engines.nvflare.mailbox import Mailbox, silently
from vesica.engines.nvflare.patience import LIVENESS
from vesica.engines.nvflare.peer import Tell
from vesica.errors import InputError, RunFolderError
from vesica.experiment.alignment_member import AlignmentMember
from vesica.experiment.checks import check_wait
from vesica.experiment.nvflare import opened
from vesica.protocol.journal import Journal
from vesica.protocol.link import Progress
from vesica.protocol.link import silently as unwatched


def align_over(
    line: Line,
    member: AlignmentMember,
    *,
    out: Path | None,
    runs: Path,
    liveness: float = LIVENESS,
    arrive: float | None = None,
    wait: float | None = None,
    workers: int = 1,
    progress: Progress = unwatched,
    tell: Tell = silently,
) -> Aligned:
    """Take part in an alignment over a line of NVFlare's; the common ids go to `out`, unless they are only counted.

    The mailbox sends again from a journal, which lies under `runs` and goes at the end. Nothing goes on from it.
    """
    check_wait(wait)
    mailbox = Mailbox(
        member.me,
        member.host,
        member.peers,
        line.call,
        liveness=liveness,
        arrive=arrive,
        patience=wait if member.me == member.host else None,  # a guest hears that its host has stopped
        tell=tell,
    )
    try:
        with outbox(runs / ".alignment", member) as journal, opened(line, mailbox):
            aligned = member.take_part(mailbox, journal, workers=workers, progress=progress)
            member.write(aligned, out)
            mailbox.settle()
            return aligned
    except RunFolderError as fault:
        raise InputError(
            "another party has begun the alignment anew, from which this one cannot go on: give the same command again "
            "at every party"
        ) from fault


@contextmanager
def outbox(folder: Path, member: AlignmentMember) -> Iterator[Journal]:
    """A journal that lasts as long as the alignment; what one that was killed has left goes first."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700, parents=True)
    try:
        with closing(Journal(folder, member.peers)) as journal:
            yield journal
    finally:
        shutil.rmtree(folder)
