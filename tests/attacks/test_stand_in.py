"""What the top of an encoder is worth to an attacker who knows a few rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor, nn

from vesica.attacks.inversion import Inversion
from vesica.attacks.recovery import recovery
from vesica.attacks.stand_in import StandIn
from vesica.errors import InputError
from vesica.nn.models import EncoderSpec, top_of
from vesica.schema import TableSchema

SCHEMA = TableSchema(6, ())
SPEC = EncoderSpec.choose("mlp2", SCHEMA, dim=24)
KNOWN = 60


@pytest.fixture
def encoder() -> nn.Module:
    torch.manual_seed(0)
    made = SPEC.build()
    made.train()
    for _ in range(20):
        made(torch.randn(200, 6))  # batch norm gets to know the rows
    return made.eval()


def rows() -> Tensor:
    return torch.randn(400, 6, generator=torch.Generator().manual_seed(1))


def top_weights(encoder: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach() for name, weight in top_of(encoder).named_parameters()}


def error(shown: Tensor, inputs: Tensor, top: Mapping[str, Tensor]) -> float:
    """Of the stand-in's representations of rows that it was not fitted to."""
    torch.manual_seed(0)
    stand_in = StandIn(SPEC, top).fit(shown[:KNOWN], inputs[:KNOWN])
    with torch.no_grad():
        return float(nn.functional.mse_loss(stand_in(inputs[KNOWN:]), shown[KNOWN:]) / shown[KNOWN:].var())


@torch.no_grad()
def test_with_the_true_top_it_is_more_like_the_encoder_than_with_another(encoder: nn.Module) -> None:
    inputs, top = rows(), top_weights(encoder)
    shown = encoder(inputs)
    other = {name: torch.randn_like(weight) * weight.std() for name, weight in top.items() if weight.ndim > 1}
    with torch.enable_grad():
        true, false = error(shown, inputs, top), error(shown, inputs, top | other)
    assert true < 0.65
    assert true < 0.8 * false


def test_its_top_stays_as_it_came(encoder: nn.Module) -> None:
    inputs, top = rows()[:KNOWN], top_weights(encoder)
    fitted = StandIn(SPEC, top, steps=3).fit(encoder(inputs).detach(), inputs)
    kept = [module for module in fitted.modules() if type(module) is type(encoder)]
    assert all(torch.equal(weight, top[name]) for name, weight in top_weights(kept[0]).items())


def came_back(shown: Tensor, inputs: Tensor, stand_in: StandIn) -> float:
    torch.manual_seed(0)
    guess = Inversion(steps=(100,)).guess(
        shown[:KNOWN], inputs[:KNOWN], representations=shown[KNOWN:], schema=SCHEMA, make_up=stand_in.make_up
    )
    found = recovery(guess, inputs[KNOWN:], known=inputs[:KNOWN], schema=SCHEMA).error
    assert found is not None
    return 1 - found


def test_columns_come_back_from_what_an_encoder_shows_and_not_from_noise(encoder: nn.Module) -> None:
    inputs, stand_in = rows(), StandIn(SPEC, top_weights(encoder), steps=100, rows=300)
    assert came_back(encoder(inputs).detach(), inputs, stand_in) > 0.6
    noise = torch.randn(len(inputs), 24, generator=torch.Generator().manual_seed(2))
    assert came_back(noise, inputs, stand_in) < 0.1


def test_pairs_that_are_made_up_are_learned_from_and_never_judged_by(encoder: nn.Module) -> None:
    """Whoever has the whole encoder can make up all it wants: a positive control of what a stand-in is for."""
    inputs, few, asked = rows(), 20, []
    shown = encoder(inputs).detach()

    def make_up(known: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        asked.append(known[1])
        more = torch.randn(1000, 6)
        return encoder(more).detach(), more

    def share(make_up: Callable[[tuple[Tensor, Tensor]], tuple[Tensor, Tensor]] | None) -> float:
        torch.manual_seed(0)
        guess = Inversion(steps=(300,)).guess(
            shown[:few], inputs[:few], representations=shown[few:], schema=SCHEMA, make_up=make_up
        )
        found = recovery(guess, inputs[few:], known=inputs[:few], schema=SCHEMA).error
        assert found is not None
        return 1 - found

    assert share(make_up) > share(None) + 0.2
    to_judge, in_the_end = asked
    assert (len(to_judge), len(in_the_end)) == (16, few)  # a fifth is held out
    assert all(any(torch.equal(row, known) for known in inputs[:few]) for row in to_judge)


@pytest.mark.parametrize("seed", range(3))
def test_pairs_that_are_wrong_do_no_harm_though_few_rows_are_held_out(encoder: nn.Module, seed: int) -> None:
    inputs, few = torch.randn(400, 6, generator=torch.Generator().manual_seed(seed)), 20
    shown = encoder(inputs).detach()

    def share(make_up: Callable[[tuple[Tensor, Tensor]], tuple[Tensor, Tensor]] | None) -> float:
        torch.manual_seed(seed)
        guess = Inversion(steps=()).guess(
            shown[:few], inputs[:few], representations=shown[few:], schema=SCHEMA, make_up=make_up
        )
        found = recovery(guess, inputs[few:], known=inputs[:few], schema=SCHEMA).error
        assert found is not None
        return 1 - found

    assert share(lambda known: (known[0] + torch.randn_like(known[0]), known[1])) > share(None) - 1e-6


def test_a_top_of_another_encoder_is_refused(encoder: nn.Module) -> None:
    narrow = EncoderSpec.choose("mlp2", SCHEMA, dim=12)
    with pytest.raises(InputError, match="the encoder 'mlp2' has no top with weights like those sent"):
        StandIn(narrow, top_weights(encoder))
    with pytest.raises(InputError, match="none were"):
        StandIn(SPEC, {})
