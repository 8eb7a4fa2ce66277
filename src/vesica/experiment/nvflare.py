"""One organisation's part of a run over NVFlare: what it is prepared with, and how it takes part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from vesica.data.membership import read_membership
from vesica.data.text_files import read_toml, shown
from vesica.data.toml import FederationFile
from vesica.engines.nvflare.farewell import Farewell
from vesica.engines.nvflare.kits import Kit, make_kits
from vesica.engines.nvflare.line import Line
from vesica.engines.nvflare.mailbox import Mailbox, silently
from vesica.engines.nvflare.note import State
from vesica.engines.nvflare.patience import LIVENESS
from vesica.engines.nvflare.peer import Tell
from vesica.engines.nvflare.run_file import keep_waiting, recall_waiting
from vesica.engines.post.keys import check_name
from vesica.errors import InputError, PartyError, VesicaError, nearest, refused_by_system
from vesica.experiment.folder import RunFolder
from vesica.experiment.member import Member, Plan
from vesica.experiment.post import read_common
from vesica.experiment.result import Result
from vesica.experiment.seat import Outcome

LOCAL = "local.toml"
_SHARED = ("name", "labels")
_LOCAL = {
    "federation": ("federation.toml", "who takes part; [{section}] says where this party's own table is"),
    "common": (
        "common.csv",
        "the ids that all parties have, the column called as in the table: `vesica nvflare align` writes them",
    ),
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
        values = read_toml(path)
        for key, value in values.items():
            if key not in _LOCAL:
                raise InputError(f"{path} has an unknown key {shown(key)}{nearest(key, _LOCAL)}")
            if not isinstance(value, str):
                raise InputError(f"{path}: {key} is {shown(value)} and should be a path, in quotes")
        paths = {key: path.parent / values.get(key, default) for key, (default, _) in _LOCAL.items()}
        return cls(kit, **paths)

    def member(self, plan: Plan, run: str) -> Member:
        """Reads this party's table; `run` names the folder."""
        check_name(run, "a run")
        if not self.common.exists():
            raise InputError(f"there are no common ids in {self.common}: `vesica nvflare align` writes them there")
        common = read_common(self.common, self.federation, self.kit.name)
        federation = read_membership(self.federation, self.kit.name, common=common)
        self.check_host(federation.host.name)
        return Member(plan, federation, self.kit.name, common, self.runs / run)

    def check_host(self, name: str) -> None:
        if name != self.kit.host:
            raise InputError(f"{self.federation} has the host '{name}' and the server is of '{self.kit.host}'")


def prepare(federation: Path, out: Path, *, address: str, port: int) -> list[Kit]:
    """A folder for each party of a federation.toml, to be given to that party alone."""
    file = FederationFile(federation)
    host = file.need(file.section("host"), "name", "host")
    guests = [file.need(guest, "name", "guest") for guest in file.guests]
    if not guests:
        raise InputError(f"{federation} has no guest: there is nobody to talk to")
    kits = make_kits(host, guests, address=address, port=port, out=out)
    for kit in kits:
        written = {"federation.toml": _known_to(kit.name, file)}
        section = "host" if kit.is_host else "[guest]"
        lines = [
            f'# {meaning.format(section=section)}\n{key} = "{default}"' for key, (default, meaning) in _LOCAL.items()
        ]
        written[LOCAL] = "# Paths are relative to this file.\n" + "\n".join(lines) + "\n"
        written["README.md"] = _README.format(name=kit.name, host=kit.host, target=kit.target)
        for name, text in written.items():
            (kit.folder / name).write_text(text, encoding="utf-8")
            (kit.folder / name).chmod(0o600)
    return kits


def _known_to(name: str, file: FederationFile) -> str:
    """The federation.toml with a party's own section; of the others it has the names and what all must agree on."""
    kept = {key: value for key, value in file.values.items() if not isinstance(value, dict | list)}
    text = _toml(kept)
    for title, values in [("[host]", file.section("host")), *(("[[guest]]", guest) for guest in file.guests)]:
        shared = values if values["name"] == name else {key: values[key] for key in _SHARED if key in values}
        text += f"{title}\n{_toml(shared)}"
    for title in ("ids", "test", "overlap", "labelled"):
        text += f"[{title}]\n{_toml(file.section(title))}" if file.section(title) else ""
    return text


def _toml(values: Mapping[str, Any]) -> str:
    """What a federation.toml has is written alike in JSON, but for tables."""
    quoted = partial(json.dumps, ensure_ascii=False)

    def written(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{quoted(key)} = {quoted(kind)}" for key, kind in value.items()) + "}"
        return quoted(value)

    return "".join(f"{key} = {written(value)}\n" for key, value in values.items())


_README = """# {name}

This folder is for '{name}' alone: startup/ has its private key. The server is that of '{host}', at {target}.

1. Install: `pip install 'vesica[nvflare]'`. No code comes over the line.
2. Put your table here, or say in federation.toml where it is.
3. Find the ids that all have, at all parties at the same time: `vesica nvflare align .` writes them to the file that
   local.toml names. Or put such a file there.
4. Agree with the others on a method and its settings, and start, each on its own machine:

       vesica nvflare start . METHOD

It ends by itself. Stopped or killed, the same command goes on. What was kept is in runs/; NVFlare's log is log.txt.
"""


@dataclass(frozen=True)
class _Attending(Member):
    """Its journal goes once the others have what was sent."""

    mailbox: Mailbox | None = None

    def save(self, folder: RunFolder, outcome: Outcome, said: Mapping[str, Any]) -> None:
        assert self.mailbox is not None
        self.mailbox.leave_out(outcome.missing)
        self.mailbox.settle()
        keep_waiting(folder.path, self.mailbox.run, self.mailbox.awaited)  # if it is killed before it has told them
        super().save(folder, outcome, said)


def attend(
    line: Line,
    member: Member,
    *,
    finish: Callable[[Result | None], None],
    liveness: float = LIVENESS,
    arrive: float | None = None,
    tell: Tell = silently,
) -> None:
    """Take part in one run over a line of NVFlare's; `finish` has the host's result, while others may still be busy."""
    leads = member.me == member.host
    peers = [guest.name for guest in member.federation.guests] if leads else [member.host]
    # A method that leaves no guest out takes no wait: the host's mailbox alone counts, and the run stops there.
    waits = getattr(member.plan.method, "stands_missing", False)
    patience = member.plan.wait if leads and not waits else None
    plan = member.plan if waits else replace(member.plan, wait=None)
    mailbox = Mailbox(
        member.me,
        member.host,
        peers,
        line.call,
        liveness=liveness,
        arrive=arrive,
        patience=patience,
        tell=tell,
    )
    with opened(line, mailbox):
        finish(_Attending(**{**vars(member), "plan": plan}, mailbox=mailbox).take_part(mailbox, engine="nvflare"))
    keep_waiting(member.out, mailbox.run, mailbox.awaited if leads else ())
    if leads:
        for guest in sorted(mailbox.awaited):
            tell(f"'{guest}' left before it had ended: when it is started again, give this command again too")
        for guest in sorted(mailbox.unended - mailbox.awaited):
            tell(f"'{guest}' was left out and has not ended: nothing here waits for it, and it can be stopped there")
    elif mailbox.is_left_out:
        tell(f"'{member.host}' finished the run without this party, which was late: what it learned is kept here alone")


def see_off(line: Line, out: Path, *, seconds: float) -> set[str]:
    """At a host whose run is finished: tell the guests that were killed before theirs was; who has not come."""
    run, guests = recall_waiting(out)
    farewell = Farewell(run, guests)
    line.open(farewell.answer)
    farewell.stay(seconds)
    keep_waiting(out, run, farewell.waiting)
    return farewell.waiting


@contextmanager
def opened(line: Line, mailbox: Mailbox) -> Iterator[None]:
    """The mailbox on the line; at the end the others learn whether it went well."""
    line.open(mailbox.answer, leave=partial(mailbox.close, State.FAILED))
    state = State.FAILED
    try:
        yield
        state = State.FINISHED
    except VesicaError:
        raise
    except Exception as error:
        failure = refused_by_system(error) or PartyError(f"failed with {type(error).__name__}: {error}")
        raise failure from error
    finally:
        mailbox.close(state)
        line.open(mailbox.answer)  # there is nothing to leave any more
