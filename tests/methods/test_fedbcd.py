"""FedBCD: its message scripts, its updates on stale parts against a loop by hand, its learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from federations import small_federation
from vesica.data import Federation, split_rows
from vesica.errors import InputError
from vesica.experiment import Result, fit
from vesica.experiment.fit import party_seed
from vesica.experiment.seat import Seat
from vesica.methods import FedBCD, SplitNN, make_method
from vesica.nn.models import EncoderSpec, Head
from vesica.nn.models.dropout import Dropout
from vesica.protocol import end_to_end
from vesica.training import supervised as training

SHOPS = ("shop1", "shop2")


def script(result: Result) -> list[tuple[int, str, str, str]]:
    return [(entry.round, entry.sender, entry.receiver, entry.kind) for entry in result.ledger.messages]


def weights_of(result: Result) -> list[Tensor]:
    modules = [module for model in result.models.values() for module in (model.encoder, model.head)]
    return [values for module in modules if module is not None for values in module.state_dict().values()]


@pytest.mark.parametrize("local_steps", [1, 5])
def test_in_parallel_the_messages_are_those_of_split_nn_whatever_q(local_steps: int) -> None:
    federation = small_federation(guests=2)
    ours = fit(FedBCD(epochs=2, batch_size=16, local_steps=local_steps), federation)
    vanilla = fit(SplitNN(epochs=2, batch_size=16), federation)
    sizes = [[(entry.kind, entry.payload) for entry in run.ledger.messages] for run in (ours, vanilla)]
    assert script(ours) == script(vanilla)
    assert sizes[0] == sizes[1]


def test_in_sequence_each_guest_but_the_last_passes_fresh_representations_on() -> None:
    result = fit(FedBCD(epochs=1, batch_size=16, order="sequential"), small_federation(guests=3))
    up, down = "representations", "gradients"
    batch = [(1, f"shop{i}", "bank", up) for i in (1, 2, 3)]
    batch += [(2, "bank", "shop1", down), (3, "shop1", "bank", up), (4, "bank", "shop2", down)]
    batch += [(5, "shop2", "bank", up), (6, "bank", "shop3", down)]
    expected = [(round + 6 * number, *rest) for number in range(3) for round, *rest in batch]
    expected += [(19, f"shop{i}", "bank", up) for i in (1, 2, 3)]
    expected += [(20, "bank", f"shop{i}", "verdict") for i in (1, 2, 3)]
    assert script(result) == expected
    trained, validated, dim = 36, 4, 32
    assert result.ledger.payload == (3 * 2 * trained + 2 * trained + 3 * validated) * dim * 4


def test_with_one_guest_the_sequence_costs_nothing_more() -> None:
    runs = [fit(FedBCD(epochs=2, order=order), small_federation()) for order in ("parallel", "sequential")]
    assert script(runs[0]) == script(runs[1])
    assert not all(map(torch.equal, *map(weights_of, runs)))  # the host went first


@pytest.mark.parametrize("augment", ["none", "weak"])
@pytest.mark.parametrize("host_features", [True, False])
def test_one_update_a_batch_is_split_nn_bit_for_bit(
    host_features: bool, augment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vesica.protocol.party.Party.public_random", lambda me, purpose: same_batches(purpose))
    federation = small_federation(guests=2, host_features=host_features)
    settings = {"epochs": 3, "batch_size": 16, "learning_rate": 1e-3, "augment": augment}
    vanilla = fit(SplitNN(**settings), federation, seed=3)
    for proximal in (0.0, 9.0):  # a party is where it is held
        ours = fit(FedBCD(**settings, local_steps=1, proximal=proximal), federation, seed=3)
        assert all(map(torch.equal, weights_of(ours), weights_of(vanilla)))
        assert ours.metrics == vanilla.metrics


def same_batches(purpose: str) -> torch.Generator:
    """The order of batches follows from the agreement, and that from the method's name."""
    return torch.Generator().manual_seed(len(purpose) + int(purpose[-1]))


Batches = list[Tensor]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Batches:
    """The order of the rows of each epoch, once a party."""
    found: Batches = []

    def remembered(rows: int, size: int, *, generator: torch.Generator | None = None):
        of_epoch = list(training.batches(rows, size, generator=generator))
        found.append(torch.cat(of_epoch))
        return iter(of_epoch)

    monkeypatch.setattr(end_to_end, "batches", remembered)
    monkeypatch.setattr("vesica.nn.models.build.DROPOUT", 0.0)
    return found


class ByHand:
    """The same networks, drawn from the same seed, in plain PyTorch, without messages: one optimiser a party."""

    def __init__(self, federation: Federation, *, seed: int, sgd: float | None = None) -> None:
        self.names = [party.name for party in federation.parties if party.has_features]
        split = split_rows(federation)
        seats = {p.name: Seat.take(p, split.parties[p.name], device=torch.device("cpu")) for p in federation.parties}
        self.encoders: dict[str, nn.Module] = {}
        for name in reversed(self.names):  # the host's head is drawn right after its encoder
            torch.manual_seed(party_seed(name, seed))
            spec = seats[name].spec
            assert spec is not None
            self.encoders[name] = spec.build()
        if "bank" not in self.names:
            torch.manual_seed(party_seed("bank", seed))
        self.head = Head(dict.fromkeys(self.names, 32), 2, hidden=(4,))
        labelled, validation = (torch.from_numpy(rows) for rows in (split.labelled, split.validation))
        rows = labelled[~torch.isin(labelled, validation)]
        self.inputs = {name: seats[name].inputs[split.parties[name].aligned[rows]] for name in self.names}
        self.labels = torch.from_numpy(split.label[split.parties["bank"].aligned])[rows]
        own = [self.encoders["bank"]] if "bank" in self.names else []
        self.guests = [name for name in self.names if name != "bank"]
        self.mine = {"bank": [self.head, *own], **{name: [self.encoders[name]] for name in self.guests}}
        of_party = {name: [p for m in modules for p in m.parameters()] for name, modules in self.mine.items()}
        self.optimisers = {
            name: torch.optim.Adam(parameters, lr=3e-4, weight_decay=1e-5)
            if sgd is None
            else torch.optim.SGD(parameters, lr=sgd, weight_decay=1e-5)
            for name, parameters in of_party.items()
        }

    def encode(self, name: str, batch: Tensor) -> Tensor:
        return self.encoders[name](self.inputs[name][batch])

    def loss(self, batch: Tensor, parts: dict[str, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(self.head([parts[name] for name in self.names]), self.labels[batch])

    def hosts(self, batch: Tensor, stale: dict[str, Tensor]) -> Tensor:
        """The loss that the host sees: the guests' parts as they came, its own as it is now."""
        own = {} if "bank" not in self.names else {"bank": self.encode("bank", batch)}
        return self.loss(batch, {**own, **{name: part.detach() for name, part in stale.items()}})

    def gradient(self, name: str, batch: Tensor, stale: dict[str, Tensor]) -> Tensor:
        leaf = stale[name].detach().requires_grad_()
        own = {} if "bank" not in self.names else {"bank": self.encode("bank", batch).detach()}
        return torch.autograd.grad(self.loss(batch, {**own, **stale, name: leaf}), leaf)[0]

    def update(self, name: str, objective: Callable[[], Tensor], *, times: int, mu: float) -> None:
        parameters = [p for module in self.mine[name] for p in module.parameters()]
        anchors = [p.detach().clone() for p in parameters]
        for _ in range(times):
            near = sum((p - a).square().sum() for p, a in zip(parameters, anchors, strict=True)) * mu / 2
            self.optimisers[name].zero_grad()
            (objective() + near).backward()
            self.optimisers[name].step()

    def stale_objective(self, name: str, batch: Tensor, gradient: Tensor) -> Callable[[], Tensor]:
        """Its gradient is J^T G, with the same G however the encoder has moved."""
        return lambda: (self.encode(name, batch) * gradient).sum()

    def train(self, batches: Sequence[Tensor], *, order: str, times: int, mu: float) -> None:
        for batch in batches:
            stale = {name: self.encode(name, batch).detach() for name in self.guests}
            gradients = {name: self.gradient(name, batch, stale) for name in self.guests}
            self.update("bank", lambda: self.hosts(batch, stale), times=times, mu=mu)  # noqa: B023
            for name in self.guests:
                if order == "sequential":
                    gradients[name] = self.gradient(name, batch, stale)
                self.update(name, self.stale_objective(name, batch, gradients[name]), times=times, mu=mu)
                if order == "sequential":
                    stale[name] = self.encode(name, batch).detach()

    def weights(self) -> dict[str, list[Tensor]]:
        return {name: [v for m in modules for v in m.state_dict().values()] for name, modules in self.mine.items()}


def weights_by_party(result: Result) -> dict[str, list[Tensor]]:
    found = {}
    for name, model in result.models.items():
        modules = [module for module in (model.head, model.encoder) if module is not None]
        found[name] = [values for module in modules for values in module.state_dict().values()]
    return found


@pytest.mark.parametrize("host_features", [True, False])
@pytest.mark.parametrize("proximal", [0.0, 5.0])
@pytest.mark.parametrize("order", ["parallel", "sequential"])
def test_an_epoch_equals_the_algorithm_by_hand(
    order: str, proximal: float, host_features: bool, drawn: Batches
) -> None:
    federation = small_federation(guests=2, host_features=host_features)
    method = FedBCD(epochs=1, batch_size=16, hidden=(4,), local_steps=4, order=order, proximal=proximal)
    ours = weights_by_party(fit(method, federation, seed=3))
    hand = ByHand(federation, seed=3)
    hand.train(drawn[0].split(16), order=order, times=4, mu=proximal)
    for name, theirs in hand.weights().items():
        assert all(torch.allclose(a, b, atol=2e-6) for a, b in zip(ours[name], theirs, strict=True)), name

    other = ByHand(federation, seed=3)  # that the comparison can tell one algorithm from another
    other.train(drawn[0].split(16), order=order, times=4, mu=proximal + 5)
    for name, theirs in other.weights().items():
        assert not all(torch.allclose(a, b, atol=2e-6) for a, b in zip(ours[name], theirs, strict=True)), name


def test_the_papers_descent_equals_the_algorithm_by_hand(drawn: Batches) -> None:
    federation = small_federation(guests=2)
    method = FedBCD(epochs=1, batch_size=16, hidden=(4,), local_steps=4, learning_rate=0.03, descent="sgd")
    ours = weights_by_party(fit(method, federation, seed=3))
    plain, adam = ByHand(federation, seed=3, sgd=0.03), ByHand(federation, seed=3)
    for hand in (plain, adam):
        hand.train(drawn[0].split(16), order="parallel", times=4, mu=0.0)
    for name, weights in ours.items():
        assert all(torch.allclose(a, b, atol=2e-6) for a, b in zip(weights, plain.weights()[name], strict=True)), name
        assert not all(torch.allclose(a, b, atol=2e-6) for a, b in zip(weights, adam.weights()[name], strict=True))


@pytest.mark.parametrize("order", ["parallel", "sequential"])
def test_all_updates_of_a_batch_see_the_same_view_of_its_rows(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    build = EncoderSpec.build

    def watched(spec: EncoderSpec) -> nn.Module:
        encoder = build(spec)
        encoder.register_forward_pre_hook(lambda module, given: seen.append(given[0]) if module.training else None)
        return encoder

    monkeypatch.setattr(EncoderSpec, "build", watched)
    method = FedBCD(epochs=1, batch_size=16, local_steps=3, augment="weak", order=order)
    fit(method, small_federation(host_features=False), seed=1)
    assert len(seen) == 3 * 3
    for first, *again in (seen[i : i + 3] for i in (0, 3, 6)):
        assert all(torch.equal(first, other) for other in again)
    assert not torch.equal(seen[0], seen[3])


@pytest.mark.parametrize("order", ["parallel", "sequential"])
def test_all_updates_of_a_batch_drop_the_same_units(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    masks: dict[Dropout, list[Tensor]] = {}
    draw = Dropout.draw

    def watched(layer: Dropout, shape: Sequence[int], *, device: torch.device) -> Tensor:
        masks.setdefault(layer, []).append(draw(layer, shape, device=device))
        return masks[layer][-1]

    monkeypatch.setattr(Dropout, "draw", watched)
    fit(FedBCD(epochs=1, batch_size=16, local_steps=3, order=order), small_federation(guests=2), seed=1)
    # In sequence the host's loss is taken once more for each guest's gradients, and the first guest encodes once more.
    times = {"parallel": {9: 3}, "sequential": {15: 5, 12: 4, 9: 3}}[order]
    assert {len(drawn) for drawn in masks.values()} == set(times)
    for drawn in masks.values():
        each = times[len(drawn)]
        for first, *again in (drawn[at : at + each] for at in range(0, len(drawn), each)):
            assert all(torch.equal(first, other) for other in again)
        assert not torch.equal(drawn[0], drawn[each])


@pytest.mark.parametrize("order", ["parallel", "sequential"])
def test_five_updates_learn_in_few_messages_what_one_does_not(order: str) -> None:
    federation = small_federation(rows=400, keep=250)
    few = fit(FedBCD(epochs=5, learning_rate=3e-4, order=order), federation)
    vanilla = fit(SplitNN(epochs=5, learning_rate=3e-4), federation)
    longer = fit(SplitNN(epochs=25, learning_rate=3e-4), federation)
    assert few.ledger.rounds * 5 == longer.ledger.rounds
    assert (few.metrics["auc"] or 0) > (longer.metrics["auc"] or 0) - 0.01
    assert (few.metrics["auc"] or 0) > (vanilla.metrics["auc"] or 0) + 0.03


def test_it_learns_a_regression_from_three_guests() -> None:
    federation = small_federation(rows=400, keep=250, guests=3, task="regression")
    result = fit(FedBCD(epochs=80, learning_rate=2e-3), federation)
    assert (result.metrics["rmse"] or 9) < 0.8  # the labels' deviation is about 3.5


def test_it_stops_on_validation_rows_and_every_party_stops_with_it() -> None:
    result = fit(FedBCD(epochs=200, patience=2, learning_rate=0.05), small_federation(guests=2))
    verdicts = [entry for entry in result.ledger.messages if entry.kind == "verdict"]
    assert len(verdicts) < 2 * 100
    assert len(result.curve) == len(verdicts) / 2


def test_fields_that_cannot_be_are_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match="field 'local_steps' of method 'fedbcd' is 0: it is 1 or more"):
        make_method("fedbcd", {"local_steps": "0"})
    with pytest.raises(InputError, match="field 'order' of method 'fedbcd' is 'serial'"):
        make_method("fedbcd", {"order": "serial"})
