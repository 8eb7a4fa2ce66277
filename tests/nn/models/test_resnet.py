"""ResNet-18 for small images, cut where FedHSSL cuts it."""

import torch
from torch import nn

from vesica.nn.models import ResNet18


def test_it_has_the_known_number_of_parameters() -> None:
    network = ResNet18(channels=3, outputs=10)
    assert sum(p.numel() for p in network.parameters()) == 11_173_962


def test_the_bottom_keeps_the_resolution_and_the_top_pools_512_features() -> None:
    network = ResNet18(channels=3).eval()
    images = torch.randn(2, 3, 32, 32)
    middle = network.bottom(images)
    assert middle.shape == (2, 64, 32, 32)
    torch.testing.assert_close(network.top(middle), network(images))
    assert network(images).shape == (2, 512)
    assert network.dim == 512


def test_bottom_and_top_hold_every_parameter() -> None:
    names = {name.split(".")[0] for name, _ in ResNet18(channels=3).named_parameters()}
    assert names == {"bottom", "top"}


def test_it_is_18_layers_deep() -> None:
    network = ResNet18(channels=3, outputs=10)
    deep = [m for m in network.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
    assert len(deep) + 1 == 18
