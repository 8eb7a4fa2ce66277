"""Semi-supervised training of one classifier at one party."""

import copy
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.nn.augmentations import ImageViews, TableViews
from vesica.nn.models import CNN0, MLP, EncoderSpec, TabularEncoder
from vesica.nn.objectives import FixMatch
from vesica.protocol.resumable import pack, unpack
from vesica.schema import ImageSchema, TableSchema
from vesica.training.resume import Stateful
from vesica.training.semi_supervised import LabelledViews, Seeing, cosine, semi_supervised

COLUMNS = 20
NONE = torch.arange(0)


class Untouched:
    """Views that change nothing."""

    def weak(self, rows: Tensor) -> Tensor:
        return rows

    def both(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return rows, rows


def blobs(rows: int = 1500) -> tuple[Tensor, Tensor]:
    """Two overlapping clouds, even rows the one and odd rows the other."""
    labels = torch.arange(rows) % 2
    noise = torch.randn(rows, COLUMNS, generator=torch.Generator().manual_seed(0))
    return noise + 0.6 * (2 * labels[:, None] - 1), labels


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(MLP(COLUMNS, (32,), 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))


def fit(model: nn.Module, *, seed: int = 0, **changes) -> nn.Module:
    """On four labelled rows and a thousand others, five hundred kept for the test."""
    rows, labels = blobs()
    settings = {
        "labelled": torch.arange(4),
        "labels": labels[:4],
        "unlabelled": torch.arange(4, 1000),
        "classes": 2,
        "views": TableViews(TableSchema(COLUMNS), rows[:1000]),
        "steps": 300,
    } | changes
    torch.manual_seed(seed)
    return semi_supervised(model, rows, **settings)


def accuracy(model: nn.Module) -> float:
    rows, labels = blobs()
    model.eval()
    return (model(rows[1000:]).argmax(dim=1) == labels[1000:]).float().mean().item()


def test_unlabelled_rows_help() -> None:
    def trained(seed: int, unlabelled: Tensor) -> float:
        torch.manual_seed(seed)
        rows = torch.tensor([2 * seed, 2 * seed + 1])
        model = MLP(COLUMNS, (32,), 2)
        return accuracy(fit(model, seed=seed, labelled=rows, labels=rows % 2, unlabelled=unlabelled))

    alone = [trained(seed, NONE) for seed in range(3)]
    together = [trained(seed, torch.arange(10, 1000)) for seed in range(3)]
    assert sum(together) / 3 > sum(alone) / 3 + 0.02
    assert min(together) > 0.95


@pytest.mark.parametrize(
    ("align", "zeros", "classes"),
    [("uniform", 304, [1, 1]), ("labels", 304, [304, 496]), ("left", 304, [196, 4]), ("left", 200, [300, 1])],
)
def test_alignment_is_towards_the_classes_of_the_rows_without_a_label(align: str, zeros: int, classes: list) -> None:
    """Of 1,000 rows 800 are labelled; equal classes have 500 each, and none less than a hundredth of its 100 others."""

    class Watch:
        def steps(self, total: int, parts: Mapping[str, Stateful]) -> Iterator[int]:
            objectives.append(parts["objective"])
            return iter(range(total))

    objectives: list[Any] = []
    labels = torch.tensor([0] * zeros + [1] * (800 - zeros))
    settings = {"labelled": torch.arange(800), "labels": labels, "unlabelled": torch.arange(800, 1000)}
    fit(network(), steps=1, align=align, resume=Watch(), **settings)
    (objective,) = objectives
    assert objective.alignment.target.tolist() == classes


@pytest.mark.parametrize(
    "settings", [{}, {"threshold": "adaptive"}, {"align": "uniform"}, {"align": "labels"}, {"align": "left"}]
)
def test_every_setting_learns(settings: dict[str, str]) -> None:
    assert accuracy(fit(network(), **settings)) > 0.9


def test_equal_seeds_give_equal_weights_and_others_do_not() -> None:
    one, two, three = (fit(network(), seed=seed, steps=20) for seed in (0, 0, 1))
    assert same(one.state_dict(), two.state_dict())
    assert not same(one.state_dict(), three.state_dict())


class DeathError(Exception):
    """The process dies."""


class Kept:
    """Saves after each position as a run's folder does, and dies once when told to."""

    def __init__(self, die_after: int | None = None) -> None:
        self.die_after = die_after
        self.saved: tuple[object, dict[str, Tensor]] | None = None

    def steps(self, total: int, parts: Mapping[str, Stateful]) -> Iterator[int]:
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


@pytest.mark.parametrize("die_after", [1, 2, 3])
def test_a_resumed_run_equals_an_uninterrupted_one(die_after: int) -> None:
    settings = {"threshold": "adaptive", "align": "labels", "steps": 350}
    straight = fit(network(), **settings)
    kept = Kept(die_after)
    with pytest.raises(DeathError):
        fit(network(), resume=kept, **settings)
    assert same(fit(network(), seed=99, resume=kept, **settings).state_dict(), straight.state_dict())


@pytest.mark.parametrize("encoder", ["cnn", "wrn"])
def test_a_resumed_run_on_images_equals_an_uninterrupted_one(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of images lie in memory in another order than their checkpoints."""
    monkeypatch.setattr("vesica.training.semi_supervised.LOOK_EVERY", 3)
    schema = ImageSchema(1, 8, 8, (0.5,), (0.5,))
    images = torch.randint(256, (40, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

    def learn(resume: Kept | None) -> nn.Module:
        torch.manual_seed(0)
        spec = EncoderSpec.choose(encoder, schema, dim=None)
        return semi_supervised(
            nn.Sequential(spec.build(), nn.Linear(spec.dim, 2)),
            images,
            labelled=torch.arange(10),
            labels=torch.arange(10) % 2,
            unlabelled=torch.arange(10, 40),
            classes=2,
            views=ImageViews(),
            steps=7,
            batch_size=4,
            mu=2,
            resume=resume,
        )

    straight, kept = learn(None), Kept(1)
    with pytest.raises(DeathError):
        learn(kept)
    assert same(learn(kept).state_dict(), straight.state_dict())


def test_a_finished_run_comes_back_with_its_averaged_weights() -> None:
    kept = Kept()
    trained = fit(network(), resume=kept, steps=150)
    assert kept.saved is not None
    assert unpack(*kept.saved)["position"] == 2
    assert same(fit(network(), resume=kept, steps=150).state_dict(), trained.state_dict())


class Counting(nn.Module):
    """Counts the rows of each pass."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(COLUMNS, 2)
        self.passes: list[int] = []

    def forward(self, rows: Tensor) -> Tensor:
        self.passes.append(len(rows))
        logits: Tensor = self.linear(rows)
        return logits


def test_batch_norm_learns_from_labelled_and_strong_rows_in_one_pass() -> None:
    model = Counting()
    fit(nn.Sequential(model, nn.BatchNorm1d(2)), steps=3, batch_size=5, mu=4)
    assert model.passes == [5 + 20] * 3


class Signed(Untouched):
    """Weak views as they are, strong ones turned around."""

    def both(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return rows, -2 * rows


def test_weak_views_are_labelled_without_a_gradient_by_the_batch_norm_of_what_is_learned_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Batch norm alone is the model: its logits tell by which statistics the rows were normalised."""
    told: list[tuple[Tensor, Tensor]] = []
    forward = FixMatch.forward
    monkeypatch.setattr(FixMatch, "forward", lambda *given: (told.append(given[1:3]), forward(*given))[1])
    norm = nn.BatchNorm1d(COLUMNS, affine=False)
    before = norm.momentum
    settings = {"steps": 1, "batch_size": 5, "mu": 4, "classes": COLUMNS, "learning_rate": 0.0, "weight_decay": 0.0}
    model = nn.Sequential(norm, Scaled())
    fit(model, views=Signed(), **settings)
    ((of_weak, of_strong),) = told
    assert not of_weak.requires_grad
    assert of_strong.requires_grad
    # Learned from: five labelled rows and twenty strong ones, each -2 times its weak one. By one mean and spread of a
    # column (strong + 2 weak) / 3 is the same in all rows, that of a row of zeros. The kept variance is of a sample.
    zeros = (of_strong.detach() + 2 * of_weak * math.sqrt(25 / 24)) / 3
    torch.testing.assert_close(zeros, zeros[:1].expand_as(zeros), atol=1e-4, rtol=0)
    assert norm.momentum == before


class Scaled(nn.Module):
    """A weight, so that there is something to learn."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, rows: Tensor) -> Tensor:
        return self.weight * rows


def test_weak_views_have_a_pass_of_their_own() -> None:
    model = Counting()
    fit(model, steps=3, batch_size=5, mu=4)
    assert model.passes == [5 + 20, 20] * 3


def test_labelled_rows_in_both_views_are_twice_as_many() -> None:
    model = Counting()
    fit(model, steps=2, batch_size=5, mu=4, labelled_views="both")
    assert model.passes == [2 * 5 + 20, 20] * 2


def test_strong_views_of_labelled_rows_keep_their_labels() -> None:
    """The one labelled row is shown as it is and turned around, both of class 1: the weight has no gradient then."""

    class Opposite(Untouched):
        def both(self, rows: Tensor) -> tuple[Tensor, Tensor]:
            return rows, -rows

    torch.manual_seed(0)
    model = nn.Linear(COLUMNS, 2)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    settings = {"labelled": torch.tensor([0]), "labels": torch.tensor([1]), "unlabelled": NONE, "views": Opposite()}
    fit(model, steps=1, ema=0.0, weight_decay=0.0, labelled_views="both", **settings)
    assert model.weight.abs().max() < 1e-8
    torch.testing.assert_close(model.bias.detach(), 0.03 * 1.9 * torch.tensor([-0.5, 0.5]))


@pytest.mark.parametrize(("views", "shown"), [("weak", [0.25, 1.25]), ("both", [0.25, 1.25, 0.5, 1.5])])
def test_each_view_of_a_labelled_row_has_its_label(views: LabelledViews, shown: list[float]) -> None:
    class Moved(Untouched):
        def weak(self, rows: Tensor) -> Tensor:
            return rows + 0.25

        def both(self, rows: Tensor) -> tuple[Tensor, Tensor]:
            return rows + 0.25, rows + 0.5

    rows, labels, others = torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1]), torch.tensor([[7.0]])
    seen, of_rows, weak = Seeing(Moved(), labelled=views)(rows, labels, others)
    assert seen.flatten().tolist() == [*shown, 7.5]
    assert of_rows.tolist() == [int(value) for value in shown]
    assert weak.flatten().tolist() == [7.25]


def test_one_step_is_sgd_on_both_losses() -> None:
    torch.manual_seed(0)
    model = nn.Linear(COLUMNS, 2)
    rows, _ = blobs()
    weight, bias = (parameter.detach().clone().requires_grad_() for parameter in model.parameters())
    settings = {"labelled": torch.tensor([0]), "labels": torch.tensor([1]), "unlabelled": torch.tensor([8])}
    logits = rows[[0, 8]] @ weight.T + bias
    guess = logits[1].softmax(dim=0).max()
    assert 0.5 < guess < 0.95
    # The one unlabelled row, copied seven times, counts under a threshold that starts at a half.
    loss = -logits[0].log_softmax(dim=0)[1] - 2 * guess.log()
    loss.backward()
    settings |= {"lambda_u": 2.0, "ema": 0.0, "weight_decay": 0.5, "threshold": "adaptive"}
    fit(model, steps=1, views=Untouched(), **settings)
    # The first step of Nesterov's momentum goes 1.9 gradients far; the bias does not decay.
    torch.testing.assert_close(model.weight, weight - 0.03 * 1.9 * (weight.grad + 0.5 * weight))
    torch.testing.assert_close(model.bias, bias - 0.03 * 1.9 * bias.grad)


def test_the_learning_rate_falls_as_a_cosine_of_seven_sixteenths() -> None:
    assert cosine(0.0) == 1.0
    assert cosine(0.5) == pytest.approx(math.cos(7 * math.pi / 32))
    assert cosine(1.0) == pytest.approx(0.19509, abs=1e-5)


def test_the_rate_of_a_step_is_that_of_its_place_in_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    step = torch.optim.SGD.step

    def watched(self: torch.optim.SGD) -> None:
        rates.extend({group["lr"].item() for group in self.param_groups})
        step(self)

    monkeypatch.setattr(torch.optim.SGD, "step", watched)
    fit(network(), steps=150, learning_rate=0.01)
    assert rates == pytest.approx([0.01 * math.cos(7 * math.pi * k / (16 * 150)) for k in range(150)])


def test_the_model_ends_with_its_averaged_weights() -> None:
    averaged, last = fit(network(), steps=20), fit(network(), steps=20, ema=0.0)
    assert not same(averaged.state_dict(), last.state_dict())


def test_what_is_drawn_after_a_training_goes_on_from_it() -> None:
    after = []
    for steps in (0, 3, 3):
        fit(network(), steps=steps)
        after.append(torch.rand(5))
    assert not torch.equal(after[0], after[1])
    assert torch.equal(after[1], after[2])


class Scripted:
    """Looks that find what they are told, and remember what they saw."""

    def __init__(self, *values: float, patience: int) -> None:
        self.patience = patience
        self.values = list(values)
        self.seen: list[dict[str, Tensor]] = []

    def look(self, model: nn.Module, inputs: Tensor) -> tuple[float, float]:
        self.seen.append(copy.deepcopy(model.state_dict()))
        return self.values[len(self.seen) - 1], 0.0


@pytest.mark.parametrize(("patience", "looks"), [(9, 5), (2, 4)])
def test_the_best_look_is_given_back_and_not_the_last(
    patience: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vesica.training.semi_supervised.LOOK_EVERY", 2)
    stopping = Scripted(0.5, 0.9, 0.7, 0.8, 0.6, patience=patience)
    model = fit(network(), steps=10, ema=0.5, stopping=stopping)
    assert len(stopping.seen) == looks
    assert [same(model.state_dict(), seen) for seen in stopping.seen] == [n == 1 for n in range(looks)]


@pytest.mark.parametrize(("steps", "looks"), [(1, 1), (4, 2), (6, 3), (7, 3), (20, 3), (21, 3)])
def test_a_long_run_has_no_more_looks_than_a_few_further_apart(
    steps: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vesica.training.semi_supervised.LOOK_EVERY", 2)
    monkeypatch.setattr("vesica.training.semi_supervised.MOST_LOOKS", 3)
    model, stopping, kept = Counting(), Scripted(*range(20), patience=20), Kept()
    fit(model, steps=steps, stopping=stopping, resume=kept)
    assert kept.saved is not None
    assert len(stopping.seen) == unpack(*kept.saved)["position"] == looks
    assert len(model.passes) == 2 * steps


def test_few_rows_of_either_kind_are_enough() -> None:
    one = {"labelled": torch.tensor([0]), "labels": torch.tensor([1]), "unlabelled": torch.tensor([7])}
    for settings in (one, {"unlabelled": NONE}):
        model = fit(network(), steps=3, **settings)
        assert all(value.isfinite().all() for value in model.state_dict().values())


def test_mixed_tables_learn() -> None:
    schema = TableSchema(2, (4, 6))
    generator = torch.Generator().manual_seed(0)
    codes = torch.stack([torch.randint(2, size, (600,), generator=generator) for size in schema.categories], dim=1)
    rows = torch.cat([torch.randn(600, 2, generator=generator), codes.float()], dim=1)
    labels = codes[:, 0] - 2
    torch.manual_seed(0)
    model = nn.Sequential(TabularEncoder(schema, (16,), 8), nn.ReLU(), nn.Linear(8, 2))
    some = torch.arange(20)
    views = TableViews(schema, rows)
    unlabelled = torch.arange(20, 600)
    semi_supervised(
        model, rows, labelled=some, labels=labels[some], unlabelled=unlabelled, classes=2, views=views, steps=200
    )
    assert (model(rows).argmax(dim=1) == labels).float().mean() > 0.95


def test_images_learn() -> None:
    """Bright above or bright below, which no flip or shift changes."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(200) % 2
    images = torch.randint(120, (200, 1, 16, 8), generator=generator)
    images[labels == 0, :, :8] += 100
    images[labels == 1, :, 8:] += 100
    schema = ImageSchema(1, 16, 8, (0.5,), (0.25,))
    torch.manual_seed(0)
    model = nn.Sequential(CNN0(schema, 16), nn.Linear(16, 2))
    some = torch.arange(10)
    semi_supervised(
        model,
        images.byte(),
        labelled=some,
        labels=labels[some],
        unlabelled=torch.arange(10, 200),
        classes=2,
        views=ImageViews(),
        steps=40,
        batch_size=8,
        mu=3,
    )
    model.eval()
    assert (model(images.byte()).argmax(dim=1) == labels).float().mean() > 0.95


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"labelled": NONE, "labels": NONE}, "needs labelled rows with a label each and got 0 rows and 0 labels"),
        ({"labels": torch.zeros(3, dtype=torch.long)}, "got 4 rows and 3 labels"),
        ({"labels": torch.tensor([0, 1, 2, 1])}, r"are 0\.\.1 and these go from 0 to 2"),
        ({"threshold": "adaptiv"}, "no setting 'adaptiv'; did you mean 'adaptive'"),
        ({"align": "uniformly"}, "no setting 'uniformly'; did you mean 'uniform'"),
        ({"labelled_views": "strong"}, "no setting 'strong'"),
        ({"batch_size": 0}, "at least one row and not 0"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        fit(network(), **changes)
