"""Inputs from representations, and how much of them came back."""

import math
from dataclasses import replace

import pytest
import torch
from scipy.stats import binomtest, norm
from torch import Tensor

from vesica.attacks.inversion import Inversion
from vesica.attacks.recovery import CodesBack, Recovery, recovery
from vesica.errors import InputError
from vesica.schema import ImageSchema, Schema, TableSchema

SCHEMA = TableSchema(3, (6, 9))
IMAGES = ImageSchema(2, 4, 4, (0.5,) * 2, (0.2,) * 2)
KNOWN = 200


def table(rows: int = 1200) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(rows, 3, generator=generator) * torch.tensor([1.0, 5.0, 0.2]) + 2
    codes = [torch.multinomial(torch.tensor(chances), rows, True, generator=generator) for chances in CHANCES]
    return torch.cat([numbers, torch.stack(codes, dim=1)], dim=1)


CHANCES = ([0.0, 0.0, 0.5, 0.3, 0.15, 0.05], [0.0, 0.0, 0.4, 0.6])


def noise(rows: int, dim: int = 16) -> Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(7))


def attack(representations: Tensor, inputs: Tensor, *, schema: Schema = SCHEMA, seed: int = 0, **settings) -> Tensor:
    """The rows behind the first `KNOWN` are guessed."""
    torch.manual_seed(seed)
    attack = replace(Inversion(steps=(50, 200)), **settings)
    known, others = representations[:KNOWN], representations[KNOWN:]
    return attack.guess(known, inputs[:KNOWN], representations=others, schema=schema)


def score(guess: Tensor, inputs: Tensor, schema: Schema = SCHEMA) -> Recovery:
    return recovery(guess, inputs[KNOWN:], known=inputs[:KNOWN], schema=schema)


def numbers_and_flags(inputs: Tensor) -> Tensor:
    flags = [torch.nn.functional.one_hot(column.long(), 9).float() for column in inputs[:, 3:].T]
    return torch.cat([(inputs[:, :3] - 2) / torch.tensor([1.0, 5.0, 0.2]), *flags], dim=1)


def test_representations_that_turn_the_inputs_give_them_back() -> None:
    inputs = table()
    turned = numbers_and_flags(inputs) @ torch.randn(21, 30, generator=torch.Generator().manual_seed(1))
    back = score(attack(turned, inputs), inputs)
    assert back.error is not None
    assert back.error < 0.001
    assert all(column is not None and column < 0.001 for column in back.numbers)
    assert all(column.right > 0.99 > column.commonest for column in back.codes)


def test_random_representations_give_back_no_more_than_the_mean() -> None:
    inputs = table()
    guess, truth = attack(noise(len(inputs)), inputs), inputs[KNOWN:]
    usual = inputs[:KNOWN, :3].mean(dim=0)
    gains = (usual - truth[:, :3]).square() - (guess[:, :3] - truth[:, :3]).square()
    errors = gains.std(dim=0) / math.sqrt(len(gains))
    assert (gains.mean(dim=0) <= float(norm.isf(0.001)) * errors).all()
    back = score(guess, inputs)
    assert back.error is not None
    assert back.error < 1.1
    for column in back.codes:
        hits = round(column.right * len(truth))
        assert binomtest(hits, len(truth), column.commonest).pvalue > 0.001


def test_one_sees_which_column_comes_back() -> None:
    inputs = table()
    representations = torch.cat([noise(len(inputs)), inputs[:, 1:2], (inputs[:, 4:] == 3).float()], dim=1)
    back = score(attack(representations, inputs), inputs)
    assert back.numbers[1] is not None
    assert back.numbers[1] < 0.05
    assert all(back.numbers[column] == pytest.approx(1, abs=0.1) for column in (0, 2))
    assert back.codes[1].right > 0.99
    assert back.codes[0].right == pytest.approx(back.codes[0].commonest, abs=0.05)


def test_a_network_finds_what_a_line_does_not() -> None:
    inputs = table()
    bent = ((inputs[:, :3] - 2) / torch.tensor([1.0, 5.0, 0.2])) ** 3
    straight, both = (score(attack(bent, inputs, steps=steps), inputs).error for steps in ((), (200, 600)))
    assert straight is not None
    assert both is not None
    assert both < 0.7 * straight


def test_a_network_is_not_taken_where_a_line_is_better() -> None:
    inputs = table()
    turned = numbers_and_flags(inputs) @ torch.randn(21, 30, generator=torch.Generator().manual_seed(1))
    line, both = (attack(turned, inputs, steps=steps) for steps in ((), (1,)))
    torch.testing.assert_close(both, line)


def test_the_choice_is_made_on_rows_that_were_not_learned_from() -> None:
    """With as many dimensions as rows the weakest ridge fits the known rows best, and others not at all."""
    inputs = table()
    back = score(attack(noise(len(inputs), KNOWN), inputs, steps=()), inputs)
    assert back.error is not None
    assert back.error < 1.1


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_images_come_back_in_their_shape(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    images = 255 * torch.randint(2, (600, 2, 4, 4), generator=generator, dtype=torch.uint8)
    unit = images.float() / 255
    inputs = images if dtype == torch.uint8 else unit
    leaky = torch.cat([unit[:, :1].flatten(1), noise(600)], dim=1)  # the first channel leaks
    guess = attack(leaky, inputs, schema=IMAGES, steps=(10,))
    assert guess.shape == (400, 2, 4, 4)
    assert guess.dtype == torch.float32
    assert guess.min() >= 0
    assert guess.max() <= 1
    back = score(guess, inputs, IMAGES)
    assert len(back.numbers) == 2
    assert back.numbers[0] is not None
    assert back.numbers[0] < 0.1
    assert back.numbers[1] == pytest.approx(1, abs=0.15)


def test_codes_are_guessed_from_those_that_are_known() -> None:
    inputs = table()
    guess = attack(noise(len(inputs)), inputs, strengths=(1e-4,), steps=())
    for column in (3, 4):
        assert set(guess[:, column].tolist()) <= set(inputs[:KNOWN, column].tolist())


def test_a_table_of_codes_alone_can_be_inverted() -> None:
    inputs = table()[:, 3:]
    schema = TableSchema(0, (6, 9))
    back = score(attack(inputs, inputs, schema=schema), inputs, schema)
    assert (back.error, back.numbers) == (None, ())
    assert back.codes[1].right == 1


def test_equal_seeds_give_equal_guesses() -> None:
    inputs = table(400)
    representations = torch.tanh(inputs @ torch.randn(5, 8, generator=torch.Generator().manual_seed(1)))
    one, two, three = (attack(representations, inputs, strengths=(1.0,), seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


def test_the_error_is_that_of_the_mean_of_the_known_rows() -> None:
    schema = TableSchema(2, (4,))
    known = torch.tensor([[0.0, 5.0, 2.0], [2.0, 5.0, 2.0], [1.0, 5.0, 3.0]])
    truth = torch.tensor([[3.0, 5.0, 2.0], [1.0, 5.0, 3.0], [1.0, 5.0, 3.0], [1.0, 5.0, 3.0]])
    guess = torch.tensor([[2.0, 6.0, 2.0], [1.0, 5.0, 3.0], [1.0, 5.0, 3.0], [1.0, 5.0, 0.0]])
    assert recovery(guess, truth, known=known, schema=schema) == Recovery(
        error=2 / 4, numbers=(1 / 4, None), codes=(CodesBack(right=0.75, commonest=0.25),)
    )


@pytest.mark.parametrize(
    ("known", "inputs", "representations", "sentence"),
    [
        (torch.zeros(2, 4), torch.zeros(2, 5), torch.zeros(1, 4), "three or more known rows"),
        (torch.zeros(4, 4), torch.zeros(3, 5), torch.zeros(1, 4), "3 rows and 4"),
        (torch.zeros(3, 4), torch.zeros(3, 6), torch.zeros(1, 4), "of shape"),
        (torch.zeros(3, 4), torch.zeros(3, 5), torch.zeros(1, 3), "all alike"),
        (torch.zeros(3, 4), torch.zeros(3, 5), torch.full((1, 4), math.nan), "finite"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    known: Tensor, inputs: Tensor, representations: Tensor, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        Inversion().guess(known, inputs, representations=representations, schema=SCHEMA)


def test_a_value_unlike_any_known_one_does_not_carry_the_guess_away() -> None:
    inputs = table()
    representations = numbers_and_flags(inputs)
    representations[:, 0] *= 1e-5
    representations[KNOWN:, 0] = 1e3
    guess = attack(representations, inputs)
    assert ((guess[:, :3] - 2).abs() < 5 * 30).all()


def test_three_known_rows_are_enough() -> None:
    guess = Inversion(steps=(5,)).guess(noise(3), table(3), representations=noise(5), schema=SCHEMA)
    assert guess.shape == (5, 5)
    assert guess.isfinite().all()


@pytest.mark.parametrize("settings", [{"strengths": ()}, {"strengths": (0.0,)}, {"steps": (9, 3)}, {"held_out": 1.0}])
def test_settings_that_cannot_be_are_refused(settings: dict[str, tuple[float, ...]]) -> None:
    with pytest.raises(InputError, match="change"):
        Inversion(**settings)  # type: ignore[arg-type]


def test_a_guess_of_other_rows_is_not_scored() -> None:
    with pytest.raises(InputError, match="the same rows"):
        recovery(table(4), table(5), known=table(5), schema=SCHEMA)
