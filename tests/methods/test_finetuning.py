"""Few-shot VFL and end-to-end finetuning after it: its messages, where it starts from, and what is kept of it."""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from federations import photo_federation, small_federation
from vesica.experiment import Result, fit
from vesica.experiment.tables import summarise
from vesica.methods import FewShot, SplitNN
from vesica.protocol import end_to_end
from vesica.report.page import summaries
from vesica.report.plots import ReportedRun
from vesica.training.supervised import Stopping

SETTINGS: dict[str, Any] = {"guest_steps": 3, "host_epochs": 2, "batch_size": 16}  # 36 training rows: 3 batches
FEW = FewShot(**SETTINGS)
ONE_EPOCH = FewShot(**SETTINGS, finetune_iterations=3)
TWO_EPOCHS = FewShot(**SETTINGS, finetune_iterations=4)


def finetuning_of(result: Result) -> list[Any]:
    """Its messages, in order."""
    return result.ledger.messages[len(result.milestones[-1].ledger.messages) :]


@pytest.mark.parametrize("host_features", [True, False])
def test_it_goes_on_with_the_messages_of_split_nn(host_features: bool) -> None:
    result = fit(TWO_EPOCHS, small_federation(guests=2, host_features=host_features))
    up = [(shop, "bank") for shop in ("shop1", "shop2")]
    down = [("bank", shop) for shop in ("shop1", "shop2")]
    expected, number = [], 5  # few-shot ends with a message up: the first batch belongs to the same round
    for _ in range(2):
        for kind in ("gradients", "gradients", "gradients", "verdict"):
            expected += [(number, *pair, "representations") for pair in up]
            expected += [(number + 1, *pair, kind) for pair in down]
            number += 2
    assert [(m.round, m.sender, m.receiver, m.kind) for m in finetuning_of(result)] == expected


@pytest.mark.parametrize("host_features", [True, False])
def test_on_the_way_it_is_a_few_shot_run_which_sends_nothing_more(host_features: bool) -> None:
    federation = small_federation(guests=2, host_features=host_features)
    result, few = fit(ONE_EPOCH, federation, seed=3), fit(FEW, federation, seed=3)
    assert [run.method for run in (*result.milestones, result)] == ["one-shot", "few-shot", "few-shot"]
    on_the_way = result.milestones[1]
    assert on_the_way.metrics == few.metrics
    assert on_the_way.ledger.messages == few.ledger.messages
    assert on_the_way.scoring.entries == few.scoring.entries
    assert on_the_way.statements == few.statements
    assert (on_the_way.curve, len(result.curve)) == ((), 1)
    assert [run.method for run in few.milestones] == ["one-shot"]


@pytest.mark.parametrize(
    ("batch_size", "iterations", "epochs"),
    [(16, 1, 1), (16, 3, 1), (16, 4, 2), (16, 7, 3), (35, 2, 2), (100, 2, 2)],  # 35: the last row joins the only batch
)
def test_the_iterations_are_rounded_up_to_whole_epochs(batch_size: int, iterations: int, epochs: int) -> None:
    method = FewShot(**SETTINGS | {"batch_size": batch_size}, finetune_iterations=iterations)
    result = fit(method, small_federation())
    assert [message.kind for message in finetuning_of(result)].count("verdict") == epochs


def test_it_is_split_nn_on_weak_views_to_the_last_epoch() -> None:
    me: Any = SimpleNamespace(rows=SimpleNamespace(train=torch.arange(36)))
    expected = SplitNN(epochs=2, patience=2, batch_size=16, learning_rate=1e-4, augment="weak")
    assert TWO_EPOCHS.finetuning(me) == expected.training()


@pytest.mark.parametrize("host_features", [True, False])
def test_it_starts_from_the_encoders_and_the_head_of_few_shot(
    host_features: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can be learned, each epoch stands as few-shot did."""
    judged, judge = [], Stopping.judge

    def watched(stopping: Stopping, value: tuple[float, float]) -> bool:
        judged.append(value)
        return judge(stopping, value)

    monkeypatch.setattr(Stopping, "judge", watched)
    method = FewShot(**SETTINGS, finetune_iterations=6, finetune_learning_rate=1e-12)
    result = fit(method, small_federation(guests=2, host_features=host_features))
    before, *epochs = judged[-3:]
    assert epochs == [pytest.approx(before, abs=1e-6)] * 2
    assert result.metrics == pytest.approx(result.milestones[1].metrics, abs=1e-6)


def test_a_finetuned_run_says_that_its_gradients_show_labels_again() -> None:
    result = fit(ONE_EPOCH, small_federation())
    few = result.milestones[1].statements
    assert result.statements[: len(few)] == few
    assert result.statements[len(few) :] == (
        "The gradients of finetuning disclose the labels of the 36 labelled aligned rows that do not validate to every "
        "guest again, batch by batch, and its verdicts whether the validation rows were predicted better.",
    )
    hidden = fit(replace(ONE_EPOCH, label_epsilon=1.0), small_federation())
    assert hidden.statements == hidden.milestones[1].statements  # the noisy labels were said to be all that shows


def weights_of(result: Result) -> dict[str, list[torch.Tensor]]:
    """Each party's encoder, and the head."""
    models = result.models
    found = {name: list(model.encoder.state_dict().values()) for name, model in models.items() if model.encoder}
    return found | {"head": list(models["bank"].head.state_dict().values())}


def same(ours: Result, theirs: Result) -> set[bool]:
    pairs = zip(weights_of(ours).values(), weights_of(theirs).values(), strict=True)
    return {all(map(torch.equal, mine, others)) for mine, others in pairs}


def test_where_no_epoch_is_better_few_shot_is_kept_by_every_party(monkeypatch: pytest.MonkeyPatch) -> None:
    federation = small_federation(guests=2)
    monkeypatch.setattr(end_to_end, "standing", lambda *given: (-1.0, 0.0))
    result = fit(TWO_EPOCHS, federation)
    assert same(result, fit(FEW, federation)) == {True}
    assert result.metrics == result.milestones[1].metrics


def test_where_an_epoch_is_better_every_party_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    federation = small_federation(guests=2)
    better = count(2)  # no metric is above 1
    monkeypatch.setattr(end_to_end, "standing", lambda *given: (float(next(better)), 0.0))
    result = fit(ONE_EPOCH, federation)
    assert same(result, fit(FEW, federation)) == {False}


def test_it_trains_end_to_end_and_gains_by_it() -> None:
    federation = small_federation(rows=400, keep=250, guests=2)
    method = FewShot(guest_steps=5, host_epochs=5, finetune_iterations=300, finetune_learning_rate=0.01)
    result = fit(method, federation)
    few, finetuned = (run.metrics["auc"] or 0 for run in (result.milestones[1], result))
    assert finetuned > max(0.95, few + 0.02)


def test_images_are_finetuned_too() -> None:
    method = FewShot(guest_steps=20, mu=1, host_epochs=5, finetune_iterations=40, finetune_learning_rate=0.01)
    assert (fit(method, photo_federation()).metrics["accuracy"] or 0) > 0.9


def test_it_has_a_name_of_its_own_in_tables_and_in_the_report() -> None:
    result = fit(ONE_EPOCH, small_federation())
    names = ["one-shot", "few-shot", "few-shot + finetune"]
    lines = [run.to_json() for run in (*result.milestones, result)]
    assert [line["title"] for line in lines] == names
    assert [row[0] for row in summarise(lines)[1]] == names
    assert [summary.label for summary in summaries([ReportedRun(line, ()) for line in lines])] == names
    assert result.config["method"]["finetune_iterations"] == 3
    assert fit(FEW, small_federation()).title == "few-shot"
