"""What a guest could learn of the host's labels, measured on a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vesica.attacks.completion import Completion, draw_known, from_features, plain_numbers, pretrained_at_home
from vesica.attacks.gradients import clusters, cosines, direction_scores, norm_scores
from vesica.attacks.view import View
from vesica.experiment.audit.findings import EITHER_WAY, MEAN_RECALL, PURITY, Finding, area, measure, share_right
from vesica.experiment.audit.transcript import Transcript
from vesica.privacy import moved_with

ALONE = "its messages alone"


def from_gradients(run: Transcript, view: View, *, seed: int) -> Iterator[Finding]:
    """Labels of the rows whose gradients the guest received; no label is known to it."""
    if run.host not in run.present or run.task.kind != "classification" or not any(view.about_rows("gradients")):
        return
    rows, found = clusters(view.about_rows("gradients"), run.task.outputs)
    secret, detail = f"the labels of {len(rows)} aligned rows", "Up to renaming the classes."
    detail += kept_by(run)
    for name, metric in (("purity of its clusters", PURITY), ("mean recall of its clusters", MEAN_RECALL)):
        measured = metric.measure(found, run.labels[rows], seed=seed)
        yield Finding(view.party, run.host, secret, "k-means on the gradients", ALONE, name, measured, detail=detail)
    if run.task.outputs == 2:
        for attack, scores in (("the norm", norm_scores), ("the direction", direction_scores)):
            rows, values = scores(view.about_rows("gradients"))
            measured = EITHER_WAY.measure(values, run.labels[rows], seed=seed)
            attack = f"{attack} of the gradients"
            yield Finding(view.party, run.host, secret, attack, ALONE, "AUC", measured, detail=detail)


def by_cosine(run: Transcript, view: View, *, known: int, seed: int) -> Iterator[Finding]:
    """Labels of two classes, from the gradients and a few rows known to be of the second."""
    if run.host not in run.present or run.task.outputs != 2 or not any(view.about_rows("gradients")):
        return
    rows = torch.cat([rows for rows, _ in view.about_rows("gradients")]).unique()
    positive = rows[run.labels[rows] == 1]
    drawn = np.random.default_rng([seed, 8]).permutation(len(positive))[: min(known, len(positive) // 2)]
    of_known = positive[torch.from_numpy(drawn)]
    rows, values = cosines(view.about_rows("gradients"), of_known)
    others = ~torch.isin(rows, of_known)
    yield Finding(
        view.party,
        run.host,
        f"the labels of {int(others.sum())} aligned rows",
        f"the cosine of the gradients with known ones ({len(of_known)} rows known)",
        f"its messages, and {len(of_known)} rows of the second class from elsewhere",
        "AUC",
        measure(area, values[others], run.labels[rows[others]], nothing=0.5, seed=seed),
        detail=kept_by(run).strip(),
    )


def kept_by(run: Transcript) -> str:
    """With label privacy by randomised response: how often a released label is the true one."""
    epsilon = run.result.get("epsilon")
    if epsilon is None or run.result.get("protects") != "labels" or run.result.get("delta"):
        return ""
    kept = 1 - moved_with(run.task.outputs, epsilon=epsilon)
    return f" Reading the released labels off without a fault is right with probability {kept:.3f}."


def by_completion(
    run: Transcript, view: View, completion: Completion, *, known: int, seed: int, device: str = "cpu"
) -> Iterator[Finding]:
    """Labels of rows it has no label of, from the encoder that the run gave it and a few labels from elsewhere."""
    own, task = view.own, run.task
    if own is None or run.host not in run.present or task.kind != "classification":
        return
    if not any(seen.rows is not None for seen in view.received):  # it is as good as at home
        return
    labelled = torch.cat([run.of_use("labelled"), run.of_use("test")])
    known = min(known, len(labelled) // 2)
    of_known = labelled[draw_known(run.labels[labelled], known, generator=np.random.default_rng([seed, 2]))]
    others = labelled[~torch.isin(labelled, of_known)]

    names: dict[str, Any] = {"known": of_known, "labels": run.labels[of_known], "classes": task.outputs}
    inputs = own.inputs.to(device)

    def guess(encoder: torch.nn.Module) -> Tensor:
        torch.manual_seed(seed)
        return said(completion.guess(encoder.to(device), inputs, schema=own.spec.schema, **names))

    def said(chances: Tensor) -> Tensor:
        of_others = chances.cpu()[others]
        return of_others[:, 1] if task.outputs == 2 else of_others.argmax(dim=1)

    truth = run.labels[others]
    binary = task.outputs == 2
    metric, nothing = (area, 0.5) if binary else (share_right, float(truth.bincount().max()) / len(truth))
    torch.manual_seed(seed)
    columns = said(from_features(plain_numbers(own.inputs, own.spec.schema), **names))
    without = max(metric(guess(pretrained_at_home(own.spec, inputs)), truth), metric(columns, truth))
    yield Finding(
        view.party,
        run.host,
        f"the labels of {len(others)} common rows",
        f"model completion ({completion.style}, {known} labels)",
        f"its encoder, its columns and {known} labels from elsewhere",
        "AUC" if binary else "accuracy",
        measure(metric, guess(own.encoder), truth, nothing=nothing, seed=seed),
        at_home=without,
    )
