"""Two desks that trust each other, and a postman."""

from __future__ import annotations

import shutil
from pathlib import Path

from vesica.engines.post.desk import Desk
from vesica.engines.post.envelope import Mark
from vesica.engines.post.folder import DeskFolder
from vesica.protocol.journal import Journal

FEDERATION = {"parties": ["bank", "shop"], "task": "classification"}


def make_desks(root: Path, *names: str) -> dict[str, DeskFolder]:
    """The first is the host's; each trusts all others."""
    folders = {name: DeskFolder(root / name) for name in names}
    for name, folder in folders.items():
        folder.create(name)
    for folder in folders.values():
        for name, other in folders.items():
            if other is not folder:
                folder.trust(other.card(name))
    return folders


def mark_of(folder: DeskFolder, *, run: str = "first", method: str = "one-shot", **federation: object) -> Mark:
    cards = folder.cards(["bank", "shop"])
    return Mark.of(run, federation=FEDERATION | federation, method={"name": method}, cards=list(cards.values()))


def sit_down(folder: DeskFolder, *, mark: Mark | None = None, life: str = "journal", **options: object) -> Desk:
    """A desk that is ready, of the party whose folder it is, in a run of two."""
    me = folder.identity().name
    mark = mark or mark_of(folder)
    desk = Desk(folder, mark, folder.cards(["bank", "shop"]), host="bank", **options)
    journal = Journal(folder.run(mark.run) / life, ["shop" if me == "bank" else "bank"])
    desk.resume(journal)
    return desk


def carry(sender: DeskFolder, receiver: DeskFolder) -> list[Path]:
    """All that `cp` does: every file of the outbox into the inbox."""
    name = receiver.identity().name
    return [
        Path(shutil.copy(path, receiver.inbox))
        for path in sorted(sender.outbox(name).glob("*"))
        if not path.name.startswith(".")
    ]


def send(desk: Desk, receiver: str, number: int, content: bytes) -> None:
    """As a link does: the journal first."""
    frame = memoryview(bytearray(content))
    desk._journal.record_sent(receiver, number, frame, payload=len(frame))
    sender = "bank" if receiver == "shop" else "shop"
    desk.deliver(sender, receiver, number, frame)


def receive(desk: Desk, sender: str, number: int, *, within: float | None = None) -> bytes:
    me = "bank" if sender == "shop" else "shop"
    frame = desk.collect(me, sender, number, "representations", within=within)
    desk._journal.record_received(sender, number, frame)
    return bytes(frame)
