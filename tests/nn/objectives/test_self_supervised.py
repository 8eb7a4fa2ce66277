"""The losses of two views against their formulas in NumPy loops, and their gradients."""

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from vesica.nn.objectives import MoCo, Scarf, SimCLR, SimSiam, info_nce, negative_cosine

ROWS, DIM = 7, 5
Array = npt.NDArray[np.float64]


def pair(seed: int, rows: int = ROWS) -> tuple[Tensor, Tensor]:
    one, two = torch.randn(2, rows, DIM, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).unbind()
    return one.requires_grad_(), two.requires_grad_()


def cosine(one: Array, two: Array) -> float:
    return float(sum(a * b for a, b in zip(one, two, strict=True)) / math.sqrt((one**2).sum() * (two**2).sum()))


def arrays(*tensors: Tensor) -> list[Array]:
    return [tensor.detach().numpy() for tensor in tensors]


def slope(loss, at: Tensor) -> Array:
    """The gradient by differences, of a loss of NumPy arrays."""
    base = at.detach().numpy()
    result = np.zeros_like(base)
    for place in np.ndindex(base.shape):
        step = np.zeros_like(base)
        step[place] = 1e-4
        result[place] = (loss(base + step) - loss(base - step)) / 2e-4
    return result


def agrees(ours: Tensor | None, by_differences: Array) -> None:
    assert ours is not None
    assert np.abs(by_differences).max() > 1e-3
    np.testing.assert_allclose(ours.numpy(), by_differences, atol=1e-6)


def simsiam_by_hand(predictions: list[Array], projections: list[Array]) -> float:
    (p1, p2), (z1, z2) = predictions, projections
    return -sum(cosine(p1[i], z2[i]) + cosine(p2[i], z1[i]) for i in range(len(p1))) / (2 * len(p1))


def told_apart(query: Array, own: Array, others: list[Array], temperature: float) -> float:
    powers = [math.exp(cosine(query, other) / temperature) for other in others]
    return -math.log(math.exp(cosine(query, own) / temperature) / sum(powers))


def test_simsiam_is_the_mean_of_both_negative_cosines() -> None:
    predictions, projections = pair(0), pair(1)
    expected = simsiam_by_hand(arrays(*predictions), arrays(*projections))
    assert SimSiam()(predictions, projections).item() == pytest.approx(expected, rel=1e-6)
    assert negative_cosine(predictions[0], projections[1]).item() == pytest.approx(
        -np.mean([cosine(*rows) for rows in zip(*arrays(predictions[0], projections[1]), strict=True)]), rel=1e-6
    )


def test_simsiam_teaches_the_predictions_and_stops_at_the_projections() -> None:
    predictions, projections = pair(0), pair(1)
    SimSiam()(predictions, projections).backward()
    (p1, p2), z = arrays(*predictions), arrays(*projections)
    agrees(predictions[0].grad, slope(lambda p: simsiam_by_hand([p, p2], z), predictions[0]))
    agrees(predictions[1].grad, slope(lambda p: simsiam_by_hand([p1, p], z), predictions[1]))
    assert projections[0].grad is None
    assert projections[1].grad is None


def test_simsiam_stops_the_gradient_also_where_predictions_come_from_projections() -> None:
    """As in training, where both hang on the same weights."""
    one, two = pair(2)
    weight = torch.eye(DIM, dtype=torch.float64).requires_grad_()
    SimSiam()((one @ weight, two @ weight), (one, two)).backward()
    x1, x2 = arrays(one, two)
    agrees(one.grad, slope(lambda x: simsiam_by_hand([x, x2], [x1, x2]), one))
    agrees(two.grad, slope(lambda x: simsiam_by_hand([x1, x], [x1, x2]), two))


def test_alike_views_have_the_least_loss() -> None:
    one, two = pair(0)
    assert SimSiam()((one, two), (3 * two, 2 * one)).item() == pytest.approx(-1, abs=1e-6)
    assert SimSiam()((one, two), (-two, -one)).item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_scarf_tells_each_row_by_its_corrupted_view_and_both_learn(temperature: float) -> None:
    def by_hand(rows: Array, corrupted: Array) -> float:
        return sum(told_apart(row, corrupted[i], list(corrupted), temperature) for i, row in enumerate(rows)) / ROWS

    clean, corrupted = pair(0)
    loss = Scarf(temperature=temperature)((clean, corrupted), (clean, corrupted))
    loss.backward()
    z, other = arrays(clean, corrupted)
    assert loss.item() == pytest.approx(by_hand(z, other), rel=1e-6)
    agrees(clean.grad, slope(lambda x: by_hand(x, other), clean))
    agrees(corrupted.grad, slope(lambda x: by_hand(z, x), corrupted))
    assert info_nce(clean, corrupted, temperature=temperature).item() == loss.item()


def test_simclr_tells_each_view_its_counterpart_from_all_views_of_other_rows() -> None:
    def by_hand(one: Array, two: Array) -> float:
        views = [*one, *two]
        total = 0.0
        for i, view in enumerate(views):
            others = [other for j, other in enumerate(views) if j != i]
            total += told_apart(view, views[(i + ROWS) % (2 * ROWS)], others, 0.2)
        return total / (2 * ROWS)

    one, two = pair(0)
    loss = SimCLR()((one, two), (one, two))
    loss.backward()
    first, second = arrays(one, two)
    assert loss.item() == pytest.approx(by_hand(first, second), rel=1e-6)
    agrees(one.grad, slope(lambda x: by_hand(x, second), one))
    agrees(two.grad, slope(lambda x: by_hand(first, x), two))


def test_scarf_has_a_temperature_of_1_and_moco_of_a_half_with_4096_keys() -> None:
    assert Scarf().temperature == 1.0
    assert MoCo(3).temperature == 0.5
    assert MoCo(3).bank.shape == (2, 4096, 3)


def moco_by_hand(queries: list[Array], keys: list[Array], bank: Array) -> float:
    """The first view's queries look for the second view's keys, and the other way round, each among earlier ones."""
    total = 0.0
    for view in range(2):
        other = 1 - view
        for i in range(len(queries[view])):
            own = keys[other][i]
            total += told_apart(queries[view][i], own, [own, *bank[other]], 0.5)
    return total / (2 * len(queries[0]))


def test_moco_tells_its_own_key_from_those_in_the_bank() -> None:
    torch.manual_seed(0)
    objective = MoCo(DIM, size=12)
    bank = objective.bank.double().numpy().copy()
    queries, keys = pair(0), pair(1)
    loss = objective(queries, keys)
    loss.backward()
    (q1, q2), k = arrays(*queries), arrays(*keys)
    assert loss.item() == pytest.approx(moco_by_hand([q1, q2], k, bank), rel=1e-6)
    agrees(queries[0].grad, slope(lambda q: moco_by_hand([q, q2], k, bank), queries[0]))
    agrees(queries[1].grad, slope(lambda q: moco_by_hand([q1, q], k, bank), queries[1]))
    assert keys[0].grad is None
    assert keys[1].grad is None
    assert not objective.bank.requires_grad


def test_the_bank_begins_with_points_on_the_sphere() -> None:
    torch.manual_seed(0)
    bank = MoCo(DIM, size=500).bank
    assert not torch.equal(bank[0], bank[1])
    torch.testing.assert_close(bank.norm(dim=2), torch.ones(2, 500))
    assert bank.mean(dim=1).abs().max() < 0.1


@pytest.mark.parametrize("rows", [3, 4, 7, 10, 23])
def test_the_banks_hold_the_latest_keys_of_their_view(rows: int) -> None:
    objective = MoCo(DIM, size=10)
    seen: list[list[Array]] = [[], []]
    for seed in range(9):
        keys = pair(seed, rows)
        objective(pair(100 + seed, rows), keys)
        for view in range(2):
            seen[view] += list(keys[view].detach().numpy())
    for view in range(2):
        latest = np.stack([key / np.linalg.norm(key) for key in seen[view][-10:]])
        in_bank = objective.bank[view].numpy()
        np.testing.assert_allclose(sorted(in_bank.tolist()), sorted(latest.tolist()), atol=1e-6)


def test_a_loss_alone_leaves_the_banks_as_they_are() -> None:
    objective = MoCo(DIM, size=10)
    before = objective.bank.clone()
    alone = objective.loss(pair(0), pair(1))
    assert torch.equal(objective.bank, before)
    assert torch.equal(objective(pair(0), pair(1)), alone)
    assert not torch.equal(objective.bank, before)


def test_a_bank_goes_on_from_its_state() -> None:
    one, two = MoCo(DIM, size=10), MoCo(DIM, size=10)
    one(pair(0), pair(1))
    two.load_state_dict(one.state_dict())
    for seed in (2, 4):
        assert torch.equal(one(pair(seed), pair(seed + 1)), two(pair(seed), pair(seed + 1)))
    assert torch.equal(one.bank, two.bank)


@pytest.mark.parametrize("objective", [SimSiam(), SimCLR(), Scarf(), MoCo(DIM, size=10)])
def test_no_loss_waits_for_its_device(objective: torch.nn.Module) -> None:
    """A meta tensor has no values: whoever asks for one fails."""
    views = torch.empty(2, ROWS, DIM, device="meta").unbind()
    assert objective.to("meta")(views, views).device.type == "meta"


@pytest.mark.parametrize("objective", [SimSiam(), SimCLR(), Scarf(), MoCo(DIM, size=10)])
def test_narrow_numbers_are_compared_in_wide_ones(objective: torch.nn.Module) -> None:
    views = tuple(view.detach().bfloat16() for view in pair(0))
    assert objective(views, views).dtype == torch.float32
