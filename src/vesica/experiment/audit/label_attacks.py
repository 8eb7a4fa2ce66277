"""What a guest could learn of the host's labels, measured on a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor

from vesica.attacks.completion import Completion, draw_known, from_features, plain_numbers, pretrained_at_home
from vesica.attacks.gradients import clusters, cosines, direction_scores, norm_scores
from vesica.attacks.view import View
from vesica.experiment.audit.findings import (
    EITHER_WAY,
    MEAN_RECALL,
    PURITY,
    Finding,
    Metric,
    Outcome,
    area,
    measure,
    share_right,
)
from vesica.experiment.audit.transcript import Transcript
from vesica.privacy import moved_with

ALONE = "its messages alone"


def from_gradients(run: Transcript, view: View, *, seed: int) -> Iterator[Outcome]:
    """Labels of the rows whose gradients the guest received; no label is known to it."""
    if run.host not in run.present or run.task.kind != "classification":
        return
    if not any(view.about_rows("gradients")):
        yield f"No gradients of single rows came to '{view.party}': labels were not guessed from them."
        return
    rows, found = clusters(view.about_rows("gradients"), run.task.outputs)
    secret, detail = f"the labels of {len(rows)} aligned rows", "Up to renaming the classes."
    measures = (
        ("purity of its clusters", PURITY, released(run, rows)),
        ("mean recall of its clusters", MEAN_RECALL, ""),
    )
    for name, metric, more in measures:
        measured, attack = metric.measure(found, run.labels[rows], seed=seed), "k-means on the gradients"
        yield Finding(view.party, run.host, secret, attack, ALONE, name, measured, detail=detail + more)
    if run.task.outputs != 2:
        yield "The norm, the direction and the cosine of gradients were not tried: they tell two classes apart."
    else:
        for attack, scores in (("the norm", norm_scores), ("the direction", direction_scores)):
            rows, values = scores(view.about_rows("gradients"))
            measured = EITHER_WAY.measure(values, run.labels[rows], seed=seed)
            attack = f"{attack} of the gradients"
            yield Finding(view.party, run.host, secret, attack, ALONE, "AUC", measured, detail=detail)


def by_cosine(run: Transcript, view: View, *, known: int, seed: int) -> Iterator[Outcome]:
    """Labels of two classes, from the gradients and a few rows known to be of the second."""
    if run.host not in run.present or run.task.outputs != 2 or not any(view.about_rows("gradients")):
        return
    rows = torch.cat([rows for rows, _ in view.about_rows("gradients")]).unique()
    positive = rows[run.labels[rows] == 1]
    drawn = np.random.default_rng([seed, 8]).permutation(len(positive))[: min(known, len(positive) // 2)]
    of_known = positive[torch.from_numpy(drawn)]
    if not len(of_known):
        few = f"{len(positive)} of the rows are of the second class"
        yield f"The cosine of the gradients of '{view.party}' was not tried: {few}, and it takes two."
        return
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
    )


def released(run: Transcript, rows: Tensor) -> str:
    """With label privacy by randomised response: how many labels the released ones tell at best.

    No bound for any attack: a gradient also carries what the model makes of a row's columns.
    """
    epsilon = run.result.get("epsilon")
    if epsilon is None or run.result.get("protects") != "labels" or run.result.get("delta"):
        return ""
    classes, moved = run.task.outputs, moved_with(run.task.outputs, epsilon=epsilon)
    become = torch.full((classes, classes), moved / (classes - 1)).fill_diagonal_(1 - moved)  # (true, released)
    shares = run.labels[rows].bincount(minlength=classes) / len(rows)
    best = float((shares[:, None] * become).amax(dim=0).sum())
    most = binom.ppf(0.975, len(rows), best) / len(rows)
    return f" The released labels alone tell {best:.3f} of these at best, by chance up to {most:.3f}."


def by_completion(
    run: Transcript, view: View, completions: Sequence[Completion], *, known: int, seed: int, device: str = "cpu"
) -> Iterator[Outcome]:
    """Labels of rows it has no label of, from the encoder that the run gave it and a few labels from elsewhere.

    Beside each stands the best that any of these attacks, or a regression on its columns, reaches without the run.
    """
    own, task = view.own, run.task
    if view.party not in run.present or run.host not in run.present or task.kind != "classification":
        return
    if own is None or not any(seen.rows is not None for seen in view.received):
        why = "it has no encoder" if own is None else "nothing about rows came to it, so it is as good as at home"
        yield f"Model completion was not tried for '{view.party}': {why}."
        return
    labelled = torch.cat([run.of_use("labelled"), run.of_use("test")])
    known = min(known, len(labelled) // 2)
    of_known = labelled[draw_known(run.labels[labelled], known, generator=np.random.default_rng([seed, 2]))]
    others = labelled[~torch.isin(labelled, of_known)]

    names: dict[str, Any] = {"known": of_known, "labels": run.labels[of_known], "classes": task.outputs}
    inputs = own.inputs.to(device)
    torch.manual_seed(seed)
    at_home = pretrained_at_home(own.spec, inputs)

    def guess(completion: Completion, encoder: torch.nn.Module) -> Tensor:
        torch.manual_seed(seed)
        return said(completion.guess(encoder.to(device), inputs, schema=own.spec.schema, **names))

    def said(chances: Tensor) -> Tensor:
        of_others = chances.cpu()[others]
        return of_others[:, 1] if task.outputs == 2 else of_others.argmax(dim=1)

    truth = run.labels[others]
    metric: Metric
    metric, nothing = (area, 0.5) if task.outputs == 2 else (share_right, float(truth.bincount().max()) / len(truth))
    columns = said(from_features(plain_numbers(own.inputs, own.spec.schema), **names))
    without = max(metric(each, truth) for each in (columns, *(guess(style, at_home) for style in completions)))
    for completion in completions:
        yield Finding(
            view.party,
            run.host,
            f"the labels of {len(others)} common rows",
            f"model completion ({completion.style}, {known} labels)",
            f"its encoder, its columns and {known} labels from elsewhere",
            "AUC" if metric is area else "accuracy",
            measure(metric, guess(completion, own.encoder), truth, nothing=nothing, seed=seed),
            at_home=without,
        )
