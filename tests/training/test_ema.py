"""The moving average of a module against its formula."""

import pytest
import torch
from torch import nn

from vesica.training.ema import MovingAverage


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


@pytest.mark.parametrize("decay", [0.3, 0.95])
def test_weights_and_buffers_follow_the_formula_with_a_warm_up(decay: float) -> None:
    model = network()
    average = MovingAverage(model, decay=decay)
    expected = {name: value.clone() for name, value in model.state_dict().items()}
    for update in range(1, 6):
        with torch.no_grad():
            model[0].weight.add_(1.0)
        model(torch.randn(8, 2))
        average.update()
        for name, value in model.state_dict().items():
            kept = min(max(decay, 0.9) if "running" in name else decay, (1 + update) / (10 + update))
            mixed = kept * expected[name] + (1 - kept) * value
            expected[name] = mixed if value.is_floating_point() else value.clone()
    for name, value in average.module.state_dict().items():
        torch.testing.assert_close(value, expected[name])
    assert average.module[1].num_batches_tracked == 5
    assert not torch.equal(average.module[1].running_mean, model[1].running_mean)


def test_the_warm_up_ends_at_the_decay() -> None:
    model = nn.Linear(1, 1, bias=False)
    average = MovingAverage(model, decay=0.5)
    nn.init.constant_(average.module.weight, 0.0)
    nn.init.constant_(model.weight, 1.0)
    left = 1.0
    for update in range(1, 21):
        average.update()
        left *= min(0.5, (1 + update) / (10 + update))
    assert average.module.weight.item() == pytest.approx(1 - left)


def test_a_decay_of_0_is_the_last_weights_with_statistics_of_more_than_the_last_batch() -> None:
    model = network()
    average = MovingAverage(model, decay=0.0)
    nn.init.constant_(model[0].weight, 4.0)
    means = []
    for update in range(100):
        model[1].running_mean.fill_(float(update % 2))  # as batch norm of a momentum of 1 may leave them
        average.update()
        means.append(average.module[1].running_mean.mean().item())
    assert torch.equal(average.module[0].weight, model[0].weight)
    assert 0.4 < min(means[-10:]) < max(means[-10:]) < 0.6


def test_the_average_is_a_copy_that_does_not_train() -> None:
    model = network()
    average = MovingAverage(model)
    nn.init.constant_(model[0].weight, 4.0)
    assert not torch.equal(average.module[0].weight, model[0].weight)
    assert not any(parameter.requires_grad for parameter in average.module.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_it_comes_back_from_its_state_and_goes_on_alike() -> None:
    model = network()
    one = MovingAverage(model)
    for _ in range(3):
        one.update()
    two = MovingAverage(model)
    two.load_state_dict(one.state_dict())
    nn.init.constant_(model[0].weight, 4.0)
    one.update()
    two.update()
    assert torch.equal(one.module[0].weight, two.module[0].weight)
