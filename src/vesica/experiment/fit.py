"""Joining a method, a federation and an engine."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vesica.data.federation import Federation
from vesica.data.rows import Split, split_rows
from vesica.engines import InProcess
from vesica.experiment.account import describe, result_of, said_in, terms_of
from vesica.experiment.checks import check_in_one_place, check_label_counts, check_settings, check_stop, check_waiting
from vesica.experiment.folder import RunFolder, write_lines
from vesica.experiment.result import Result
from vesica.experiment.seat import Outcome, Seat
from vesica.methods import Method
from vesica.protocol import Budget, Guest, Host, Ledger, Link
from vesica.protocol.agreement import Terms
from vesica.protocol.budget import Meter
from vesica.protocol.files import write_atomically
from vesica.protocol.journal import Journal
from vesica.protocol.link import Conversation, Progress, silently
from vesica.protocol.message import Wire
from vesica.protocol.resumable import recall

# A GPU takes longer to begin the steps of one small network than to do those of many. On a CPU every guest trains by
# itself, so that what it comes to is the same to the bit on every engine, on one machine.
TRAIN_TOGETHER_ON = ("cuda",)


def fit(
    method: Method,
    federation: Federation,
    *,
    seed: int = 0,
    budget: Budget = Budget(),
    wire: Wire = "float32",
    device: str = "cpu",
    engine: str = "in-process",
    out: Path | str | None = None,
    keep_messages: bool = False,
    progress: Progress = silently,
    wait: float | None = None,
    absent: Sequence[str] = (),
    stop_at_bytes: int | None = None,
) -> Result:
    """Train a method on a federation and score it on the test rows.

    With `out`, every party keeps a journal there: the same call again goes on where an earlier one was killed.
    Guests that do not answer within `wait` seconds are left out; those in `absent` never do, to see what it costs.
    End-to-end training ends where one more batch would bring the wire bytes of training above `stop_at_bytes`.
    """
    check_settings(method, wire=wire, engine=engine, device=device)
    check_in_one_place(engine)
    check_waiting(method, [guest.name for guest in federation.guests], wait=wait, absent=absent)
    check_stop(method, stop_at_bytes)
    split, fewer = sort_out(method, federation, limited=budget != Budget() or stop_at_bytes is not None)
    seats = [Seat.take(p, split.parties[p.name], device=torch.device(device)) for p in federation.parties]
    run = describe(
        method,
        federation,
        seats,
        rows=split.fingerprint,
        seed=seed,
        wire=wire,
        wait=wait,
        absent=absent,
        stop_at_bytes=stop_at_bytes,
    )
    folder = None if out is None else RunFolder(Path(out), run)
    with nullcontext() if folder is None else closing(folder):
        talks = open_talks([seat.name for seat in seats], budget=budget, folder=folder, keep_messages=keep_messages)
        for talk in talks.values():
            talk.wire, talk.device, talk.progress, talk.wait = wire, torch.device(device), progress, wait
            talk.stop_at_bytes = stop_at_bytes
        terms = terms_of(run, federation, aligned_ids=split.aligned_ids, test_ids=split.test_ids)
        outcomes = converse(method, terms, seats, split, talks, fewer=fewer, seed=seed, absent=absent)
        result = result_of(run, method, split, outcomes, talks[seats[0].name])
        if folder is not None:
            save(folder, result, outcomes, source=federation.source, keep_messages=keep_messages)
        return result


def sort_out(
    method: Method, federation: Federation, *, limited: bool, secret: int | None = None
) -> tuple[Split, list[Split]]:
    """The rows, and the same with fewer labels where the method learns from these too; a `limited` run cannot."""
    split = split_rows(federation, secret=secret)
    counts = getattr(method, "label_counts", ())
    check_label_counts(counts, labelled=len(split.labelled), limited=limited)
    fewer = [split_rows(replace(federation, labelled=count), secret=secret) for count in counts]
    if getattr(method, "hides_labels", False):
        split, *fewer = (validate_blindly(each, seed=federation.overlap.seed) for each in (split, *fewer))
    return split, fewer


def validate_blindly(split: Split, *, seed: int) -> Split:
    """The same rows, the validation rows drawn without a look at the labels: the agreement tells the guests which."""
    random = np.random.default_rng([seed, 2])
    return replace(split, validation=np.sort(random.permutation(split.labelled)[: len(split.validation)]))


def open_talks(
    parties: Sequence[str], *, budget: Budget, folder: RunFolder | None, keep_messages: bool
) -> dict[str, Conversation]:
    """Every party's side of the talk, in one process, taken up where earlier journals left it."""
    carrier = InProcess(parties)
    host, *guests = parties
    talks = {}
    meter, seconds = Meter(budget), 0.0
    for party in parties:
        journal = Journal(
            None if folder is None else folder.journal(party),
            guests if party == host else [host],
            keep_messages=keep_messages,
        )
        if journal.folder is not None:
            past = recall(journal.folder, party)
            journal.reach(past.reached)
            seconds = max(seconds, past.seconds)
        talks[party] = Conversation(party, carrier, journal, Ledger(party, host=host), meter)
        talks[party].folder = None if folder is None else folder.party(party)
        meter.ledgers.append(talks[party].ledger)
    pairs = [pair for guest in guests for pair in ((host, guest), (guest, host))]
    carrier.redeliver({party: talk.journal for party, talk in talks.items()}, pairs)
    clock = start_clock(seconds)
    for talk in talks.values():
        talk.clock = clock
    return talks


def start_clock(before: float) -> Callable[[], float]:
    """Seconds of this run, with those that an earlier life of it had taken up to its last checkpoint."""
    began = time.monotonic()
    return lambda: before + time.monotonic() - began


def converse(
    method: Method,
    terms: Terms,
    seats: Sequence[Seat],
    split: Split,
    talks: Mapping[str, Conversation],
    *,
    fewer: Sequence[Split] = (),
    seed: int,
    absent: Sequence[str] = (),
) -> dict[str, Outcome]:
    """Let all parties run their programs to the end."""
    host, *guests = seats
    links = {guest.name: Link(guest.name, talks[host.name]) for guest in guests}
    be_host = partial(
        host.be_host, method, terms, talks[host.name], links, split=split, fewer=fewer, run=run_name(seed)
    )
    programs = {host.name: be_host}
    for guest in guests:
        talk = talks[guest.name]
        part = Silent() if guest.name in absent else method
        programs[guest.name] = partial(guest.be_guest, part, terms, talk, {host.name: Link(host.name, talk)})
    carrier = talks[host.name].transport
    assert isinstance(carrier, InProcess)
    for talk in talks.values():
        # What runs in simulation only may count on it that all parties are in one place.
        if talk.device.type in TRAIN_TOGETHER_ON or getattr(method, "simulation_only", False):
            talk.meet = partial(carrier.meet, talk.party)
    try:
        return carrier.run(programs, {seat.name: party_seed(seat.name, seed) for seat in seats})
    finally:
        for talk in talks.values():
            talk.journal.close()


class Silent:
    """In place of a method, at a guest that agrees to the run and is not heard of again."""

    def guest(self, me: Guest) -> None:
        pass

    def host(self, me: Host) -> None:
        raise AssertionError("a host is never absent")


def run_name(seed: int) -> str:
    """In simulation it follows from the run's seed, so that the same seed gives the same batches.

    Between organisations it is drawn from the operating system: a small seed can be found from its digest.
    """
    return hashlib.sha256(f"run {seed}".encode()).hexdigest()[:32]


def party_seed(party: str, seed: int) -> int:
    """In simulation the parties' seeds come one-way from the run's; no party could tell another's from its own."""
    return int.from_bytes(hashlib.sha256(f"{seed} {party}".encode()).digest()[:8], "little") >> 1


def save(
    folder: RunFolder,
    result: Result,
    outcomes: Mapping[str, Outcome],
    *,
    source: Mapping[str, Any],
    keep_messages: bool,
) -> None:
    """Each party's models and ledger into its own folder, with its rows where messages are kept; then the result."""
    for name, outcome in outcomes.items():
        outcome.save_models(folder.party(name))
        if keep_messages:
            outcome.belongings.save(folder.party(name))
        write_lines(folder.party(name) / "ledger.jsonl", said_in(outcome))
    write_lines(folder.party(result.parties[0]) / "curve.jsonl", result.curve)
    if keep_messages:  # an audit may run it again
        write_atomically(folder.path / "source.json", json.dumps(dict(source), indent=1))
    folder.finish(result.to_json(), drop_journals_of=() if keep_messages else result.parties)
