"""One organisation's part of a private alignment by post."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vesica.alignment.programs import Aligned
from vesica.engines.post.desk import Desk
from vesica.engines.post.envelope import Mark
from vesica.engines.post.folder import DeskFolder
from vesica.engines.post.keys import check_name
from vesica.experiment.alignment_member import AlignmentMember
from vesica.experiment.checks import check_wait
from vesica.protocol.journal import Journal
from vesica.protocol.link import Progress, silently


@dataclass(frozen=True)
class PostedAlignment:
    """An alignment by post at one organisation, whose member it is; `label` is the same at every party.

    The secret of an alignment is never stored, so it has no second life: it waits for files, and calls `linger`
    with a sentence that says for which. Whoever waits longer than `wait` seconds for one stops.
    """

    member: AlignmentMember
    folder: DeskFolder
    label: str
    linger: Callable[[str], None]
    wait: float | None = None

    def run(self, out: Path | None, *, workers: int = 1, progress: Progress = silently) -> Aligned:
        """Write the ids that all parties have in common, in one order, to `out`, unless it is only counted."""
        check_name(self.label, "a run")
        check_wait(self.wait)
        member, cards = self.member, self.folder.cards(self.member.parties)
        mark = Mark.of(
            self.label, federation={"parties": list(cards)}, method={"name": "align"}, cards=list(cards.values())
        )
        for left in list(self.folder.leaving(self.label)):  # of an earlier alignment, which nothing goes on from
            left.unlink()
        desk = Desk(self.folder, mark, cards, host=member.host, linger=self.linger, wait=self.wait)
        aligned = member.take_part(desk, Journal(None, member.peers), workers=workers, progress=progress)
        member.write(aligned, out)
        desk.clear()
        return aligned
