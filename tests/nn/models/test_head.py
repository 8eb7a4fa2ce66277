"""Joins equal their formula, and a head is rebuilt from its description."""

import json

import pytest
import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.nn.models import Head

EQUAL = {"bank": 4, "shop": 4, "clinic": 4}


def parts_of(dims: dict[str, int]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(6, dim, generator=generator) for dim in dims.values()]


def linear(head: Head) -> nn.Linear:
    layer = head.mlp[0]
    assert isinstance(layer, nn.Linear)
    return layer


def test_concat_gives_each_party_its_own_weights_in_order() -> None:
    head = Head({"bank": 2, "shop": 3}, 5)
    bank, shop = parts_of({"bank": 2, "shop": 3})
    weight, bias = linear(head).weight, linear(head).bias
    torch.testing.assert_close(head([bank, shop]), bank @ weight[:, :2].T + shop @ weight[:, 2:].T + bias)
    assert head.parties == ("bank", "shop")


def test_unit_joins_parts_whose_rows_have_a_mean_square_of_one() -> None:
    head = Head({"bank": 2, "shop": 3}, 5, join="unit")
    bank, shop = parts_of({"bank": 2, "shop": 3})
    units = [part / part.square().mean(dim=1, keepdim=True).sqrt() for part in (bank, shop)]
    torch.testing.assert_close(head([bank, shop]), linear(head)(torch.cat(units, dim=1)))
    torch.testing.assert_close(head([bank, 9 * shop]), head([bank, shop]))


def test_mean_is_the_mean_over_the_parties() -> None:
    head = Head(EQUAL, 5, join="mean")
    one, two, three = parts_of(EQUAL)
    torch.testing.assert_close(head([one, two, three]), linear(head)((one + two + three) / 3))


def test_max_is_the_maximum_over_the_parties() -> None:
    head = Head(EQUAL, 5, join="max")
    one, two, three = parts_of(EQUAL)
    torch.testing.assert_close(head([one, two, three]), linear(head)(torch.maximum(torch.maximum(one, two), three)))


@pytest.mark.parametrize("join", ["concat", "unit", "mean", "max"])
def test_a_gradient_reaches_every_party(join: str) -> None:
    parts = [part.requires_grad_() for part in parts_of(EQUAL)]
    Head(EQUAL, 5, hidden=(7,), join=join)(parts).square().sum().backward()
    assert all(part.grad is not None and part.grad.any() for part in parts)


@pytest.mark.parametrize("join", ["mean", "max"])
def test_unequal_dimensions_are_refused(join: str) -> None:
    with pytest.raises(InputError, match=f"'{join}' needs parts of equal dimension and got a 2, b 3"):
        Head({"a": 2, "b": 3}, 1, join=join)


def test_an_unknown_join_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="no join 'concatenate'; did you mean 'concat'"):
        Head(EQUAL, 1, join="concatenate")


def test_a_head_without_parties_is_refused() -> None:
    with pytest.raises(InputError, match="at least one party"):
        Head({}, 1)


def test_a_missing_part_is_refused() -> None:
    with pytest.raises(InputError, match="joins bank, shop, clinic and got 2 parts"):
        Head(EQUAL, 1)(parts_of(EQUAL)[:2])


def test_a_part_of_the_wrong_width_is_refused_with_its_party() -> None:
    with pytest.raises(InputError, match=r"part of shop must be \(rows, 3\) and is \(6, 2\)"):
        Head({"bank": 2, "shop": 3}, 1)(parts_of({"bank": 2, "shop": 2}))


@pytest.mark.parametrize("join", ["concat", "unit", "mean", "max"])
def test_a_head_is_rebuilt_from_json_whatever_the_order_of_its_keys(join: str) -> None:
    head = Head(EQUAL, 3, hidden=(8, 5), join=join)
    rebuilt = Head.from_spec(json.loads(json.dumps(head.spec(), sort_keys=True)))
    rebuilt.load_state_dict(head.state_dict(), strict=True)
    parts = parts_of(EQUAL)
    assert rebuilt.parties == head.parties
    assert rebuilt.spec() == head.spec()
    assert torch.equal(rebuilt(parts), head(parts))


PARTS = parts_of(EQUAL)


def absent(*parties: str) -> list[Tensor | None]:
    return [None if party in parties else part for party, part in zip(EQUAL, PARTS, strict=True)]


@pytest.mark.parametrize("join", ["concat", "mean", "max"])
def test_the_learned_fill_stands_in_for_a_missing_part(join: str) -> None:
    head = Head(EQUAL, 3, hidden=(5,), join=join, optional=("shop", "clinic")).eval()
    torch.nn.init.normal_(head.fills[1])
    by_hand = [PARTS[0], PARTS[1], head.fills[1].expand(6, 4)]
    assert torch.equal(head(absent("clinic")), head(by_hand))
    assert not torch.equal(head(absent("clinic")), head(absent("shop")))


def test_a_learned_fill_learns_and_a_zero_one_stays_zero() -> None:
    for fill, learns in (("learned", True), ("zero", False)):
        head = Head(EQUAL, 3, optional=("shop",), fill=fill)  # type: ignore[arg-type]
        optimiser = torch.optim.SGD(head.parameters(), lr=0.1)
        head(absent("shop")).square().sum().backward()
        optimiser.step()
        assert head.fills[0].any() == learns


def test_a_part_that_the_head_needs_may_not_be_missing() -> None:
    with pytest.raises(InputError, match="the part of bank is missing, and the head cannot do without it"):
        Head(EQUAL, 1, optional=("shop", "clinic"))(absent("bank"))
    with pytest.raises(InputError, match="bank, shop, clinic are all missing: nothing is left"):
        Head(EQUAL, 1, optional=tuple(EQUAL))([None, None, None])


def dropped(head: Head, *, rows: int = 4000) -> Tensor:
    """Which parts (rows, parties) a head in training replaces by its fill, which is not a number."""
    for fill in head.fills:
        torch.nn.init.constant_(fill, torch.nan)
    filled = head._filled([torch.zeros(rows, 4) for _ in EQUAL])
    return torch.stack([part.isnan().all(dim=1) for part in filled], dim=1)


def test_party_dropout_replaces_each_optional_part_of_each_row_by_itself() -> None:
    torch.manual_seed(0)
    lost = dropped(Head(EQUAL, 1, optional=("shop", "clinic"), party_dropout=0.3)).double()
    assert not lost[:, 0].any()
    assert lost[:, 1:].mean(dim=0).tolist() == pytest.approx([0.3, 0.3], abs=0.03)
    assert (lost[:, 1] * lost[:, 2]).mean().item() == pytest.approx(0.09, abs=0.02)


def test_party_dropout_never_takes_all_parts_of_a_row() -> None:
    torch.manual_seed(0)
    lost = dropped(Head(EQUAL, 1, optional=tuple(EQUAL), party_dropout=0.9))
    assert lost.sum(dim=1).max() == 2
    assert lost.double().mean(dim=0).tolist() == pytest.approx([0.9 - 0.9**3 / 3] * 3, abs=0.03)


def test_party_dropout_is_for_training_only_and_draws_nothing_else() -> None:
    head = Head(EQUAL, 1, optional=("shop",), party_dropout=0.9).eval()
    assert not dropped(head).any()
    plain = Head(EQUAL, 1)
    state = torch.get_rng_state()
    plain(PARTS)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_head_that_does_without_parties_is_rebuilt_as_one() -> None:
    head = Head(EQUAL, 3, optional=("shop", "clinic"), fill="zero")
    rebuilt = Head.from_spec(json.loads(json.dumps(head.spec())))
    rebuilt.load_state_dict(head.state_dict(), strict=True)
    assert (rebuilt.optional, rebuilt.fill) == (("shop", "clinic"), "zero")
    assert torch.equal(rebuilt(absent("shop")), head(absent("shop")))


def test_a_head_of_an_earlier_version_is_rebuilt_and_needs_all_its_parties() -> None:
    head = Head(EQUAL, 3)
    old = {name: value for name, value in head.spec().items() if name not in ("optional", "fill")}
    rebuilt = Head.from_spec(old)
    rebuilt.load_state_dict(head.state_dict(), strict=True)
    assert rebuilt.optional == ()
    with pytest.raises(InputError, match="cannot do without"):
        rebuilt(absent("shop"))
