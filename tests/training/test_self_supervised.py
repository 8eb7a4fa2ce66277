"""Self-supervised training of one party's encoder at home."""

import math
from collections.abc import Iterator, Mapping

import pytest
import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.nn.augmentations import ImageViews, TableViews, views_of
from vesica.nn.models import MLP, EncoderSpec
from vesica.nn.objectives import MoCo, negative_cosine
from vesica.protocol.resumable import pack, unpack
from vesica.schema import ImageSchema, TableSchema
from vesica.training.pretext import Pretext, pretext
from vesica.training.resume import Stateful
from vesica.training.self_supervised import Loss, half_cosine, self_supervised

COLUMNS, DIM = 12, 6
KINDS = ("simsiam", "byol", "simclr", "moco", "scarf")
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA on this machine")


class Untouched:
    """Views that change nothing."""

    def pair(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return rows, rows


def table(rows: int = 400) -> tuple[Tensor, Tensor]:
    """Four clouds that few columns tell alone: every column says a little of which it is."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(rows) % 4
    centres = torch.randn(4, COLUMNS, generator=generator)
    return centres[labels] + 0.8 * torch.randn(rows, COLUMNS, generator=generator), labels


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(MLP(COLUMNS, (32,), 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, DIM))


def fit(encoder: nn.Module, *, ssl: str = "simsiam", seed: int = 0, **changes) -> nn.Module:
    rows, _ = table()
    settings = {
        "dim": DIM,
        "views": TableViews(TableSchema(COLUMNS), rows, corrupted=0.3),
        "steps": 25,
        "batch_size": 64,
        "width": 16,
        "learning_rate": 0.001 if ssl == "scarf" else 0.05,
    } | changes
    torch.manual_seed(seed)
    self_supervised(encoder, rows, ssl=ssl, **settings)  # type: ignore[arg-type]
    return encoder


def neighbours(encoder: nn.Module) -> float:
    """How many of a row's ten nearest are of its own cloud."""
    rows, labels = table()
    with torch.no_grad():
        outputs = encoder.eval()(rows)
    outputs = nn.functional.normalize(outputs - outputs.mean(dim=0), dim=1)
    nearest = (outputs @ outputs.T).topk(11).indices[:, 1:]
    return (labels[nearest] == labels[:, None]).float().mean().item()


@pytest.mark.parametrize("ssl", KINDS)
def test_rows_of_a_kind_come_nearer_to_each_other(ssl: str) -> None:
    before = neighbours(network())
    after = neighbours(fit(network(), ssl=ssl, steps=300))
    assert after > before + 0.05


def test_what_is_drawn_after_a_training_goes_on_from_it() -> None:
    after = []
    for steps in (0, 3, 3):
        fit(network(), steps=steps)
        after.append(torch.rand(5))
    assert not torch.equal(after[0], after[1])
    assert torch.equal(after[1], after[2])


@pytest.mark.parametrize("ssl", KINDS)
def test_equal_seeds_give_equal_weights_and_others_do_not(ssl: str) -> None:
    one, two, three = (fit(network(), ssl=ssl, seed=seed) for seed in (0, 0, 1))
    assert same(one.state_dict(), two.state_dict())
    assert not same(one.state_dict(), three.state_dict())


class DeathError(Exception):
    """The process dies."""


class Kept:
    """Saves after each position as a run's folder does, and dies once when told to."""

    def __init__(self, die_after: int | None = None) -> None:
        self.die_after = die_after
        self.saved: tuple[object, dict[str, Tensor]] | None = None
        self.parts: Mapping[str, Stateful] = {}

    def steps(self, total: int, parts: Mapping[str, Stateful]) -> Iterator[int]:
        self.parts = parts
        start = 0
        if self.saved is not None:
            state = unpack(*self.saved)
            start = state["position"]
            for name, part in parts.items():
                part.load_state_dict(state["parts"][name])
            torch.set_rng_state(state["random"])
        for position in range(start, total):
            if position == self.die_after:
                self.die_after = None
                raise DeathError
            yield position
            states = {name: part.state_dict() for name, part in parts.items()}
            tensors: dict[str, Tensor] = {}
            state = {"position": position + 1, "parts": states, "random": torch.get_rng_state()}
            self.saved = pack(state, tensors), tensors


def same(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("ssl", KINDS)
@pytest.mark.parametrize("die_after", [1, 3])
def test_a_resumed_run_equals_an_uninterrupted_one(ssl: str, die_after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vesica.training.self_supervised.CHECKPOINT_EVERY", 7)
    straight = fit(network(), ssl=ssl)
    kept = Kept(die_after)
    with pytest.raises(DeathError):
        fit(network(), ssl=ssl, resume=kept)
    assert same(fit(network(), ssl=ssl, seed=99, resume=kept).state_dict(), straight.state_dict())


def images() -> Tensor:
    return torch.randint(256, (40, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("ssl", KINDS)
@pytest.mark.parametrize("name", ["cnn", "wrn"])
def test_a_resumed_run_on_images_equals_an_uninterrupted_one(
    ssl: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights of images lie in memory in another order than their checkpoints."""
    monkeypatch.setattr("vesica.training.self_supervised.CHECKPOINT_EVERY", 2)

    def learn(resume: Kept | None) -> nn.Module:
        torch.manual_seed(0)
        spec = EncoderSpec.choose(name, ImageSchema(1, 8, 8, (0.5,), (0.5,)), dim=None)
        encoder = spec.build()
        self_supervised(
            encoder,
            images(),
            dim=spec.dim,
            ssl=ssl,  # type: ignore[arg-type]
            views=ImageViews(),
            steps=5,
            batch_size=8,
            width=16,
            learning_rate=0.01,
            resume=resume,
        )
        return encoder

    straight, kept = learn(None), Kept(1)
    with pytest.raises(DeathError):
        learn(kept)
    resumed = learn(kept)
    assert same(resumed.state_dict(), straight.state_dict())
    assert all(weight.is_contiguous() for weight in resumed.parameters())


def test_a_long_run_has_no_more_checkpoints_than_a_few_further_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vesica.training.self_supervised.CHECKPOINT_EVERY", 2)
    monkeypatch.setattr("vesica.training.self_supervised.MOST_CHECKPOINTS", 3)
    for steps, checkpoints in ((1, 1), (4, 2), (6, 3), (7, 3), (20, 3)):
        kept, encoder = Kept(), Counting()
        fit(encoder, steps=steps, resume=kept)
        assert kept.saved is not None
        assert unpack(*kept.saved)["position"] == checkpoints
        assert encoder.passes == [64, 64] * steps


class Counting(nn.Module):
    """Counts the rows of each pass."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(COLUMNS, DIM)
        self.passes: list[int] = []

    def forward(self, rows: Tensor) -> Tensor:
        self.passes.append(len(rows))
        encoded: Tensor = self.linear(rows)
        return encoded


def test_no_row_is_twice_in_a_batch_and_all_are_drawn() -> None:
    class Watched(Untouched):
        def __init__(self) -> None:
            self.batches: list[Tensor] = []

        def pair(self, rows: Tensor) -> tuple[Tensor, Tensor]:
            self.batches.append(rows)
            return rows, rows

    views = Watched()
    fit(network(), views=views, steps=40)
    assert all(len(batch.unique(dim=0)) == len(batch) == 64 for batch in views.batches)
    assert len(torch.cat(views.batches).unique(dim=0)) == 400


def test_few_rows_are_a_batch_of_them_all() -> None:
    rows, _ = table(3)
    encoder = Counting()
    settings = {"dim": DIM, "views": Untouched(), "steps": 2, "width": 8, "learning_rate": 0.01}
    self_supervised(encoder, rows, ssl="moco", **settings)  # type: ignore[arg-type]
    assert encoder.passes == [3, 3, 3, 3]


@pytest.mark.parametrize("ssl", ["simsiam", "simclr", "moco", "scarf"])
def test_the_rate_falls_as_half_a_cosine_but_for_the_predictor(ssl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[list[float]] = []
    apart: list[list[tuple[int, ...]]] = []
    kind = torch.optim.Adam if ssl == "scarf" else torch.optim.SGD
    step = kind.step

    def watched(self: torch.optim.Optimizer) -> None:
        rates.append([float(group["lr"]) for group in self.param_groups])
        apart.append([tuple(weight.shape) for weight in self.param_groups[1]["params"]])
        step(self)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "step", watched)
    monkeypatch.setattr("vesica.training.self_supervised.CHECKPOINT_EVERY", 4)
    fit(network(), ssl=ssl, steps=10, learning_rate=0.01)
    falling, steady = zip(*rates, strict=True)
    assert falling == pytest.approx([0.01 * (1 + math.cos(math.pi * k / 10)) / 2 for k in range(10)])
    assert steady == pytest.approx([0.01] * 10)
    assert apart[0] == ([(4, 16), (4,), (4,), (16, 4), (16,)] if ssl == "simsiam" else [])


def test_half_a_cosine_goes_from_1_to_0() -> None:
    assert [half_cosine(done) for done in (0.0, 0.5, 1.0)] == pytest.approx([1, 0.5, 0])


def test_one_step_of_simsiam_is_sgd_on_its_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows in one batch and views that change nothing: the step follows from the weights."""
    rows, _ = table()
    model = pretext("simsiam", nn.Linear(COLUMNS, DIM), dim=DIM, width=16, ema=0.5, device=torch.device("cpu"))
    monkeypatch.setattr("vesica.training.self_supervised.pretext", lambda *_, **__: model)
    weights = [weight.detach().clone() for weight in model.parameters()]
    projections = model.projector(model.encoder(rows))
    negative_cosine(model.predictor(projections), projections).backward()
    gradients = [weight.grad for weight in model.parameters()]
    assert all(gradient is not None for gradient in gradients)
    norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients if gradient is not None))
    monkeypatch.setattr("vesica.training.self_supervised.STEEPEST", norm / 2)
    fit(model.encoder, views=Untouched(), steps=1, batch_size=400, weight_decay=0.5, learning_rate=0.1)
    for weight, before, gradient in zip(model.parameters(), weights, gradients, strict=True):
        assert gradient is not None
        torch.testing.assert_close(weight.detach(), before - 0.1 * (gradient / 2 + 0.5 * before), rtol=1e-4, atol=1e-5)


def make(ssl: str) -> Pretext:
    torch.manual_seed(0)
    return pretext(ssl, network(), dim=DIM, width=16, ema=0.5, device=torch.device("cpu"))  # type: ignore[arg-type]


def test_only_simsiam_and_byol_predict_and_only_byol_and_moco_follow_an_average() -> None:
    models = {ssl: make(ssl) for ssl in KINDS}
    assert [ssl for ssl in KINDS if list(models[ssl].predictor.parameters())] == ["simsiam", "byol"]
    assert [ssl for ssl in KINDS if models[ssl].target is not None] == ["byol", "moco"]
    assert [ssl for ssl in KINDS if isinstance(models[ssl].objective, MoCo)] == ["moco"]


@pytest.mark.parametrize("ssl", ["byol", "moco"])
def test_the_average_teaches_does_not_learn_and_follows(ssl: str) -> None:
    model = make(ssl)
    assert model.target is not None
    taught = model.target.module
    taught[0][3].p = model.encoder[3].p = 0.0  # no dropout: the same rows give the same outputs
    taught[1][0].weight.data.neg_()
    rows, _ = table(20)
    with torch.no_grad():
        before = model.target.module(rows)
    assert not torch.allclose(before, model.project(rows))
    own = model.predictor(model.project(rows))
    judged = model.objective.loss if isinstance(model.objective, MoCo) else model.objective
    expected = judged((own, own), (before, before))
    loss = model(rows, rows)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert not any(weight.requires_grad or weight.grad is not None for weight in taught.parameters())
    theirs = {id(weight) for weight in taught.parameters()}
    assert not any(id(weight) in theirs for weight in model.parameters())
    far = (taught[1][0].weight - model.projector[0].weight).norm()
    model.follow()
    assert (taught[1][0].weight - model.projector[0].weight).norm() < far
    assert taught.training


@pytest.mark.parametrize("ssl", KINDS)
def test_a_loss_is_one_compiled_graph_with_what_it_remembers(ssl: str) -> None:
    """As on a GPU, where it is compiled, but by the debugging compiler, which any machine has."""
    rows, _ = table(20)
    views = TableViews(TableSchema(COLUMNS), rows)
    losses, states = [], []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = pretext(ssl, MLP(COLUMNS, (16,), DIM), dim=DIM, width=8, ema=0.5, device=torch.device("cpu"))
        loss = Loss(model, views)
        whole = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=False) if compiled else loss
        for _ in range(3):
            losses.append(whole(rows))
            losses[-1].backward()
            model.follow()
        states.append(model.state_dict())
    torch.testing.assert_close(losses[:3], losses[3:])
    torch.testing.assert_close(states[0], states[1])


def test_a_checkpoint_holds_projector_predictor_average_banks_and_optimiser() -> None:
    for ssl in KINDS:
        kept = Kept()
        fit(network(), ssl=ssl, steps=2, resume=kept)
        names = set(kept.parts["pretext"].state_dict())
        assert {name.split(".")[0] for name in names} >= {"encoder", "projector"}
        assert ("predictor.0.weight" in names) == (ssl in ("simsiam", "byol"))
        assert ("objective.bank" in names) == ("objective.place" in names) == (ssl == "moco")
        assert ("target" in kept.parts) == (ssl in ("byol", "moco"))
        if "target" in kept.parts:
            assert kept.parts["target"].state_dict()["updates"] == 2
        assert "optimiser" in kept.parts


def test_an_encoder_that_was_put_to_rest_is_trained_with_its_batch_norm_awake() -> None:
    encoder, kept = network().eval(), Kept()
    fit(encoder, ssl="byol", steps=3, resume=kept)
    assert encoder.training
    assert all(module.training for module in kept.parts["target"].module.modules())  # type: ignore[attr-defined]
    assert int(encoder[1].num_batches_tracked) == 6


def test_mixed_tables_and_missing_values_train() -> None:
    schema = TableSchema(2, (4, 6))
    torch.manual_seed(0)
    rows = torch.cat([torch.randn(60, 2), torch.randint(4, (60, 2)).float()], dim=1)
    spec = EncoderSpec.choose("tabular", schema)
    encoder = spec.build()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    self_supervised(
        encoder, rows, dim=spec.dim, ssl="scarf", views=views_of(schema, rows), steps=3, width=8, learning_rate=0.01
    )
    assert not same(before, encoder.state_dict())
    assert all(value.isfinite().all() for value in encoder.state_dict().values())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ssl": "simsam"}, "no self-supervision 'simsam'; did you mean 'simsiam'"),
        ({"batch_size": 1}, "has 400 rows in batches of 1: give at least two"),
        ({"steps": -1}, "0 or more steps and not -1"),
    ],
)
def test_what_cannot_be_trained_is_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        fit(network(), **changes)  # type: ignore[arg-type]


def test_one_row_alone_is_refused() -> None:
    with pytest.raises(InputError, match="has 1 rows in batches of 512: give at least two"):
        self_supervised(
            network(), torch.zeros(1, COLUMNS), dim=DIM, ssl="scarf", views=Untouched(), steps=1, learning_rate=0.1
        )


@on_a_gpu
@pytest.mark.parametrize("ssl", KINDS)
def test_a_step_is_recorded_on_a_gpu(ssl: str) -> None:
    """Longer than the warm-up: what is replayed moves the weights, the average and the banks."""
    schema = ImageSchema(3, 16, 8, (0.5,) * 3, (0.25,) * 3)
    rows = torch.randint(256, (300, 3, 16, 8), dtype=torch.uint8, device="cuda")
    encoder = EncoderSpec.choose("wrn", schema).build().cuda()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    kept = Kept()
    settings = {"views": ImageViews(), "steps": 9, "batch_size": 64, "width": 32, "learning_rate": 0.01}
    self_supervised(encoder, rows, dim=128, ssl=ssl, resume=kept, **settings)  # type: ignore[arg-type]
    assert not same(before, encoder.state_dict())
    assert all(value.isfinite().all() for value in encoder.state_dict().values())
    if ssl == "moco":
        assert int(kept.parts["pretext"].state_dict()["objective.place"]) == 9 * 64
