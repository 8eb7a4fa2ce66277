"""What the parties of an alignment agree on before anything about their ids is sent."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from vesica.alignment.points import MOST
from vesica.data.text_files import shown
from vesica.errors import AgreementError
from vesica.protocol.link import Link

VERSION = 1
_RUN = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Agreed:
    """What holds for one run once all have said yes."""

    run: bytes  # tells this run from any other, and is no secret
    sizes: Mapping[str, int]  # how many ids each party has, the host's first


@dataclass(frozen=True)
class Terms:
    """What a party knows before it talks to anyone, and expects all others to know alike."""

    parties: tuple[str, ...]  # the host first
    keys: int
    trim: bool
    case: str
    pad: int
    reveal: str
    doctor: bool

    def propose(self, links: Mapping[str, Link], *, ids: int) -> Agreed:
        """The host's side: say it, have it said back, and tell all how many ids each has."""
        run = secrets.token_hex(16)
        host, *guests = self.parties
        for guest in guests:
            links[guest].send("agreement", scalars={"terms": self._text(), "run": run})
        sizes = {host: ids, **{guest: self._answer(links[guest], run) for guest in guests}}
        for guest in guests:
            links[guest].send("sizes", torch.tensor(list(sizes.values())))
        return Agreed(bytes.fromhex(run), sizes)

    def accept(self, host: Link, *, me: str, ids: int) -> Agreed:
        """A guest's side: nothing is said back where the host means something else."""
        message = host.receive("agreement")
        run = message.scalar("run", str)
        self._compare(message.scalar("terms", str), host=host.peer)
        if not _RUN.fullmatch(run):
            raise AgreementError(f"'{host.peer}' gives the run no proper name: start all parties anew")
        host.send("agreement", scalars={"digest": self._digest(run), "ids": ids})
        shape = (len(self.parties),)
        counts = host.receive("sizes", shape=shape, dtype=torch.int64).tensor.tolist()
        sizes = dict(zip(self.parties, counts, strict=True))
        if sizes[me] != ids or not all(0 <= count <= MOST for count in counts):
            raise AgreementError(f"'{host.peer}' says that the parties have {counts} ids, which cannot be")
        return Agreed(bytes.fromhex(run), sizes)

    def _answer(self, link: Link, run: str) -> int:
        answer = link.receive("agreement")
        if answer.scalar("digest", str) != self._digest(run):
            raise AgreementError(f"'{link.peer}' agreed to something else: start all parties anew")
        ids = answer.scalar("ids", int)
        if not 0 <= ids <= MOST:
            raise AgreementError(f"'{link.peer}' says that it has {ids} ids, expected 0 to {MOST:,}")
        return ids

    def _compare(self, said: str, *, host: str) -> None:
        try:
            theirs = dict(json.loads(said))
        except (TypeError, ValueError, RecursionError) as error:
            raise AgreementError(f"what '{host}' proposes cannot be read ({shown(error)})") from error
        for name, ours in self._known().items():
            if theirs.get(name) != ours:
                raise AgreementError(
                    f"'{host}' aligns otherwise: its {name} is {shown(theirs.get(name))}, here it is {shown(ours)}; "
                    "give all parties the same rules"
                )

    def _known(self) -> dict[str, Any]:
        return {**vars(self), "parties": list(self.parties), "version": VERSION}

    def _text(self) -> str:
        return json.dumps(self._known(), sort_keys=True)

    def _digest(self, run: str) -> str:
        return hashlib.sha256(f"{run} {self._text()}".encode()).hexdigest()
