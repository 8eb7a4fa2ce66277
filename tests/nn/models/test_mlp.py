"""The perceptron is FedOnce's: Linear and ReLU, then Linear."""

import torch
from torch import nn

from vesica.nn.models import MLP


def test_the_output_is_the_formula() -> None:
    torch.manual_seed(0)
    mlp = MLP(5, (7, 3), 2)
    first, second, last = (layer for layer in mlp if isinstance(layer, nn.Linear))
    rows = torch.randn(11, 5)
    hidden = (rows @ first.weight.T + first.bias).clamp(min=0)
    hidden = (hidden @ second.weight.T + second.bias).clamp(min=0)
    torch.testing.assert_close(mlp(rows), hidden @ last.weight.T + last.bias)
    assert mlp.dim == 2


def test_an_output_activation_is_applied_last() -> None:
    torch.manual_seed(0)
    plain = MLP(5, (7,), 2)
    bounded = MLP(5, (7,), 2, activation=nn.Tanh())
    bounded.load_state_dict(plain.state_dict())
    rows = torch.randn(11, 5)
    torch.testing.assert_close(bounded(rows), torch.tanh(plain(rows)))


def test_without_hidden_sizes_it_is_one_linear_layer() -> None:
    assert [type(layer) for layer in MLP(5, (), 2)] == [nn.Linear]
