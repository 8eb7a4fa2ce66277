"""SplitNN: its message script, its mathematics, its learning."""

import pytest
import torch

from federations import small_federation
from vesica.data import split_rows
from vesica.experiment import fit
from vesica.experiment.fit import party_seed
from vesica.experiment.seat import Seat
from vesica.methods import SplitNN


def test_the_message_script_is_the_papers() -> None:
    result = fit(SplitNN(epochs=2, batch_size=16), small_federation(guests=2))
    script = [(entry.round, entry.sender, entry.receiver, entry.kind) for entry in result.ledger.messages]
    batches = 3  # 36 training rows, 16 at a time
    expected = []
    number = 0
    for _ in range(2):
        for _ in range(batches):
            expected += [(number + 1, guest, "bank", "representations") for guest in ("shop1", "shop2")]
            expected += [(number + 2, "bank", guest, "gradients") for guest in ("shop1", "shop2")]
            number += 2
        expected += [(number + 1, guest, "bank", "representations") for guest in ("shop1", "shop2")]
        expected += [(number + 2, "bank", guest, "verdict") for guest in ("shop1", "shop2")]
        number += 2
    assert script == expected
    assert [entry.kind for entry in result.ledger.entries[:4]] == ["agreement"] * 4
    assert {entry.kind for entry in result.scoring.messages} == {"request", "representations"}


def test_payload_is_rows_times_dimension_times_four_each_way() -> None:
    result = fit(SplitNN(epochs=1, batch_size=16), small_federation())
    trained, validated, dim = 36, 4, 32
    assert result.ledger.payload == (2 * trained + validated) * dim * 4


@pytest.mark.parametrize("host_features", [True, False])
def test_one_epoch_equals_the_same_networks_trained_without_messages(host_features: bool) -> None:
    """The same initial weights, batches and optimiser in plain PyTorch give the same weights."""
    federation = small_federation(guests=2, host_features=host_features)
    method = SplitNN(epochs=1, batch_size=16, hidden=(4,))
    trained = fit(method, federation, seed=3).models

    names = [party.name for party in federation.parties if party.has_features]
    split = split_rows(federation)
    seats = {p.name: Seat.take(p, split.parties[p.name], device=torch.device("cpu")) for p in federation.parties}
    encoders = {}
    for name in reversed(names):  # the host's head is drawn right after its encoder
        torch.manual_seed(party_seed(name, 3))
        encoders[name] = seats[name].spec.build()
    if not host_features:
        torch.manual_seed(party_seed("bank", 3))
    head = type(trained["bank"].head)({name: 32 for name in names}, 2, hidden=(4,))
    modules = [head, *encoders.values()]
    optimiser = torch.optim.Adam([p for m in modules for p in m.parameters()], lr=1e-3, weight_decay=1e-5)

    keep = torch.from_numpy(split.labelled[~torch.isin(*map(torch.from_numpy, (split.labelled, split.validation)))])
    order = BATCHES.pop()
    labels = torch.from_numpy(split.label[split.parties["bank"].aligned])
    for batch in order.split(16):
        rows = keep[batch]
        parts = [encoders[name](seats[name].inputs[split.parties[name].aligned[rows]]) for name in names]
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(head(parts), labels[rows]).backward()
        optimiser.step()

    for name in names:
        for (key, ours), theirs in zip(
            trained[name].encoder.state_dict().items(), encoders[name].state_dict().values(), strict=True
        ):
            assert torch.allclose(ours, theirs, atol=1e-6), (name, key)
    for ours, theirs in zip(trained["bank"].head.state_dict().values(), head.state_dict().values(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


BATCHES: list[torch.Tensor] = []


@pytest.fixture(autouse=True)
def remember_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the rows is drawn from the agreement; the test above needs to see it."""
    from vesica.learning import training
    from vesica.methods import split_nn

    def remembered(rows: int, size: int, *, generator: torch.Generator | None = None):
        found = list(training.batches(rows, size, generator=generator))
        BATCHES.append(torch.cat(found))
        return iter(found)

    BATCHES.clear()
    monkeypatch.setattr(split_nn, "batches", remembered)


def test_every_party_draws_the_same_batches() -> None:
    fit(SplitNN(epochs=2, batch_size=16), small_federation(guests=2))
    first, second = BATCHES[:3], BATCHES[3:]
    assert all(torch.equal(first[0], other) for other in first[1:])
    assert all(torch.equal(second[0], other) for other in second[1:])
    assert not torch.equal(first[0], second[0])


def test_it_learns_from_both_sides() -> None:
    federation = small_federation(rows=400, keep=250)
    result = fit(SplitNN(epochs=30, learning_rate=0.01), federation)
    assert (result.metrics["auc"] or 0) > 0.97


def test_it_stops_on_validation_rows_and_every_party_stops_with_it() -> None:
    result = fit(SplitNN(epochs=200, patience=2, learning_rate=0.05), small_federation(guests=2))
    verdicts = [entry for entry in result.ledger.messages if entry.kind == "verdict"]
    assert len(verdicts) < 2 * 100
    assert len(result.curve) == len(verdicts) / 2


def test_regression_runs_in_the_labels_own_unit() -> None:
    result = fit(SplitNN(epochs=30, learning_rate=0.01), small_federation(rows=400, keep=250, task="regression"))
    assert result.metrics["accuracy"] is None
    assert (result.metrics["rmse"] or 9) < 0.6  # the labels' deviation is about 2.4
