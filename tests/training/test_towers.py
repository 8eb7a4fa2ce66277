"""The two towers of FedHSSL: what they learn from, computed another way, and what they leave alone."""

import copy
import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from vesica.nn.augmentations import TableViews
from vesica.nn.models import EncoderSpec
from vesica.schema import TableSchema
from vesica.training import pretext as pretexts
from vesica.training.pretext import Pretext, Tower, cross_tower, pretext
from vesica.training.self_supervised import STEEPEST, Loss
from vesica.training.towers import CrossTower, LocalTower

COLUMNS, DIM, WIDTH = 6, 5, 8
SSL = ("simsiam", "byol", "moco")
CPU = torch.device("cpu")
SPEC = EncoderSpec("mlp2", DIM, TableSchema(COLUMNS))
Array = npt.NDArray[np.float64]


class Untouched:
    """Views that change nothing, or add one to the second."""

    def __init__(self, shift: float = 0.0) -> None:
        self.shift = shift

    def pair(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return rows, rows + self.shift


def rows(count: int = 20) -> Tensor:
    return torch.randn(count, COLUMNS, generator=torch.Generator().manual_seed(3))


def crossing(ssl: str = "simsiam") -> Tower:
    return cross_tower(ssl, SPEC.build(), dim=DIM, width=WIDTH, device=CPU)  # type: ignore[arg-type]


def local(ssl: str = "simsiam") -> Pretext:
    return pretext(ssl, SPEC.build(), dim=DIM, width=WIDTH, ema=0.5, device=CPU)  # type: ignore[arg-type]


def cosines(one: Tensor, two: Tensor) -> Array:
    a, b = one.detach().double().numpy(), two.detach().double().numpy()
    return np.array([x @ y / math.sqrt((x @ x) * (y @ y)) for x, y in zip(a, b, strict=True)])


def told_apart(queries: Tensor, keys: Tensor, others: Tensor) -> float:
    """MoCo's loss of one view: each query looks for its own key, among this one and the bank's."""
    total = 0.0
    for query, key in zip(queries, keys, strict=True):
        own = math.exp(cosines(query[None], key[None])[0] / 0.5)
        total += -math.log(own / (own + sum(np.exp(cosines(query.expand_as(others), others) / 0.5))))
    return total / len(queries)


@pytest.mark.parametrize("ssl", ["simsiam", "byol"])
def test_the_local_loss_is_equation_4(ssl: str) -> None:
    torch.manual_seed(0)
    model, guide = local(ssl), crossing(ssl).eval()
    one, two = rows(), rows() + 0.5
    z1, z2 = model.project(one), model.project(two)
    p1, p2 = model.predictor(z1), model.predictor(z2)
    if model.target is not None:
        z1, z2 = model.target.module(one), model.target.module(two)
    c1, c2 = guide.project(one), guide.project(two)
    apart = cosines(p1, z2) + cosines(p2, z1) + 0.7 * (cosines(p1, c1) + cosines(p2, c2))
    loss = model(one, two, guide.guide(one, two), gamma=0.7)
    assert loss.item() == pytest.approx(-apart.mean() / 2, rel=1e-5)


def test_mocos_guides_are_told_from_the_banks_and_never_enter_them() -> None:
    torch.manual_seed(0)
    model, guide = local("moco"), crossing("moco").eval()
    one, two = rows(6), rows(6) + 0.5
    bank = model.objective.bank.clone()
    q1, q2 = model.project(one), model.project(two)
    k1, k2 = model.target.module(one), model.target.module(two)
    c1, c2 = guide.project(one), guide.project(two)
    plain = (told_apart(q1, k2, bank[1]) + told_apart(q2, k1, bank[0])) / 2
    guided = (told_apart(q1, c1, bank[1]) + told_apart(q2, c2, bank[0])) / 2
    loss = model(one, two, guide.guide(one, two), gamma=0.7)
    assert loss.item() == pytest.approx(plain + 0.7 * guided, rel=1e-5)
    held = model.objective.bank[0, :6]
    torch.testing.assert_close(held, nn.functional.normalize(k1, dim=1))


def test_byols_other_side_goes_after_the_weights() -> None:
    model = local("byol")
    before = copy.deepcopy(model.target)
    LocalTower("byol", model, rows(8), views=Untouched(), batch_size=8, learning_rate=0.1).epoch(1.0)
    assert model.target is not None
    assert before is not None
    now = nn.Sequential(model.encoder, model.projector)
    for old, new, weight in zip(
        before.module.parameters(), model.target.module.parameters(), now.parameters(), strict=True
    ):
        assert torch.allclose(new, (2 * old + 9 * weight) / 11, atol=1e-6)  # the decay warms up
        assert torch.equal(old, weight) or not torch.equal(old, new)


@pytest.mark.parametrize("ssl", SSL)
def test_the_guide_is_in_evaluation_mode_and_stays_as_it_was(ssl: str) -> None:
    torch.manual_seed(0)
    guide = crossing(ssl)
    before = copy.deepcopy(guide.state_dict())
    tower = LocalTower(
        ssl, local(ssl), rows(), views=Untouched(0.3), batch_size=8, learning_rate=0.1, guide=guide, gamma=0.5
    )
    seen: list[bool] = []
    guide.encoder.register_forward_pre_hook(lambda module, given: seen.append(module.training))
    tower.epoch(1.0)
    assert seen == [False] * 3 * 2  # steps, views
    assert all(torch.equal(value, before[name]) for name, value in guide.state_dict().items())
    assert all(weight.grad is None for weight in guide.parameters())


def test_the_guidance_changes_what_is_learned_and_gamma_how_much() -> None:
    def learned(gamma: float) -> Tensor:
        torch.manual_seed(0)
        model, guide = local(), crossing()
        tower = LocalTower(
            "simsiam", model, rows(), views=Untouched(), batch_size=20, learning_rate=0.1, guide=guide, gamma=gamma
        )
        tower.epoch(1.0)
        return nn.utils.parameters_to_vector(model.parameters())

    assert not torch.equal(learned(0.0), learned(0.5))
    assert not torch.equal(learned(0.5), learned(1.0))


@pytest.mark.parametrize(("count", "size", "steps"), [(20, 8, 3), (16, 8, 2), (5, 8, 1), (9, 8, 2)])
def test_an_epoch_sees_every_row_and_fills_the_last_batch_with_rows_of_the_first(
    count: int, size: int, steps: int
) -> None:
    class Watched(Untouched):
        def pair(self, rows: Tensor) -> tuple[Tensor, Tensor]:
            seen.append(rows)
            return rows, rows

    seen: list[Tensor] = []
    tower = LocalTower("simsiam", local(), rows(count), views=Watched(), batch_size=size, learning_rate=0.1)
    tower.epoch(1.0)
    assert [len(batch) for batch in seen] == [min(size, count)] * steps
    assert all(len(batch.unique(dim=0)) == len(batch) for batch in seen)
    assert len(torch.cat(seen).unique(dim=0)) == count


@pytest.mark.parametrize("ssl", SSL)
def test_a_step_across_parties_descends_on_the_mean_over_the_others(ssl: str) -> None:
    """Plain SGD by hand, from the formula's own gradient."""
    torch.manual_seed(0)
    tower = crossing(ssl)
    theirs = [torch.randn(20, WIDTH) for _ in range(2)]
    other = copy.deepcopy(tower)
    predictions = other.predictor(other.project(rows()))
    if ssl == "moco":
        alike = [nn.functional.cosine_similarity(predictions[:, None], z[None], dim=2) / 0.5 for z in theirs]
        loss = sum((each.logsumexp(dim=1) - each.diagonal()).mean() for each in alike) / 2
    else:
        loss = -sum(nn.functional.cosine_similarity(predictions, z, dim=1).mean() for z in theirs) / 2
    loss.backward()
    cross = CrossTower(ssl, tower, learning_rate=0.1, device=CPU)  # type: ignore[arg-type]
    cross.begin(0.5)
    cross.learn(cross.project(rows()), theirs)
    falls = {id(weight) for part in (other.encoder, other.projector) for weight in part.parameters()}
    for ours, start in zip(tower.parameters(), other.parameters(), strict=True):
        rate = 0.05 if id(start) in falls else 0.1  # the predictor's does not fall
        expected = start - rate * (start.grad + 3e-5 * start)
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)


def test_what_is_received_gets_no_gradient() -> None:
    cross = CrossTower("simsiam", crossing(), learning_rate=0.1, device=CPU)
    cross.begin(1.0)
    theirs = torch.randn(20, WIDTH, requires_grad=True)
    cross.learn(cross.project(rows()), [theirs])
    assert theirs.grad is None


@pytest.mark.parametrize(("ssl", "parts"), [("simsiam", 3), ("byol", 3), ("moco", 2)])
def test_top_projector_and_predictor_are_shared_without_running_statistics(ssl: str, parts: int) -> None:
    tower = LocalTower(ssl, local(ssl), rows(), views=Untouched(), batch_size=8, learning_rate=0.1)
    shared = tower.shared()
    assert {name.split(".")[0] for name in shared} == set(("top", "projector", "predictor")[:parts])
    assert not [name for name in shared if "running" in name or "batches" in name]
    assert sum(name.startswith("top") for name in shared) == 3  # a weight, and batch norm's two
    tower.epoch(1.0)
    assert shared.keys() == tower.shared().keys()
    assert all(torch.equal(shared[name], value) for name, value in tower.shared().items())  # they are the weights


def test_guided_towers_learn_what_a_random_one_does_not_know() -> None:
    """Four clouds, one half of the columns at each of two parties: nearest neighbours of a row are of its cloud."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 4
    table = torch.randn(4, 2 * COLUMNS, generator=generator)[labels]
    table = table + 0.9 * torch.randn(400, 2 * COLUMNS, generator=generator)
    halves = table.split(COLUMNS, dim=1)

    def neighbours(encoder: nn.Module, half: Tensor) -> float:
        with torch.no_grad():
            outputs = nn.functional.normalize(encoder.eval()(half), dim=1)
        nearest = (outputs @ outputs.T).topk(11).indices[:, 1:]
        return (labels[nearest] == labels[:, None]).float().mean().item()

    torch.manual_seed(0)
    wide = EncoderSpec("mlp2", 16, TableSchema(COLUMNS))
    towers = [cross_tower("simsiam", wide.build(), dim=16, width=32, device=CPU) for _ in halves]
    crosses = [CrossTower("simsiam", tower, learning_rate=0.05, device=CPU) for tower in towers]
    own = pretext("simsiam", wide.build(), dim=16, width=32, ema=0.9, device=CPU)
    views = TableViews(TableSchema(COLUMNS), halves[0], corrupted=0.3)
    guided = LocalTower(
        "simsiam", own, halves[0], views=views, batch_size=64, learning_rate=0.05, guide=towers[0], gamma=0.5
    )
    before = neighbours(towers[0].encoder, halves[0]), neighbours(own.encoder, halves[0])
    for _ in range(15):
        for cross in crosses:
            cross.begin(1.0)
        for batch in torch.randperm(400).split(64):
            shown = [cross.project(half[batch]) for cross, half in zip(crosses, halves, strict=True)]
            for cross, mine, theirs in zip(crosses, shown, reversed(shown), strict=True):
                cross.learn(mine, [theirs.detach()])
        guided.epoch(1.0)
    assert neighbours(towers[0].encoder, halves[0]) > before[0] + 0.03
    assert neighbours(own.encoder, halves[0]) > before[1] + 0.03


@pytest.mark.parametrize("ssl", SSL)
def test_a_guided_loss_is_one_compiled_graph(ssl: str) -> None:
    """As on a GPU, where it is compiled, but by the debugging compiler, which any machine has."""
    losses = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model, guide = local(ssl), crossing(ssl).eval()
        loss = Loss(model, TableViews(TableSchema(COLUMNS), rows()), guide=guide, gamma=0.5)
        whole = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=False) if compiled else loss
        for _ in range(2):
            losses.append(whole(rows()))
            losses[-1].backward()
        assert all(weight.grad is None for weight in guide.parameters())
    torch.testing.assert_close(losses[:2], losses[2:])


def test_a_processors_bfloat16_guides_nearly_as_float32_does(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    guide = crossing().eval()
    exact = guide.guide(rows(), rows() + 1)
    monkeypatch.setattr(pretexts, "quick_precision", lambda device: torch.autocast("cpu", torch.bfloat16))
    for one, two in zip(exact, guide.guide(rows(), rows() + 1), strict=True):
        assert cosines(one, two.float()).min() > 0.999


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA on this machine")
@pytest.mark.parametrize("ssl", SSL)
def test_guided_epochs_are_recorded_on_a_gpu(ssl: str) -> None:
    """Longer than the warm-up, and with the guide learning in between."""
    device, table = torch.device("cuda"), rows(200).cuda()
    tower = crossing(ssl).to(device)
    cross = CrossTower(ssl, tower, learning_rate=0.01, device=device)  # type: ignore[arg-type]
    model = pretext(ssl, SPEC.build().to(device), dim=DIM, width=WIDTH, ema=0.5, device=device)  # type: ignore[arg-type]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    views = TableViews(TableSchema(COLUMNS), table)
    own = LocalTower(ssl, model, table, views=views, batch_size=64, learning_rate=0.01, guide=tower, gamma=0.5)
    for _ in range(3):
        cross.begin(1.0)
        cross.learn(cross.project(table), [torch.randn(200, WIDTH, device=device)])
        own.epoch(1.0)
    assert not any(torch.equal(before[name], value) for name, value in model.named_parameters())
    assert all(value.isfinite().all() for value in model.state_dict().values())


def test_a_step_across_parties_is_no_longer_than_the_steepest_gradient_allows() -> None:
    """Predictions close to nothing have a cosine that any small change turns round."""
    torch.manual_seed(0)
    tower = crossing()
    with torch.no_grad():
        for weight in list(tower.predictor.parameters())[-2:]:  # of its last layer
            weight.mul_(1e-5)
    before = [weight.detach().clone() for weight in tower.parameters()]
    cross = CrossTower("simsiam", tower, learning_rate=0.1, device=CPU)
    cross.begin(1.0)
    cross.learn(cross.project(rows()), [torch.randn(20, WIDTH)])
    moved = torch.cat([(w.detach() - b).flatten() for w, b in zip(tower.parameters(), before, strict=True)]).norm()
    assert 0.4 < float(moved) < 0.1 * STEEPEST + 0.01
