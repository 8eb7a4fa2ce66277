"""The quick network: few, wide convolutions, pooled before they are normalised."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vesica.nn.models import QuickCNN, build_encoder
from vesica.schema import ImageSchema


def test_it_has_two_convolutions_a_stage_and_one_before() -> None:
    network = QuickCNN((8, 16, 24), channels=3, outputs=10)
    sizes = [module.weight.shape[:2] for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert [tuple(size) for size in sizes] == [(4, 3), (8, 4), (8, 8), (16, 8), (16, 16), (24, 16), (24, 24)]
    assert network(torch.rand(2, 3, 32, 16)).shape == (2, 10)
    assert network.dim == 10


@pytest.mark.parametrize(("name", "widths"), [("quick", (64, 256, 256)), ("quick-wide", (128, 256, 512))])
def test_a_name_means_its_widths(name: str, widths: tuple[int, ...]) -> None:
    network = build_encoder(name, ImageSchema(3, 8, 8, (0.5,) * 3, (0.25,) * 3))
    outputs = [module.weight.shape[0] for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert outputs == [widths[0] // 2, *(width for width in widths for _ in range(2))]


def test_its_top_is_all_behind_the_first_stage() -> None:
    network = QuickCNN((4, 6, 8), channels=3, outputs=5).eval()
    images = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(network(images), network.top(network.stages[0](network.stem(images))))


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
