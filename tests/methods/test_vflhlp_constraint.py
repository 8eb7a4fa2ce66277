"""VFLHLP's constraint: its formula, its gradient, what it holds and what it leaves free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from federations import small_federation
from vesica.experiment import Result, fit
from vesica.methods import VFLHLPA
from vesica.methods.vflhlp import OwnModel, constraint
from vesica.nn.models import MLP, Head
from vesica.protocol.end_to_end import EndToEnd

EVERY_LABEL = replace(small_federation(), labels="all")


def own_models() -> tuple[OwnModel, OwnModel]:
    """The host's of three parties, and one that it learned alone."""
    torch.manual_seed(0)
    encoders = [MLP(3, (5,), 4) for _ in range(2)]
    heads = [Head({"bank": 4, "a": 2, "b": 3}, 2, hidden=(6,)), Head({"bank": 4}, 2, hidden=(6,))]
    ours, prior = (OwnModel(encoder, head) for encoder, head in zip(encoders, heads, strict=True))
    return ours, prior


def test_the_constraint_is_half_the_squared_distance_and_its_gradient_the_difference() -> None:
    ours, prior = own_models()
    expected = sum(
        ((mine.detach().double() - its.detach().double()) ** 2).sum().item() / 2
        for mine, its in zip(ours.encoder.parameters(), prior.encoder.parameters(), strict=True)
    )
    first, alone = ours.head.mlp[0], prior.head.mlp[0]
    assert isinstance(first, nn.Linear)
    assert isinstance(alone, nn.Linear)
    expected += (first.weight[:, :4] - alone.weight).square().sum().item() / 2
    expected += (first.bias - alone.bias).square().sum().item() / 2
    for mine, its in zip(ours.head.mlp[2].parameters(), prior.head.mlp[2].parameters(), strict=True):
        expected += (mine - its).square().sum().item() / 2
    distance = constraint(ours, prior)
    assert distance.item() == pytest.approx(expected, rel=1e-5)

    distance.backward()
    assert first.weight.grad is not None
    assert torch.allclose(first.weight.grad[:, :4], first.weight[:, :4] - alone.weight)
    assert not first.weight.grad[:, 4:].any()  # the guests' columns are free
    mine, its = next(ours.encoder.parameters()), next(prior.encoder.parameters())
    assert mine.grad is not None
    assert torch.allclose(mine.grad, mine - its)
    assert all(weight.grad is None for module in (prior.encoder, prior.head) for weight in module.parameters())


def test_the_slice_of_the_head_is_what_reads_the_hosts_part() -> None:
    """The head with the guests' parts at zero is the head of the slice."""
    ours, _ = own_models()
    part, nothing = torch.randn(7, 4), [torch.zeros(7, 2), torch.zeros(7, 3)]
    *_, weight, bias, last, last_bias = ours.weights()
    outputs = torch.relu(part @ weight.T + bias) @ last.T + last_bias
    assert torch.allclose(outputs, ours.head([part, *nothing]), atol=1e-6)


def test_a_warm_start_is_the_prior_and_leaves_the_guests_columns() -> None:
    ours, prior = own_models()
    first = ours.head.mlp[0]
    assert isinstance(first, nn.Linear)
    before = first.weight[:, 4:].clone()
    ours.start_from(prior)
    assert constraint(ours, prior).item() == 0
    assert torch.equal(first.weight[:, 4:], before)


def priors(monkeypatch: pytest.MonkeyPatch) -> list[OwnModel]:
    """What hosts learn alone from here on."""
    found: list[OwnModel] = []
    learn = VFLHLPA.learn_alone

    def watched(method: VFLHLPA, me: Any) -> OwnModel:
        found.append(learn(method, me))
        return found[-1]

    monkeypatch.setattr(VFLHLPA, "learn_alone", watched)
    return found


def distance(result: Result, prior: OwnModel) -> float:
    model = result.models["bank"]
    assert model.encoder is not None
    assert isinstance(model.head, Head)
    return constraint(OwnModel(model.encoder, model.head), prior).item()


@pytest.mark.parametrize("start", ["fresh", "warm"])
def test_a_huge_beta_holds_the_host_at_what_it_learned_alone(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = priors(monkeypatch)
    settings: dict[str, Any] = {"epochs": 150, "batch_size": 16, "start": start}
    held, free = (fit(VFLHLPA(host_epochs=2, beta=beta, **settings), EVERY_LABEL) for beta in (1e3, 0.0))
    assert distance(held, found[0]) < 0.01 * distance(free, found[1])


def test_beta_is_what_the_constraint_is_multiplied_with(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[float] = []
    lead = EndToEnd.lead

    def watched(self: EndToEnd, me: Any, labels: Any, *, step: str, penalty: Any) -> None:
        found.append(penalty().item())
        lead(self, me, labels, step=step, penalty=penalty)

    monkeypatch.setattr(EndToEnd, "lead", watched)
    for beta in (1.0, 0.5):
        fit(VFLHLPA(host_epochs=1, epochs=0, beta=beta), EVERY_LABEL)
    assert found[1] == pytest.approx(0.5 * found[0])


def test_a_warm_start_takes_statistics_too() -> None:
    """Batch norm's are no weights, and the constraint does not see them."""
    ours, prior = (OwnModel(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), own.head) for own in own_models())
    prior.encoder(torch.randn(20, 3))
    ours.start_from(prior)
    assert torch.equal(ours.encoder(torch.ones(2, 3)), prior.encoder(torch.ones(2, 3)))
    assert torch.equal(ours.encoder.eval()(torch.ones(2, 3)), prior.encoder.eval()(torch.ones(2, 3)))


def test_a_warm_start_starts_from_what_was_learned_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = priors(monkeypatch)
    warm, fresh = (fit(VFLHLPA(host_epochs=2, epochs=0, start=start), EVERY_LABEL) for start in ("warm", "fresh"))
    assert distance(warm, found[0]) == 0
    assert distance(fresh, found[1]) > 1
