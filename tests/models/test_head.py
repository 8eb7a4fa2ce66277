"""Joins equal their formula, and a head is rebuilt from its description."""

import json

import pytest
import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.models import Head

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


def test_mean_is_the_mean_over_the_parties() -> None:
    head = Head(EQUAL, 5, join="mean")
    one, two, three = parts_of(EQUAL)
    torch.testing.assert_close(head([one, two, three]), linear(head)((one + two + three) / 3))


def test_max_is_the_maximum_over_the_parties() -> None:
    head = Head(EQUAL, 5, join="max")
    one, two, three = parts_of(EQUAL)
    torch.testing.assert_close(head([one, two, three]), linear(head)(torch.maximum(torch.maximum(one, two), three)))


@pytest.mark.parametrize("join", ["concat", "mean", "max"])
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


@pytest.mark.parametrize("join", ["concat", "mean", "max"])
def test_a_head_is_rebuilt_from_json_whatever_the_order_of_its_keys(join: str) -> None:
    head = Head(EQUAL, 3, hidden=(8, 5), join=join)
    rebuilt = Head.from_spec(json.loads(json.dumps(head.spec(), sort_keys=True)))
    rebuilt.load_state_dict(head.state_dict(), strict=True)
    parts = parts_of(EQUAL)
    assert rebuilt.parties == head.parties
    assert rebuilt.spec() == head.spec()
    assert torch.equal(rebuilt(parts), head(parts))
