"""DP-SGD: gradients row by row against a loop and against Opacus, their bound, the noise, the samples, the refusals."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2, kstest
from torch import Tensor, nn
from torch.nn import functional

from vesica.errors import InputError
from vesica.nn.models import CNN0, CNN1, MLP, NCF, Head, LinearEncoder, ResNet18, TabularEncoder
from vesica.privacy import (
    Mechanism,
    clipped_sum,
    per_sample_gradients,
    poisson_sample,
    private_gradient,
    refuse_short_tails,
    standard_normals,
)
from vesica.privacy import dp_sgd as module
from vesica.schema import ImageSchema, TableSchema

ROWS = 9
ONCE_IN = 1e9
TABLE = TableSchema(3, (4, 5, 3, 30))
CODES = TableSchema(0, (4, 5))
IMAGE = ImageSchema(1, 14, 14, (0.4,), (0.3,))
Case = tuple[nn.Module, Tensor | list[Tensor]]


class Twice(nn.Module):
    """One layer used twice, whose gradients add up before they have a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, rows: Tensor) -> Tensor:
        outputs: Tensor = self.layer(self.layer(rows).tanh())
        return outputs


class NotCalled(nn.Module):
    """Uses a layer's weight, and never the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, rows: Tensor) -> Tensor:
        outputs: Tensor = self.second(torch.tanh(nn.functional.linear(rows, self.first.weight, self.first.bias)))
        return outputs


class Folded(nn.Module):
    """Positions folded into the rows, so that what the layer is given is not row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, rows: Tensor) -> Tensor:
        outputs: Tensor = self.layer(rows.reshape(-1, 2)).view(len(rows), -1)
        return outputs


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.two.weight = self.one.weight

    def forward(self, rows: Tensor) -> Tensor:
        outputs: Tensor = self.two(self.one(rows).relu())
        return outputs


class Words(nn.Module):
    """An embedding whose codes repeat within a row, and a linear layer at every position."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.layer = nn.Embedding(3, 4), nn.Linear(4, 2, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        outputs: Tensor = self.layer(self.embedding(rows.long().clamp(0, 2)).tanh()).flatten(1)
        return outputs


def table_rows(schema: TableSchema) -> Tensor:
    codes = [torch.randint(size, (ROWS, 1)) for size in schema.categories]
    return torch.cat([torch.randn(ROWS, schema.numeric), *codes], dim=1).double()


def frozen_first(model: nn.Sequential) -> nn.Sequential:
    model[0].requires_grad_(False)
    return model


def with_computed_weight() -> nn.Linear:
    """A layer that makes its weight, before each call, from parameters of other names."""
    layer = nn.Linear(4, 4)
    del layer.weight
    layer.register_parameter("root", nn.Parameter(torch.randn(4, 4)))
    layer.weight = torch.zeros(4, 4)  # type: ignore[assignment]
    layer.register_forward_pre_hook(lambda module, _: setattr(module, "weight", 2 * module.root))
    return layer


def images() -> Tensor:
    return torch.randint(256, (ROWS, 1, 14, 14), dtype=torch.uint8)


def numbers(width: int) -> Tensor:
    return torch.randn(ROWS, width, dtype=torch.float64)


CASES: dict[str, Callable[[], Case]] = {
    "mlp": lambda: (MLP(5, (7, 6), 3), numbers(5)),
    "mlp with tanh": lambda: (MLP(5, (7,), 3, activation=nn.Tanh()), numbers(5)),
    "tabular": lambda: (TabularEncoder(TABLE, (6,), 3), table_rows(TABLE)),
    "linear on a table": lambda: (LinearEncoder(TABLE, 3), table_rows(TABLE)),
    "linear on images": lambda: (LinearEncoder(IMAGE, 3), images()),
    "ncf": lambda: (NCF(CODES, (3, 2), (4,), 1), table_rows(CODES)),
    "cnn1": lambda: (CNN1(IMAGE, 4), images()),
    "cnn0": lambda: (CNN0(IMAGE, 4).eval(), images()),
    "head": lambda: (Head({"a": 2, "b": 3}, 2, hidden=(4,)), [numbers(2), numbers(3)]),
    "overwriting": lambda: (nn.Sequential(nn.Linear(5, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)), numbers(5)),
    "overwriting inside": lambda: (
        nn.Sequential(nn.Linear(5, 4), nn.ELU(inplace=True), nn.Linear(4, 2, bias=False)),
        numbers(5),
    ),
    "strided convolution": lambda: (
        nn.Sequential(nn.Conv2d(1, 2, (3, 5), stride=(2, 3), padding=(1, 0), bias=False), nn.Flatten()),
        torch.randn(ROWS, 1, 7, 9, dtype=torch.float64),
    ),
    "dilated": lambda: (
        nn.Sequential(nn.Conv2d(2, 2, 3, dilation=2, padding="same"), nn.Conv2d(2, 4, 3, groups=2), nn.Flatten()),
        torch.randn(ROWS, 2, 6, 6, dtype=torch.float64),
    ),
    "group norm": lambda: (nn.Sequential(nn.Linear(4, 4), nn.GroupNorm(2, 4), nn.Linear(4, 2)), numbers(4)),
    "frozen": lambda: (frozen_first(MLP(5, (4,), 2)), numbers(5)),
    "computed weight": lambda: (nn.Sequential(with_computed_weight(), nn.ReLU(), nn.Linear(4, 2)), numbers(4)),
    "used twice": lambda: (Twice(), numbers(4)),
    "tied": lambda: (Tied(), numbers(4)),
    "folded": lambda: (Folded(), numbers(4)),
    "not called": lambda: (NotCalled(), numbers(4)),
    "words": lambda: (Words(), torch.randint(3, (ROWS, 6))),
}


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().sum(1)


def case(name: str) -> tuple[nn.Module, Tensor | list[Tensor], Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, inputs = CASES[name]()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))  # also where it starts at zero
        model = model.double()
        return model, inputs, torch.randn_like(model(inputs).detach())


def some(inputs: Tensor | list[Tensor], rows: list[int]) -> Tensor | list[Tensor]:
    return inputs[rows] if isinstance(inputs, Tensor) else [part[rows] for part in inputs]


def by_loop(model: nn.Module, inputs: Tensor | list[Tensor], targets: Tensor) -> list[list[Tensor]]:
    """Each row's gradients, by one backward pass a row."""
    parameters = [each for each in model.parameters() if each.requires_grad]
    return [
        list(torch.autograd.grad(loss(model(some(inputs, [row])), targets[[row]]).sum(), parameters))
        for row in range(len(targets))
    ]


def flat(parts: object) -> Tensor:
    return torch.cat([part.flatten() for part in parts])  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", CASES)
def test_the_gradients_of_rows_are_those_of_a_loop(name: str) -> None:
    model, inputs, targets = case(name)
    found = per_sample_gradients(model, inputs, targets, loss=loss)
    for row, gradients in enumerate(by_loop(model, inputs, targets)):
        torch.testing.assert_close([each[row] for each in found.values()], gradients)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("quantile", [0.0, 0.5, 1.0])
def test_the_clipped_sum_is_that_of_a_loop(name: str, quantile: float) -> None:
    model, inputs, targets = case(name)
    rows = torch.stack([flat(gradients) for gradients in by_loop(model, inputs, targets)])
    norms = rows.norm(dim=1)
    clip = float(norms.quantile(quantile))
    expected = (rows * (clip / norms).clamp(max=1)[:, None]).sum(0)
    found = clipped_sum(model, inputs, targets, loss=loss, clip=clip)
    assert list(map(id, found)) == [id(each) for each in model.parameters() if each.requires_grad]
    torch.testing.assert_close(flat(found.values()), expected, rtol=1e-7, atol=1e-9)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_our_networks_need_no_gradient_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("a gradient of a row was computed")

    monkeypatch.setattr(module, "per_sample_gradients", refuse)
    for name in ("mlp", "tabular", "linear on a table", "linear on images", "ncf", "cnn1", "cnn0", "head"):
        model, inputs, targets = case(name)
        clipped_sum(model, inputs, targets, loss=loss, clip=1.0)
    model, inputs, targets = case("group norm")
    with pytest.raises(AssertionError, match="a gradient of a row"):
        clipped_sum(model, inputs, targets, loss=loss, clip=1.0)


@pytest.mark.parametrize("name", ["group norm", "used twice", "folded"])
def test_chunks_of_rows_add_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs, targets = case(name)
    whole = clipped_sum(model, inputs, targets, loss=loss, clip=0.5)
    monkeypatch.setattr(module, "_CHUNK", 4)
    torch.testing.assert_close(clipped_sum(model, inputs, targets, loss=loss, clip=0.5), whole)


@pytest.mark.parametrize("name", CASES)
@given(
    rows=st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=ROWS, unique=True),
    clip=st.floats(1e-3, 1e3),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    single=st.booleans(),
)
@settings(max_examples=12, deadline=None)
def test_removing_a_record_moves_the_sum_by_no_more_than_the_clip(
    name: str, rows: list[int], clip: float, scale: float, single: bool
) -> None:
    model, inputs, targets = case(name)
    if single:
        model, targets = model.float(), targets.float()
        inputs = inputs if isinstance(inputs, Tensor) else [part.float() for part in inputs]
        inputs = inputs.float() if isinstance(inputs, Tensor) and inputs.is_floating_point() else inputs
    targets = targets * scale
    with_it = clipped_sum(model, some(inputs, rows), targets[rows], loss=loss, clip=clip)
    without = clipped_sum(model, some(inputs, rows[1:]), targets[rows[1:]], loss=loss, clip=clip)
    moved = flat(with_it.values()).double() - flat(without.values()).double()
    assert moved.norm() <= clip * (1 + 1e-5 * len(rows))
    alone = clipped_sum(model, some(inputs, rows[:1]), targets[rows[:1]], loss=loss, clip=clip)
    assert flat(alone.values()).double().norm() <= clip * (1 + 1e-5)


def test_a_norm_that_is_left_after_cancelling_is_not_missed() -> None:
    """Two positions whose gradients almost cancel: a Gram matrix in float32 would see a norm of zero, or less."""
    layer = nn.Conv2d(1, 8, 1, bias=False)
    images = torch.tensor([[[[1000.0, -999.99]]]])
    model = nn.Sequential(layer, nn.Flatten())
    rows = torch.ones(1, 16)
    found = clipped_sum(model, images, rows, loss=lambda outputs, ones: (outputs * ones).sum(1), clip=1e-3)
    assert flat(found.values()).norm() == pytest.approx(1e-3, rel=0.05)


@pytest.mark.filterwarnings("ignore")  # of torch, at Opacus' hooks
@pytest.mark.parametrize("name", ["mlp", "mlp with tanh", "tabular", "cnn1", "group norm"])
def test_the_clipped_sum_is_that_of_opacus(name: str) -> None:
    from opacus import GradSampleModule

    model, inputs, targets = case(name)
    found = clipped_sum(model, inputs, targets, loss=loss, clip=0.7)
    wrapped = GradSampleModule(model, loss_reduction="sum")
    loss(wrapped(inputs), targets).sum().backward()
    rows = torch.cat([parameter.grad_sample.flatten(1) for parameter in model.parameters()], dim=1)
    expected = (rows * (0.7 / rows.norm(dim=1)).clamp(max=1)[:, None]).sum(0)
    torch.testing.assert_close(flat(found.values()), expected, rtol=1e-7, atol=1e-9)


def test_the_gradient_is_the_sum_and_the_noise_over_the_rows_expected() -> None:
    model, inputs, targets = case("cnn1")
    fixed = bytes(i * 37 % 256 for i in range(8 * 4000))
    sums = clipped_sum(model, inputs, targets, loss=loss, clip=0.5)
    size = len(flat(sums.values()))
    give = lambda count: (fixed * 20)[:count]  # noqa: E731
    private_gradient(model, inputs, targets, loss=loss, clip=0.5, noise=3.0, expected_rows=20.0, entropy=give)
    noise = standard_normals(size, entropy=give).double()
    found = flat(parameter.grad for parameter in model.parameters())
    torch.testing.assert_close(found, (flat(sums.values()) + 1.5 * noise) / 20)
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def test_without_noise_it_is_the_clipped_mean() -> None:
    model, inputs, targets = case("mlp")
    private_gradient(model, inputs, targets, loss=loss, clip=1e6, noise=0.0, expected_rows=ROWS)
    found = flat(parameter.grad for parameter in model.parameters())
    model.zero_grad()
    loss(model(inputs), targets).mean().backward()
    torch.testing.assert_close(found, flat(parameter.grad for parameter in model.parameters()))


@pytest.mark.parametrize("name", ["mlp", "cnn1", "group norm"])
def test_an_empty_batch_is_pure_noise(name: str) -> None:
    model, inputs, targets = case(name)
    assert not flat(clipped_sum(model, some(inputs, []), targets[:0], loss=loss, clip=1.0).values()).any()
    private_gradient(model, some(inputs, []), targets[:0], loss=loss, clip=1.0, noise=1.0, expected_rows=4.0)
    noise = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert flat(noise).count_nonzero() >= len(flat(noise)) - 3  # a draw of exactly 0 is rare, not impossible
    assert all(grad.any() for grad in noise)


def test_the_noise_on_every_parameter_has_the_promised_deviation() -> None:
    model = MLP(200, (300,), 200)
    private_gradient(
        model, torch.zeros(0, 200), torch.zeros(0, 200), loss=loss, clip=0.5, noise=3.0, expected_rows=10.0
    )
    for parameter in model.parameters():
        assert parameter.grad is not None
        standard = parameter.grad.double().flatten() * 10 / 1.5
        total, count = float(standard.square().sum()), len(standard)
        # Two tails of four parameters, together once in 1e9.
        assert chi2.ppf(1 / ONCE_IN / 8, count) < total < chi2.isf(1 / ONCE_IN / 8, count)
        assert kstest(standard.numpy(), "norm").pvalue > 1 / ONCE_IN / 4


def test_the_draws_of_a_pair_are_normal_and_go_far() -> None:
    draws = standard_normals(400_001).double()
    assert len(draws) == 400_001
    assert kstest(draws.numpy(), "norm").pvalue > 1 / ONCE_IN
    pairs = torch.stack([draws[:200_000], draws[200_001:]], dim=1)
    bound = 7.5 / math.sqrt(len(pairs))
    assert abs(float((pairs[:, 0] * pairs[:, 1]).mean())) < bound
    assert abs(float((pairs[:, 0].square() * pairs[:, 1].square()).mean()) - 1) < 8 * bound
    assert standard_normals(2, entropy=lambda count: b"\xff" * count).isfinite().all()


def radius(place: int, finer: bytes) -> float:
    """That of a pair whose first 40 bits are these, at angle 0."""
    given = iter([(place << 24).to_bytes(8, "little"), finer])
    return float(standard_normals(2, entropy=lambda count: next(given))[0])


def test_the_tails_of_the_noise_go_on_where_40_bits_end() -> None:
    """Each draw takes over where the one before it ends: none is left out, none has two."""
    low, high = bytes(16), b"\xff" * 16
    assert radius(0, low) == pytest.approx(math.sqrt(2 * math.log(2.0**169)), rel=1e-6)
    for place in (0, 1, 2**16 - 2):
        assert radius(place, high) == pytest.approx(radius(place + 1, low), rel=1e-6)
        assert radius(place, high) == pytest.approx(math.sqrt(2 * math.log(2.0**40 / (place + 1))), rel=1e-6)
    half = bytes(7) + b"\x80" + bytes(8)
    assert radius(2**16 - 1, half) == pytest.approx(math.sqrt(2 * math.log(2.0**40 / (2**16 - 0.5))), rel=1e-6)
    assert radius(2**16, b"asked for nothing") == pytest.approx(
        math.sqrt(2 * math.log(2.0**40 / (2**16 + 0.5))), rel=1e-6
    )


def test_noise_that_needs_longer_tails_is_refused() -> None:
    usual = [Mechanism(0.5, 0.01, 20_000)] * 200
    refuse_short_tails(usual, 1e-8)
    refuse_short_tails([*usual, Mechanism(0.01, 0.0, 100), Mechanism(0.01, 0.5, 0)], 1e-8)  # which never happen
    with pytest.raises(InputError, match=r"noise of 0\.1 times the clip needs longer tails at delta 1e-08"):
        refuse_short_tails([*usual, Mechanism(0.1, 0.01, 1)], 1e-8)
    with pytest.raises(InputError, match="give a smaller epsilon"):
        refuse_short_tails([Mechanism(0.01, 1.0, 1)], 0.5)  # a record lies beyond all that is drawn without it


@pytest.mark.parametrize("steps", [1, 1000])
def test_what_is_refused_covers_the_chance_to_be_out_of_reach(steps: int) -> None:
    """The largest shift that passes: a pair moved by all of it, and a million pairs by a thousandth each."""
    longest = module._LONGEST
    apart = max(shift for shift in torch.arange(1, 15, 0.01).tolist() if passes(Mechanism(1 / shift, 0.1, steps)))
    assert apart > 5
    one_pair = math.exp(-((longest - apart) ** 2) / 2)
    many = 1e6 * (math.exp(-((longest - apart / 1000) ** 2) / 2) - math.exp(-(longest**2) / 2))
    assert steps * max(one_pair, many) < 0.01 * 1e-5


def passes(mechanism: Mechanism) -> bool:
    try:
        refuse_short_tails([mechanism], 1e-5)
    except InputError:
        return False
    return True


def test_a_row_is_sampled_with_its_probability_independently() -> None:
    rows, sampling, times = 1000, 0.03, 300
    samples = [poisson_sample(rows, sampling) for _ in range(times)]
    assert all(bool((sample.diff() > 0).all()) and int(sample.max()) < rows for sample in samples)
    total = sum(map(len, samples))
    alarm = 1 / ONCE_IN / 4
    assert binom.ppf(alarm, rows * times, sampling) <= total <= binom.isf(alarm, rows * times, sampling)
    spread = sum((len(sample) - rows * sampling) ** 2 for sample in samples) / (rows * sampling * (1 - sampling))
    assert chi2.ppf(alarm, times) < spread < 1.2 * chi2.isf(alarm, times)  # of a fixed size it would be 0
    first = sum(0 in sample.tolist() for sample in samples)
    assert binom.ppf(alarm, times, sampling) <= first <= binom.isf(alarm, times, sampling)


def test_nobody_is_sampled_with_probability_0_and_everybody_with_1() -> None:
    assert len(poisson_sample(5000, 0.0)) == 0
    assert poisson_sample(5000, 1.0).tolist() == list(range(5000))
    assert len(poisson_sample(0, 0.5)) == 0
    half = 2**31
    words = b"".join(each.to_bytes(4, "little") for each in (0, half - 1, half, 2**32 - 1))
    assert poisson_sample(4, 0.5, entropy=lambda count: words[:count]).tolist() == [0, 1]


def test_noise_and_samples_are_not_those_of_a_seed() -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    one, other = standard_normals(100), standard_normals(100)
    assert not torch.equal(one, other)
    assert not torch.equal(poisson_sample(500, 0.5), poisson_sample(500, 0.5))
    assert torch.equal(torch.get_rng_state(), state)


def test_batch_norm_is_refused() -> None:
    schema = ImageSchema(1, 14, 14, (0.5,), (0.5,))
    model = ResNet18(channels=schema.channels)
    with pytest.raises(InputError, match="is a BatchNorm2d and mixes rows: leave it out for DP-SGD"):
        clipped_sum(model, torch.zeros(2, 1, 14, 14), torch.zeros(2, 512), loss=loss, clip=1.0)
    with pytest.raises(InputError, match="layer '0' is a BatchNorm1d"):
        clipped_sum(nn.Sequential(nn.BatchNorm1d(3)), torch.zeros(0, 3), torch.zeros(0, 3), loss=loss, clip=1.0)


@pytest.mark.parametrize("name", ["mlp", "tabular", "group norm"])
def test_a_loss_over_all_rows_is_refused(name: str) -> None:
    model, inputs, targets = case(name)
    with pytest.raises(InputError, match="one value a row, and got"):
        clipped_sum(model, inputs, targets, loss=functional.mse_loss, clip=1.0)


@pytest.mark.parametrize("name", ["mlp", "tabular", "group norm"])
def test_a_gradient_that_is_not_finite_is_refused(name: str) -> None:
    model, inputs, targets = case(name)
    targets[3] = math.inf
    with pytest.raises(InputError, match="the gradient of a row is not finite"):
        clipped_sum(model, inputs, targets, loss=loss, clip=1.0)


@pytest.mark.parametrize(
    ("clip", "noise", "expected"), [(0.0, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, 0.0), (math.nan, 1.0, 1.0)]
)
def test_settings_that_cannot_be_are_refused(clip: float, noise: float, expected: float) -> None:
    model, inputs, targets = case("mlp")
    with pytest.raises(InputError, match="DP-SGD needs a positive clip"):
        private_gradient(model, inputs, targets, loss=loss, clip=clip, noise=noise, expected_rows=expected)


def test_a_model_with_nothing_to_train_is_refused() -> None:
    with pytest.raises(InputError, match="no parameter to train"):
        clipped_sum(nn.Identity(), torch.zeros(2, 3), torch.zeros(2, 3), loss=loss, clip=1.0)
    with pytest.raises(InputError, match="the sampling probability is 2"):
        poisson_sample(3, 2)
