"""FedHSSL and its parts: their message scripts, their mathematics, their learning."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vesica
from federations import ids, photo_federation, small_federation
from vesica.data import Federation, Overlap, PartyData, Table, TestRows
from vesica.errors import InputError
from vesica.experiment import Result, fit, predict_from
from vesica.experiment.models import PartyModel
from vesica.methods import METHODS, FedCSSL, FedGSSL, FedHSSL, FedLocalSSL, SplitNN
from vesica.nn.models import MeanEncoder
from vesica.protocol.averaging import HostAveraging
from vesica.protocol.link import Link
from vesica.protocol.party import Party
from vesica.training.towers import CrossTower, LocalTower

# An epoch of pre-training with 40 aligned rows, 16 at a time: batches of 16, 16 and 8.
FAST: dict[str, Any] = {"pretrain_epochs": 2, "batch_size": 16, "width": 8, "finetune_epochs": 1}
ALIGNED, BATCHES, WIDTH = 40, (16, 16, 8), 8
Script = list[tuple[str, str]]


def script_of(result: Result, guest: str) -> Script:
    """The kinds of messages between the host and a guest, with their direction, up to fine-tuning."""
    kinds = [
        (entry.kind, "up" if entry.sender == guest else "down")
        for entry in result.ledger.messages
        if guest in (entry.sender, entry.receiver)
    ]
    first = next(place for place, (kind, _) in enumerate(kinds) if kind == "representations")
    return kinds[:first]


def both(kind: str, *, host_first: bool = False) -> Script:
    return [(kind, "down"), (kind, "up")] if host_first else [(kind, "up"), (kind, "down")]


CROSS = [message for number in range(3) for message in both("projections", host_first=number == 1)]
AGREED = [("shapes", "up"), ("group", "down")]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (FedCSSL(**FAST), CROSS * 2),
        (FedGSSL(**FAST), CROSS * 2),
        (FedHSSL(**FAST), AGREED + (CROSS + both("weights")) * 2),
        (FedLocalSSL(**FAST), []),
        (FedLocalSSL(**FAST, aggregate="top"), AGREED + both("weights") * 2),
        (FedCSSL(**FAST, exchange="epoch"), ([("projections", "up")] * 3 + [("projections", "down")] * 3) * 2),
        (FedCSSL(**FAST, exchange="late"), [("projections", "down")] * 3 + [("projections", "up")] * 3),
        (FedCSSL(**FAST, local_updates=4), CROSS * 2),
    ],
)
@pytest.mark.parametrize("guests", [1, 2, 3])
def test_the_message_script_is_the_papers(method: Any, expected: Script, guests: int) -> None:
    result = fit(method, small_federation(guests=guests))
    for guest in result.parties[1:]:
        assert script_of(result, guest) == expected
    batches = 1  # of fine-tuning: up and down, then the validation rows and the verdict
    assert result.ledger.rounds == changes(expected) + 2 * batches + 2 - (expected[-1:] == [("projections", "up")])


def changes(script: Script) -> int:
    ways = [way for _, way in script]
    return sum(one != two for one, two in zip(["", *ways], ways, strict=False))


def test_each_aligned_row_costs_its_width_each_way_and_the_weights_once() -> None:
    result = fit(FedHSSL(**FAST), small_federation(guests=2))
    payloads: dict[str, int] = {}
    for row in result.ledger.to_json():
        if row["phase"] == "training":
            payloads[row["kind"]] = payloads.get(row["kind"], 0) + row["payload"]
    epochs, guests, ways = 2, 2, 2
    assert payloads["projections"] == ALIGNED * WIDTH * 4 * epochs * guests * ways
    top = 128 * 64 + 64 + 64 * 32 + 32
    projector = 32 * WIDTH + 2 * WIDTH + WIDTH * WIDTH + 2 * WIDTH + WIDTH * WIDTH + WIDTH + 2 * WIDTH
    predictor = WIDTH * 2 + 2 * 2 + 2 * WIDTH + WIDTH
    assert payloads["weights"] == (top + projector + predictor) * 4 * epochs * guests * ways


def test_a_narrow_wire_halves_all_of_it_and_trains() -> None:
    full, narrow = (fit(FedHSSL(**FAST), small_federation(), wire=wire) for wire in ("float32", "float16"))
    assert narrow.ledger.payload * 2 == full.ledger.payload
    assert abs((narrow.metrics["auc"] or 0) - (full.metrics["auc"] or 0)) < 0.1


@pytest.mark.parametrize("guests", [1, 2])
def test_the_host_learns_from_each_guest_and_a_guest_from_the_host_alone(
    guests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is received is what the other side projected these very rows to."""
    projected: list[Tensor] = []
    learned: list[tuple[Tensor, list[Tensor]]] = []
    project, learn = CrossTower.project, CrossTower.learn
    monkeypatch.setattr(CrossTower, "project", lambda self, rows: keep(projected, project(self, rows)))

    def watched(self: CrossTower, mine: Tensor, theirs: list[Tensor]) -> None:
        learned.append((mine.detach().clone(), theirs))
        learn(self, mine, theirs)

    monkeypatch.setattr(CrossTower, "learn", watched)
    fit(FedCSSL(**FAST | {"pretrain_epochs": 1}), small_federation(guests=guests))
    assert len(learned) == len(BATCHES) * (1 + guests)
    for mine, theirs in learned:
        assert len(theirs) in (1, guests)
        assert all(any(torch.equal(other, each) for each in projected) for other in theirs)
        assert not any(torch.equal(mine, other) for other in theirs)
    assert sorted(len(theirs) for _, theirs in learned) == sorted([guests] * 3 + [1] * 3 * guests)


def keep(into: list[Tensor], value: Tensor) -> Tensor:
    into.append(value.detach().clone())
    return value


@pytest.mark.parametrize(("exchange", "updates", "passes"), [("batch", 1, 3), ("batch", 4, 12), ("epoch", 2, 9)])
def test_updates_repeat_on_the_same_received_projections_with_no_pass_wasted(
    exchange: str, updates: int, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count: list[Tensor] = []
    received: list[Tensor] = []
    project, learn = CrossTower.project, CrossTower.learn
    monkeypatch.setattr(CrossTower, "project", lambda self, rows: keep(count, project(self, rows)))
    monkeypatch.setattr(
        CrossTower, "learn", lambda self, mine, theirs: (received.extend(theirs), learn(self, mine, theirs))[1]
    )
    method = FedCSSL(**FAST | {"pretrain_epochs": 1}, exchange=exchange, local_updates=updates)
    fit(method, small_federation())
    assert len(count) == 2 * passes  # two parties
    assert len(received) == 2 * 3 * updates
    assert len({tuple(values.flatten().tolist()) for values in received}) == 2 * 3


def test_a_late_party_learns_from_the_last_epochs_projections_of_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three epochs the first has nothing to learn from, and the last nothing to give."""
    events: list[tuple[str, str, Any]] = []  # of both parties, whose towers are told apart by who came first
    towers: list[CrossTower] = []

    def who(tower: CrossTower) -> str:
        if tower not in towers:
            towers.append(tower)
        return str(towers.index(tower))

    begin, project, learn = CrossTower.begin, CrossTower.project, CrossTower.learn

    def watched_begin(self: CrossTower, share: float) -> None:
        events.append((who(self), "begin", None))
        begin(self, share)

    def watched_project(self: CrossTower, rows: Tensor) -> Tensor:
        made = project(self, rows)
        events.append((who(self), "project" if torch.is_grad_enabled() else "show", (rows, made.detach().clone())))
        return made

    def watched_learn(self: CrossTower, mine: Tensor, theirs: list[Tensor]) -> None:
        events.append((who(self), "learn", theirs))
        learn(self, mine, theirs)

    monkeypatch.setattr(CrossTower, "begin", watched_begin)
    monkeypatch.setattr(CrossTower, "project", watched_project)
    monkeypatch.setattr(CrossTower, "learn", watched_learn)
    fit(FedCSSL(**FAST | {"pretrain_epochs": 3}, exchange="late"), small_federation())
    for party, other in (("0", "1"), ("1", "0")):
        ours = [(kind, value) for name, kind, value in events if name == party]
        assert [kind for kind, _ in ours] == [
            *["begin", *["show"] * 3],
            *["begin", *["show"] * 3, *["project", "learn"] * 3],
            *["begin", *["project", "learn"] * 3],
        ]
        shown = [made for name, kind, (_, made) in (e for e in events if e[1] == "show") if name == other]
        learned = [theirs for kind, theirs in ours if kind == "learn"]
        assert all(torch.equal(got, made) for (got,), made in zip(learned, shown, strict=True))
        own = [rows for kind, value in ours if kind == "show" for rows in value[:1]]
        again = [rows for kind, value in ours if kind == "project" for rows in value[:1]]
        assert all(torch.equal(one, two) for one, two in zip(own, again, strict=True))


def test_the_local_step_takes_all_own_training_rows_and_no_test_row(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Tensor, Party]] = []
    make, prepare = LocalTower.__init__, FedGSSL.prepare
    parties: list[Party] = []

    def watched(self: LocalTower, ssl: Any, tower: Any, inputs: Tensor, **others: Any) -> None:
        seen.append((inputs, parties[-1]))
        make(self, ssl, tower, inputs, **others)

    monkeypatch.setattr(LocalTower, "__init__", watched)
    monkeypatch.setattr(FedGSSL, "prepare", lambda self, me: (parties.append(me), prepare(self, me))[1])
    result = fit(FedHSSL(**FAST), small_federation(guests=2))
    assert [len(inputs) for inputs, _ in seen] == [ALIGNED + count for count in result.rows["unaligned"].values()]
    for inputs, me in seen:
        own = torch.cat([me.rows.aligned, me.rows.unaligned])
        assert not torch.isin(me.rows.test, own).any()
        assert torch.equal(inputs, me.inputs[own])


def test_the_learning_rate_of_pre_training_falls_as_half_a_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[float] = []
    epoch = LocalTower.epoch
    monkeypatch.setattr(LocalTower, "epoch", lambda self, share: (shares.append(share), epoch(self, share))[1])
    fit(FedLocalSSL(**FAST | {"pretrain_epochs": 3}), small_federation())
    assert shares == pytest.approx([1.0, 0.75, 0.25] * 2)


def tops(result: Result) -> list[list[Tensor]]:
    """The local encoders' tops, as fine-tuning found them."""
    return [list(model.encoder.top.parameters()) for model in result.models.values() if model.encoder is not None]


def test_after_pre_training_all_tops_are_alike_and_the_bottoms_are_not() -> None:
    settings = FAST | {"finetune_epochs": 0, "finetune_with": "local"}
    result = fit(FedHSSL(**settings), small_federation(guests=2))
    first, *others = tops(result)
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))
    bottoms = [model.encoder[0].weight for model in result.models.values()]
    assert not torch.equal(bottoms[0], bottoms[1])
    apart, *_ = zip(*tops(fit(FedGSSL(**settings), small_federation(guests=2))), strict=True)
    assert not torch.equal(apart[0], apart[1])


@pytest.fixture
def one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of batches follows from the whole agreement, every setting included: here it does not."""
    monkeypatch.setattr(Party, "public_random", lambda self, purpose: torch.Generator().manual_seed(len(purpose)))


@pytest.mark.parametrize("finetune_with", ["mean", "cross", "local"])
def test_fine_tuning_goes_on_from_the_encoder_that_is_asked_for(
    finetune_with: str, tmp_path: Path, one_order: None
) -> None:
    settings = FAST | {"finetune_epochs": 0}
    whole = fit(FedHSSL(**settings), small_federation()).models["shop1"].encoder
    assert isinstance(whole, MeanEncoder)
    cross, local = whole.encoders
    expected = {"mean": whole, "cross": cross, "local": local}[finetune_with]
    method = FedHSSL(**settings, finetune_with=finetune_with)
    result = fit(method, small_federation(), out=tmp_path / "run")
    found = result.models["shop1"].encoder
    assert same(found, expected)
    tables = {party.name: party.table for party in small_federation().parties}
    now, later = result.predict(tables), predict_from(tmp_path / "run", tables)
    assert now.probabilities.tobytes() == later.probabilities.tobytes()


def same(one: nn.Module | None, two: nn.Module) -> bool:
    assert one is not None
    ours, theirs = one.state_dict(), two.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_paper_divides_the_learning_rate_by_what_the_loss_adds_up_to() -> None:
    assert FedHSSL().rate == pytest.approx(0.05 * 512 / 256 * 0.5 / (0.5 + 0.25))
    assert FedHSSL(gamma=1.0).rate == pytest.approx(0.05)  # as the authors' code counts gamma = .5
    assert FedLocalSSL().rate == FedCSSL().rate == FedHSSL(gamma=0.0).rate == pytest.approx(0.1)


@pytest.mark.parametrize("ssl", ["simsiam", "byol", "moco"])
@pytest.mark.parametrize("name", ["fedhssl", "fedlocalssl"])
def test_every_kind_of_self_supervision_runs(name: str, ssl: str) -> None:
    result = fit(METHODS[name](**FAST, ssl=ssl), small_federation())
    assert 0 <= (result.metrics["auc"] or 0) <= 1
    encoder = result.models["shop1"].encoder
    assert encoder is not None
    assert all(weight.isfinite().all() for weight in encoder.parameters())


def mixed_federation() -> Federation:
    """A bank and a shop with tables, a camera and a second one with images, of other sizes than the first."""
    random = np.random.default_rng(0)
    tables = [Table(ids(60), {f"x{i}": random.normal(size=60) for i in range(3)}) for _ in range(2)]
    photos = [Table(ids(60), image=random.integers(0, 255, (60, s, s, 1), dtype=np.uint8)) for s in (8, 6)]
    return Federation(
        PartyData("bank", tables[0]),
        random.integers(0, 2, 60),
        (
            PartyData("shop", tables[1]),
            *(PartyData(f"camera{number}", photo) for number, photo in enumerate(photos)),
        ),
        task="classification",
        metric="auc",
        test=TestRows(0.3),
        overlap=Overlap(30),
        name="mixed",
    )


def test_a_table_guest_and_image_guests_train_together_and_only_equal_shapes_are_averaged() -> None:
    result = fit(FedHSSL(**FAST), mixed_federation())
    (said,) = [each for each in result.statements if "averaged" in each]
    assert "of bank, shop were averaged" in said
    assert "those of camera0, camera1 have other shapes and stayed at home" in said
    assert {entry.sender for entry in result.ledger.messages if entry.kind == "weights"} == {"bank", "shop"}


def test_where_no_two_shapes_agree_nothing_is_averaged_and_that_is_said() -> None:
    federation = small_federation()
    (guest,) = federation.guests
    result = fit(FedHSSL(**FAST), replace(federation, guests=(replace(guest, dim=7),)))
    assert "No tops of local encoders were averaged: those of bank, shop1 have other shapes" in result.statements[1]
    assert "weights" not in {entry.kind for entry in result.ledger.messages}


def test_the_result_says_what_was_shown_and_who_averages() -> None:
    late, _ = fit(FedHSSL(**FAST, exchange="late"), small_federation()).statements
    assert "40 aligned rows, 1 times" in late
    shown, averaged = fit(FedHSSL(**FAST), small_federation()).statements
    assert "40 aligned rows, 2 times" in shown
    assert shown.startswith("In pre-training the host and each guest showed each other 8 numbers of each of the 40")
    assert "here the host averages, and so it sees the guests' weights" in averaged


@pytest.mark.parametrize("name", ["fedhssl", "fedgssl", "fedcssl"])
def test_a_host_with_labels_only_is_refused_where_its_view_is_needed(name: str) -> None:
    with pytest.raises(InputError) as refusal:
        fit(METHODS[name](**FAST), small_federation(host_features=False))
    assert str(refusal.value) == (
        f"bank: has labels only, and {name} needs the host's view of the aligned rows: "
        "give it features, or take fedlocalssl"
    )


@pytest.mark.parametrize("aggregate", ["none", "top"])
def test_a_host_with_labels_only_averages_for_its_guests_at_home(aggregate: str) -> None:
    method = FedLocalSSL(**FAST | {"finetune_epochs": 0}, aggregate=aggregate)
    result = fit(method, small_federation(guests=2, host_features=False))
    one, two = tops(result)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True)) == (aggregate == "top")
    assert result.models["bank"].encoder is None


@pytest.mark.parametrize("name", ["fedhssl", "fedgssl", "fedcssl", "fedlocalssl"])
def test_no_unaligned_row_and_no_unlabelled_row_are_fine(name: str) -> None:
    federation = replace(small_federation(rows=40), overlap=Overlap())
    result = fit(METHODS[name](**FAST), federation)
    assert set(result.rows["unaligned"].values()) == {0}
    assert result.rows["aligned"] == result.rows["labelled"]
    assert result.metrics["auc"] is not None


def test_unlabelled_aligned_rows_are_pre_trained_with_and_fine_tuned_without(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    project = CrossTower.project
    monkeypatch.setattr(CrossTower, "project", lambda self, rows: (seen.append(rows), project(self, rows))[1])
    federation = replace(small_federation(), labelled=10)
    result = fit(FedCSSL(**FAST | {"pretrain_epochs": 1}), federation)
    assert (result.rows["aligned"], result.rows["labelled"]) == (ALIGNED, 10)
    assert len(torch.cat(seen).unique(dim=0)) == 2 * ALIGNED
    (trained,) = [entry for entry in result.ledger.to_json() if entry["kind"] == "gradients"]
    assert trained["payload"] == 9 * 32 * 4


def test_labels_do_not_change_what_a_pre_training_step_sees() -> None:
    """No label enters pre-training: other labels of the same rows give the same encoders, to the bit."""
    federation = small_federation()
    settings = FAST | {"finetune_epochs": 0}
    one, two = (fit(FedHSSL(**settings), replace(federation, label=label)) for label in labels_of(federation))
    for party in one.parties:
        encoder = two.models[party].encoder
        assert encoder is not None
        assert same(one.models[party].encoder, encoder)


def labels_of(federation: Federation) -> tuple[Any, Any]:
    """The federation's, and those with the two classes exchanged: the validation rows stay the same."""
    assert federation.label is not None
    return federation.label, 1 - np.asarray(federation.label)


@pytest.mark.parametrize(("exchange", "epochs"), [("batch", 1), ("epoch", 1), ("late", 2)])  # each gives once
def test_noise_goes_on_what_the_host_gives_and_on_nothing_else(
    exchange: str, epochs: int, monkeypatch: pytest.MonkeyPatch, one_order: None
) -> None:
    said: list[tuple[str, float]] = []
    make = HostAveraging.__init__

    def watched(self: HostAveraging, me: Any, weights: Any, *, noise: float = 0.0) -> None:
        said.append((me.name, noise))
        make(self, me, weights, noise=noise)

    monkeypatch.setattr(HostAveraging, "__init__", watched)
    settings = FAST | {"pretrain_epochs": epochs, "batch_size": 64, "exchange": exchange}
    plain, noisy = (sent_by(FedHSSL(**settings, iso_representations=noise)) for noise in (0.0, 0.4))
    assert said == [("bank", 0.0), ("bank", 0.4)]
    (z,), (moved,) = plain["bank"], noisy["bank"]
    largest = z.norm(dim=1).max()
    assert (moved - z).norm(dim=1).mean() == pytest.approx(0.4 * float(largest), rel=0.3)
    assert torch.equal(plain["shop1"][0], noisy["shop1"][0])


def sent_by(method: FedHSSL) -> dict[str, list[Tensor]]:
    """The projections that each party sent."""
    sent: dict[str, list[Tensor]] = {}
    send = Link.send

    def watched(self: Link, kind: str, tensors: Any = None, **others: Any) -> None:
        if kind == "projections":
            sent.setdefault(self._talk.party, []).append(tensors.clone())
        send(self, kind, tensors, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Link, "send", watched)
        fit(method, small_federation())
    return sent


def test_noise_is_said_to_guarantee_nothing() -> None:
    result = fit(FedHSSL(**FAST, iso_representations=0.1, iso_gradients=5.0), small_federation())
    noises = [said for said in result.statements if "isotropic" in said]
    assert "On the host's projections" in noises[0]
    assert "On the gradients of fine-tuning" in noises[1]
    assert "about 5 times" in noises[1]
    assert all("no guarantee of differential privacy" in said for said in noises)
    assert result.privacy is None


def test_the_gradients_of_fine_tuning_carry_their_noise(one_order: None) -> None:
    """Those of the first batch, whose weights are the same."""
    first: list[Tensor] = []
    send = Link.send

    def watched(self: Link, kind: str, tensors: Any = None, **others: Any) -> None:
        if kind == "gradients" and not first[1:]:
            first.append(tensors.clone())
        send(self, kind, tensors, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Link, "send", watched)
        for noise in (0.0, 1.0):
            fit(FedLocalSSL(**FAST, iso_gradients=noise), small_federation(host_features=False))
    plain, noisy = first
    largest = float(plain.norm(dim=1).max())
    assert (noisy - plain).norm(dim=1).mean().item() == pytest.approx(largest, rel=0.2)


def clouds() -> tuple[Federation, Any]:
    """Eight clouds that both parties see, each through much that the other does not."""
    random = np.random.default_rng(1)
    cloud = random.integers(0, 8, 600)

    def table() -> Table:
        own = 1.5 * random.normal(size=(600, 3)) @ random.normal(size=(3, 12)) + 0.5 * random.normal(size=(600, 12))
        values = random.normal(size=(8, 12))[cloud] + own
        return Table(ids(600), {f"x{i}": values[:, i] for i in range(12)})

    bank, shop = (PartyData(name, table(), encoder="mlp2", dim=64) for name in ("bank", "shop"))
    test, overlap = TestRows(0.3), Overlap(300, "everyone")
    label = (cloud % 2).astype(np.int64)
    settings: dict[str, Any] = {"task": "classification", "metric": "accuracy", "name": "clouds"}
    return Federation(bank, label, (shop,), test=test, overlap=overlap, **settings), cloud


@pytest.mark.parametrize(
    ("settings", "gain"),
    [
        ({}, 0.04),
        ({"exchange": "epoch"}, 0.04),
        ({"exchange": "late"}, 0.04),
        ({"finetune_with": "cross", "ssl": "moco"}, 0.1),
    ],
)
def test_pre_training_brings_rows_of_a_kind_together(settings: dict[str, Any], gain: float) -> None:
    """The nearest rows of a row are of its own cloud more often."""
    federation, cloud = clouds()

    def neighbours(epochs: int) -> float:
        method = FedHSSL(pretrain_epochs=epochs, batch_size=64, width=64, finetune_epochs=0, **settings)
        models = fit(method, federation).models
        with torch.no_grad():
            parts = [represent(models[party.name], party.table) for party in federation.parties]
        outputs = nn.functional.normalize(torch.cat(parts, dim=1), dim=1)
        nearest = (outputs @ outputs.T).topk(11).indices[:, 1:]
        return float((cloud[nearest.numpy()] == cloud[:, None]).mean())

    assert neighbours(10) > neighbours(0) + gain


def represent(model: PartyModel, table: Table) -> Tensor:
    assert model.encoder is not None
    assert model.preparation is not None
    outputs: Tensor = model.encoder.eval()(model.preparation.apply(table))
    return outputs


def test_images_train_and_predict(tmp_path: Path) -> None:
    federation = replace(photo_federation(), host=replace(photo_federation().guests[0], name="bank"))
    result = fit(FedHSSL(**FAST), federation, out=tmp_path / "run")
    tables = {party.name: party.table for party in federation.parties}
    now, later = result.predict(tables), predict_from(tmp_path / "run", tables)
    assert now.probabilities.tobytes() == later.probabilities.tobytes()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"batch_size": 1}, "batch_size of fedhssl is 1: projections take batches of 2 or more"),
        ({"ssl": "scarf"}, "field 'ssl' of method 'fedhssl' is 'scarf'"),
        ({"exchange": "batches"}, "did you mean 'batch'"),
        ({"finetune_with": "both"}, "field 'finetune_with' of method 'fedhssl' is 'both'"),
        ({"local_updates": 0}, "field 'local_updates' of method 'fedhssl' is 0: it is 1 or more"),
        ({"corrupted": 1.5}, "needs corrupted above 0 and up to 1"),
        ({"ema": 1.0}, "ema of fedhssl is 1.0: give a number from 0 on and below 1"),
        ({"ema": -0.5}, "ema of fedhssl is -0.5: give a number from 0 on and below 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        fit(FedHSSL(**FAST | settings), small_federation())


def test_an_average_that_never_moves_is_refused_at_home_too() -> None:
    with pytest.raises(InputError, match="ema of fedlocalssl is 2: give a number from 0 on and below 1"):
        FedLocalSSL(ema=2)
    assert FedLocalSSL(ema=0.0).ema == 0


def test_each_title_says_what_a_table_would_not() -> None:
    titles = [FedHSSL(), FedHSSL(finetune_with="local"), FedGSSL(finetune_with="cross"), FedLocalSSL(aggregate="top")]
    assert [method.title for method in titles] == [
        "fedhssl",
        "fedhssl*",
        "fedgssl, cross-party encoder alone",
        "fedlocalssl + aggregation",
    ]


def test_without_pre_training_fedlocalssl_talks_as_split_nn() -> None:
    local = FedLocalSSL(pretrain_epochs=0, finetune_epochs=2, finetune_batch_size=16)
    split = SplitNN(epochs=2, batch_size=16, hidden=())
    ours, theirs = (fit(method, small_federation()).ledger for method in (local, split))
    assert [entry.kind for entry in ours.messages] == [entry.kind for entry in theirs.messages]
    assert ours.payload == theirs.payload


def test_the_exports_are_there() -> None:
    assert vesica.FedHSSL is FedHSSL
    assert [METHODS[name] for name in ("fedhssl", "fedgssl", "fedcssl", "fedlocalssl")] == [
        FedHSSL,
        FedGSSL,
        FedCSSL,
        FedLocalSSL,
    ]
