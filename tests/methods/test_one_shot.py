"""One-shot VFL: its message script, what its gradients give away, and awkward federations."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from federations import ids, small_federation
from vesica.data import Federation, Overlap, PartyData, Table, TestRows, Text, split_rows
from vesica.errors import InputError, ProtocolError
from vesica.experiment import fit
from vesica.methods import FewShot, OneShot, make_method, one_shot
from vesica.methods.one_shot import gradients_of
from vesica.nn.models import Head
from vesica.protocol import Guest, Link, link
from vesica.protocol.message import WIRES, Message, Wire
from vesica.training.cluster import cluster, mean_recall, purity

TINY = OneShot(guest_steps=3, host_epochs=1)
TINY_FEW = FewShot(guest_steps=3, host_epochs=1)
DIM = 32  # of a table's representations


@pytest.mark.parametrize("host_features", [True, False])
@pytest.mark.parametrize("guests", [1, 2, 3, 5])
def test_the_message_script_is_the_papers(guests: int, host_features: bool) -> None:
    result = fit(TINY, small_federation(guests=guests, host_features=host_features))
    shops = [f"shop{i}" for i in range(1, guests + 1)]
    script = [(entry.round, entry.sender, entry.receiver, entry.kind) for entry in result.ledger.messages]
    assert script == [
        *((1, shop, "bank", "representations") for shop in shops),
        *((2, "bank", shop, "gradients") for shop in shops),
        *((3, shop, "bank", "representations") for shop in shops),
    ]
    assert (result.ledger.rounds, len(script)) == (3, 3 * guests)
    assert {entry.payload for entry in result.ledger.messages} == {40 * DIM * 4}
    assert result.ledger.payload == 3 * guests * 40 * DIM * 4


def test_the_number_of_classes_travels_with_the_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    said, send = [], Link.send

    def overheard(link: Link, kind: str, *values: Any, **named: Any) -> None:
        said.append((kind, dict(named.get("scalars") or {})))
        send(link, kind, *values, **named)

    monkeypatch.setattr(Link, "send", overheard)
    fit(TINY, small_federation())
    training = [words for words in said if words[0] in ("representations", "gradients")]
    assert training[:3] == [("representations", {}), ("gradients", {"classes": 2}), ("representations", {})]


@pytest.fixture
def clusterings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor]]:
    """Every gradient that was clustered in a run, with the clusters found."""
    found = []

    def remembered(rows: Tensor, classes: int) -> Tensor:
        found.append((rows, cluster(rows, classes)))
        return found[-1][1]

    monkeypatch.setattr(one_shot, "cluster", remembered)
    return found


def labels_of(federation: Federation) -> Tensor:
    split = split_rows(federation)
    return torch.from_numpy(split.label[split.parties["bank"].aligned[split.labelled]])


@pytest.mark.parametrize("host_features", [True, False])
def test_the_guests_temporary_labels_are_the_labels(clusterings: list, host_features: bool) -> None:
    federation = small_federation(guests=3, host_features=host_features)
    result = fit(TINY, federation)
    assert len(clusterings) == 2 * 3  # the host looks too, to say what it gives away
    labels = labels_of(federation)
    for gradients, clusters in clusterings:
        assert gradients.abs().sum(dim=1).min() > 0
        assert purity(clusters, labels) == 1
    assert result.statements == (
        "The gradients disclose the labels of the 40 labelled aligned rows to every guest, up to renaming: k-means on "
        f"them puts 100.0% of the rows with their own class ({int(labels.bincount().max()) / 40:.1%} without knowing "
        "anything) and, on average over the classes, 100.0% of a class into a cluster of its own (50.0% without "
        "knowing anything).",
    )


def test_the_statement_tells_the_shares_that_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    federation, clusters = small_federation(guests=2), torch.arange(40) % 2
    monkeypatch.setattr(one_shot, "cluster", lambda rows, classes: clusters)
    share, recall = purity(clusters, labels_of(federation)), mean_recall(clusters, labels_of(federation))
    assert len({share, recall, 1.0}) == 3
    statement = fit(TINY, federation).statements[0]
    assert f"puts {share:.1%} of the rows" in statement
    assert f"{recall:.1%} of a class" in statement


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("method", [TINY, replace(TINY, label_epsilon=1.0)], ids=["open", "private"])
def test_what_is_disclosed_is_what_the_guest_sees_that_sees_most(method: OneShot, order: int) -> None:
    """Nine rows in ten are of one class: only the mean over classes tells that the other guest sees nothing."""
    labels = (torch.arange(100) % 10 == 0).long()
    clear, dark = 10.0 * labels[:, None], torch.linspace(0, 1, 100)[:, None]
    statements: list[str] = []
    me: Any = SimpleNamespace(
        labels=labels,
        rows=SimpleNamespace(labelled=torch.arange(100)),
        task=SimpleNamespace(outputs=2),
        conversation=SimpleNamespace(statements=statements),
    )
    method.disclose(me, [clear, dark][::order])
    method.disclose(me, [dark])
    most, least = (statement for statement in statements if "k-means" in statement)
    assert "100.0% of the rows with their own class (90.0% without" in most
    assert "100.0% of a class into a cluster of its own (50.0% without" in most
    assert "90.0% of the rows with their own class (90.0% without" in least
    assert "50.0% of a class into a cluster of its own (50.0% without" in least


def random_rows(rows: int, classes: int) -> tuple[Head, list[Tensor], Tensor]:
    """A random head, two parties' random parts, and labels that have nothing to do with either."""
    torch.manual_seed(rows)
    labels = torch.randint(classes, (rows,))
    return Head({"a": 16, "b": 8}, classes), [torch.randn(rows, 16), torch.randn(rows, 8)], labels


@pytest.mark.parametrize("classes", [2, 3, 5, 10])
def test_the_gradients_of_a_random_head_give_the_labels_away(classes: int) -> None:
    head, parts, labels = random_rows(300, classes)
    gradients = gradients_of(head, [0.1 * part for part in parts], labels)
    assert [gradient.shape for gradient in gradients] == [part.shape for part in parts]
    assert purity(cluster(gradients[0], classes), labels) == 1


def test_a_rows_gradient_is_that_of_its_own_loss() -> None:
    head, parts, labels = random_rows(40, 3)
    for row in range(40):
        alone = gradients_of(head, [part[[row]] for part in parts], labels[[row]])
        own = [part[row].clone().requires_grad_() for part in parts]
        cross_entropy(head([part[None] for part in own]), labels[[row]]).backward()
        for whole, one, part in zip(gradients_of(head, parts, labels), alone, own, strict=True):
            assert torch.allclose(whole[row], part.grad, atol=1e-6)
            assert torch.allclose(one[0], part.grad, atol=1e-6)


def gradients_of_means(head: Head, parts: list[Tensor], labels: Tensor) -> list[Tensor]:
    """The trap: a mean over each batch of 32."""
    found = []
    for batch in torch.arange(len(labels)).split(32):
        leaves = [part[batch].requires_grad_() for part in parts]
        found.append(torch.autograd.grad(cross_entropy(head(leaves), labels[batch]), leaves))
    return [torch.cat(gradients) for gradients in zip(*found, strict=True)]


def test_means_over_batches_would_find_the_short_batch_instead_of_the_classes() -> None:
    head, parts, labels = random_rows(3 * 32 + 4, 5)
    sums, means = (of(head, parts, labels)[0] for of in (gradients_of, gradients_of_means))
    torch.manual_seed(0)
    assert purity(cluster(sums, 5), labels) > 0.98
    assert purity(cluster(means, 5), labels) < 0.9


def test_a_head_of_zeros_would_say_nothing() -> None:
    head, parts, labels = random_rows(40, 3)
    for parameter in head.parameters():
        torch.nn.init.zeros_(parameter)
    assert all(not gradient.any() for gradient in gradients_of(head, parts, labels))


@pytest.fixture
def lessons(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each semi-supervised training of a run was given."""
    found: list[dict[str, Any]] = []
    learn = one_shot.semi_supervised

    def remembered(model: torch.nn.Module, inputs: Tensor, **settings: Any) -> torch.nn.Module:
        found.append(settings)
        return learn(model, inputs, **settings)

    monkeypatch.setattr(one_shot, "semi_supervised", remembered)
    return found


def test_each_party_learns_from_its_own_rows_and_never_from_test_or_validation_rows(lessons: list) -> None:
    federation = replace(small_federation(guests=2), labelled=20)
    result = fit(replace(TINY, guest_patience=8), federation)
    split = split_rows(federation)
    assert {entry.payload for entry in result.ledger.messages} == {20 * DIM * 4}
    assert len(lessons) == 3  # the bank, with the true labels, and two shops
    rest = np.setdiff1d(np.arange(40), split.labelled)
    kept = np.setdiff1d(split.labelled, split.validation)
    for name, lesson in zip(["bank", "shop1", "shop2"], lessons, strict=True):
        rows = split.parties[name]
        assert lesson["labelled"].tolist() == rows.aligned[kept].tolist()
        assert lesson["unlabelled"].tolist() == [*rows.aligned[rest], *rows.unaligned]
        assert lesson["stopping"].rows.tolist() == rows.aligned[split.validation].tolist()
    assert lessons[0]["labels"].tolist() == split.label[split.parties["bank"].aligned[kept]].tolist()


def test_every_setting_of_semi_supervised_learning_reaches_it(lessons: list) -> None:
    method = OneShot(
        guest_steps=3,
        host_epochs=1,
        batch_size=8,
        mu=2,
        lambda_u=0.7,
        threshold="fixed",
        align="uniform",
        labelled_views="both",
        temperature=0.5,
        ema=0.9,
        learning_rate=0.02,
        weight_decay=1e-3,
    )
    fit(method, small_federation())
    names = {
        "batch_size",
        "mu",
        "lambda_u",
        "threshold",
        "align",
        "labelled_views",
        "temperature",
        "ema",
        "learning_rate",
        "weight_decay",
    }
    assert len(lessons) == 2
    for lesson in lessons:
        assert lesson["steps"] == 3
        assert {name: lesson[name] for name in names} == {name: getattr(method, name) for name in names}
        assert all(lesson[name] != getattr(OneShot(), name) for name in names)
        assert names | {"steps"} == {name for name in lesson if isinstance(lesson[name], int | float | str)} - {
            "classes"
        }


def test_every_setting_of_the_head_reaches_its_training(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, Any]] = []
    train = one_shot.train

    def remembered(*given: Any, **settings: Any) -> None:
        found.append(settings)
        train(*given, **settings)

    monkeypatch.setattr(one_shot, "train", remembered)
    heads = {"host_epochs": 2, "host_patience": 3, "host_learning_rate": 0.02, "host_weight_decay": 0.03}
    fit(OneShot(**heads, guest_steps=3, batch_size=8), small_federation())
    (settings,) = found
    assert {f"host_{name}": settings[name] for name in ("epochs", "patience", "learning_rate", "weight_decay")} == heads
    assert settings["batch_size"] == 8


def test_the_views_of_a_party_know_all_its_rows_but_the_test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a masked value is replaced by is computed from these."""
    federation = small_federation(host_features=False)
    seen: list[Tensor] = []
    chances: list[float] = []
    views_of = one_shot.views_of

    def remembered(schema: Any, rows: Tensor, *, chance: float) -> Any:
        seen.append(rows)
        chances.append(chance)
        return views_of(schema, rows, chance=chance)

    monkeypatch.setattr(one_shot, "views_of", remembered)
    result = fit(replace(TINY, strong_chance=0.75), federation)
    assert chances == [0.75]
    rows = split_rows(federation).parties["shop1"]
    columns = federation.guests[0].table.columns.values()
    own = np.stack([values[np.concatenate([rows.aligned, rows.unaligned])] for values in columns], axis=1)
    (given,) = seen
    assert len(given) == 40 + result.rows["unaligned"]["shop1"]
    assert given.argsort(dim=0).tolist() == own.argsort(axis=0).tolist()  # scaled, they keep their order


@pytest.mark.parametrize("host_features", [True, False])
def test_a_warm_up_comes_first_at_every_party_with_features_and_sends_nothing(
    monkeypatch: pytest.MonkeyPatch, host_features: bool
) -> None:
    """Of all its rows but the test rows, before its representations leave; the three rounds stay."""
    federation = small_federation(host_features=host_features)
    plain = fit(TINY, federation)
    order: list[tuple[str, int]] = []
    self_supervised, represent = one_shot.self_supervised, Guest.represent

    def remembered(encoder: nn.Module, own: Tensor, **settings: Any) -> None:
        before = [weight.clone() for weight in encoder.parameters()]
        self_supervised(encoder, own, **settings)
        assert not all(torch.equal(old, new) for old, new in zip(before, encoder.parameters(), strict=True))
        assert (settings["ssl"], settings["steps"], settings["learning_rate"]) == ("scarf", 3, 1e-3)
        order.append(("warm-up", len(own)))

    def shown(me: Guest, rows: Tensor) -> Tensor:
        order.append(("shown", len(rows)))
        return represent(me, rows)

    monkeypatch.setattr(one_shot, "self_supervised", remembered)
    monkeypatch.setattr(Guest, "represent", shown)
    warm = fit(replace(TINY, warm_up="scarf", warm_up_steps=3), federation)
    own = 40 + warm.rows["unaligned"]["shop1"]
    assert ("warm-up", own) in order[: order.index(("shown", 40))]
    assert len([what for what, _ in order if what == "warm-up"]) == 1 + host_features
    assert warm.ledger.rounds == plain.ledger.rounds == 3
    assert [entry.payload for entry in warm.ledger.entries] == [entry.payload for entry in plain.ledger.entries]


def test_without_patience_every_label_is_used(lessons: list) -> None:
    assert TINY.guest_patience == 0
    fit(TINY, small_federation())
    assert [(len(lesson["labelled"]), lesson["stopping"]) for lesson in lessons] == [(40, None)] * 2


def one_guest_without_unaligned_rows() -> Federation:
    """The bank and the first shop know 70 people, the second shop 30 more."""
    whole = small_federation(guests=2)
    bank, shop1, _ = (replace(party, table=party.table.take(np.arange(70))) for party in whole.parties)
    return replace(whole, host=bank, label=whole.label[:70], guests=(shop1, whole.guests[1]), overlap=Overlap())


AWKWARD = {
    "all unaligned sets empty": (small_federation(guests=2, keep=70), {"bank": 0, "shop1": 0, "shop2": 0}),
    "one guest without": (one_guest_without_unaligned_rows(), {"bank": 0, "shop1": 0, "shop2": 30}),
    "less than a batch aligned": (small_federation(guests=2, keep=10), {"bank": 20, "shop1": 20, "shop2": 20}),
    "four aligned": (small_federation(guests=2, keep=4), {"bank": 22, "shop1": 22, "shop2": 22}),
}


@pytest.mark.parametrize("method", [TINY, TINY_FEW], ids=["one-shot", "few-shot"])
@pytest.mark.parametrize("case", AWKWARD)
def test_awkward_numbers_of_rows_are_no_trouble(case: str, method: OneShot) -> None:
    federation, unaligned = AWKWARD[case]
    result = fit(method, federation)
    assert result.rows["unaligned"] == unaligned
    assert result.ledger.rounds == (5 if isinstance(method, FewShot) else 3)
    assert 0 <= (result.metrics["accuracy"] or 0) <= 1


def mixed_federation(rows: int = 240) -> Federation:
    """Three classes: the camera tells the first from the others, the shop's towns the last; some values are missing."""
    random = np.random.default_rng(0)
    label = random.integers(0, 3, rows)
    image = random.integers(0, 120, (rows, 8, 8, 1))
    image[label == 0, :4] += 120  # bright above
    image[label != 0, 4:] += 120  # bright below
    towns = [None if i % 20 == 0 else f"town {(n == 2) + 2 * (i % 2)}" for i, n in enumerate(label)]
    spent = np.where(random.random(rows) < 0.2, np.nan, random.normal(size=rows))
    return Federation(
        PartyData("bank", Table(ids(rows))),
        label,
        (
            PartyData("camera", Table(ids(rows), image=image.astype(np.uint8)), dim=16),
            PartyData("shop", Table(ids(rows), {"town": Text.of(towns), "spent": spent})),
        ),
        task="classification",
        metric="accuracy",
        test=TestRows(0.25),
        overlap=Overlap(60),
        name="mixed",
    )


def test_a_guest_with_images_and_one_with_categories_and_missing_values_learn_together() -> None:
    settings = {"guest_steps": 150, "mu": 1, "learning_rate": 0.05, "ema": 0.9, "host_learning_rate": 0.01}
    result = fit(FewShot(**settings, host_epochs=60), mixed_federation())
    assert {entry.payload for entry in result.ledger.messages[:2]} == {60 * 16 * 4, 60 * DIM * 4}
    for run in (result, *result.milestones):
        assert (run.metrics["accuracy"] or 0) > 0.85  # either alone knows two classes of three


def test_it_learns_from_few_aligned_rows_and_many_others() -> None:
    federation = small_federation(rows=400, guests=2, keep=60, host_features=False)
    result = fit(OneShot(guest_steps=200, host_epochs=60, host_learning_rate=0.01, ema=0.99), federation)
    assert (result.metrics["auc"] or 0) > 0.75


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_every_head_has_the_hidden_layers(epsilon: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The joint ones, those that judge for a party, and those that stay where the labels are private."""
    made: list[tuple[list[str], tuple[int, ...]]] = []

    class Watched(Head):
        def __init__(self, dims: Any, outputs: int, *, hidden: tuple[int, ...], join: str) -> None:
            made.append((list(dims), hidden))
            assert join == "unit"
            super().__init__(dims, outputs, hidden=hidden, join=join)

    monkeypatch.setattr(one_shot, "Head", Watched)
    method = replace(TINY_FEW, hidden=(5, 3), join="unit", finetune_iterations=1, label_epsilon=epsilon)
    result = fit(method, small_federation())
    together, stay = ["bank", "shop1"], 0 if epsilon is None else 3
    assert made == [(parties, (5, 3)) for parties in (together, ["bank"], ["shop1"], *[together] * (1 + stay))]
    head = result.models["bank"].head
    assert isinstance(head, Head)
    assert head.hidden == (5, 3)


Spoil = Callable[[Tensor], Tensor]


def spoiled(patch: pytest.MonkeyPatch, kind: str, spoil: Spoil = lambda values: values, **scalars: int) -> None:
    """The second message of a kind has other values, or other scalars, than it should; or the first, if it is alone.

    The sender does not look at it: it is spoiled after the sender's own checks.
    """
    sent, encode = 0, link.encode

    def spoiling(message: Message, *, wire: Wire) -> memoryview:
        nonlocal sent
        sent += message.kind == kind
        if message.kind == kind and sent == (2 if kind == "representations" else 1):
            message = Message(kind, {"values": spoil(message.tensor.clone())}, scalars or message.scalars)
        return encode(message, wire=wire)

    patch.setattr(link, "encode", spoiling)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("kind", ["representations", "gradients", "unaligned-representations", "probabilities"])
def test_values_that_are_not_finite_are_refused(kind: str, bad: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(values: Tensor) -> Tensor:
        values.view(-1)[-1] = bad
        return values

    spoiled(monkeypatch, kind, spoil)
    with pytest.raises(ProtocolError) as refusal:
        fit(TINY_FEW, small_federation())
    receiver, sender = ("bank", "shop1") if kind.endswith("representations") else ("shop1", "bank")
    assert str(refusal.value) == (
        f"{receiver}: '{kind}' from '{sender}' has values that are not finite: "
        "lower its learning rate or correct its data"
    )


def test_a_party_whose_own_values_are_not_finite_does_not_send_them(monkeypatch: pytest.MonkeyPatch) -> None:
    represent = Guest.represent
    monkeypatch.setattr(Guest, "represent", lambda me, rows: represent(me, rows) / 0)
    with pytest.raises(InputError, match="shop1: 'representations' for 'bank' has values that are not finite and was"):
        fit(TINY, small_federation())


@pytest.mark.parametrize(("lift", "shown"), [(0.01, "0.01 to 1.01"), (-0.01, "-0.01 to 0.99")])
def test_probabilities_outside_0_and_1_are_refused(lift: float, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spoiled(monkeypatch, "probabilities", lambda values: lift + torch.arange(len(values)) / (len(values) - 1))
    with pytest.raises(ProtocolError) as refusal:
        fit(TINY_FEW, small_federation())
    assert str(refusal.value) == (
        f"shop1: 'probabilities' from 'bank' go from {shown}, expected 0 to 1: the two sides do not run the same "
        "method or version"
    )


@pytest.mark.parametrize("wire", WIRES)
def test_probabilities_of_1_arrive_on_every_wire(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    spoiled(monkeypatch, "probabilities", torch.ones_like)
    assert fit(TINY_FEW, small_federation(), wire=wire).ledger.rounds == 5


@pytest.mark.parametrize("classes", [1, 3, 10**9])
def test_another_number_of_classes_than_agreed_is_refused(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spoiled(monkeypatch, "gradients", classes=classes)
    with pytest.raises(ProtocolError) as refusal:
        fit(TINY, small_federation())
    assert str(refusal.value) == (
        f"shop1: 'gradients' from 'bank' are of {classes} classes, expected the 2 agreed on: the two sides do not run "
        "the same method or version"
    )


@pytest.mark.parametrize("method", [OneShot, FewShot])
@pytest.mark.parametrize(
    ("field", "bad", "sentence"),
    [
        ("temperature", 0.0, "temperature of one-shot and few-shot is 0.0: give a positive number"),
        ("temperature", -1.0, "temperature of one-shot and few-shot is -1.0: give a positive number"),
        ("temperature", float("nan"), "temperature of one-shot and few-shot is nan: give a positive number"),
        ("strong_chance", 1.5, "strong_chance of one-shot and few-shot is 1.5: give a number from 0 to 1"),
        ("ema", 1.0, "ema of one-shot and few-shot is 1.0: give a number from 0 to just below 1"),
        ("ema", -0.1, "ema of one-shot and few-shot is -0.1: give a number from 0 to just below 1"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(method: type[OneShot], field: str, bad: float, sentence: str) -> None:
    with pytest.raises(InputError) as refusal:
        method(**{field: bad})
    assert str(refusal.value) == sentence
    assert method(temperature=0.1, ema=0.0).ema == 0  # the last weights


@pytest.mark.parametrize("text", ["0,0.5", "-0.5", "0.5,1.01", "nan"])
def test_thresholds_are_above_0_and_at_most_1(text: str) -> None:
    shown = tuple(float(part) for part in text.split(","))
    with pytest.raises(InputError) as refusal:
        make_method("few-shot", {"thresholds": text})
    assert str(refusal.value) == f"thresholds of few-shot are {shown}: give numbers above 0, at most 1"
    assert make_method("few-shot", {"thresholds": "0.1,1"}) == FewShot(thresholds=(0.1, 1.0))


@pytest.mark.parametrize("method", [TINY, TINY_FEW], ids=["one-shot", "few-shot"])
def test_a_regression_is_refused_in_one_sentence(method: OneShot) -> None:
    with pytest.raises(InputError) as refusal:
        fit(method, small_federation(task="regression"))
    sentence = "bank: one-shot and few-shot group rows by class and cannot learn a regression: take split-nn"
    assert str(refusal.value) == sentence
