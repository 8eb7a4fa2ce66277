"""What is said of a run: what makes it this run and no other, its terms, its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vesica import __version__
from vesica.data.federation import Federation
from vesica.data.rows import Split
from vesica.data.table import Array
from vesica.experiment.result import Result
from vesica.experiment.seat import Outcome, Seat
from vesica.methods import METHODS, Method, config_of, name_of
from vesica.protocol import Rows
from vesica.protocol.agreement import Terms, digest_of
from vesica.protocol.link import Conversation
from vesica.protocol.message import Wire


def describe(
    method: Method,
    federation: Federation,
    seats: Sequence[Seat],
    *,
    rows: str,
    seed: int | None,
    wire: Wire,
    wait: float | None = None,
    absent: Sequence[str] = (),
    stop_at_bytes: int | None = None,
) -> dict[str, Any]:
    """What makes a run this run and no other; it is what a run folder is recognised by. `rows` tells its rows."""
    config: dict[str, Any] = {
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
    if federation.test.ids is None and federation.test.groups is not None:
        config["test"]["drawn"] = "whole groups"
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
        "parties": [party.name for party in federation.parties],
        "wire": wire,
        "config": config,
        "config_hash": _digest(name, config, wire),
        "fingerprints": {seat.name: seat.fingerprint for seat in seats} | {"rows": rows},
        "version": __version__,
    }


def terms_of(run: Mapping[str, Any], federation: Federation, *, aligned_ids: Array, test_ids: Array) -> Terms:
    """What every party can know of the run by itself: not which encoders the others have chosen."""
    return Terms(
        method=run["method"],
        config={name: value for name, value in run["config"].items() if name != "encoders"},
        parties=tuple(run["parties"]),
        task=federation.task,
        metric=federation.metric,
        wire=run["wire"],
        aligned=digest_of(aligned_ids),
        test=digest_of(test_ids),
        version=run["version"],
    )


def result_of(
    run: Mapping[str, Any], method: Method, split: Split, outcomes: Mapping[str, Outcome], talk: Conversation
) -> Result:
    """The host's result, from what its program left behind; of the other outcomes only the models are of use."""
    host = outcomes[run["parties"][0]]
    assert host.metrics is not None
    result = Result(
        method=run["method"],
        title=title_of(method, missing=host.missing, stop_at_bytes=talk.stop_at_bytes),
        data=run["data"],
        seed=run["seed"],
        parties=tuple(run["parties"]),
        rows=count_rows(split),
        metrics=host.metrics,
        ledger=host.training,
        scoring=host.scoring,
        wire=run["wire"],
        seconds=talk.clock(),
        config=run["config"],
        config_hash=run["config_hash"],
        curve=tuple(talk.curve),
        models={name: outcomes[name].model for name in run["parties"] if name in outcomes},  # the host's first
        statements=host.statements,
        privacy=host.privacy,
        missing=host.missing,
    )
    earlier = [with_outcome(result, name, outcome) for name, outcome in host.milestones.items()]
    return replace(result, milestones=tuple(earlier))


def title_of(method: Method, *, missing: Sequence[str], stop_at_bytes: int | None) -> str:
    """What tables call the result: the method, with what makes another result of it."""
    stopped = [] if stop_at_bytes is None else [f"at most {stop_at_bytes:,} bytes"]
    return ", ".join([getattr(method, "title", name_of(method)), *stopped, *(f"without {guest}" for guest in missing)])


def with_outcome(result: Result, name: str, outcome: Outcome) -> Result:
    """What was reached on the way to this result: by an earlier method, if it has such a name, or with fewer labels."""
    assert outcome.metrics is not None
    assert outcome.reached is not None
    if name in METHODS:
        result = replace(result, method=name, title=name)
    else:
        result = with_fewer_labels(result, outcome.reached.rows)
    return replace(
        result,
        metrics=outcome.metrics,
        ledger=outcome.training,
        scoring=outcome.scoring,
        seconds=None,  # it was not run by itself
        curve=tuple(outcome.reached.curve),
        models={},
        statements=outcome.statements,
        privacy=outcome.privacy,
    )


def with_fewer_labels(result: Result, rows: Rows) -> Result:
    labelled = len(rows.labelled)
    config = {**result.config, "labelled": labelled}
    return replace(
        result,
        rows={**result.rows, "labelled": labelled, "validation": len(rows.validation)},
        config=config,
        config_hash=_digest(result.method, config, result.wire),
    )


def count_rows(split: Split) -> dict[str, Any]:
    return {
        "aligned": len(split.aligned_ids),
        "labelled": len(split.labelled),
        "validation": len(split.validation),
        "unaligned": {name: len(rows.unaligned) for name, rows in split.parties.items()},
        "test": len(split.test_ids),
    }


def said_in(outcome: Outcome) -> list[dict[str, Any]]:
    """Every message of a party once, also those that only a milestone counts."""
    lines = outcome.training.to_json() + outcome.scoring.to_json()
    for earlier in outcome.milestones.values():
        assert earlier.reached is not None
        lines += earlier.training.to_json()[earlier.reached.shared :] + earlier.scoring.to_json()
    return lines


def _digest(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
