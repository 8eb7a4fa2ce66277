"""Several parties' networks trained as one: each comes to what it comes to alone."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from vesica.nn.models import CNN0, MLP, LinearEncoder, TabularEncoder, WideResNet
from vesica.schema import ImageSchema, TableSchema
from vesica.training import unsupervised
from vesica.training.draws import Draws
from vesica.training.lesson import Lesson, Schedule
from vesica.training.resume import Stateful, Straight
from vesica.training.stacked import Stack, shape_of
from vesica.training.unsupervised import learn, noise_as_targets

QUADRANT = ImageSchema(1, 8, 8, (0.4,), (0.3,))
CATEGORIES = TableSchema(2, (3, 5, 4))
SETTINGS = {"epochs": 4, "frequency": 2, "batch_size": 16, "learning_rate": 0.01, "weight_decay": 1e-3}
Guest = tuple[nn.Module, Tensor]


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    """So that rounding does not turn an assignment over."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def numbers(guest: int) -> Guest:
    return MLP(5, (8, 6), 2), torch.randn(50, 5)


def numbers_with_dropout(guest: int) -> Guest:
    return MLP(5, (8, 6), 2, dropout=0.2), torch.randn(50, 5)


def categories(guest: int) -> Guest:
    """Sizes in another order make the same tables with other offsets."""
    sizes = ((3, 5, 4), (5, 3, 4), (3, 4, 5))[guest]
    codes = torch.stack([torch.randint(size, (50,)) for size in sizes], dim=1)
    encoder = TabularEncoder(TableSchema(2, sizes), (8,), 2, embedding_dim=3, dropout=0.3)
    return encoder, torch.cat([torch.randn(50, 2), codes], dim=1)


def linear(guest: int) -> Guest:
    codes = torch.stack([torch.randint(size, (50,)) for size in CATEGORIES.categories], dim=1)
    return LinearEncoder(CATEGORIES, 2), torch.cat([torch.randn(50, 2), codes], dim=1)


def images(guest: int) -> Guest:
    """Each guest standardises in its own way."""
    schema = ImageSchema(1, 8, 8, (0.1 * guest,), (0.3,))
    return CNN0(schema, 2), torch.randint(256, (40, 1, 8, 8), dtype=torch.uint8)


def batch_norm(guest: int) -> Guest:
    return WideResNet(10, 1, channels=1, outputs=2), torch.rand(34, 1, 8, 8)


MAKERS = [numbers, numbers_with_dropout, categories, linear, images]


def make(maker: Callable[[int], Guest], guest: int) -> Guest:
    torch.manual_seed(guest)
    return maker(guest)


def alone(
    maker: Callable[[int], Guest], guests: int, view: Callable[[Tensor], Tensor] | None = None
) -> list[dict[str, Tensor]]:
    """Every guest's weights in the end, and what it would draw next."""
    found = []
    for guest in range(guests):
        encoder, inputs = make(maker, guest)
        noise_as_targets(encoder, inputs, dim=2, view=view, **SETTINGS)
        found.append({**encoder.state_dict(), "next draw": torch.rand(3)})
    return found


def together(
    maker: Callable[[int], Guest], guests: int, view: Callable[[Tensor], Tensor] | None = None
) -> list[dict[str, Tensor]]:
    lessons = [prepare(*make(maker, guest), view=view) for guest in range(guests)]
    torch.manual_seed(99)  # nobody's
    learn(lessons)
    found = []
    for lesson in lessons:
        with lesson.draws:
            found.append({**lesson.encoder.state_dict(), "next draw": torch.rand(3)})
    return found


def prepare(encoder: nn.Module, inputs: Tensor, *, view=None, resume=None) -> Lesson:
    return Lesson(encoder, inputs, dim=2, view=view, schedule=Schedule(**SETTINGS), resume=resume or Straight())


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many were trained as one, each time that some were."""
    sizes: list[int] = []
    stacked = unsupervised.StackedLessons
    monkeypatch.setattr(unsupervised, "StackedLessons", lambda lessons: sizes.append(len(lessons)) or stacked(lessons))
    return sizes


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_every_guest_comes_to_what_it_comes_to_alone(maker: Callable[[int], Guest], groups: list[int]) -> None:
    expected = alone(maker, 3)
    assert groups == []
    for own, other in zip(together(maker, 3), expected, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-6, atol=1e-8)
    assert groups == [3]


def test_deep_networks_of_images_train_one_after_the_other(groups: list[int]) -> None:
    for own, other in zip(together(batch_norm, 2), alone(batch_norm, 2), strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=0)
    assert groups == []


def test_guests_that_augment_draw_their_own_views(groups: list[int]) -> None:
    def noisy(rows: Tensor) -> Tensor:
        return rows + torch.randn(rows.shape, dtype=rows.dtype)

    for own, other in zip(together(numbers_with_dropout, 3, noisy), alone(numbers_with_dropout, 3, noisy), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-6, atol=1e-8)
    assert groups == [3]


def test_only_those_that_are_alike_are_taken_as_one(groups: list[int]) -> None:
    def several(guest: int) -> Guest:
        width = (5, 7, 5, 9)[guest]
        return MLP(width, (8,), 2), torch.randn(50, width)

    for own, other in zip(together(several, 4), alone(several, 4), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-6, atol=1e-8)
    assert groups == [2]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (MLP(3, (4,), 2), MLP(3, (4,), 2, activation=nn.Tanh())),
        (MLP(3, (4,), 2, dropout=0.1), MLP(3, (4,), 2, dropout=0.2)),
        (MLP(3, (4,), 2), MLP(4, (4,), 2)),
        (MLP(3, (4,), 2), MLP(3, (4,), 2).half()),
    ],
)
def test_networks_that_differ_in_anything_are_not_alike(one: nn.Module, other: nn.Module) -> None:
    assert shape_of(one) != shape_of(other)
    assert shape_of(one) == shape_of(copy.deepcopy(one))


def test_weights_are_a_networks_own_again_in_the_end() -> None:
    """Whoever goes on training one must not change another."""
    lessons = [prepare(*make(numbers, guest)) for guest in range(2)]
    learn(lessons)
    one, two = (lesson.encoder for lesson in lessons)
    before = copy.deepcopy(two.state_dict())
    with torch.no_grad():
        for weight in (*one.parameters(), *one.buffers()):
            assert weight.untyped_storage().nbytes() == weight.nbytes
            weight.zero_()
    torch.testing.assert_close(two.state_dict(), before, rtol=0, atol=0)


def test_a_stack_gives_every_networks_own_outputs() -> None:
    networks = [make(categories, guest) for guest in range(3)]
    expected = [network.eval()(rows) for network, rows in networks]
    stack = Stack([network.train() for network, _ in networks], [Draws()] * 3, networks[0][1][:1])
    stack._dropouts.clear()
    stack._template.eval()
    torch.testing.assert_close(stack(torch.stack([rows for _, rows in networks])), torch.stack(expected))


class Kept:
    """Keeps a copy of the state after each epoch, and starts from a given one."""

    def __init__(self, start: tuple[int, Mapping[str, Any], Tensor] | None = None) -> None:
        self.start = start
        self.states: list[tuple[int, Mapping[str, Any], Tensor]] = []

    def steps(self, total: int, parts: Mapping[str, Stateful]) -> Iterator[int]:
        first = 0
        if self.start is not None:
            first, states, random = self.start
            for name, part in parts.items():
                part.load_state_dict(copy.deepcopy(states[name]))
            torch.set_rng_state(random)
        for epoch in range(first, total):
            yield epoch
            states = {name: copy.deepcopy(part.state_dict()) for name, part in parts.items()}
            self.states.append((epoch + 1, states, torch.get_rng_state()))


def resumed(maker: Callable[[int], Guest], starts: Sequence[Any]) -> list[dict[str, Tensor]]:
    lessons = [prepare(*make(maker, guest), resume=Kept(start)) for guest, start in enumerate(starts)]
    learn(lessons)
    return [dict(lesson.encoder.state_dict()) for lesson in lessons]


@pytest.mark.parametrize(
    ("epochs", "expected_groups"),
    [((1, 1, 1), [3]), ((3, 2, 3), [2]), ((4, 3, 3), [2]), ((4, 4, 4), [])],
    ids=["all alike", "killed between two checkpoints", "one has ended", "all have ended"],
)
@pytest.mark.parametrize("maker", [numbers_with_dropout, images], ids=lambda maker: maker.__name__)
def test_each_guest_goes_on_from_its_own_checkpoint(
    maker: Callable[[int], Guest], epochs: tuple[int, ...], expected_groups: list[int], groups: list[int]
) -> None:
    whole = [Kept() for _ in range(3)]
    lessons = [prepare(*make(maker, guest), resume=kept) for guest, kept in enumerate(whole)]
    learn(lessons)
    groups.clear()
    starts = [kept.states[epoch - 1] for kept, epoch in zip(whole, epochs, strict=True)]
    for lesson, own in zip(lessons, resumed(maker, starts), strict=True):
        torch.testing.assert_close(own, dict(lesson.encoder.state_dict()), rtol=1e-6, atol=1e-8)
    assert groups == expected_groups


def test_a_checkpoint_made_together_is_the_one_made_alone() -> None:
    """So that it does not matter, later, in what company a run goes on."""
    kept = [Kept(), Kept()]
    learn([prepare(*make(numbers, guest), resume=each) for guest, each in enumerate(kept)])
    lonely = [Kept(), Kept()]
    for guest, each in enumerate(lonely):
        learn([prepare(*make(numbers, guest), resume=each)])
    for one, other in zip(kept, lonely, strict=True):
        for (_, states, random), (_, expected, as_drawn) in zip(one.states, other.states, strict=True):
            torch.testing.assert_close(states, expected, rtol=1e-6, atol=1e-8)
            assert torch.equal(random, as_drawn)


def test_nothing_is_drawn_from_the_random_numbers_of_whoever_does_the_work() -> None:
    lessons = [prepare(*make(numbers_with_dropout, guest)) for guest in range(2)]
    torch.manual_seed(5)
    learn(lessons)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(3))
