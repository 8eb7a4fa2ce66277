"""One-shot VFL: its message script, what its gradients give away, and awkward federations."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from federations import ids, small_federation
from vesica.data import Federation, Overlap, PartyData, Table, TestRows, Text, split_rows
from vesica.errors import InputError
from vesica.experiment import fit
from vesica.learning.cluster import cluster, purity
from vesica.methods import FewShot, OneShot, one_shot
from vesica.methods.one_shot import gradients_of
from vesica.models import Head
from vesica.protocol import Link

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
    for gradients, clusters in clusterings:
        assert gradients.abs().sum(dim=1).min() > 0
        assert purity(clusters, labels_of(federation)) == 1
    assert result.statements == (
        "The gradients disclose the labels of the 40 labelled aligned rows to every guest, up to renaming: "
        "k-means on them puts 100.0% of the rows with their own class.",
    )


def test_the_statement_tells_the_purity_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    federation = small_federation(guests=2)
    monkeypatch.setattr(one_shot, "cluster", lambda rows, classes: torch.arange(len(rows)) % classes)
    share = purity(torch.arange(40) % 2, labels_of(federation))
    assert share < 0.9
    assert f"puts {share:.1%} of the rows" in fit(TINY, federation).statements[0]


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


@pytest.mark.parametrize("method", [TINY, TINY_FEW], ids=["one-shot", "few-shot"])
def test_a_regression_is_refused_in_one_sentence(method: OneShot) -> None:
    with pytest.raises(InputError) as refusal:
        fit(method, small_federation(task="regression"))
    sentence = "bank: one-shot and few-shot group rows by class and cannot learn a regression: take split-nn"
    assert str(refusal.value) == sentence
