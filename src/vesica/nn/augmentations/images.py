"""Weak and strong views of images, as in FixMatch (Sohn et al.), and pairs of views, every image with its own draws."""

import torch
from torch import Tensor

from vesica.errors import InputError
from vesica.nn.augmentations.distortions import distorted
from vesica.nn.augmentations.operations import COUNT, Draw, apply, cut

OPERATIONS_EACH = 2  # RandAugment's n
CHANCE = 0.5  # of each drawn operation to be applied, as in a public code of FixMatch


class ImageViews:
    """Views for semi-supervised learning on images: the weak and the strong one have flips and crops of their own.

    And a pair of equal rank for self-supervised learning. `chance` is that of each operation which a strong view draws
    to be applied.
    """

    def __init__(self, *, chance: float = CHANCE) -> None:
        self._chance = chance

    def weak(self, images: Tensor) -> Tensor:
        return weak(images)

    def both(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return weak(images), strong(images, chance=self._chance)

    def pair(self, images: Tensor) -> tuple[Tensor, Tensor]:
        _check(images)
        levels = (_unit(images) * 255).round()
        return distorted(levels) / 255, distorted(levels) / 255


def weak(images: Tensor) -> Tensor:
    """Flipped or not, and shifted by up to an eighth of each side: float in [0, 1].

    Images are (rows, channels, height, width), uint8 or float in [0, 1]. Like every draw here, these come
    from torch's global generator of the images' device.
    """
    return _unit(_weak(images))


def strong(images: Tensor, *, chance: float = CHANCE) -> Tensor:
    """The weak view, two random operations an image, then a grey square of half the shorter side.

    So at most a quarter of any image is grey, where a fixed 16 x 16 could blank a half of 32 x 16. The values become
    whole levels 0..255 on the way, as they do in an image library.
    """
    levels = (_unit(_weak(images)) * 255).round()
    rows, _, height, width = levels.shape
    for _ in range(OPERATIONS_EACH):
        levels = apply(levels, draw_operation(rows, levels.device, chance=chance))
    size = torch.full((rows,), min(height, width) // 2, device=levels.device)
    return cut(levels, size, centre=torch.rand(rows, 2, device=levels.device)) / 255


def draw_operation(rows: int, device: torch.device, *, chance: float) -> Draw:
    applied = torch.rand(rows, device=device) < chance
    operation = torch.randint(COUNT, (rows,), device=device)
    return Draw(
        operation=torch.where(applied, operation, COUNT),
        amount=torch.rand(rows, device=device),
        sign=torch.randint(2, (rows,), device=device) * 2 - 1,
        centre=torch.rand(rows, 2, device=device),
    )


def shifted(images: Tensor, flip: Tensor, *, down: Tensor, right: Tensor) -> Tensor:
    """Each image mirrored where `flip` says so, then moved by whole pixels; what comes in is a reflection."""
    _, channels, height, width = images.shape
    device = images.device
    y = _reflected(torch.arange(height, device=device) - down[:, None], height)
    x = _reflected(torch.arange(width, device=device) - right[:, None], width)
    x = torch.where(flip[:, None], width - 1 - x, x)
    source = (y[:, None, :, None] * width + x[:, None, None, :]).expand(-1, channels, -1, -1)
    return images.flatten(2).gather(2, source.flatten(2)).view(images.shape)


def _check(images: Tensor) -> None:
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise InputError(
            f"images to augment have shape (rows, 1 or 3, height, width) and these have {tuple(images.shape)}: "
            "give grey or colour images"
        )


def _weak(images: Tensor) -> Tensor:
    _check(images)
    rows, _, height, width = images.shape
    flip = torch.rand(rows, device=images.device) < 0.5
    down, right = (
        torch.randint(-(side // 8), side // 8 + 1, (rows,), device=images.device) for side in (height, width)
    )
    return shifted(images, flip, down=down, right=right)


def _reflected(positions: Tensor, side: int) -> Tensor:
    """Positions less than a side outside, mirrored at the outermost pixel."""
    return side - 1 - (side - 1 - positions.abs()).abs()


def _unit(images: Tensor) -> Tensor:
    return images.float() / 255 if images.dtype == torch.uint8 else images.float()
