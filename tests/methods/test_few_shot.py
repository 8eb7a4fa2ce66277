"""Few-shot VFL: its message script, its gate on what a party can and cannot know, its second training."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from federations import ids, small_federation
from vesica.data import Federation, Overlap, PartyData, Table, TestRows, split_rows
from vesica.errors import ProtocolError, VesicaError
from vesica.experiment import Result, fit
from vesica.experiment.models import PartyModel
from vesica.methods import FewShot, OneShot, make_method, one_shot
from vesica.methods.one_shot import Labelled, expand
from vesica.metrics import Task
from vesica.nn.models import Head
from vesica.protocol import Guest, Link
from vesica.training.cluster import cluster, purity
from vesica.training.estimation import Judge, choose_threshold, gate
from vesica.training.semi_supervised import semi_supervised
from vesica.training.supervised import train

SETTINGS: dict[str, Any] = {"guest_steps": 3, "host_epochs": 2}
DIM = 32  # of a table's representations


@pytest.mark.parametrize("host_features", [True, False])
@pytest.mark.parametrize("guests", [1, 2, 3, 5])
def test_the_message_script_is_the_papers(guests: int, host_features: bool) -> None:
    result = fit(FewShot(**SETTINGS), small_federation(guests=guests, host_features=host_features))
    shops = [f"shop{i}" for i in range(1, guests + 1)]
    alone = result.rows["unaligned"]
    messages = result.ledger.messages
    assert [(entry.round, entry.sender, entry.receiver, entry.kind, entry.payload) for entry in messages] == [
        *((1, shop, "bank", "representations", 40 * DIM * 4) for shop in shops),
        *((2, "bank", shop, "gradients", 40 * DIM * 4) for shop in shops),
        *((3, shop, "bank", "representations", 40 * DIM * 4) for shop in shops),
        *((3, shop, "bank", "unaligned-representations", alone[shop] * DIM * 4) for shop in shops),
        *((4, "bank", shop, "probabilities", alone[shop] * 4) for shop in shops),
        *((5, shop, "bank", "representations", 40 * DIM * 4) for shop in shops),
    ]
    assert result.ledger.rounds == 5


@pytest.mark.parametrize("host_features", [True, False])
def test_on_the_way_it_is_a_one_shot_run(host_features: bool) -> None:
    federation = small_federation(guests=2, host_features=host_features)
    settings = {**SETTINGS, "guest_steps": 30, "guest_patience": 8}
    few, one = fit(FewShot(**settings), federation, seed=3), fit(OneShot(**settings), federation, seed=3)
    (milestone,) = few.milestones
    assert (milestone.method, milestone.ledger.rounds) == ("one-shot", 3)
    assert milestone.metrics == one.metrics
    assert milestone.ledger.messages == one.ledger.messages
    assert milestone.scoring.entries == one.scoring.entries
    assert milestone.statements == one.statements
    assert one.milestones == ()
    assert few.ledger.messages[: len(one.ledger.messages)] == one.ledger.messages


def test_the_result_says_what_the_host_was_given() -> None:
    result = fit(FewShot(**SETTINGS), small_federation(guests=2))
    given = result.rows["unaligned"]["shop1"] + result.rows["unaligned"]["shop2"]
    assert given < sum(result.rows["unaligned"].values())  # the bank's own are not given to anyone
    assert len(result.statements) == 2
    assert result.statements[0].startswith("The gradients disclose the labels of the 40 labelled aligned rows")
    assert result.statements[1].startswith(f"The guests gave the host the representations of {given} unaligned rows.")
    assert "was chosen on 4 validation rows; about 0 rows get a pseudo-label." in result.statements[1]  # t is 1


def test_the_result_says_how_many_rows_the_host_lets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vesica.methods.one_shot.choose_threshold", lambda *_, **__: 0.0)
    given: dict[str, float] = {}
    receive = one_shot.receive_chances

    def watched(me: Guest) -> Tensor:
        chances = receive(me)
        given[me.name] = float(chances.sum())
        return chances

    monkeypatch.setattr(one_shot, "receive_chances", watched)
    result = fit(FewShot(**SETTINGS), small_federation(guests=2))
    assert sum(given.values()) > 1
    assert f"about {round(sum(given.values()))} rows get a pseudo-label" in result.statements[1]


def test_every_party_keeps_what_its_model_was_on_the_way(tmp_path: Path) -> None:
    federation, settings = small_federation(guests=2), {**SETTINGS, "guest_patience": 8}
    runs = {
        "finetuned": FewShot(**settings, finetune_iterations=4),
        "few": FewShot(**settings),
        "one": OneShot(**settings),
    }
    for name, method in runs.items():
        fit(method, federation, seed=3, out=tmp_path / name)
    for party in ("bank", "shop1", "shop2"):
        for way, alone in (("one-shot", "one"), ("few-shot", "few")):
            files = (tmp_path / "finetuned" / party / way, tmp_path / alone / party)
            then, by_itself = (load_file(folder / "model.safetensors") for folder in files)
            assert then.keys() == by_itself.keys()
            assert all(torch.equal(then[name], by_itself[name]) for name in then)
            assert len({(folder / "model.json").read_text() for folder in files}) == 1
            last = load_file(tmp_path / "finetuned" / party / "model.safetensors")
            assert not all(torch.equal(then[name], last[name]) for name in then)


def test_where_labels_are_hidden_the_head_kept_of_a_milestone_is_the_one_it_was_scored_with(tmp_path: Path) -> None:
    federation = small_federation(guests=2, host_features=False)
    settings = {**SETTINGS, "guest_steps": 30, "label_epsilon": 3.0}
    result = fit(FewShot(**settings), federation, seed=3, out=tmp_path)
    head = PartyModel.load(tmp_path / "bank" / "one-shot").head
    shops = [PartyModel.load(tmp_path / shop / "one-shot") for shop in ("shop1", "shop2")]
    split = split_rows(federation)
    parts = []
    for shop, party in zip(shops, federation.guests, strict=True):
        assert shop.preparation is not None
        assert shop.encoder is not None
        rows = shop.preparation.apply(party.table)[torch.from_numpy(split.parties[shop.name].test)]
        parts.append(shop.encoder.eval()(rows))
    assert isinstance(head, Head)
    labels = torch.from_numpy(split.label[split.parties["bank"].test])
    right = (head.eval()(parts).argmax(dim=1) == labels).float().mean().item()
    (milestone,) = result.milestones
    assert right == pytest.approx(milestone.metrics["accuracy"])


def test_the_second_training_may_have_a_length_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    lessons: list[int] = []
    learn = one_shot.semi_supervised

    def remembered(*given: Any, **settings: Any) -> Any:
        lessons.append(settings["steps"])
        return learn(*given, **settings)

    monkeypatch.setattr(one_shot, "semi_supervised", remembered)
    federation = small_federation(guests=2)  # the bank has columns too
    fit(FewShot(guest_steps=3, steps_again=2, host_epochs=1), federation)
    assert sorted(lessons) == [2, 2, 2, 3, 3, 3]
    lessons.clear()
    fit(make_method("few-shot", {"guest_steps": "3", "steps_again": "2", "host_epochs": "1"}), federation)
    assert sorted(lessons) == [2, 2, 2, 3, 3, 3]
    lessons.clear()
    fit(FewShot(guest_steps=3, host_epochs=1), federation)
    assert lessons == [3] * 6


def test_every_partys_ledger_on_disk_has_the_scoring_of_the_milestone_too(tmp_path: Any) -> None:
    fit(FewShot(**SETTINGS), small_federation(), out=tmp_path)
    for party in ("bank", "shop1"):
        lines = (tmp_path / party / "ledger.jsonl").read_text().splitlines()
        assert len([line for line in lines if '"scoring"' in line]) == 2 * 2


def test_unaligned_representations_of_another_width_are_refused_and_the_guest_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send = Link.send

    def narrow(link: Link, kind: str, tensors: Any = None, **named: Any) -> None:
        send(link, kind, tensors[:, 1:] if kind == "unaligned-representations" else tensors, **named)

    monkeypatch.setattr(Link, "send", narrow)
    with pytest.raises(ProtocolError) as refusal:
        fit(FewShot(**SETTINGS), small_federation())
    assert str(refusal.value) == (
        "bank: 'unaligned-representations' from 'shop1' is (15, 31) of float32, expected (any, 32) of float32"
    )


# What each party sees is one of two shapes, and a little noise.


def shapes(*, rows: int = 480) -> tuple[np.ndarray, list[Table]]:
    random = np.random.default_rng(0)
    seen = random.integers(0, 2, (rows, 2))
    noise = 0.1 * random.normal(size=(2, 3, rows))
    columns = [{f"x{i}": 2.0 * seen[:, party] - 1 + noise[party, i] for i in range(3)} for party in range(2)]
    return seen, [Table(ids(rows), views) for views in columns]


def same_or_different() -> Federation:
    """The paper's Fig. 4: whether the two shapes are the same, which neither party alone can know."""
    seen, tables = shapes()
    return of_shapes(tables, (seen[:, 0] == seen[:, 1]).astype(np.int64))


def left_knows() -> Federation:
    seen, tables = shapes()
    return of_shapes(tables, seen[:, 0])


def of_shapes(tables: list[Table], label: np.ndarray) -> Federation:
    left, right = (PartyData(name, table) for name, table in zip(("left", "right"), tables, strict=True))
    return Federation(
        PartyData("bank", Table(tables[0].ids)),
        label,
        (left, right),
        task="classification",
        metric="auc",
        test=TestRows(0.2),
        overlap=Overlap(200),
        name="shapes",
    )


def host_knows() -> Federation:
    """As the left one knows, but what it sees is the bank's own."""
    federation = left_knows()
    left, right = federation.guests
    return replace(federation, host=replace(left, name="bank"), guests=(right,))


@dataclass(frozen=True)
class Watched:
    """A whole run, with the chances its guests were given and what each training was given."""

    result: Result
    chances: dict[str, Tensor]
    lessons: list[dict[str, Any]]


TOY = FewShot(guest_steps=200, learning_rate=0.01, host_epochs=60, host_learning_rate=0.01, ema=0.99)


def watch(federation: Federation) -> Watched:
    chances: dict[str, Tensor] = {}
    lessons: list[dict[str, Any]] = []
    infer, learn = FewShot.infer, one_shot.semi_supervised

    def watched_infer(*given: Any) -> dict[str, Tensor]:
        chances.update(infer(*given))
        return chances

    def watched_learn(model: torch.nn.Module, inputs: Tensor, **settings: Any) -> torch.nn.Module:
        lessons.append(settings)
        return learn(model, inputs, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FewShot, "infer", watched_infer)
        patch.setattr(one_shot, "semi_supervised", watched_learn)
        result = fit(TOY, federation)
    return Watched(result, chances, lessons)


@pytest.fixture(scope="module")
def knowing() -> Watched:
    return watch(left_knows())


class SeenEnoughError(VesicaError):
    """The host has made up its mind: what comes after is not looked at."""


@pytest.mark.parametrize(
    ("method", "seed"),
    [(TOY, 0), (TOY, 2), (TOY, 3), (FewShot(guest_steps=400), 5)],  # without a doubt, 0, 5, 8 and 30 rows would pass
    ids=["0", "2", "3", "more steps"],
)
def test_where_no_party_knows_the_classes_by_itself_the_gate_lets_nothing_through(
    method: FewShot, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chances: dict[str, Tensor] = {}
    infer = FewShot.infer

    def inferred(*given: Any) -> dict[str, Tensor]:
        chances.update(infer(*given))
        raise SeenEnoughError

    monkeypatch.setattr(FewShot, "infer", inferred)
    with pytest.raises(SeenEnoughError):
        fit(method, same_or_different(), seed=seed)
    assert {name: len(given) for name, given in chances.items()} == {"left": 92, "right": 92}
    assert torch.cat(list(chances.values())).count_nonzero() == 0


def test_a_head_with_a_hidden_layer_sees_what_two_parties_know_only_together(monkeypatch: pytest.MonkeyPatch) -> None:
    federation = same_or_different()
    labels = torch.from_numpy(federation.label)[split_rows(federation).parties["bank"].aligned]
    shares = []

    def watched(rows: Tensor, classes: int) -> Tensor:
        clusters = cluster(rows, classes)
        shares.append(purity(clusters, labels))
        return clusters

    linear = OneShot(guest_steps=100, learning_rate=0.01, host_epochs=60, host_learning_rate=0.01, ema=0.99)
    assert (fit(linear, federation).metrics["auc"] or 0) < 0.7
    monkeypatch.setattr(one_shot, "cluster", watched)
    assert (fit(replace(linear, hidden=(64,)), federation).metrics["auc"] or 0) > 0.95
    assert shares == [1] * 4  # as the host measures it and as each guest does


@pytest.mark.parametrize("host_features", [True, False])
def test_the_second_training_goes_on_from_the_first_one_s_model(
    host_features: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Algorithm 2, line 17: encoder and classifier alike."""
    begun: list[dict[str, Tensor]] = []
    ended: list[dict[str, Tensor]] = []

    def state(model: nn.Module) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in model.state_dict().items()}

    def watched(model: nn.Module, *given: Any, **named: Any) -> nn.Module:
        begun.append(state(model))
        learned = semi_supervised(model, *given, **named)
        ended.append(state(learned))
        return learned

    monkeypatch.setattr(one_shot, "semi_supervised", watched)
    result = fit(FewShot(**SETTINGS), small_federation(guests=2, host_features=host_features))
    encoders = [model.encoder.state_dict() for model in result.models.values() if model.encoder is not None]
    parties = 2 + host_features
    assert (len(begun), len(encoders)) == (2 * parties, parties)
    for again in begun[parties:]:
        assert any(all(torch.equal(again[name], first[name]) for name in again) for first in ended[:parties])
    for encoder in encoders:
        assert any(all(torch.equal(encoder[name], end[f"0.{name}"]) for name in encoder) for end in ended[parties:])
    assert not any(torch.equal(first["1.weight"], end["1.weight"]) for first, end in zip(begun, ended, strict=True))


def test_a_host_with_features_expands_its_own_rows() -> None:
    watched, shape = watch(host_knows()), torch.from_numpy(shapes()[0][:, 0])
    bank, _, bank_again, _ = watched.lessons
    assert torch.equal(bank["labels"], shape[bank["labelled"]])
    known = len(bank["labelled"])
    gained, labels = bank_again["labelled"][known:], bank_again["labels"][known:]
    assert torch.equal(bank_again["labelled"][:known], bank["labelled"])
    assert 0.75 * len(watched.chances["bank"]) < len(gained) <= watched.chances["bank"].count_nonzero()
    assert torch.isin(gained, bank["unlabelled"]).all()
    assert (labels == shape[gained]).float().mean() > 0.97


def test_where_one_party_knows_them_the_gate_lets_most_of_its_rows_through_and_not_the_others(knowing: Watched) -> None:
    assert (knowing.chances["left"] > 0.8).float().mean() > 0.9
    assert (knowing.chances["right"] > 0).float().mean() < 0.1
    assert (knowing.result.metrics["auc"] or 0) > 0.95


def test_the_second_training_has_the_rows_that_came_through_as_labelled_ones(knowing: Watched) -> None:
    """Eq. 11: they leave the unlabelled rows, and none is lost."""
    left, _, left_again, _ = knowing.lessons
    gained = left_again["labelled"][len(left["labelled"]) :]
    assert 0.75 * 92 < len(gained) <= knowing.chances["left"].count_nonzero()
    assert torch.equal(left_again["labelled"][: len(left["labelled"])], left["labelled"])
    assert torch.equal(left_again["labels"][: len(left["labels"])], left["labels"])
    assert torch.equal(left_again["stopping"].rows, left["stopping"].rows)
    assert torch.equal(torch.cat([gained, left_again["unlabelled"]]).sort().values, left["unlabelled"].sort().values)
    # The temporary labels are the left shape up to renaming: so must be the pseudo-labels.
    seen = torch.from_numpy(shapes()[0][:, 0])
    rows, labels = left_again["labelled"], left_again["labels"]
    renamed = labels[0] != seen[rows[0]]
    assert ((labels != seen[rows]) == renamed).float().mean() > 0.97


# The judges, with heads trained on true shapes.

TASK = Task("classification", "accuracy", ("different", "same"))


def trained(head: Head, parts: list[Tensor], labels: Tensor) -> Head:
    torch.manual_seed(0)
    everyone = torch.arange(len(labels))
    train(
        {"head": head},
        lambda rows: head([part[rows] for part in parts]),
        labels,
        rows=everyone,
        validation=everyone,
        task=TASK,
        epochs=40,
        patience=40,
        batch_size=32,
        learning_rate=0.02,
        weight_decay=0.0,
    )
    return head


def judges_of(parts: dict[str, Tensor], labels: Tensor) -> dict[str, Judge]:
    """A joint head that can tell any two shapes apart, and a head a party."""
    torch.manual_seed(1)
    dims = {name: part.shape[1] for name, part in parts.items()}
    joint = trained(Head(dims, 2, hidden=(16,)), list(parts.values()), labels)
    assert (joint(list(parts.values())).argmax(dim=1) == labels).all()
    return {
        name: Judge(name, trained(Head({name: dims[name]}, 2), [part], labels), joint, parts)
        for name, part in parts.items()
    }


def shape_parts() -> tuple[Tensor, dict[str, Tensor]]:
    seen, tables = shapes()
    parts = [np.stack(list(table.columns.values()), axis=1) for table in tables]
    return torch.from_numpy(seen), {
        name: torch.from_numpy(3 * part).float() for name, part in zip(("left", "right"), parts, strict=True)
    }


def test_a_joint_head_that_knows_does_not_make_up_for_a_party_that_cannot() -> None:
    seen, parts = shape_parts()
    labels = (seen[:, 0] == seen[:, 1]).long()
    aligned = {name: part[:200] for name, part in parts.items()}
    judges = judges_of(aligned, labels[:200])
    for name, judge in judges.items():
        local, joint = judge.judge(parts[name][200:])
        assert gate(local, joint, threshold=0.7).count_nonzero() < 0.05 * 280
        assert gate(local, joint, threshold=0.8).count_nonzero() == 0
    held_out = torch.arange(200) < 40
    assert choose_threshold(judges, held_out, labels[:200], thresholds=FewShot().thresholds) == 1


def test_a_party_that_knows_is_let_through_with_the_right_classes() -> None:
    seen, parts = shape_parts()
    labels = seen[:, 0]
    judges = judges_of({name: part[:200] for name, part in parts.items()}, labels[:200])
    held_out = torch.arange(200) < 40
    threshold = choose_threshold(judges, held_out, labels[:200], thresholds=FewShot().thresholds)
    local, joint = judges["left"].judge(parts["left"][200:])
    through = gate(local, joint, threshold=threshold) > 0
    assert through.float().mean() > 0.9
    assert (joint.argmax(dim=1)[through] == labels[200:][through]).float().mean() > 0.99
    assert gate(*judges["right"].judge(parts["right"][200:]), threshold=threshold).count_nonzero() == 0


def party(rows: int) -> SimpleNamespace:
    """Whose second half of the rows is unaligned, each row one number."""
    unaligned = torch.arange(rows // 2, rows)
    return SimpleNamespace(rows=SimpleNamespace(unaligned=unaligned), inputs=torch.arange(float(rows))[:, None])


class Parity(torch.nn.Module):
    """Says whether a number is odd."""

    def forward(self, rows: Tensor) -> Tensor:
        assert not self.training
        return torch.cat([1 - rows % 2, rows % 2], dim=1)


def test_rows_that_are_drawn_join_with_the_partys_own_labels() -> None:
    known = Labelled(torch.tensor([3, 5]), torch.tensor([0, 1]))
    chances = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0])
    expanded = expand(party(10), known, Parity(), chances)
    assert expanded.rows.tolist() == [3, 5, 5, 7, 9]
    assert expanded.labels.tolist() == [0, 1, 1, 1, 1]
    nothing = expand(party(10), known, Parity(), torch.zeros(5))
    assert (nothing.rows.tolist(), nothing.labels.tolist()) == ([3, 5], [0, 1])
    assert expand(party(0), known, Parity(), torch.zeros(0)).rows.tolist() == [3, 5]


def test_rows_are_drawn_as_often_as_their_chances_say() -> None:
    torch.manual_seed(0)
    chances = torch.cat([torch.full((10_000,), 0.3), torch.full((10_000,), 0.9)])
    known = Labelled(torch.arange(0), torch.arange(0))
    drawn = expand(party(40_000), known, Parity(), chances).rows - 20_000
    assert (drawn < 10_000).sum() / 10_000 == pytest.approx(0.3, abs=0.02)
    assert (drawn >= 10_000).sum() / 10_000 == pytest.approx(0.9, abs=0.02)
