"""ResNet-18 (He et al.) for images of about 32 x 32 pixels."""

from torch import Tensor, nn

FEATURES = 512


class ResNet18(nn.Module):
    """A 3x3 stem without max-pooling and four stages, cut in two as FedHSSL does, which averages the tops.

    `bottom` is the stem and the first stage, `top` the other three and the mean over the image. Without
    `outputs` it gives the 512 pooled features, else a linear layer of them, which is part of the top.
    """

    def __init__(self, *, channels: int, outputs: int | None = None, normalise: nn.Module | None = None) -> None:
        super().__init__()
        self.normalise = normalise or nn.Identity()
        self.bottom = nn.Sequential(
            convolution(channels, 64, 1), nn.BatchNorm2d(64), nn.ReLU(), Block(64, 64), Block(64, 64)
        )
        self.top = nn.Sequential(
            *_stage(64, 128),
            *_stage(128, 256),
            *_stage(256, FEATURES),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            *([] if outputs is None else [nn.Linear(FEATURES, outputs)]),
        )
        self.dim = FEATURES if outputs is None else outputs

    def forward(self, images: Tensor) -> Tensor:
        encoded: Tensor = self.top(self.bottom(self.normalise(images)))
        return encoded


class Block(nn.Module):
    """Two convolutions and a shortcut around them."""

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            convolution(inputs, outputs, stride),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            convolution(outputs, outputs, 1),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Identity() if inputs == outputs else _projection(inputs, outputs, stride)

    def forward(self, images: Tensor) -> Tensor:
        shortcut: Tensor = self.shortcut(images)
        residual: Tensor = self.residual(images)
        return (shortcut + residual).relu()


def _stage(inputs: int, outputs: int) -> tuple[Block, Block]:
    return Block(inputs, outputs, stride=2), Block(outputs, outputs)


def _projection(inputs: int, outputs: int, stride: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


def convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    made = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    nn.init.kaiming_normal_(made.weight, mode="fan_out", nonlinearity="relu")
    return made
