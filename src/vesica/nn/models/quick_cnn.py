"""A small residual network for images of about 32 x 32 pixels whose few convolutions are wide: what a GPU does best.

After the networks of Page (2018, "How to train your ResNet") and Jordan (2024, "94% on CIFAR-10 in 3.29 seconds").
"""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from vesica.nn.models.resnet import convolution


class QuickCNN(nn.Module):
    """A stem, then a stage a width: a convolution, pooled before it is normalised, and another with a shortcut.

    Normalised and activated once more, the mean over the image and a linear layer give the `outputs`: unlike the
    largest value over the image, which the networks it is after take, the mean is small enough for plain SGD.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        channels: int,
        outputs: int,
        normalise: nn.Module | None = None,
    ) -> None:
        super().__init__()
        first = widths[0] // 2
        self.normalise = normalise or nn.Identity()
        self.stem = nn.Sequential(convolution(channels, first), *_activation(first))
        self.stages = nn.Sequential(*(Stage(inputs, width) for inputs, width in pairwise((first, *widths))))
        last = widths[-1]
        self.output = nn.Sequential(*_activation(last), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, outputs))
        self.dim = outputs

    @property
    def top(self) -> nn.Module:
        """All behind the first stage."""
        return nn.Sequential(*list(self.stages)[1:], self.output)

    def forward(self, images: Tensor) -> Tensor:
        encoded: Tensor = self.output(self.stages(self.stem(self.normalise(images))))
        return encoded


class Stage(nn.Module):
    """Half the sides, rounded up, and another width."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.narrow = nn.Sequential(
            convolution(inputs, outputs), nn.MaxPool2d(2, ceil_mode=True), *_activation(outputs)
        )
        self.residual = nn.Sequential(convolution(outputs, outputs), *_activation(outputs))

    def forward(self, images: Tensor) -> Tensor:
        narrowed: Tensor = self.narrow(images)
        residual: Tensor = self.residual(narrowed)
        return narrowed + residual


def _activation(channels: int) -> tuple[nn.Module, nn.Module]:
    return nn.BatchNorm2d(channels), nn.GELU()
