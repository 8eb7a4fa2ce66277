"""The projector and the predictor layer by layer."""

import torch
from torch import nn

from vesica.nn.models import Predictor, Projector


def layers(model: nn.Sequential) -> list[tuple[object, ...]]:
    described: list[tuple[object, ...]] = []
    for layer in model:
        if isinstance(layer, nn.Linear):
            described.append((layer.in_features, layer.out_features, layer.bias is not None))
        elif isinstance(layer, nn.BatchNorm1d):
            described.append(("norm", layer.num_features))
        else:
            described.append((type(layer),))
    return described


def test_a_projector_is_three_linear_layers_each_with_batch_norm() -> None:
    hidden = [("norm", 512), (nn.ReLU,)]
    expected = [(128, 512, False), *hidden, (512, 512, False), *hidden, (512, 512, True), ("norm", 512)]
    assert layers(Projector(128, 512)) == expected
    assert layers(Projector(8, 6, hidden=7))[0] == (8, 7, False)
    assert layers(Projector(8, 6, hidden=7))[-2:] == [(7, 6, True), ("norm", 6)]


def test_a_predictor_goes_through_a_quarter_of_its_width() -> None:
    assert layers(Predictor(512)) == [(512, 128, False), ("norm", 128), (nn.ReLU,), (128, 512, True)]
    assert layers(Predictor(3))[0] == (3, 1, False)
    assert layers(Predictor(8, hidden=5))[0] == (8, 5, False)


def test_both_give_as_many_numbers_as_they_say() -> None:
    projector, predictor = Projector(4, 10), Predictor(10)
    assert predictor(projector(torch.randn(6, 4))).shape == (6, 10)
    assert projector.dim == predictor.dim == 10
