"""Wide ResNets have the published size and FixMatch's wiring."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vesica.errors import InputError
from vesica.nn.models import WideResNet


def test_wrn_28_2_has_the_published_number_of_parameters() -> None:
    network = WideResNet(28, 2, channels=3, outputs=10)
    assert sum(p.numel() for p in network.parameters()) == 1_467_610


def test_the_default_is_wrn_22_2_with_128_features_of_a_half_image() -> None:
    network = WideResNet(channels=3)
    assert sum(isinstance(module, nn.Conv2d) for module in network.modules()) == 1 + 18 + 3
    assert network(torch.randn(2, 3, 32, 16)).shape == (2, 128)
    assert network.dim == 128


def test_a_depth_that_is_not_6n_plus_4_is_refused() -> None:
    with pytest.raises(InputError, match="depth 6n \\+ 4 and not 20: use 16, 22 or 28"):
        WideResNet(20, 2, channels=3)


def test_the_features_are_those_of_fixmatch() -> None:
    torch.manual_seed(0)
    network = WideResNet(10, 1, channels=3).eval()
    images = torch.randn(2, 3, 8, 8)
    weights = [module.weight for module in network.modules() if isinstance(module, nn.Conv2d)]
    stem, *rest = weights

    def activate(values: Tensor) -> Tensor:  # fresh batch norm in eval mode only divides by sqrt(1 + eps)
        return F.leaky_relu(values / (1 + 1e-5) ** 0.5, 0.1)

    # Width 1: the first block keeps 16 channels and has no convolution in its shortcut.
    values = activate(F.conv2d(images, stem, padding=1))
    values = values + F.conv2d(activate(F.conv2d(values, rest[0], padding=1)), rest[1], padding=1)
    for first, second, shortcut in (rest[2:5], rest[5:8]):
        residual = F.conv2d(activate(values), first, stride=2, padding=1)
        residual = F.conv2d(activate(residual), second, padding=1)
        values = F.conv2d(values, shortcut, stride=2) + residual
    torch.testing.assert_close(network(images), activate(values).mean(dim=(2, 3)))
