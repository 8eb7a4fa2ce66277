"""Wide residual networks for small images (Zagoruyko and Komodakis), in the variant of FixMatch."""

from torch import Tensor, nn

from vesica.errors import InputError

SLOPE = 0.1  # of LeakyReLU, as in FixMatch


class WideResNet(nn.Module):
    """WRN-depth-width: three stages of pre-activation blocks, then the mean over the image.

    Without `outputs` it gives the 64 * width pooled features, else a linear layer of them.
    """

    def __init__(
        self,
        depth: int = 22,
        width: int = 2,
        *,
        channels: int,
        outputs: int | None = None,
        normalise: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if depth < 10 or depth % 6 != 4:
            raise InputError(f"a wide ResNet has depth 6n + 4 and not {depth}: use 16, 22 or 28")
        blocks = (depth - 4) // 6
        features = 64 * width
        self.normalise = normalise or nn.Identity()
        # FixMatch activates before the first shortcut; so the stem does, and the first block does not.
        self.stem = nn.Sequential(_convolution(channels, 16, 1), *_activation(16))
        self.stages = nn.Sequential(
            Block(16, 16 * width, activate=nn.Identity()),
            *_repeat(16 * width, blocks - 1),
            *_stage(16 * width, 32 * width, blocks),
            *_stage(32 * width, features, blocks),
            *_activation(features),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.output = nn.Identity() if outputs is None else nn.Linear(features, outputs)
        self.dim = features if outputs is None else outputs
        self._first = blocks
        self.apply(_initialise)

    @property
    def top(self) -> nn.Module:
        """All behind the first stage."""
        return nn.Sequential(*list(self.stages)[self._first :], self.output)

    def forward(self, images: Tensor) -> Tensor:
        encoded: Tensor = self.output(self.stages(self.stem(self.normalise(images))))
        return encoded


class Block(nn.Module):
    """Activation, convolution, activation, convolution, and a shortcut around them."""

    def __init__(self, inputs: int, outputs: int, *, activate: nn.Module, stride: int = 1) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            activate,
            _convolution(inputs, outputs, stride),
            *_activation(outputs),
            _convolution(outputs, outputs, 1),
        )
        changes = inputs != outputs or stride != 1
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if changes else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        shortcut: Tensor = self.shortcut(images)
        residual: Tensor = self.residual(images)
        return shortcut + residual


def _stage(inputs: int, outputs: int, blocks: int) -> list[Block]:
    first = Block(inputs, outputs, activate=nn.Sequential(*_activation(inputs)), stride=2)
    return [first, *_repeat(outputs, blocks - 1)]


def _repeat(width: int, blocks: int) -> list[Block]:
    return [Block(width, width, activate=nn.Sequential(*_activation(width))) for _ in range(blocks)]


def _convolution(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


def _activation(channels: int) -> tuple[nn.Module, nn.Module]:
    # FixMatch's batch-norm momentum of .001 needs thousands of steps; torch's .1 also suits short runs end to end.
    return nn.BatchNorm2d(channels), nn.LeakyReLU(SLOPE)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, SLOPE, mode="fan_out", nonlinearity="leaky_relu")
    elif isinstance(module, nn.Linear):
        nn.init.xavier_normal_(module.weight)
        nn.init.zeros_(module.bias)
