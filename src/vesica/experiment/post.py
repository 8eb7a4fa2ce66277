"""One organisation's part of a run by post: its member, and the desk that carries its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import time as now

from vesica.data.membership import read_membership
from vesica.data.reading import read_table
from vesica.data.table import Array
from vesica.data.toml import FederationFile
from vesica.engines.post.desk import Desk
from vesica.engines.post.envelope import Mark
from vesica.engines.post.folder import DeskFolder
from vesica.engines.post.keys import Card
from vesica.errors import PartyError, VesicaError, refused_by_system
from vesica.experiment.checks import check_wait
from vesica.experiment.member import Member, Plan
from vesica.experiment.result import Result
from vesica.protocol.link import Progress, silently


@dataclass(frozen=True)
class Correspondence:
    """A run by post at one organisation: `go_on` whenever a file has come."""

    member: Member
    desk: Desk

    @classmethod
    def open(
        cls,
        plan: Plan,
        federation: Path,
        *,
        folder: DeskFolder,
        common: Path,
        label: str,
        device: str = "cpu",
        keep_messages: bool = False,
        progress: Progress = silently,
    ) -> Correspondence:
        """`common` has the ids that every party has, `label` is the run's name: both the same at every party."""
        check_wait(plan.wait)
        me, out = folder.identity().name, folder.run(label)
        ids = read_common(common, federation, me)
        known = read_membership(federation, me, common=ids)
        # A method that leaves no guest out takes no wait: the desk alone counts, and the run stops there.
        waits = getattr(plan.method, "stands_missing", False)
        taken = plan if waits else replace(plan, wait=None)
        member = Member(taken, known, me, ids, out, device=device, keep_messages=keep_messages, progress=progress)
        cards = folder.cards([party.name for party in known.parties])
        mark = mark_of(member, label, cards)
        wait = plan.wait if me == member.host else None  # a guest waits for its host
        desk = Desk(folder, mark, cards, host=member.host, wait=wait, keep_messages=keep_messages, clock=now)
        return cls(member, desk)

    @property
    def is_finished(self) -> bool:
        return (self.member.out / "result.json").exists()

    def go_on(self) -> Result | None:
        """To the end of this party's program, or until a file is missing, which WaitingForFile names."""
        try:
            result = self.member.take_part(self.desk, engine="post")
        except VesicaError:
            raise
        except Exception as error:
            where = None if getattr(error, "filename", None) else self.member.out
            failure = refused_by_system(error, where)
            raise failure or PartyError(f"failed with {type(error).__name__}: {error}") from error
        self.desk.clear()
        return result


def mark_of(member: Member, label: str, cards: Mapping[str, Card]) -> Mark:
    """What every party can say of the run by itself, and must say alike."""
    run = member.describe()
    shared = {name: value for name, value in run["config"].items() if name not in ("method", "encoders")}
    of_method = {name: shared.pop(name) for name in ("late", "stop_at_bytes") if name in shared}
    return Mark.of(
        label,
        federation={"parties": run["parties"], **shared},
        method={"name": run["method"], "settings": run["config"]["method"], "wire": run["wire"], **of_method},
        cards=list(cards.values()),
    )


def read_common(path: Path, federation: Path, me: str) -> Array:
    """The common ids by the rules, from columns that are called and written as in this party's own table."""
    file = FederationFile(federation)
    return read_table(path, id=file.key(file.parties(me)[me], me)).ids
