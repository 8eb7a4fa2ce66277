"""SplitNN: its message script, its mathematics, its learning."""

from collections import defaultdict

import pytest
import torch
from torch import Tensor, nn

from federations import photo_federation, small_federation
from vesica.data import Federation, split_rows
from vesica.errors import InputError
from vesica.experiment import fit
from vesica.experiment.fit import party_seed
from vesica.experiment.seat import Seat
from vesica.methods import SplitNN, make_method
from vesica.nn.models import EncoderSpec


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
def test_one_epoch_equals_the_same_networks_trained_without_messages(
    host_features: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same initial weights, batches and optimiser in plain PyTorch give the same weights."""
    monkeypatch.setattr("vesica.nn.models.build.DROPOUT", 0.0)
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
    from vesica.protocol import end_to_end
    from vesica.training import supervised as training

    def remembered(rows: int, size: int, *, generator: torch.Generator | None = None):
        found = list(training.batches(rows, size, generator=generator))
        BATCHES.append(torch.cat(found))
        return iter(found)

    BATCHES.clear()
    monkeypatch.setattr(end_to_end, "batches", remembered)


def test_every_party_draws_the_same_batches() -> None:
    fit(SplitNN(epochs=2, batch_size=16), small_federation(guests=2))
    first, second = BATCHES[:3], BATCHES[3:]
    assert all(torch.equal(first[0], other) for other in first[1:])
    assert all(torch.equal(second[0], other) for other in second[1:])
    assert not torch.equal(first[0], second[0])


@pytest.mark.parametrize(("augment", "least"), [("none", 0.97), ("weak", 0.95)])
def test_it_learns_from_both_sides(augment: str, least: float) -> None:
    federation = small_federation(rows=600, keep=400)
    result = fit(SplitNN(epochs=30, learning_rate=0.01, augment=augment), federation)
    assert (result.metrics["auc"] or 0) > least


def test_it_stops_on_validation_rows_and_every_party_stops_with_it() -> None:
    result = fit(SplitNN(epochs=200, patience=2, learning_rate=0.05), small_federation(guests=2))
    verdicts = [entry for entry in result.ledger.messages if entry.kind == "verdict"]
    assert len(verdicts) < 2 * 100
    assert len(result.curve) == len(verdicts) / 2


def test_regression_runs_in_the_labels_own_unit() -> None:
    result = fit(SplitNN(epochs=30, learning_rate=0.01), small_federation(rows=400, keep=250, task="regression"))
    assert result.metrics["accuracy"] is None
    assert (result.metrics["rmse"] or 9) < 0.6  # the labels' deviation is about 2.4


def encoded(federation: Federation, augment: str, monkeypatch: pytest.MonkeyPatch) -> dict[bool, list[Tensor]]:
    """All that the encoders saw, in training (True) and else: rows of the shape (rows, ...)."""
    seen: dict[bool, list[Tensor]] = defaultdict(list)
    build = EncoderSpec.build

    def watched(spec: EncoderSpec) -> nn.Module:
        encoder = build(spec)
        encoder.register_forward_pre_hook(lambda module, given: seen[module.training].append(given[0].detach()))
        return encoder

    with monkeypatch.context() as patch:
        patch.setattr(EncoderSpec, "build", watched)
        fit(SplitNN(epochs=2, patience=2, batch_size=16, augment=augment), federation)
    return seen


def inputs_of(federation: Federation) -> list[Tensor]:
    """The prepared tables of all parties that have features."""
    split, parties = split_rows(federation), [party for party in federation.parties if party.has_features]
    return [Seat.take(party, split.parties[party.name], device=torch.device("cpu")).inputs for party in parties]


def is_in(rows: Tensor, table: Tensor) -> Tensor:
    """Which rows are rows of the table as they stand there; views of images are in [0, 1]."""
    rows, table = (
        values.flatten(1) / 255 if values.dtype == torch.uint8 else values.flatten(1) for values in (rows, table)
    )
    return (rows[:, None] == table[None]).all(dim=2).any(dim=1)


FEDERATIONS = {"a table": small_federation(host_features=False), "images": photo_federation()}


@pytest.mark.parametrize("kind", FEDERATIONS)
def test_weak_views_are_for_training_and_never_for_scoring(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    federation = FEDERATIONS[kind]
    plain, weak = (encoded(federation, augment, monkeypatch) for augment in ("none", "weak"))
    (table,) = inputs_of(federation)
    assert is_in(torch.cat(plain[True]), table).all()
    assert [rows.shape for rows in weak[True]] == [rows.shape for rows in plain[True]]
    assert is_in(torch.cat(weak[True]), table).float().mean() < 0.7
    assert len(weak[False]) == len(plain[False]) == 2 + 1  # validation after each epoch, then the test rows
    assert all(map(torch.equal, weak[False], plain[False]))


def test_a_host_with_features_sees_weak_views_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of a table's values are masked, at every party."""
    federation = small_federation(guests=2)
    seen = torch.cat(encoded(federation, "weak", monkeypatch)[True])
    assert len(seen) == 3 * 2 * 36
    masked = ~torch.isin(seen, torch.cat(inputs_of(federation)))
    assert masked.float().mean() == pytest.approx(0.2, abs=0.04)


def test_an_augmentation_that_there_is_not_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError) as refusal:
        make_method("split-nn", {"augment": "weakly"})
    assert str(refusal.value) == "field 'augment' of method 'split-nn' is 'weakly'; did you mean 'weak'?"
    with pytest.raises(InputError, match="field 'augment' of method 'split-nn' is 'strong'"):
        fit(SplitNN(augment="strong"), small_federation())  # type: ignore[arg-type]
