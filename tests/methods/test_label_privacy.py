"""Label differential privacy: nothing the guests receive shows more than the labels that went through the mechanism."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from federations import small_federation
from overhearing import Pinned, labels_of, messages, overhear, received, watch_standing
from vesica.data import Federation, split_rows
from vesica.errors import InputError, PartyError
from vesica.experiment import fit
from vesica.experiment.fit import validate_blindly
from vesica.methods import FewShot, OneShot, label_release, make_method, one_shot
from vesica.privacy import Spent
from vesica.protocol.message import decode
from vesica.training.cluster import mean_recall

SETTINGS: dict[str, Any] = {
    "guest_steps": 100,
    "batch_size": 8,
    "mu": 2,
    "learning_rate": 0.05,
    "ema": 0.9,
    "host_epochs": 60,
    "host_patience": 3,  # so that how long a head trains depends on its labels
    "host_learning_rate": 0.05,
    "label_epsilon": 1.0,
}
TINY: dict[str, Any] = {"guest_steps": 3, "host_epochs": 1, "label_epsilon": 1.0}
METHODS = {
    "one-shot": OneShot(**SETTINGS),
    "few-shot": FewShot(**SETTINGS),
    "finetuned": FewShot(**SETTINGS, finetune_iterations=10, finetune_learning_rate=0.01),
}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
with_and_without_features = pytest.mark.parametrize("host_features", [True, False], ids=["features", "labels only"])


def seen_by_the_shop(federation: Federation) -> Tensor:
    """Labels that the first shop can learn by itself, so that the host lets pseudo-labels through."""
    split = split_rows(federation)
    rows = split.parties["shop1"].aligned[split.labelled]
    return torch.from_numpy((federation.guests[0].table.columns["x0"][rows] > 0).astype(np.int64))


@every_method
@with_and_without_features
def test_all_that_the_guests_receive_follows_from_the_released_labels(method: OneShot, host_features: bool) -> None:
    """From the agreement to scoring, bit for bit, whatever the true labels are."""
    federation = small_federation(rows=400, guests=2, host_features=host_features, keep=200)
    released = seen_by_the_shop(federation)
    others = (np.random.default_rng(1).random(400) < 0.3).astype(np.int64)
    truths = [replace(federation, label=label) for label in (federation.label, others)]
    assert not torch.equal(*map(labels_of, truths))
    assert not np.array_equal(*(split_rows(truth).validation for truth in truths))  # as they would be drawn otherwise
    first, second = (received(method, truth, released) for truth in truths)
    assert [decode(frame).kind for _, frame in first] == [decode(frame).kind for _, frame in second]
    assert first == second
    changed = received(method, federation, released.roll(1))
    assert first != changed
    if isinstance(method, FewShot):  # else equal chances would prove nothing
        assert max(message.tensor.count_nonzero() for message in messages(first, "probabilities")) > 0
        assert len(messages(first, "verdict")) == (2 if method.finetune_iterations else 0)


@with_and_without_features
def test_the_host_looks_at_the_released_labels_alone_up_to_the_last_verdict(
    host_features: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two verdicts may be alike by chance: what they are made from is watched."""
    federation = small_federation(rows=200, guests=2, host_features=host_features, keep=100)
    released = 1 - labels_of(federation)
    split = split_rows(federation)
    held_out = np.isin(split.labelled, validate_blindly(split, seed=federation.overlap.seed).validation)
    monkeypatch.setattr(label_release, "randomise", Pinned(released))
    frames = overhear(monkeypatch)
    looks = watch_standing(monkeypatch, frames)
    method = METHODS["finetuned"]
    fit(replace(method, guest_patience=0, host_epochs=2), federation)  # so that no guest looks at its own labels
    last = max(i for i, (_, frame) in enumerate(frames) if decode(frame).kind == "verdict")
    before, after = ({tuple(labels) for sent, labels in looks if (sent <= last) == early} for early in (True, False))
    assert before == {tuple(released[held_out].tolist())}
    assert after == {tuple(labels_of(federation)[held_out].tolist())}  # the heads that stay


@with_and_without_features
def test_no_head_is_trained_that_nothing_is_sent_or_kept_from(host_features: bool) -> None:
    federation = small_federation(host_features=host_features)

    def steps(method: OneShot) -> list[str]:
        entered: list[str] = []
        fit(method, federation, progress=lambda party, step, *_: entered.append(step) if party == "bank" else None)
        return [step for step in dict.fromkeys(entered) if step.startswith("classifier")]

    judging = [f"classifier-of-{name}" for name in (["bank"] if host_features else []) + ["shop1"]]
    stay = [f"classifier-that-stays-of-{name}" for name in ("one-shot", "few-shot", "finetuned")]
    assert steps(OneShot(**TINY)) == stay[:1]
    assert steps(FewShot(**TINY)) == ["classifier", *judging, *stay[:2]]
    assert steps(FewShot(**TINY, finetune_iterations=1)) == ["classifier", *judging, "classifier-again", *stay]
    shown = TINY | {"label_epsilon": None}
    assert steps(OneShot(**shown)) == ["classifier"]
    assert steps(FewShot(**shown)) == ["classifier", *judging, "classifier-again"]


@every_method
def test_the_heads_that_stay_have_the_true_labels(method: OneShot, monkeypatch: pytest.MonkeyPatch) -> None:
    federation = small_federation(rows=400, guests=2, host_features=False, keep=100)
    monkeypatch.setattr(label_release, "randomise", Pinned(1 - labels_of(federation)))
    result = fit(replace(method, guest_steps=200), federation)
    for run in (*result.milestones, result):
        assert (run.metrics["auc"] or 0) > 0.65  # heads of the released labels would be below a half


@with_and_without_features
def test_the_labels_are_drawn_once_a_run(host_features: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    federation = small_federation(guests=3, host_features=host_features)
    mechanism = Pinned(labels_of(federation))
    monkeypatch.setattr(label_release, "randomise", mechanism)
    fit(FewShot(**TINY, finetune_iterations=1), federation)
    assert mechanism.asked == [1.0]


def failing(*given: Any, **named: Any) -> Any:
    raise RuntimeError("the power is gone")


@pytest.mark.parametrize("moment", ["gradients_of", "semi_supervised", "cluster"])
def test_a_run_that_goes_on_does_not_draw_again(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    federation = small_federation(rows=300, guests=2, keep=200)
    drawn, used = [], []
    randomise, gradients_of = label_release.randomise, one_shot.gradients_of

    def drawing(*given: Any, **named: Any) -> Tensor:
        drawn.append(randomise(*given, **named))
        return drawn[-1]

    def watched(head: Any, parts: list[Tensor], labels: Tensor) -> list[Tensor]:
        used.append(labels.clone())
        return gradients_of(head, parts, labels)

    monkeypatch.setattr(label_release, "randomise", drawing)
    with monkeypatch.context() as patch:
        patch.setattr(one_shot, moment, failing)
        with pytest.raises(PartyError, match="the power is gone"):
            fit(OneShot(**TINY), federation, out=tmp_path)
    monkeypatch.setattr(one_shot, "gradients_of", watched)
    result = fit(OneShot(**TINY), federation, out=tmp_path)
    assert len(drawn) == 1
    assert [labels.tolist() for labels in used] == [drawn[0].tolist()]
    assert not torch.equal(used[0], labels_of(federation))
    assert result.privacy == Spent(1.0, 0.0, "labels")


def test_results_and_milestones_say_what_was_spent() -> None:
    result = fit(FewShot(**TINY | {"label_epsilon": 2.5}), small_federation())
    for run in (*result.milestones, result):
        assert (run.to_json()["epsilon"], run.to_json()["delta"]) == (2.5, 0.0)
    assert len(result.milestones) == 1
    open_labels = fit(FewShot(**TINY | {"label_epsilon": None}), small_federation())
    for run in (*open_labels.milestones, open_labels):
        assert (run.to_json()["epsilon"], run.to_json()["delta"]) == (None, None)


def test_the_statement_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    federation = small_federation(guests=2)
    truth = labels_of(federation)
    released = torch.where(torch.arange(40) % 5 == 0, 1 - truth, truth)  # a fifth of the labels moved
    monkeypatch.setattr(label_release, "randomise", Pinned(released))
    largest = max(truth.bincount().tolist()) / 40
    recall = mean_recall(released, truth)
    assert recall != 0.8  # of the classes, which are not of one size, and not of the rows
    statement, measured = fit(OneShot(**TINY), federation).statements
    assert statement == (
        "Each label of the 40 labelled aligned rows went through 2-ary randomised response (epsilon = 1, kept with "
        "probability 0.731) before anything was computed from it for the guests: label differential privacy, pure "
        "epsilon, neighbours differ in one row's label, one release, drawn from the operating system's entropy. Not "
        "covered: the features, the names of the classes, which rows are aligned, labelled and for test, that a run is "
        "refused whose labels are of one class only, how long the host trains the head that it keeps, and what it "
        "shows of its result."
    )
    assert measured == (
        "k-means on the gradients still puts 80.0% of the rows with their own class "
        f"({largest:.1%} without knowing anything) and, on average over the classes, {recall:.1%} of a class into a "
        "cluster of its own (50.0% without knowing anything): these shares are measured with the true labels, and no "
        "guarantee covers them."
    )


@pytest.mark.parametrize("method", [OneShot, FewShot])
@pytest.mark.parametrize("epsilon", [0.0, -0.5, math.nan, math.inf, "1"])
def test_a_bad_epsilon_is_refused_before_anyone_talks(method: Callable[..., OneShot], epsilon: Any) -> None:
    with pytest.raises(InputError, match=f"label_epsilon is {epsilon!r}: give a positive number, or leave it out"):
        method(label_epsilon=epsilon)


def test_epsilon_can_be_set_from_text() -> None:
    assert make_method("few-shot", {"label_epsilon": "0.5"}) == FewShot(label_epsilon=0.5)
    assert make_method("one-shot", {"label_epsilon": "none"}) == OneShot()
    with pytest.raises(InputError, match="field 'label_epsilon' of method 'one-shot' is 'much' and should be a number"):
        make_method("one-shot", {"label_epsilon": "much"})
