"""What a guest could learn of the host's labels, measured on a run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from vesica.attacks.completion import Completion, draw_known, pretrained_at_home
from vesica.attacks.gradients import clusters, direction_scores, norm_scores
from vesica.attacks.view import View
from vesica.experiment.audit.findings import Finding, area, area_either_way, measure, share_right
from vesica.experiment.audit.transcript import Transcript
from vesica.learning.cluster import mean_recall, purity

ALONE = "its messages alone"


def from_gradients(run: Transcript, view: View, *, seed: int) -> Iterator[Finding]:
    """Labels of the rows whose gradients the guest received; no label is known to it."""
    if run.host not in run.present or run.task.kind != "classification" or not any(view.about_rows("gradients")):
        return
    rows, found = clusters(view.about_rows("gradients"), run.task.outputs)
    secret, detail = f"the labels of {len(rows)} aligned rows", "Up to renaming the classes."
    for name, metric in (("purity of its clusters", purity), ("mean recall of its clusters", mean_recall)):
        measured = measure(metric, found, run.labels[rows], seed=seed)
        yield Finding(view.party, run.host, secret, "k-means on the gradients", ALONE, name, measured, detail=detail)
    if run.task.outputs == 2:
        for attack, scores in (("the norm", norm_scores), ("the direction", direction_scores)):
            rows, values = scores(view.about_rows("gradients"))
            measured = measure(area_either_way, values, run.labels[rows], nothing=0.5, seed=seed)
            attack = f"{attack} of the gradients"
            yield Finding(view.party, run.host, secret, attack, ALONE, "AUC", measured, detail=detail)


def by_completion(
    run: Transcript, view: View, completion: Completion, *, known: int, seed: int, at_home: bool = True
) -> Iterator[Finding]:
    """Labels of rows it has no label of, from the encoder that the run gave it and a few labels from elsewhere."""
    own, task = view.own, run.task
    if own is None or run.host not in run.present or task.kind != "classification":
        return
    if not any(True for _ in own.encoder.parameters()):  # nothing was learned
        return
    labelled = torch.cat([run.of_use("labelled"), run.of_use("test")])
    known = min(known, len(labelled) // 2)
    of_known = labelled[draw_known(run.labels[labelled], known, generator=np.random.default_rng([seed, 2]))]
    others = labelled[~torch.isin(labelled, of_known)]

    def guess(encoder: torch.nn.Module) -> Tensor:
        torch.manual_seed(seed)
        chances = completion.guess(
            encoder,
            own.inputs,
            known=of_known,
            labels=run.labels[of_known],
            classes=task.outputs,
            schema=own.spec.schema,
        )[others]
        return chances[:, 1] if task.outputs == 2 else chances.argmax(dim=1)

    truth = run.labels[others]
    binary = task.outputs == 2
    metric, nothing = (area, 0.5) if binary else (share_right, float(truth.bincount().max()) / len(truth))
    without = None
    if at_home:
        torch.manual_seed(seed)
        without = metric(guess(pretrained_at_home(own.spec, own.inputs)), truth)
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
