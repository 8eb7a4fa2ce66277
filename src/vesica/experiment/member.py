"""One organisation's part of a run: its own rows, its own folder, and a carrier to the others."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from vesica.data.federation import Federation, PartyData
from vesica.data.membership import rows_of_guest
from vesica.data.table import Array
from vesica.errors import AgreementError
from vesica.experiment.account import describe, result_of, said_in, terms_of
from vesica.experiment.checks import check_settings, check_stop, check_waiting
from vesica.experiment.fit import party_seed, run_name, sort_out, start_clock
from vesica.experiment.folder import RunFolder, write_lines
from vesica.experiment.result import Result, spent_in_json
from vesica.experiment.seat import Outcome, Seat
from vesica.methods import Method
from vesica.protocol import Budget, Ledger, Link
from vesica.protocol.agreement import digest_of
from vesica.protocol.budget import Meter
from vesica.protocol.files import write_atomically
from vesica.protocol.journal import Journal
from vesica.protocol.link import Conversation, Progress, Transport, silently
from vesica.protocol.message import Message, Wire
from vesica.protocol.resumable import recall


class Carrier(Transport, Protocol):
    """What an engine between organisations does beside carrying frames."""

    def resume(self, journal: Journal) -> None:
        """Deliver again what may not have arrived in an earlier life of this run; learn what others hold for good."""
        ...


@dataclass(frozen=True)
class Plan:
    """What all organisations have alike before they begin.

    With a `seed` the run is the one that a simulation with that seed gives: for tests, since whoever knows the host's
    seed can redraw its random head and read the labels off. Without, every party draws its own from the system.
    """

    method: Method
    wire: Wire = "float32"
    budget: Budget = Budget()
    wait: float | None = None
    stop_at_bytes: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Member:
    """One organisation, with what it brings and where it keeps its part of the run."""

    plan: Plan
    federation: Federation  # as this party sees it
    me: str
    common: Array  # the ids that every party has
    out: Path
    device: str = "cpu"
    keep_messages: bool = False
    progress: Progress = silently

    @property
    def party(self) -> PartyData:
        return next(party for party in self.federation.parties if party.name == self.me)

    @property
    def host(self) -> str:
        return self.federation.host.name

    def take_part(self, carrier: Carrier, *, engine: str) -> Result | None:
        """Run this party's program to its end; the host's result, or None at a guest.

        The same call again goes on where an earlier one was stopped, for want of a message or otherwise.
        """
        plan, guests = self.plan, [guest.name for guest in self.federation.guests]
        check_settings(plan.method, wire=plan.wire, engine=engine, device=self.device)
        check_waiting(plan.method, guests, wait=plan.wait, absent=())
        check_stop(plan.method, plan.stop_at_bytes)
        folder = RunFolder(self.out, self.describe())
        with closing(folder):
            talk = self.open_talk(folder, carrier, peers=guests if self.me == self.host else [self.host])
            links = {peer: Link(peer, talk) for peer in (guests if self.me == self.host else [self.host])}
            secret = keep_secret(folder.journal(self.me) / "secret", plan.seed)
            carrier.resume(talk.journal)
            try:
                if self.me == self.host:
                    return self.lead(folder, talk, links, secret)
                self.follow(folder, talk, links, secret)
                return None
            finally:
                talk.journal.close()

    def describe(self, *seats: Seat) -> dict[str, Any]:
        plan, rows = self.plan, f"{self.party.table.fingerprint} {digest_of(sorted(self.common.tolist()))}"
        return describe(
            plan.method,
            self.federation,
            seats,
            rows=rows,
            seed=plan.seed,
            wire=plan.wire,
            wait=plan.wait,
            stop_at_bytes=plan.stop_at_bytes,
        )

    def open_talk(self, folder: RunFolder, carrier: Carrier, *, peers: list[str]) -> Conversation:
        plan = self.plan
        journal = Journal(folder.journal(self.me), peers, keep_messages=self.keep_messages)
        past = recall(folder.journal(self.me), self.me)
        journal.reach(past.reached)
        talk = Conversation(self.me, carrier, journal, Ledger(self.me, host=self.host), Meter(plan.budget))
        talk.meter.ledgers.append(talk.ledger)
        talk.clock = start_clock(past.seconds)
        talk.wire, talk.device, talk.progress = plan.wire, torch.device(self.device), self.progress
        talk.wait, talk.stop_at_bytes, talk.folder = plan.wait, plan.stop_at_bytes, folder.party(self.me)
        return talk

    def lead(self, folder: RunFolder, talk: Conversation, links: Mapping[str, Link], secret: bytes | int) -> Result:
        """The host's part: it alone sees labels, so it says which rows are for testing."""
        plan, limited = self.plan, self.plan.budget != Budget() or self.plan.stop_at_bytes is not None
        split, fewer = sort_out(plan.method, self.federation, limited=limited, secret=draws_from(secret))
        ids = np.array(sorted(self.common.tolist()), dtype=object)
        tested = torch.from_numpy(np.flatnonzero(np.isin(ids, split.test_ids)))
        for link in links.values():
            link.send("agreement", {"test": tested}, scalars={"common": digest_of(ids)})
        seat = Seat.take(self.party, split.parties[self.me], device=talk.device)
        terms = terms_of(self.describe(), self.federation, aligned_ids=split.aligned_ids, test_ids=split.test_ids)
        torch.manual_seed(seed_from(secret, self.me))
        outcome = seat.be_host(plan.method, terms, talk, links, split=split, fewer=fewer, run=name_from(secret))
        result = result_of(self.describe(seat), plan.method, split, {self.me: outcome}, talk)
        write_lines(folder.party(self.me) / "curve.jsonl", result.curve)
        self.save(folder, outcome, result.to_json())
        return result

    def follow(self, folder: RunFolder, talk: Conversation, links: Mapping[str, Link], secret: bytes | int) -> None:
        """A guest's part."""
        test = self.receive_test_rows(links[self.host])
        rows, aligned_ids, test_ids = rows_of_guest(self.party, self.common, test)
        seat = Seat.take(self.party, rows, device=talk.device)
        terms = terms_of(self.describe(), self.federation, aligned_ids=aligned_ids, test_ids=test_ids)
        torch.manual_seed(seed_from(secret, self.me))
        outcome = seat.be_guest(self.plan.method, terms, talk, links)
        said = {
            "method": terms.method,
            "party": self.me,
            "messages": len(outcome.training.messages),
            "bytes": {"sent": outcome.training.sent_bytes},
            **spent_in_json(outcome.privacy),
            "statements": list(outcome.statements),
        }
        self.save(folder, outcome, said)

    def receive_test_rows(self, link: Link) -> Array:
        """Positions in the common ids, in their order, which must be the same ids here."""
        ids = sorted(self.common.tolist())
        return link.receive("agreement", check=partial(self._check_test_rows, link.peer, ids)).tensors["test"].numpy()

    def _check_test_rows(self, host: str, ids: list[str], message: Message) -> None:
        if message.scalars.get("common") != digest_of(ids):
            raise AgreementError(
                f"'{host}' has other common ids than the {len(ids)} here: align again, and use that and the same "
                "rules for ids ([ids] in federation.toml) at both sides"
            )
        test = message.tensors.get("test")
        if test is None or test.dtype != torch.int64 or test.dim() != 1 or not 0 < len(test) < len(ids):
            raise AgreementError(f"'{host}' does not say which of the {len(ids)} common rows are for testing")
        if int(test.min()) < 0 or int(test.max()) >= len(ids) or len(test.unique()) < len(test):
            raise AgreementError(f"'{host}' tests with rows beyond the {len(ids)} common ones, or twice with one")

    def save(self, folder: RunFolder, outcome: Outcome, said: Mapping[str, Any]) -> None:
        outcome.save_models(folder.party(self.me))
        if self.keep_messages:
            outcome.belongings.save(folder.party(self.me))
        write_lines(folder.party(self.me) / "ledger.jsonl", said_in(outcome))
        folder.finish(said, drop_journals_of=() if self.keep_messages else [self.me])
        # Not before: who is killed until here needs it to go on.
        (folder.journal(self.me) / "secret").unlink(missing_ok=True)


def keep_secret(path: Path, seed: int | None) -> bytes | int:
    """What this party's random numbers follow from: the seed of a test, or a secret that outlives a kill."""
    if seed is not None:
        return seed
    if not path.exists():
        write_atomically(path, secrets.token_bytes(32))
    return path.read_bytes()


def seed_from(secret: bytes | int, party: str) -> int:
    if isinstance(secret, int):
        return party_seed(party, secret)
    return int.from_bytes(hashlib.sha256(secret + b"seed").digest()[:8], "little") >> 1


def draws_from(secret: bytes | int) -> int | None:
    """What the host draws validation rows with; a test's run has those of the simulation."""
    return None if isinstance(secret, int) else int.from_bytes(hashlib.sha256(secret + b"validation").digest())


def name_from(secret: bytes | int) -> str:
    return run_name(secret) if isinstance(secret, int) else hashlib.sha256(secret + b"run").hexdigest()[:32]
