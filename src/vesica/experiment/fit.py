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

from vesica import __version__
from vesica.data.federation import Federation
from vesica.data.rows import Split, split_rows
from vesica.engines import InProcess
from vesica.experiment.checks import check_settings, check_stop, check_waiting
from vesica.experiment.folder import RunFolder, write_lines
from vesica.experiment.result import Result
from vesica.experiment.seat import Outcome, Seat
from vesica.methods import Method, config_of, name_of
from vesica.protocol import Budget, Guest, Host, Ledger, Link
from vesica.protocol.agreement import Terms, digest_of
from vesica.protocol.budget import Meter
from vesica.protocol.journal import Journal
from vesica.protocol.link import Conversation, Progress, silently
from vesica.protocol.message import Wire
from vesica.protocol.resumable import recall

# A GPU takes longer to begin the steps of one small network than to do those of many. On a CPU every guest trains by
# itself, so that what it comes to is the same to the bit on every engine.
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
    check_waiting(method, [guest.name for guest in federation.guests], wait=wait, absent=absent)
    check_stop(method, stop_at_bytes)
    split = split_rows(federation)
    if getattr(method, "hides_labels", False):
        split = validate_blindly(split, seed=federation.overlap.seed)
    seats = [Seat.take(p, split.parties[p.name], device=torch.device(device)) for p in federation.parties]
    run = describe(
        method,
        federation,
        split,
        seats,
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
        terms = Terms(
            method=run["method"],
            config=run["config"],
            parties=tuple(talks),
            task=federation.task,
            metric=federation.metric,
            wire=wire,
            aligned=digest_of(split.aligned_ids),
            test=digest_of(split.test_ids),
            version=__version__,
        )
        outcomes = converse(method, terms, seats, split, talks, seed=seed, absent=absent)
        seconds = talks[seats[0].name].clock()
        host = outcomes[seats[0].name]
        assert host.metrics is not None
        result = Result(
            method=run["method"],
            title=title_of(method, missing=host.missing, stop_at_bytes=stop_at_bytes),
            data=federation.name,
            seed=seed,
            parties=tuple(talks),
            rows=count_rows(split),
            metrics=host.metrics,
            ledger=host.training,
            scoring=host.scoring,
            wire=wire,
            seconds=seconds,
            config=run["config"],
            config_hash=run["config_hash"],
            curve=tuple(talks[seats[0].name].curve),
            models={name: outcomes[name].model for name in talks},  # the host's first
            statements=host.statements,
            privacy=host.privacy,
            missing=host.missing,
        )
        earlier = [with_outcome(result, name, outcome) for name, outcome in host.milestones.items()]
        result = replace(result, milestones=tuple(earlier))
        if folder is not None:
            save(folder, result, outcomes, keep_messages=keep_messages)
        return result


def validate_blindly(split: Split, *, seed: int) -> Split:
    """The same rows, the validation rows drawn without a look at the labels: the agreement tells the guests which."""
    random = np.random.default_rng([seed, 2])
    return replace(split, validation=np.sort(random.permutation(split.labelled)[: len(split.validation)]))


def title_of(method: Method, *, missing: Sequence[str], stop_at_bytes: int | None) -> str:
    """What tables call the result: the method, with what makes another result of it."""
    stopped = [] if stop_at_bytes is None else [f"at most {stop_at_bytes:,} bytes"]
    return ", ".join([getattr(method, "title", name_of(method)), *stopped, *(f"without {guest}" for guest in missing)])


def with_outcome(result: Result, method: str, outcome: Outcome) -> Result:
    """What an earlier method reached on the way to this result."""
    assert outcome.metrics is not None
    return replace(
        result,
        method=method,
        title=method,
        metrics=outcome.metrics,
        ledger=outcome.training,
        scoring=outcome.scoring,
        seconds=None,  # it was not run by itself
        curve=tuple(point for point in result.curve if point["bytes"] <= outcome.training.wire),
        models={},
        statements=outcome.statements,
        privacy=outcome.privacy,
    )


def describe(
    method: Method,
    federation: Federation,
    split: Split,
    seats: Sequence[Seat],
    *,
    seed: int,
    wire: Wire,
    wait: float | None = None,
    absent: Sequence[str] = (),
    stop_at_bytes: int | None = None,
) -> dict[str, Any]:
    """What makes a run this run and no other; it is what a run folder is recognised by."""
    config = {
        "method": config_of(method),
        "task": federation.task,
        "metric": federation.metric,
        "labels": federation.labels,
        "test": {
            "fraction": None if federation.test.ids is not None else federation.test.fraction,
            "seed": federation.test.seed,
        },
        "overlap": {name: value for name, value in vars(federation.overlap).items() if name != "seed"},
        "labelled": federation.labelled,
        "encoders": {seat.name: seat.spec and [seat.spec.name, seat.spec.dim] for seat in seats},
    }
    if federation.cut:
        config["cut"] = dict(federation.cut)
    if wait is not None:
        config["late"] = {"wait": wait, "absent": sorted(absent)}
    if stop_at_bytes is not None:
        config["stop_at_bytes"] = stop_at_bytes
    name = name_of(method)
    return {
        "method": name,
        "data": federation.name,
        "seed": seed,
        "parties": [seat.name for seat in seats],
        "wire": wire,
        "config": config,
        "config_hash": _digest(name, config, wire),
        "fingerprints": {seat.name: seat.fingerprint for seat in seats} | {"rows": split.fingerprint},
        "version": __version__,
    }


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
            past = recall(journal.folder)
            journal.reach(past.reached)
            seconds = max(seconds, past.seconds)
        talks[party] = Conversation(party, carrier, journal, Ledger(party, host=host), meter)
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
    seed: int,
    absent: Sequence[str] = (),
) -> dict[str, Outcome]:
    """Let all parties run their programs to the end."""
    host, *guests = seats
    links = {guest.name: Link(guest.name, talks[host.name]) for guest in guests}
    # In simulation the run's name follows from its seed, so that the same seed gives the same batches. Between
    # organisations it must be drawn from the operating system: a small seed can be found from its digest.
    run = hashlib.sha256(f"run {seed}".encode()).hexdigest()[:32]
    programs = {host.name: partial(host.be_host, method, terms, talks[host.name], links, split=split, run=run)}
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


def party_seed(party: str, seed: int) -> int:
    """In simulation the parties' seeds come one-way from the run's; no party could tell another's from its own."""
    return int.from_bytes(hashlib.sha256(f"{seed} {party}".encode()).digest()[:8], "little") >> 1


def count_rows(split: Split) -> dict[str, Any]:
    return {
        "aligned": len(split.aligned_ids),
        "labelled": len(split.labelled),
        "validation": len(split.validation),
        "unaligned": {name: len(rows.unaligned) for name, rows in split.parties.items()},
        "test": len(split.test_ids),
    }


def save(folder: RunFolder, result: Result, outcomes: Mapping[str, Outcome], *, keep_messages: bool) -> None:
    """Each party's model and ledger into its own folder, then the result."""
    for name, outcome in outcomes.items():
        outcome.model.save(folder.party(name))
        ledgers = [outcome.training, outcome.scoring, *(earlier.scoring for earlier in outcome.milestones.values())]
        write_lines(folder.party(name) / "ledger.jsonl", [line for ledger in ledgers for line in ledger.to_json()])
    write_lines(folder.party(result.parties[0]) / "curve.jsonl", result.curve)
    folder.finish(result.to_json(), drop_journals_of=() if keep_messages else result.parties)


def _digest(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
