"""Labels from a party's own encoder."""

import copy

import numpy as np
import pytest
import torch
from scipy.stats import beta, binomtest
from torch import Tensor, nn
from torch.nn import functional

from vesica.attacks.completion import Completion, MixMatch, Style, draw_known, mixed, pretrained_at_home
from vesica.errors import InputError
from vesica.nn.models import MLP, EncoderSpec, TabularEncoder
from vesica.schema import ImageSchema, TableSchema

ROWS, COLUMNS, DIM = 500, 200, 16
SCHEMA = TableSchema(COLUMNS)
STYLES: tuple[Style, ...] = ("plain", "mixmatch")


def table() -> tuple[Tensor, Tensor]:
    """Rows and labels that have nothing to do with them: only who was told the labels can know any."""
    generator = torch.Generator().manual_seed(2)
    return torch.randn(ROWS, COLUMNS, generator=generator), torch.randperm(ROWS, generator=generator) % 2


class Constant(nn.Module):
    """Says the same of every row."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, rows: Tensor) -> Tensor:
        return self.logits.expand(len(rows), -1)


def fresh() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(MLP(COLUMNS, (256,), DIM), nn.BatchNorm1d(DIM))


@pytest.fixture(scope="module")
def told() -> nn.Module:
    """An encoder that has learned the labels by heart, as one trained across parties can."""
    rows, labels = table()
    encoder, head = fresh(), nn.Linear(DIM, 2)
    optimiser = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)
    for _ in range(30):
        optimiser.zero_grad()
        functional.cross_entropy(head(encoder(rows)), labels).backward()
        optimiser.step()
    return encoder


def attack(encoder: nn.Module, *, style: Style = "plain", seed: int = 0, **settings) -> Tensor:
    rows, labels = table()
    known = draw_known(labels, 80, generator=np.random.default_rng(seed))
    torch.manual_seed(seed)
    return Completion(style=style, steps=100, **settings).guess(
        encoder, rows, known=known, labels=labels[known], classes=2, schema=SCHEMA
    )


def right(guess: Tensor) -> tuple[int, int]:
    """How many of the rows that were not known, and of how many."""
    _, labels = table()
    hidden = torch.ones(ROWS, dtype=torch.bool)
    hidden[draw_known(labels, 80, generator=np.random.default_rng(0))] = False
    return int((guess.argmax(dim=1) == labels)[hidden].sum()), int(hidden.sum())


@pytest.mark.parametrize("style", STYLES)
def test_an_encoder_that_was_told_the_labels_gives_them_away(style: Style, told: nn.Module) -> None:
    hits, trials = right(attack(told, style=style))
    assert binomtest(hits, trials).proportion_ci(0.999).low > 0.7


@pytest.mark.parametrize("style", STYLES)
def test_a_fresh_encoder_guesses_no_better_than_chance(style: Style) -> None:
    hits, trials = right(attack(fresh(), style=style))
    low, high = binomtest(hits, trials).proportion_ci(0.999)
    assert low < 0.5 < high


@pytest.mark.parametrize("style", STYLES)
def test_the_encoder_stays_as_it_is(style: Style, told: nn.Module) -> None:
    encoder = copy.deepcopy(told).eval().requires_grad_(False)
    before = copy.deepcopy(encoder.state_dict())
    attack(encoder, style=style, epochs=1)
    assert all(torch.equal(value, encoder.state_dict()[name]) for name, value in before.items())
    assert not any(module.training for module in encoder.modules())
    assert not any(weight.requires_grad for weight in encoder.parameters())


def test_the_whole_encoder_is_tuned_whatever_state_it_comes_in(told: nn.Module) -> None:
    frozen = copy.deepcopy(told).eval().requires_grad_(False)
    assert torch.equal(attack(frozen), attack(told))
    rows, labels = table()
    narrow = MLP(COLUMNS, (64,), 1).requires_grad_(False)  # a head alone cannot tell random labels on a line
    known = torch.arange(20)
    guess = Completion("plain", epochs=60).guess(
        narrow, rows, known=known, labels=labels[:20], classes=2, schema=SCHEMA
    )
    assert torch.equal(guess[:20].argmax(dim=1), labels[:20])


@pytest.mark.parametrize("style", STYLES)
def test_a_guess_is_of_probabilities_and_repeats_by_its_seed(style: Style, told: nn.Module) -> None:
    guess = attack(told, style=style)
    assert guess.shape == (ROWS, 2)
    torch.testing.assert_close(guess.sum(dim=1), torch.ones(ROWS))
    assert (guess >= 0).all()
    assert not guess.requires_grad
    assert torch.equal(guess, attack(told, style=style))
    assert not torch.equal(guess, attack(told, style=style, seed=1))


def test_the_other_rows_help_mixmatch() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(600) % 2
    rows = torch.randn(600, 20, generator=generator) + 0.6 * (2 * labels[:, None] - 1)

    def score(lambda_u: float, seed: int) -> float:
        known = torch.tensor([2 * seed, 2 * seed + 1])
        torch.manual_seed(seed)
        encoder = MLP(20, (32,), DIM)
        attack = Completion(style="mixmatch", steps=150, lambda_u=lambda_u, temperature=0.5)
        guess = attack.guess(encoder, rows, known=known, labels=labels[known], classes=2, schema=TableSchema(20))
        return (guess.argmax(dim=1) == labels).double().mean().item()

    assert sum(score(50, seed) for seed in range(3)) / 3 > sum(score(0, seed) for seed in range(3)) / 3 + 0.01


def test_the_losses_of_mixmatch_are_those_of_its_formula() -> None:
    """All rows are alike, so that only the labels are mixed: in expectation, what the Beta distribution says."""
    rows, logits, temperature = torch.ones(60_000, 3), torch.tensor([0.3, -0.4, 0.9]), 0.5
    torch.manual_seed(0)
    mixmatch = MixMatch(rows, TableSchema(3), temperature=temperature)
    labels = torch.full((len(rows),), 1)
    model = Constant(logits)
    supervised, unsupervised = (loss.item() for loss in mixmatch.losses(model, torch.arange(len(rows)), labels))
    said = logits.softmax(dim=0).double().numpy()
    sharp = said**2 / (said**2).sum()
    truth = np.array([0.0, 1.0, 0.0])
    minor = [beta(0.75, 0.75).expect(lambda share, power=power: min(share, 1 - share) ** power) for power in (1, 2)]
    known, other = 1 / 3, 2 / 3  # of the rows that one is mixed with
    target = truth + other * minor[0] * (sharp - truth)
    squares = (said - sharp) ** 2 - 2 * (said - sharp) * (truth - sharp) * known * minor[0]
    squares += (truth - sharp) ** 2 * known * minor[1]
    assert supervised == pytest.approx(-(target * np.log(said)).sum(), rel=0.01)
    assert unsupervised == pytest.approx(squares.mean(), rel=0.02)


def test_mixmatch_guesses_with_averaged_weights(told: nn.Module) -> None:
    assert not torch.equal(attack(told, style="mixmatch", ema=0.0), attack(told, style="mixmatch", ema=0.999))


def test_a_mixed_row_is_mostly_itself_and_its_codes_are_real() -> None:
    torch.manual_seed(0)
    schema = TableSchema(2, (9, 9))
    rows, others = torch.full((4000, 4), 2.0), torch.full((4000, 4), 7.0)
    mix = mixed(rows, others, share=torch.full((4000,), 0.8), schema=schema)
    assert mix[:, :2].allclose(torch.tensor(3.0))
    assert mix[:, 2:].unique().tolist() == [2, 7]
    low, high = binomtest(int((mix[:, 2:] == 2).sum()), 8000).proportion_ci(0.999)
    assert low < 0.8 < high


def test_an_image_is_mixed_with_one_share() -> None:
    rows, others = torch.zeros(2, 1, 3, 3), torch.ones(2, 1, 3, 3)
    mix = mixed(rows, others, share=torch.tensor([1.0, 0.5]), schema=ImageSchema(1, 3, 3, (0.5,), (0.5,)))
    assert mix.flatten(1).unique(dim=1).tolist() == [[0.0], [0.5]]


@pytest.mark.parametrize("style", STYLES)
def test_categories_and_images_can_be_attacked(style: Style) -> None:
    torch.manual_seed(0)
    known, labels = torch.arange(6), torch.arange(6) % 3
    attack = Completion(style=style, epochs=2, steps=2, batch_size=4)
    mixed_table = TableSchema(2, (5, 7))
    rows = torch.cat([torch.randn(30, 2), torch.randint(5, (30, 2))], dim=1)
    encoder: nn.Module = TabularEncoder(mixed_table, (8,), 4)
    guess = attack.guess(encoder, rows, known=known, labels=labels, classes=3, schema=mixed_table)
    assert guess.shape == (30, 3)
    picture = ImageSchema(3, 8, 8, (0.5,) * 3, (0.2,) * 3)
    images = torch.randint(256, (30, 3, 8, 8), dtype=torch.uint8)
    encoder = EncoderSpec.choose("cnn", picture, dim=4).build()
    guess = attack.guess(encoder, images, known=known, labels=labels, classes=3, schema=picture)
    assert guess.shape == (30, 3)


def test_the_known_rows_have_the_shares_of_the_classes_and_none_is_left_out() -> None:
    labels = torch.tensor([0] * 900 + [1] * 97 + [2] * 3)[torch.randperm(1000, generator=torch.Generator())]
    known = draw_known(labels, 20, generator=np.random.default_rng(0))
    assert labels[known].bincount().tolist() == [18, 1, 1]
    assert known.tolist() == sorted(set(known.tolist()))
    assert torch.equal(known, draw_known(labels, 20, generator=np.random.default_rng(0)))
    assert not torch.equal(known, draw_known(labels, 20, generator=np.random.default_rng(1)))
    assert draw_known(labels, 1000, generator=np.random.default_rng(0)).tolist() == list(range(1000))


@pytest.mark.parametrize("count", [2, 1001])
def test_too_few_or_too_many_known_rows_are_refused(count: int) -> None:
    with pytest.raises(InputError, match="from 3 to 1000"):
        draw_known(torch.arange(1000) % 3, count, generator=np.random.default_rng(0))


def test_an_encoder_trained_at_home_brings_rows_of_a_kind_together() -> None:
    generator = torch.Generator().manual_seed(0)
    kinds = torch.arange(400) % 4
    rows = torch.randn(4, 12, generator=generator)[kinds] + 0.8 * torch.randn(400, 12, generator=generator)
    spec = EncoderSpec.choose("mlp2", TableSchema(12), dim=DIM)

    @torch.no_grad()
    def neighbours(encoder: nn.Module) -> float:
        """How many of a row's ten nearest are of its own kind."""
        outputs = encoder.eval()(rows)
        outputs = functional.normalize(outputs - outputs.mean(dim=0), dim=1)
        nearest = (outputs @ outputs.T).topk(11).indices[:, 1:]
        return (kinds[nearest] == kinds[:, None]).double().mean().item()

    torch.manual_seed(0)
    before = spec.build()
    torch.manual_seed(0)
    after = pretrained_at_home(spec, rows, steps=200, batch_size=64, width=16)
    assert neighbours(after) > neighbours(before) + 0.05


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"known": torch.arange(1), "labels": torch.zeros(1, dtype=torch.int64)}, "two or more known rows"),
        ({"labels": torch.zeros(3, dtype=torch.int64)}, "4 rows and 3 labels"),
        ({"labels": torch.arange(4)}, "go from 0 to 3"),
        ({"known": torch.tensor([0, 1, 2, ROWS])}, "positions 0..499"),
    ],
)
def test_known_rows_that_do_not_fit_are_refused(changes: dict[str, Tensor], sentence: str) -> None:
    settings = {"known": torch.arange(4), "labels": torch.arange(4) % 2} | changes
    with pytest.raises(InputError, match=sentence):
        Completion().guess(fresh(), table()[0], classes=2, schema=SCHEMA, **settings)


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'mixmatch'"):
        Completion(style="mixmatsch")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least 1"):
        Completion(epochs=0)
