"""One organisation's part of a run over NVFlare: what it is prepared with, and how it takes part."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vesica.data.membership import read_membership
from vesica.data.toml import FederationFile
from vesica.engines.nvflare.kits import Kit, make_kits
from vesica.engines.nvflare.line import Line
from vesica.engines.nvflare.mailbox import LIVENESS, Mailbox, silently
from vesica.engines.nvflare.note import State
from vesica.engines.nvflare.peer import Tell
from vesica.errors import InputError, PartyError, VesicaError, nearest
from vesica.experiment.folder import RunFolder
from vesica.experiment.member import Member, Plan
from vesica.experiment.post import read_common
from vesica.experiment.result import Result
from vesica.experiment.seat import Outcome

LOCAL = "local.toml"
_LOCAL = {
    "federation": ("federation.toml", "who takes part; [{section}] says where this party's own table is"),
    "common": ("common.csv", "the ids that all parties have, the column called as in the table: see `vesica align`"),
    "runs": ("runs", "this party's run folders: its models, its ledger, its journal"),
}


@dataclass(frozen=True)
class Site:
    """An organisation's prepared folder, with what it has put there itself."""

    kit: Kit
    federation: Path
    common: Path
    runs: Path

    @classmethod
    def open(cls, folder: Path) -> Site:
        """Paths in local.toml are relative to it."""
        kit, path = Kit.open(folder), folder.resolve() / LOCAL
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"{path} cannot be read as TOML: {error}") from error
        for key, value in values.items():
            if key not in _LOCAL:
                raise InputError(f"{path} has an unknown key '{key}'{nearest(key, _LOCAL)}")
            if not isinstance(value, str):
                raise InputError(f"{path}: {key} is {value!r} and should be a path, in quotes")
        paths = {key: path.parent / values.get(key, default) for key, (default, _) in _LOCAL.items()}
        return cls(kit, **paths)

    def member(self, plan: Plan, run: str) -> Member:
        """Reads this party's table; `run` names the folder."""
        common = read_common(self.common, self.federation, self.kit.name)
        federation = read_membership(self.federation, self.kit.name, common=common)
        if federation.host.name != self.kit.host:
            raise InputError(
                f"{self.federation} has the host '{federation.host.name}' and the server is of '{self.kit.host}'"
            )
        return Member(plan, federation, self.kit.name, common, self.runs / run)


def prepare(federation: Path, out: Path, *, address: str, port: int) -> list[Kit]:
    """A folder for each party of a federation.toml, to be given to that party alone."""
    file = FederationFile(federation)
    host = file.need(file.section("host"), "name", "host")
    guests = [file.need(guest, "name", "guest") for guest in file.guests]
    if not guests:
        raise InputError(f"{federation} has no guest: there is nobody to talk to")
    kits = make_kits(host, guests, address=address, port=port, out=out)
    for kit in kits:
        shutil.copyfile(federation, kit.folder / "federation.toml")
        section = "host" if kit.is_host else "[guest]"
        lines = [
            f'# {meaning.format(section=section)}\n{key} = "{default}"' for key, (default, meaning) in _LOCAL.items()
        ]
        (kit.folder / LOCAL).write_text("# Paths are relative to this file.\n" + "\n".join(lines) + "\n")
        (kit.folder / "README.md").write_text(_README.format(name=kit.name, host=kit.host, target=kit.target))
    return kits


_README = """# {name}

This folder is for '{name}' alone: startup/ has its private key. The server is that of '{host}', at {target}.

1. Install: `pip install 'vesica[nvflare]'`. No code comes over the line.
2. Put your table and the file of common ids here, or say in local.toml and federation.toml where they are.
3. Agree with the others on a method and its settings, and start, each on its own machine:

       vesica nvflare start . METHOD

It ends by itself. Stopped or killed, the same command goes on. What was kept is in runs/; NVFlare's log is log.txt.
"""


@dataclass(frozen=True)
class _Attending(Member):
    """Its journal goes once the others have what was sent."""

    mailbox: Mailbox | None = None

    def save(self, folder: RunFolder, outcome: Outcome, said: Mapping[str, Any]) -> None:
        assert self.mailbox is not None
        self.mailbox.settle()
        super().save(folder, outcome, said)


def attend(
    line: Line,
    member: Member,
    *,
    finish: Callable[[Result | None], None],
    liveness: float = LIVENESS,
    tell: Tell = silently,
) -> None:
    """Take part in one run over a line of NVFlare's; `finish` has the host's result, while others may still be busy."""
    leads = member.me == member.host
    peers = [guest.name for guest in member.federation.guests] if leads else [member.host]
    # A method that leaves no guest out takes no wait: the host's mailbox alone counts, and the run stops there.
    waits = getattr(member.plan.method, "stands_missing", False)
    patience = member.plan.wait if leads and not waits else None
    plan = member.plan if waits else replace(member.plan, wait=None)
    mailbox = Mailbox(member.me, member.host, peers, line.call, liveness=liveness, patience=patience, tell=tell)
    line.open(mailbox.answer)
    state = State.FAILED
    try:
        finish(_Attending(**{**vars(member), "plan": plan}, mailbox=mailbox).take_part(mailbox, engine="nvflare"))
        state = State.FINISHED
    except (VesicaError, OSError):
        raise
    except Exception as error:
        raise PartyError(f"failed with {type(error).__name__}: {error}") from error
    finally:
        mailbox.close(state)
