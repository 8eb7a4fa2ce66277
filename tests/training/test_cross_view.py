"""FedCVT's estimates, pseudo-labels and losses, against the formulas computed another way."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from vesica.nn.models import Head
from vesica.training.cross_view import UNKNOWN, Batch, Classifiers, CrossView, complete, difference, similarity

DIM, HALF, CLASSES = 6, 3, 4


def cross_view(parties: int = 2, **changes: float) -> CrossView:
    torch.manual_seed(0)
    names = [f"p{i}" for i in range(parties)]
    classifiers = Classifiers(Head(dict.fromkeys(names, DIM), CLASSES), [Head({name: DIM}, CLASSES) for name in names])
    settings = {"joint_threshold": 0.8, "local_threshold": 0.7, "temperature": 0.7}
    settings |= {"lambda_sim": 0.1, "lambda_diff": 0.01, "lambda_est": 0.1}
    return CrossView(classifiers, **settings | changes)


def batch_of(parties: int = 2, *, rows: int = 5, own: int = 4, reference: int = 9) -> Batch:
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return Batch(
        aligned=[draw(rows, DIM) for _ in range(parties)],
        unaligned=[draw(own + number, DIM) for number in range(parties)],
        labels=torch.arange(rows) % CLASSES,
        known=[torch.full((own + number,), UNKNOWN) for number in range(parties)],
        reference=draw(parties, reference, DIM),
        positions=torch.tensor([7, 2, 0, 8, 4])[:rows],
    )


def attention(query: np.ndarray, keys: np.ndarray, values: np.ndarray, temperature: float) -> np.ndarray:
    """One row by a loop: weights as powers of e, made sharper as p^(1/T), then normed."""
    weights = np.array([math.exp(float(query @ key) / math.sqrt(len(query))) for key in keys]) ** (1 / temperature)
    return sum(weight * value for weight, value in zip(weights / weights.sum(), values, strict=True))


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_missing_parts_are_attention_over_the_reference_rows(parties: int, temperature: float) -> None:
    batch = batch_of(parties)
    reference = batch.reference.numpy()
    for party in range(parties):
        found = complete(party, batch.unaligned[party], batch.reference, temperature=temperature)
        assert found[party] is batch.unaligned[party]
        for other in set(range(parties)) - {party}:
            for row, got in zip(batch.unaligned[party].numpy(), found[other].numpy(), strict=True):
                mine, theirs = reference[party], reference[other]
                unique = attention(row[:HALF], mine[:, :HALF], theirs[:, :HALF], temperature)
                shared = attention(row[HALF:], theirs[:, HALF:], theirs[:, HALF:], temperature)
                assert np.allclose(got, np.concatenate([unique, shared]), atol=1e-5)


def test_no_rows_of_its_own_give_no_parts() -> None:
    found = complete(1, torch.empty(0, DIM), batch_of().reference, temperature=1.0)
    assert [part.shape for part in found] == [(0, DIM), (0, DIM)]


def test_similarity_is_the_mean_squared_distance_of_the_shared_halves() -> None:
    one, two, three = batch_of(3).aligned
    pairs = [(one, two), (one, three), (two, three)]
    by_hand = [
        sum(float((a - b) ** 2) for a, b in zip(x[HALF:], y[HALF:], strict=True))
        for p in pairs
        for x, y in zip(*p, strict=True)
    ]
    assert similarity([one, two, three]).item() == pytest.approx(sum(by_hand) / len(by_hand), rel=1e-5)


def test_difference_is_the_frobenius_norm_of_all_products_over_the_rows() -> None:
    (part, _) = batch_of().aligned
    squares = [float(u[:HALF] @ c[HALF:]) ** 2 for u in part for c in part]
    assert difference(part).item() == pytest.approx(math.sqrt(sum(squares)) / len(part), rel=1e-5)
    unique, shared = part[:, :HALF], part[:, HALF:]
    assert difference(part).item() ** 2 == pytest.approx(
        torch.trace(unique.T @ unique @ shared.T @ shared).item() / len(part) ** 2, rel=1e-5
    )


def test_halves_that_are_orthogonal_differ_all_they_can_and_have_a_gradient() -> None:
    part = torch.cat([torch.ones(4, HALF), torch.zeros(4, HALF)], dim=1).requires_grad_()
    difference(part).backward()
    assert difference(part).item() == 0
    assert part.grad is not None
    assert part.grad.isfinite().all()


@pytest.mark.parametrize("parties", [2, 3])
def test_estimation_is_the_squared_error_of_estimates_that_leave_their_half_of_the_batch_out(parties: int) -> None:
    batch, view = batch_of(parties), cross_view(parties)
    errors = []
    for rows in ([0, 1, 2], [3, 4]):
        left = [i for i in range(9) if i not in batch.positions[rows].tolist()]
        estimates = complete(0, batch.aligned[0][rows], batch.reference[:, left], temperature=0.7)
        for other in range(1, parties):
            errors += ((estimates[other] - batch.aligned[other][rows]) ** 2).flatten().tolist()
    assert view.estimation(batch, 0).item() == pytest.approx(sum(errors) / len(errors), rel=1e-5)


def test_no_row_is_estimated_from_itself() -> None:
    """With weights as sharp as this a row that were there would be found, and there would be no error."""
    part = 20 * torch.eye(DIM)
    batch = batch_of(rows=4)
    batch = Batch(
        [part[:4], part[:4]], batch.unaligned, batch.labels, batch.known, torch.stack([part, part]), torch.arange(4)
    )
    found = complete(0, part[:4], batch.reference, temperature=0.01)
    assert torch.allclose(found[1][:3, :HALF], part[:3, :HALF], atol=1e-3)
    assert cross_view(temperature=0.01).estimation(batch, 0).item() > 10


def outputs(*rows: tuple[float, ...]) -> Tensor:
    return torch.tensor(rows).log()


SURE, FAIR, TORN = (0.9, 0.04, 0.03, 0.03), (0.75, 0.15, 0.05, 0.05), (0.6, 0.3, 0.05, 0.05)
OTHER = (0.04, 0.9, 0.03, 0.03)


@pytest.mark.parametrize(
    ("joint", "one", "two", "accepted"),
    [
        (SURE, SURE, SURE, True),
        (SURE, FAIR, FAIR, True),
        (FAIR, SURE, SURE, False),  # .75 is below the joint threshold
        (SURE, TORN, SURE, False),
        (SURE, SURE, TORN, False),
        (OTHER, SURE, SURE, False),
        (SURE, OTHER, SURE, False),
        (SURE, SURE, OTHER, False),
    ],
)
def test_a_pseudo_label_needs_three_sure_classifiers_of_one_mind(
    joint: tuple[float, ...], one: tuple[float, ...], two: tuple[float, ...], accepted: bool
) -> None:
    got, guess = cross_view().agree([outputs(each) for each in (joint, one, two)])
    assert got.tolist() == [accepted]
    assert guess.tolist() == [int(np.argmax(joint))]


def test_no_sigmoid_keeps_ten_classes_from_being_sure() -> None:
    """Squeezed into (0, 1) before the softmax, ten outputs never make a probability above .232."""
    logits = 8 * torch.eye(10)
    assert cross_view().agree([logits] * 3)[0].all()
    assert not cross_view(joint_threshold=0.24, local_threshold=0.24).agree([logits.sigmoid()] * 3)[0].any()


def entropy(head: nn.Module, parts: list[Tensor], labels: list[int]) -> list[float]:
    chances = head(parts).detach().softmax(dim=1)
    return [-math.log(float(row[label])) for row, label in zip(chances, labels, strict=True)]


def test_without_labels_for_the_others_the_entropies_are_those_of_the_aligned_rows() -> None:
    view, batch, counts = cross_view(), batch_of(), Counter()
    heads, labels = view.classifiers, batch.labels.tolist()
    by_hand = np.mean(entropy(heads.joint, batch.aligned, labels))
    by_hand += sum(np.mean(entropy(heads.alone[p], [batch.aligned[p]], labels)) for p in (0, 1))
    assert view.entropies(batch, counts).item() == pytest.approx(by_hand, rel=1e-5)
    assert counts == {"known": 0, "unlabelled": 4 + 5, "accepted": 0}


def test_rows_with_a_label_by_now_join_the_joint_classifier_and_that_of_their_party() -> None:
    """Thresholds of zero: agreement alone decides. The host knows half of its labels, and keeps them."""
    view, batch, counts = cross_view(joint_threshold=0.0, local_threshold=0.0), batch_of(own=300), Counter()
    batch.known[0][:150] = 3
    joint, labels = list(entropy(view.classifiers.joint, batch.aligned, batch.labels.tolist())), batch.labels.tolist()
    total, got = 0.0, 0
    for party in (0, 1):
        found = complete(party, batch.unaligned[party], batch.reference, temperature=0.7)
        votes = [each.argmax(dim=1).tolist() for each in view.classifiers(found)]
        given = {i: a for i, (a, b, c) in enumerate(zip(*votes, strict=True)) if a == b == c}
        known = 150 if party == 0 else 0
        assert known == 0 or min(given) < known  # some of them all would agree on
        got += sum(row >= known for row in given)
        given |= dict.fromkeys(range(known), 3)
        rows = list(given)
        joint += entropy(view.classifiers.joint, [part[rows] for part in found], list(given.values()))
        own = torch.cat([batch.aligned[party], batch.unaligned[party][rows]])
        total += float(np.mean(entropy(view.classifiers.alone[party], [own], [*labels, *given.values()])))
    assert 5 < got < 451
    assert view.entropies(batch, counts).item() == pytest.approx(total + float(np.mean(joint)), rel=1e-5)
    assert counts == {"known": 150, "unlabelled": 451, "accepted": got}


def test_the_loss_is_the_sum_of_its_terms_each_with_its_weight() -> None:
    batch = batch_of()
    view = cross_view(lambda_sim=2.0, lambda_diff=3.0, lambda_est=5.0)
    everything = [torch.cat([a, u]) for a, u in zip(batch.aligned, batch.unaligned, strict=True)]
    by_hand = view.entropies(batch, Counter()) + 2 * similarity(batch.aligned)
    by_hand += 3 * (difference(everything[0]) + difference(everything[1]))
    by_hand += 5 * (view.estimation(batch, 0) + view.estimation(batch, 1))
    assert view.loss(batch, Counter()).item() == pytest.approx(by_hand.item(), rel=1e-6)


def test_an_unaligned_row_teaches_its_encoder_where_it_has_a_pseudo_label_and_else_not() -> None:
    view, batch = cross_view(joint_threshold=0.0, local_threshold=0.0, lambda_diff=0.0), batch_of(own=30)
    batch.unaligned[1].requires_grad_()
    with torch.no_grad():
        found = complete(1, batch.unaligned[1], batch.reference, temperature=0.7)
        accepted, _ = view.agree(view.classifiers(found))
    view.loss(batch, Counter()).backward()
    gradients = batch.unaligned[1].grad
    assert gradients is not None
    assert torch.equal(gradients.abs().sum(dim=1) > 0, accepted)
    assert 0 < int(accepted.sum()) < len(accepted)


def test_what_pseudo_labels_would_be_worth_is_measured_party_by_party() -> None:
    view = cross_view(joint_threshold=0.0, local_threshold=0.0)
    batch = batch_of(rows=5)
    parts, labels = torch.stack(batch.aligned), batch.labels
    accepted = right = 0
    for party in (0, 1):
        found = complete(party, parts[party], batch.reference, temperature=0.7)
        votes = zip(*(each.argmax(dim=1).tolist() for each in view.classifiers(found)), strict=True)
        agreed = [(vote[0], label) for vote, label in zip(votes, labels.tolist(), strict=True) if len(set(vote)) == 1]
        accepted, right = accepted + len(agreed), right + sum(a == b for a, b in agreed)
    assert view.measure(parts, labels, batch.reference) == {"judged": 10, "vouched": accepted, "right": right}
    assert accepted > 0
