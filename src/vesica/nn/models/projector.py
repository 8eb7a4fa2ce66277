"""What stands behind an encoder while it learns without labels: projector and predictor, as FedHSSL has them."""

from torch import nn


class Projector(nn.Sequential):
    """Three linear layers, each with batch norm, the first two with ReLU."""

    def __init__(self, inputs: int, outputs: int, *, hidden: int | None = None) -> None:
        width = outputs if hidden is None else hidden
        super().__init__(
            *_layer(inputs, width), *_layer(width, width), nn.Linear(width, outputs), nn.BatchNorm1d(outputs)
        )
        self.dim = outputs


class Predictor(nn.Sequential):
    """From projections to projections through a narrow layer, a quarter as wide unless told otherwise."""

    def __init__(self, width: int, *, hidden: int | None = None) -> None:
        narrow = max(1, width // 4) if hidden is None else hidden
        super().__init__(*_layer(width, narrow), nn.Linear(narrow, width))
        self.dim = width


def _layer(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), nn.ReLU()
