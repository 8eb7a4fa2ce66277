"""A multi-layer perceptron."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn


class MLP(nn.Sequential):
    """Linear and ReLU per hidden size, then Linear to `outputs`, then `activation` where one is given."""

    def __init__(
        self, inputs: int, hidden: Sequence[int], outputs: int, *, activation: nn.Module | None = None
    ) -> None:
        layers: list[nn.Module] = []
        for before, after in pairwise((inputs, *hidden)):
            layers += [nn.Linear(before, after), nn.ReLU()]
        layers.append(nn.Linear((inputs, *hidden)[-1], outputs))
        if activation is not None:
            layers.append(activation)
        super().__init__(*layers)
        self.dim = outputs
