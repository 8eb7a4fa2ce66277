"""The two small convolutional networks of FedOnce (Wu et al.), and the standardisation of images."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.nn.models.dropout import Dropout
from vesica.schema import ImageSchema


class Normalise(nn.Module):
    """Images, uint8 or float in [0, 1], to floats standardised per channel.

    The buffers are not part of a state: the schema keeps their values.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or min(std) <= 0:
            raise InputError(
                f"an image needs one mean and one positive std per channel, got mean {list(mean)} and "
                f"std {list(std)}: give a constant channel the std 1"
            )
        self.register_buffer("mean", torch.tensor(mean).reshape(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).reshape(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        values = images.to(self.mean.dtype)
        if images.dtype == torch.uint8:
            values = values / 255
        return (values - self.mean) / self.std


class CNN0(nn.Module):
    """FedOnce's network without privacy: two 3x3 convolutions, one pooling, two linear layers, dropout."""

    def __init__(self, schema: ImageSchema, outputs: int) -> None:
        super().__init__()
        _check_size("cnn", schema, smallest=6, instead="linear")
        self.normalise = Normalise(schema.mean, schema.std)
        self.features = nn.Sequential(
            nn.Conv2d(schema.channels, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.layers = nn.Sequential(
            Dropout(0.25),
            nn.Linear(_width(self.features, schema), 128),
            nn.ReLU(),
            Dropout(0.5),
            nn.Linear(128, outputs),
        )
        self.dim = outputs

    @property
    def top(self) -> nn.Module:
        return self.layers

    def forward(self, images: Tensor) -> Tensor:
        encoded: Tensor = self.layers(self.features(self.normalise(images)))
        return encoded


class CNN1(nn.Module):
    """FedOnce's network under differential privacy: fewer weights, no dropout."""

    _SMALLEST: ClassVar[int] = 14  # pixels a side

    @classmethod
    def fits(cls, schema: ImageSchema) -> bool:
        return min(schema.height, schema.width) >= cls._SMALLEST

    def __init__(self, schema: ImageSchema, outputs: int) -> None:
        super().__init__()
        _check_size("cnn1", schema, smallest=self._SMALLEST, instead="cnn")
        self.normalise = Normalise(schema.mean, schema.std)
        self.features = nn.Sequential(
            nn.Conv2d(schema.channels, 16, 8, stride=2, padding=3),
            nn.ReLU(),
            nn.MaxPool2d(2, stride=1),
            nn.Conv2d(16, 32, 4, stride=2),
            nn.ReLU(),
            nn.MaxPool2d(2, stride=1),
            nn.Flatten(),
        )
        self.output = nn.Linear(_width(self.features, schema), outputs)
        self.dim = outputs

    @property
    def top(self) -> nn.Module:
        return self.output

    def forward(self, images: Tensor) -> Tensor:
        encoded: Tensor = self.output(self.features(self.normalise(images)))
        return encoded


def _check_size(name: str, schema: ImageSchema, *, smallest: int, instead: str) -> None:
    if min(schema.height, schema.width) < smallest:
        raise InputError(
            f"encoder '{name}' needs images of at least {smallest} x {smallest} pixels and these are "
            f"{schema.height} x {schema.width}: use '{instead}'"
        )


def _width(features: nn.Module, schema: ImageSchema) -> int:
    """The size of the flattened features, by a dry run."""
    with torch.no_grad():
        flat: Tensor = features(torch.zeros(1, schema.channels, schema.height, schema.width))
    return flat.shape[1]
