"""Whether one can tell from the joint model's predictions that a row was trained on, measured on a run."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from vesica.attacks.membership import Rate, bound, confidence, true_positive_rate
from vesica.experiment.audit.findings import Finding, Measured, Outcome, area, measure
from vesica.experiment.audit.transcript import Transcript

AT = (0.01, 0.001)  # false-positive rates


def by_threshold(run: Transcript, *, seed: int) -> Iterator[Outcome]:
    """From how sure the model is of a row's own class: whoever may ask for predictions can do that."""
    if run.task.kind != "classification" or set(run.parties) != set(run.present):
        return
    members, outsiders = run.of_use("train"), run.of_use("test")
    rows = torch.cat([members, outsiders])
    scores = confidence(outputs_of(run, rows), run.labels[rows])
    yield from score(run, scores, torch.arange(len(rows)) < len(members), attack="a threshold on the loss", seed=seed)


def score(
    run: Transcript, scores: Tensor, members: Tensor, *, attack: str, seed: int, detail: str = ""
) -> Iterator[Outcome]:
    """What scores of rows tell about membership, beside what a guarantee for records allows."""
    count = int(members.sum())
    secret, needs = f"which of {len(members)} rows are the {count} trained on", "the rows, their labels and predictions"

    def finding(name: str, measured: Measured, at: float | None = None) -> Finding:
        limit = None if at is None else limit_of(run, at)
        who = "whoever may ask for predictions"
        return Finding(who, run.host, secret, attack, needs, name, measured, bound=limit, detail=detail)

    yield finding("AUC", measure(area, scores, members.long(), nothing=0.5, seed=seed))
    for at in AT:
        rate, name = true_positive_rate(scores, members, at=at), f"true-positive rate at {at:.1%} false positives"
        others = len(members) - count
        few = f"There is no {name} by {attack}: {others} rows that were not trained on are too few for it."
        yield few if rate is None else finding(name, beyond(rate, at), at)


def beyond(rate: Rate, at: float) -> Measured:
    return Measured(rate.value, rate.low, rate.high, at, rate.low > at)


def limit_of(run: Transcript, at: float) -> float | None:
    """What the run's guarantee allows, where it is one for whole records."""
    if run.result.get("epsilon") is None or run.result.get("protects") != "records":
        return None
    return bound(run.result["epsilon"], run.result["delta"], at=at)


@torch.no_grad()
def outputs_of(run: Transcript, rows: Tensor) -> Tensor:
    """The joint model's, for common rows by their numbers."""
    head = run.models[run.host].head
    assert head is not None
    head.eval()
    parts = []
    for party in head.parties:
        model = run.models[party]
        assert model.encoder is not None
        model.encoder.eval()
        inputs = run.inputs(party)[rows]
        part = torch.cat([model.encoder(some) for some in inputs.split(4096)])
        parts.append(part if model.release is None else model.release(part))
    outputs: Tensor = head(parts)
    return outputs
