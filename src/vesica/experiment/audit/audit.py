"""An audit: what every party received in a run, what it could infer from that, and what is guaranteed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import torch

from vesica.attacks.completion import Completion, Style
from vesica.attacks.inversion import Inversion
from vesica.attacks.view import ELSEWHERE, View
from vesica.errors import InputError, nearest
from vesica.experiment.audit.feature_attacks import reconstruct
from vesica.experiment.audit.findings import Finding, Outcome
from vesica.experiment.audit.label_attacks import by_completion, by_cosine, from_gradients
from vesica.experiment.audit.membership_attacks import by_threshold
from vesica.experiment.audit.transcript import Transcript
from vesica.privacy.spent import at_most

ATTACKS = {
    "gradients": "Label inference from gradients",
    "completion": "Label inference by model completion",
    "columns": "Reconstruction of columns",
    "membership": "Membership inference",
}
STYLES: tuple[Style, ...] = ("frozen", "plain")
KNOWN = 80  # rows known from elsewhere, as in the FedHSSL paper


@dataclass(frozen=True)
class Got:
    """What one party received of one kind from another."""

    receiver: str
    sender: str
    kind: str
    messages: int
    rows: int  # the different rows that these are about; of rows that not all have, the most in one message
    numbers: int
    bytes: int


@dataclass(frozen=True)
class Audit:
    """Findings are sorted, what was learned most first."""

    run: dict[str, Any]  # its result
    parties: list[str]  # the host first
    got: list[Got]
    findings: list[Finding]
    guarantees: list[str]
    statements: list[str]  # the run's own
    not_tried: list[str]  # and why

    def with_more(self, outcomes: Iterable[Outcome]) -> Audit:
        findings, reasons = sorted_out(outcomes)
        return replace(self, findings=ranked([*self.findings, *findings]), not_tried=[*self.not_tried, *reasons])

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "parties": self.parties,
            "received": [vars(each) for each in self.got],
            "findings": [each.to_json() for each in self.findings],
            "guarantees": self.guarantees,
            "statements": self.statements,
            "not_tried": self.not_tried,
        }


def sorted_out(outcomes: Iterable[Outcome]) -> tuple[list[Finding], list[str]]:
    """What was found, and what was not tried."""
    every = list(outcomes)
    return [each for each in every if isinstance(each, Finding)], [each for each in every if isinstance(each, str)]


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: -finding.beyond)


def audit(
    folder: Path | str,
    *,
    known: int = KNOWN,
    attacks: Collection[str] = ATTACKS,
    styles: Sequence[Style] = STYLES,
    seed: int = 0,
    device: str = "cpu",
    begin: Callable[[str], None] = lambda attack: None,
) -> Audit:
    """Run the attacks that the kept messages of a finished run allow; `begin` is told whose.

    What trains encoders anew, model completion and the inverse that knows a top, is done on `device`.
    """
    if known < 3:
        raise InputError(f"known is {known}: give the number of rows known from elsewhere, 3 or more")
    check_choice(attacks, styles)
    run = Transcript.open(Path(folder))
    outcomes: list[Outcome] = []
    for attack, guesses in attacks_on(run, attacks, known=known, styles=styles, seed=seed, device=device, begin=begin):
        try:
            outcomes += guesses
        except InputError as error:  # one that cannot be run here does not keep the others from it
            outcomes.append(f"{ATTACKS[attack]} could not be run: {error}.")
    left_out = [ATTACKS[left] for left in ATTACKS if left not in attacks]
    if "completion" in attacks:
        left_out += [f"{ATTACKS['completion']} in the style '{left}'" for left in get_args(Style) if left not in styles]
    findings, reasons = sorted_out(outcomes)
    return Audit(
        run.result,
        run.parties,
        [each for view in run.views.values() for each in received(view)],
        ranked(findings),
        guarantees(run),
        list(run.result.get("statements", [])),
        [
            *not_tried(run),
            *dict.fromkeys(reasons),
            *(f"{left} was not asked for." for left in left_out),
        ],
    )


def check_choice(attacks: Collection[str], styles: Collection[Style]) -> None:
    for attack in attacks:
        if attack not in ATTACKS:
            raise InputError(f"there is no attack '{attack}'{nearest(attack, ATTACKS)}")
    for style in styles:
        Completion(style)


def attacks_on(
    run: Transcript,
    attacks: Collection[str],
    *,
    known: int,
    styles: Sequence[Style],
    seed: int,
    device: str,
    begin: Callable[[str], None],
) -> Iterator[tuple[str, Iterator[Outcome]]]:
    """By the names of the attacks."""
    for view in run.views.values():
        begin(f"what '{view.party}' can infer")
        if "gradients" in attacks and view.party != run.host:
            yield "gradients", from_gradients(run, view, seed=seed)
            yield "gradients", by_cosine(run, view, known=known, seed=seed)
        if "completion" in attacks and view.party != run.host:
            tried = [Completion(style) for style in styles]
            yield "completion", by_completion(run, view, tried, known=known, seed=seed, device=device)
        if "columns" in attacks:
            yield "columns", reconstruct(run, view, Inversion(), known=known, seed=seed, device=device)
    if "membership" in attacks:
        begin("what predictions tell")
        yield "membership", by_threshold(run, seed=seed)


def received(view: View) -> Iterator[Got]:
    kinds = dict.fromkeys((seen.sender, seen.kind) for seen in view.received)
    for sender, kind in kinds:
        some = [seen for seen in view.received if (seen.sender, seen.kind) == (sender, kind)]
        rows = [seen.rows for seen in some if seen.rows is not None]
        alone = max((int((each == ELSEWHERE).sum()) for each in rows), default=0)
        yield Got(
            view.party,
            sender,
            kind,
            messages=len(some),
            rows=int((torch.cat(rows).unique() != ELSEWHERE).sum()) + alone if rows else 0,
            numbers=sum(seen.numbers for seen in some),
            bytes=sum(seen.bytes for seen in some),
        )


NOT_ATTACKED = {
    "weights": "of which the last top of an encoder helps to invert representations; no attack here reads the others, "
    "whose change from epoch to epoch tells about the rows they were trained on",
    "unaligned-representations": "numbers of rows that not all parties have: no attack here reads them",
    "bins": "in which bin of a column a row lies: no attack here reads them",
}
NEIGHBOURS = {
    "labels": "neighbours differ in one row's label",
    "columns": "neighbours differ in one person's columns at the guests, replaced by any others",
    "records": "neighbours differ in one person's record",
}


def guarantees(run: Transcript) -> list[str]:
    """What is proven and not only measured; the run's statements say what is not covered."""
    epsilon, delta, statements = run.result.get("epsilon"), run.result.get("delta"), run.result["statements"]
    said = [text for text in statements if "with epsilon" in text or ("epsilon" in text and "no epsilon" not in text)]
    if epsilon is None:  # of a released row there may be one, though none holds for the run as a whole
        return said
    what = NEIGHBOURS[run.result["protects"]]
    return [
        f"Differential privacy with epsilon {at_most(epsilon)} and delta {delta:g} of what is named next; {what}.",
        *said,
    ]


def not_tried(run: Transcript) -> list[str]:
    """What this folder does not allow, in words: an attack that was not run is no sign of safety."""
    said = []
    away = [party for party in run.parties if party not in run.present]
    if away:
        said.append(
            f"The folders of {', '.join(away)} are not here: what needs their rows, labels or models was not tried. "
            "Each organisation can audit its own."
        )
    if run.task.kind != "classification":
        said.append("Labels of a regression are not guessed, and membership is not inferred: no attack here does that.")
    kinds = {seen.kind for view in run.views.values() for seen in view.received}
    for kind in sorted(kinds & set(NOT_ATTACKED)):
        said.append(f"'{kind}' crossed, {NOT_ATTACKED[kind]}.")
    if run.run["method"] == "vertical-trees":
        said.append("XGBoost's own messages are counted and not kept: no attack was run on them.")
    return said
