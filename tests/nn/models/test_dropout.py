"""Dropout from random bytes."""

import pytest
import torch

from vesica.nn.models.dropout import Dropout


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_the_share_that_is_dropped_is_p_and_the_mean_stays(share: float) -> None:
    torch.manual_seed(0)
    ones = torch.ones(1000, 1003)  # no multiple of eight
    dropped = Dropout(share)(ones)
    assert (dropped == 0).float().mean() == pytest.approx(share, abs=0.003)
    assert dropped.unique().tolist() == pytest.approx([0, 1 / (1 - share)])
    # No column of the mask is special, whichever byte of a word it comes from.
    assert (dropped == 0).float().mean(dim=0).sub(share).abs().max() < 0.08


def test_nothing_is_dropped_in_evaluation_and_all_with_p_1() -> None:
    ones = torch.ones(10, 10)
    assert torch.equal(Dropout(0.5).eval()(ones), ones)
    assert not Dropout(1.0)(ones).any()


def test_gradients_pass_where_values_do() -> None:
    torch.manual_seed(0)
    ones = torch.ones(50, 50, requires_grad=True)
    out = Dropout(0.5)(ones)
    out.sum().backward()
    assert torch.equal(ones.grad, out.detach())


def test_equal_seeds_drop_alike() -> None:
    one, two = (torch.manual_seed(3) and Dropout(0.5)(torch.ones(100)) for _ in range(2))
    assert torch.equal(one, two)
