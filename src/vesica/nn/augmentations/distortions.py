"""The views of self-supervised learning on images: cropped, recoloured and blurred, every image with draws of its own.

Levels are whole numbers 0..255 in float32, (rows, channels, height, width).
"""

import math

import torch
from torch import Tensor

from vesica.nn.augmentations.operations import grey, mean_grey, mixed

SCALE = (0.3, 1.0)  # the part of an image's area that a crop keeps
ASPECT = 4 / 3  # a crop is at most this much wider, or higher, than the image
BRIGHTNESS = CONTRAST = SATURATION = 0.3
HUE = 0.1  # of the colour circle
JITTERED = 0.8  # the share of images with other colours
BLURRED = 0.5
SIGMA = (0.1, 2.0)  # pixels
REACH = 20  # a blur mixes pixels up to a twentieth of the side apart, as in SimCLR: of small images the nearest


def distorted(levels: Tensor) -> Tensor:
    """FedHSSL's view: crop, flip, jitter of colours, blur. Only colours have a hue and a saturation."""
    rows, channels, _, _ = levels.shape
    device = levels.device
    levels = cropped(levels, draw_boxes(rows, device), flip=torch.rand(rows, device=device) < 0.5)
    jittered = torch.rand(rows, device=device) < JITTERED
    levels = mixed(levels, torch.zeros_like(levels), _factors(jittered, BRIGHTNESS))
    levels = mixed(levels, mean_grey(levels), _factors(jittered, CONTRAST))
    if channels == 3:
        levels = mixed(levels, grey(levels), _factors(jittered, SATURATION))
        levels = turned(levels, _factors(jittered, HUE) - 1)
    sigma = SIGMA[0] + (SIGMA[1] - SIGMA[0]) * torch.rand(rows, device=device)
    return blurred(levels, torch.where(torch.rand(rows, device=device) < BLURRED, sigma, 0.0))


def draw_boxes(rows: int, device: torch.device) -> Tensor:
    """Where to crop, (rows, 4): top, left, height, width as fractions of the sides.

    An aspect is relative to the image's, so that halves and quarters of images are cropped like whole ones, and it is
    drawn from those that fit: no draw is tried again.
    """
    area = SCALE[0] + (SCALE[1] - SCALE[0]) * torch.rand(rows, device=device)
    widest = (-area.log()).clamp(max=math.log(ASPECT))
    aspect = (widest * (2 * torch.rand(rows, device=device) - 1)).exp()
    sides = torch.stack([(area / aspect).sqrt(), (area * aspect).sqrt()], dim=1).clamp(max=1)
    return torch.cat([(1 - sides) * torch.rand(rows, 2, device=device), sides], dim=1)


def cropped(levels: Tensor, boxes: Tensor, *, flip: Tensor) -> Tensor:
    """Each image's box, stretched to the whole image between nearest pixels, then mirrored where `flip` says so."""
    height, width = levels.shape[2:]
    top, left, high, wide = boxes.unbind(dim=1)
    down = _stretch(top, high, height)
    right = _stretch(left, wide, width)
    right = torch.where(flip[:, None, None], right.flip(1), right)
    return _resampled(levels, down, right).round()


def turned(levels: Tensor, turn: Tensor) -> Tensor:
    """Each image's hues moved by `turn`, (rows,), of the colour circle; saturation and value stay."""
    red, green, blue = levels.unbind(dim=1)
    value, low = levels.amax(dim=1), levels.amin(dim=1)
    chroma = value - low
    span = chroma.clamp(min=1)
    sixth = torch.where(value == green, 2 + (blue - red) / span, 4 + (red - green) / span)
    sixth = torch.where(value == red, (green - blue) / span, sixth) + 6 * turn[:, None, None]
    distances = torch.stack([(place + sixth) % 6 for place in (5, 3, 1)], dim=1)
    return value[:, None] - (chroma[:, None] * torch.minimum(distances, 4 - distances).clamp(0, 1)).round()


def blurred(levels: Tensor, sigma: Tensor) -> Tensor:
    """Each image blurred by a Gaussian of `sigma` pixels, (rows,), cut off; not at all where it is 0."""
    height, width = levels.shape[2:]
    return _resampled(levels, _gaussian(sigma, height), _gaussian(sigma, width))


def _factors(chosen: Tensor, most: float) -> Tensor:
    return torch.where(chosen, 1 + most * (2 * torch.rand(len(chosen), device=chosen.device) - 1), 1.0)


def _resampled(levels: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Every row and column of an image a mixture of its own: matrices (rows, side, side)."""
    return down[:, None] @ levels @ right.mT[:, None]


def _stretch(start: Tensor, length: Tensor, side: int) -> Tensor:
    position = torch.arange(side, device=start.device)
    source = start[:, None] * side + (position + 0.5) * length[:, None] - 0.5
    return (1 - (source.clamp(0, side - 1)[:, :, None] - position).abs()).clamp(min=0)


def _gaussian(sigma: Tensor, side: int) -> Tensor:
    position = torch.arange(side, device=sigma.device)
    apart = position[:, None] - position
    # The least sigma is that of a pixel that stays alone.
    heights = -(apart / sigma.clamp(min=0.01)[:, None, None]).square() / 2
    return heights.masked_fill(apart.abs() > max(1, side // REACH), -torch.inf).softmax(dim=2)
