"""FedOnce: one message a guest, what it is made of, and going on end to end."""

import math
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from federations import photo_federation, small_federation
from vesica.experiment import fit
from vesica.methods import FedOnce, LocalOnly, fedonce
from vesica.nn.models import LinearEncoder
from vesica.training.pretext import SelfSupervision

TINY = {"guest_epochs": 3, "host_epochs": 2, "batch_size": 16}
DIM = 32
every_self_supervision = pytest.mark.parametrize("ssl", get_args(SelfSupervision))


@pytest.mark.parametrize("host_features", [True, False])
@pytest.mark.parametrize("guests", [1, 3])
def test_every_guest_sends_one_message_and_receives_none(guests: int, host_features: bool) -> None:
    result = fit(FedOnce(**TINY), small_federation(guests=guests, host_features=host_features))
    script = [(entry.round, entry.sender, entry.receiver, entry.kind) for entry in result.ledger.messages]
    assert script == [(1, f"shop{i}", "bank", "representations") for i in range(1, guests + 1)]
    assert result.ledger.payload == guests * 40 * DIM * 4


@every_self_supervision
def test_a_guest_that_learns_by_itself_from_views_sends_the_same_one_message(ssl: Any) -> None:
    result = fit(FedOnce(representation=ssl, **TINY), small_federation(guests=2))
    script = [(entry.round, entry.sender, entry.receiver, entry.kind) for entry in result.ledger.messages]
    assert script == [(1, f"shop{i}", "bank", "representations") for i in (1, 2)]
    assert result.ledger.payload == 2 * 40 * DIM * 4


@every_self_supervision
def test_every_self_supervision_takes_all_rows_for_as_many_steps_as_nat(
    ssl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(
        fedonce, "self_supervised", lambda encoder, inputs, **named: given.append({"inputs": inputs, **named})
    )
    method = FedOnce(representation=ssl, guest_learning_rate=0.02, guest_weight_decay=0.5, **TINY)
    result = fit(method, small_federation(rows=200))
    (training,) = given
    rows = 40 + result.rows["unaligned"]["shop1"]
    assert len(training["inputs"]) == rows
    assert training["steps"] == 3 * math.ceil(rows / 16) != 3 * rows // 16
    said = (training["ssl"], training["learning_rate"], training["weight_decay"], training["batch_size"])
    assert said == (ssl, 0.02, 0.5, 16)


@every_self_supervision
def test_self_supervision_is_for_images_too_and_its_encoder_goes_on(ssl: Any) -> None:
    """The same of equal seeds, and not as it was drawn."""
    epochs = (3, 3, 0)
    methods = [FedOnce(representation=ssl, guest_epochs=each, host_epochs=1, batch_size=16) for each in epochs]
    results = [fit(method, photo_federation()) for method in methods]
    one, two, drawn = (torch.cat([w.flatten() for w in r.models["camera"].encoder.parameters()]) for r in results)
    assert torch.equal(one, two)
    assert not torch.allclose(one, drawn, atol=1e-4)


def test_a_guest_learns_from_unaligned_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Tensor] = []
    monkeypatch.setattr(fedonce, "noise_as_targets", lambda encoder, inputs, **_: given.append(inputs))
    result = fit(FedOnce(**TINY), small_federation(rows=200))
    assert [len(inputs) for inputs in given] == [40 + result.rows["unaligned"]["shop1"]]
    assert result.rows["unaligned"]["shop1"] > 0


@pytest.mark.parametrize("representation", ["nat", "pca", "simsiam", "scarf"])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_it_learns(representation: str, task: str) -> None:
    """Half of what decides the label is with the guest: the host alone cannot know it."""
    federation = small_federation(rows=400, keep=280, task=task)
    method = FedOnce(representation=representation, guest_epochs=15, batch_size=32)  # type: ignore[arg-type]
    together, alone = fit(method, federation).metrics, fit(LocalOnly(), federation).metrics
    if task == "regression":
        assert together["rmse"] < 0.8 * alone["rmse"]
    else:
        assert together["auc"] > alone["auc"] + 0.05


def test_a_guest_with_principal_components_has_a_linear_encoder() -> None:
    result = fit(FedOnce(representation="pca", **TINY), small_federation())
    assert isinstance(result.models["shop1"].encoder, LinearEncoder)
    assert not isinstance(result.models["bank"].encoder, LinearEncoder)


@pytest.mark.parametrize("augment", ["none", "weak"])
def test_images_learn_with_and_without_augmentation(augment: str) -> None:
    result = fit(FedOnce(guest_augment=augment, **TINY), photo_federation())  # type: ignore[arg-type]
    assert result.ledger.rounds == 1


def test_more_rounds_go_on_from_the_one_message() -> None:
    """With a learning rate of nothing the predictions stay, and the first message is the same."""
    federation = small_federation(guests=2)
    once = fit(FedOnce(**TINY), federation)
    more = fit(FedOnce(**TINY, more_epochs=2, more_learning_rate=0.0), federation)
    (milestone,) = more.milestones
    assert milestone.metrics == once.metrics == more.metrics
    assert (milestone.method, more.title) == ("fedonce", "fedonce, more rounds")
    assert milestone.ledger.payload == once.ledger.payload < more.ledger.payload
    kinds = {entry.kind for entry in more.ledger.messages}
    assert kinds == {"representations", "gradients", "verdict"}
    assert [point["bytes"] for point in milestone.curve] == [milestone.ledger.wire]
    assert more.curve[:1] == milestone.curve == once.curve
    assert len(more.curve) == 3


def test_equal_seeds_give_equal_results_and_a_resumed_run_too(tmp_path) -> None:
    federation = small_federation()
    one, two = fit(FedOnce(**TINY), federation), fit(FedOnce(**TINY), federation, out=tmp_path / "run")
    assert one.metrics == two.metrics
    first, second = (result.models["shop1"].encoder.state_dict() for result in (one, two))
    assert all(torch.equal(first[name], second[name]) for name in first)
