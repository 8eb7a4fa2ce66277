"""Private training: what it draws, how often, and how loud it is, seen from outside."""

import math
from typing import Any

import pytest
import torch
from scipy.stats import binom, chi2
from torch import Tensor, nn

from vesica.nn.models.dropout import Dropout
from vesica.privacy import Mechanism
from vesica.training import private_training
from vesica.training.private_training import train_privately

ROWS = 400
ALARM = 1e-9 / 4  # of a test that is right
LEARNING_RATE, CLIP = 0.5, 2.0
MECHANISM = Mechanism(noise=3.0, sampling=0.1, steps=230)


class Watched:
    """The inputs of a training, and the batches it asked them for."""

    def __init__(self, width: int) -> None:
        self.rows = torch.ones(ROWS, width)
        self.batches: list[Tensor] = []

    def __call__(self, batch: Tensor) -> Tensor:
        self.batches.append(batch)
        return self.rows[batch]


def train(model: nn.Module, inputs: Watched, mechanism: Mechanism = MECHANISM, *, pull: float = 0.0) -> None:
    """Towards no target: a row's gradient is `pull`, a weight's input and no more."""
    train_privately(
        model,
        inputs,
        lambda batch: torch.zeros(len(batch)),
        rows=ROWS,
        loss=lambda outputs, _: pull * outputs.sum(dim=1),
        mechanism=mechanism,
        clip=CLIP,
        learning_rate=LEARNING_RATE,
    )


@pytest.mark.parametrize("steps", [0, 30, 100, 230])
def test_it_takes_as_many_steps_as_are_paid_for(steps: int) -> None:
    inputs = Watched(1)
    train(nn.Linear(1, 1), inputs, Mechanism(1.0, 0.1, steps))
    assert len(inputs.batches) == steps


def test_every_batch_is_a_poisson_sample() -> None:
    """Rows by chance, each at most once in a batch: of no fixed size, and not shared out over an epoch."""
    inputs = Watched(1)
    train(nn.Linear(1, 1), inputs)
    sizes = [len(batch) for batch in inputs.batches]
    q, steps = MECHANISM.sampling, MECHANISM.steps
    assert binom.ppf(ALARM, ROWS * steps, q) <= sum(sizes) <= binom.isf(ALARM, ROWS * steps, q)
    spread = sum((size - ROWS * q) ** 2 for size in sizes) / (ROWS * q * (1 - q))
    assert chi2.ppf(ALARM, steps) < spread < 1.2 * chi2.isf(ALARM, steps)  # of a fixed size it would be 0
    assert all(len(batch.unique()) == len(batch) for batch in inputs.batches)
    drawn = torch.cat(inputs.batches).bincount(minlength=ROWS)
    uneven = float(((drawn - steps * q) ** 2).sum()) / (steps * q * (1 - q))
    assert chi2.ppf(ALARM, ROWS) < uneven < 1.2 * chi2.isf(ALARM, ROWS)  # shared out by epochs it would be near 0


def test_where_there_is_nothing_to_learn_the_weights_walk_as_the_noise_says() -> None:
    """So many steps, each of the noise times the clip over the rows expected, at the learning rate."""
    model = nn.Linear(150, 20)
    before = torch.cat([each.detach().flatten().clone() for each in model.parameters()])
    train(model, Watched(150))
    moved = torch.cat([each.detach().flatten() for each in model.parameters()]) - before
    step = LEARNING_RATE * MECHANISM.noise * CLIP / (ROWS * MECHANISM.sampling)
    standard = float((moved.double() / (step * math.sqrt(MECHANISM.steps))).square().sum())
    assert chi2.ppf(ALARM, len(moved)) < standard < chi2.isf(ALARM, len(moved))


def test_a_step_goes_down_the_mean_of_the_clipped_gradients_over_the_rows_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Noise aside, and however many rows came: each pulls a weight by the clip at most."""
    inputs, gradient = Watched(1), private_training.private_gradient

    def without_noise(*given: Any, **named: Any) -> None:
        gradient(*given, **named | {"noise": 0.0})

    monkeypatch.setattr(private_training, "private_gradient", without_noise)
    model = nn.Linear(1, 1, bias=False)
    before = float(model.weight.detach())
    train(model, inputs, pull=10.0)
    drawn = sum(len(batch) for batch in inputs.batches)
    expected = before - LEARNING_RATE * CLIP * drawn / (ROWS * MECHANISM.sampling)
    assert float(model.weight.detach()) == pytest.approx(expected, rel=1e-4)


def test_nothing_is_dropped_out() -> None:
    """A mask goes by a row's place in its batch: without one row, those after it would get others."""
    seen: list[Tensor] = []

    def loss(outputs: Tensor, _: Tensor) -> Tensor:
        seen.append(outputs.detach().clone())
        return outputs.sum(dim=1)

    train_privately(
        nn.Sequential(nn.Linear(4, 8), Dropout(0.5), nn.Linear(8, 2)).train(),
        Watched(4),
        lambda batch: torch.zeros(len(batch)),
        rows=ROWS,
        loss=loss,
        mechanism=Mechanism(noise=3.0, sampling=0.1, steps=5),
        clip=CLIP,
        learning_rate=LEARNING_RATE,
    )
    assert len(seen) == 5
    for outputs in seen:  # all rows are alike
        assert torch.allclose(outputs, outputs[:1].expand_as(outputs))


def test_an_empty_batch_is_a_step_too() -> None:
    model, inputs = nn.Linear(4, 2), Watched(4)
    before = model.weight.detach().clone()
    train(model, inputs, Mechanism(noise=3.0, sampling=1e-9, steps=3))
    assert [len(batch) for batch in inputs.batches] == [0, 0, 0]
    assert (model.weight != before).all()
