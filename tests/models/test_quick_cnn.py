"""The quick network: few, wide convolutions, pooled before they are normalised."""

import torch
from torch import nn
from torch.nn import functional as F

from vesica.models import QuickCNN


def test_it_has_two_convolutions_a_stage_and_one_before() -> None:
    network = QuickCNN((8, 16, 24), channels=3, outputs=10)
    sizes = [module.weight.shape[:2] for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert [tuple(size) for size in sizes] == [(4, 3), (8, 4), (8, 8), (16, 8), (16, 16), (24, 16), (24, 24)]
    assert network(torch.rand(2, 3, 32, 16)).shape == (2, 10)
    assert network.dim == 10


def test_images_of_any_size_will_do() -> None:
    network = QuickCNN((4, 4, 4), channels=1, outputs=5)
    for height, width in ((28, 28), (14, 14), (9, 31), (5, 3), (1, 1)):
        assert network(torch.rand(2, 1, height, width)).shape == (2, 5)


def test_its_outputs_are_those_of_its_layers_one_by_one() -> None:
    torch.manual_seed(0)
    network = QuickCNN((4, 6), channels=3, outputs=5).eval()
    images = torch.randn(2, 3, 8, 8)
    stem, *others = [module.weight for module in network.modules() if isinstance(module, nn.Conv2d)]

    def activated(values: torch.Tensor) -> torch.Tensor:  # fresh batch norm in eval mode only divides by sqrt(1 + eps)
        return F.gelu(values / (1 + 1e-5) ** 0.5)

    values = activated(F.conv2d(images, stem, padding=1))
    for narrow, residual in (others[:2], others[2:]):
        values = activated(F.max_pool2d(F.conv2d(values, narrow, padding=1), 2))
        values = values + activated(F.conv2d(values, residual, padding=1))
    (last,) = (module for module in network.modules() if isinstance(module, nn.Linear))
    torch.testing.assert_close(network(images), last(activated(values).mean(dim=(2, 3))))
