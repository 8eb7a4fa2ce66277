"""A multi-layer perceptron."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from vesica.nn.models.dropout import Dropout


class MLP(nn.Sequential):
    """Linear, ReLU and perhaps dropout per hidden size, then Linear to `outputs`, then `activation` if one is given."""

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        *,
        dropout: float = 0.0,
        activation: nn.Module | None = None,
    ) -> None:
        layers: list[nn.Module] = []
        for before, after in pairwise((inputs, *hidden)):
            layers += [nn.Linear(before, after), nn.ReLU(), *([Dropout(dropout)] if dropout else [])]
        layers.append(nn.Linear((inputs, *hidden)[-1], outputs))
        if activation is not None:
            layers.append(activation)
        super().__init__(*layers)
        self.dim = outputs
        self._first = len(layers) if not hidden else 2 + bool(dropout)

    @property
    def top(self) -> nn.Module:
        """All behind the first hidden layer, as narrow as that one is."""
        return nn.Sequential(*list(self)[self._first :])
