"""The sixteen operations of FixMatch's RandAugment on a batch in which every image has an operation of its own."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

OPERATIONS = (
    "autocontrast",
    "brightness",
    "color",
    "contrast",
    "cutout",
    "equalize",
    "invert",
    "posterize",
    "rotate",
    "sharpness",
    "shear_x",
    "shear_y",
    "solarize",
    "solarize_add",
    "translate_x",
    "translate_y",
)
COUNT = len(OPERATIONS)
GREY = 127.0  # what a cut leaves
LEVELS = 256


@dataclass(frozen=True)
class Draw:
    """One operation an image, each field with one row an image."""

    operation: Tensor  # position in OPERATIONS; COUNT leaves the image as it is
    amount: Tensor  # how much of the operation's range, in [0, 1]
    sign: Tensor  # -1 or 1, for the operations that have two directions
    centre: Tensor  # (rows, 2): of a cut, down and right as fractions of the sides

    def chosen(self, name: str) -> Tensor:
        return self.operation == OPERATIONS.index(name)

    def signed(self, name: str, most: float) -> Tensor:
        """The operation's value where it is chosen, else 0."""
        return torch.where(self.chosen(name), most * self.amount * self.sign, 0.0)


def apply(levels: Tensor, draw: Draw) -> Tensor:
    """Each image through its operation: what Pillow makes of it, up to one level.

    Levels are whole numbers 0..255 in float32, (rows, channels, height, width). Five operations are one warp, six are
    tables, four are blends, one is a cut. Each stage is computed for the whole batch and leaves the images of other
    operations as they are: no loop over images, no shape that depends on data, no wait for the device.
    """
    _, _, height, width = levels.shape
    levels = blend(look_up(warp(levels, draw), draw), draw)
    size = torch.where(draw.chosen("cutout"), (0.2 * min(height, width) * draw.amount).floor(), 0.0)
    return cut(levels, size, centre=draw.centre)


def warp(levels: Tensor, draw: Draw) -> Tensor:
    """Rotation by up to 30 degrees, shear by up to .3, translation by up to .45 of a side.

    All about the centre, to the nearest pixel, black where nothing was.
    """
    _, _, height, width = levels.shape
    angle = draw.signed("rotate", math.radians(30))[:, None, None]
    shear_x, shear_y = (draw.signed(name, 0.3)[:, None, None] for name in ("shear_x", "shear_y"))
    right = (draw.signed("translate_x", 0.45) * width).trunc()[:, None, None]
    down = (draw.signed("translate_y", 0.45) * height).trunc()[:, None, None]
    x = torch.arange(width, device=levels.device) + 0.5 - width / 2
    y = (torch.arange(height, device=levels.device) + 0.5 - height / 2)[:, None]
    from_x = angle.cos() * x - (angle.sin() - shear_x) * y + right
    from_y = (angle.sin() + shear_y) * x + angle.cos() * y + down
    grid = torch.stack([from_x * (2 / width), from_y * (2 / height)], dim=3)
    return functional.grid_sample(levels, grid, mode="nearest", padding_mode="zeros", align_corners=False)


def look_up(levels: Tensor, draw: Draw) -> Tensor:
    """The operations that map a level to a level: a table per image and channel."""
    rows, channels = levels.shape[:2]
    ramp = torch.arange(LEVELS, device=levels.device, dtype=levels.dtype)
    amount = draw.amount[:, None, None]
    step = 2 ** (4 - (4 * amount).floor())  # keeps 4 to 7 of the 8 bits
    moved = (ramp + draw.sign[:, None, None] * (110 * amount).floor()).clamp(0, 255)
    flat = levels.flatten(2).long()
    tables = {
        "autocontrast": _stretched(levels, ramp),
        "equalize": _equalized(flat, ramp),
        "invert": 255 - ramp,
        "posterize": (ramp / step).floor() * step,
        "solarize": torch.where(ramp < 256 - (256 * amount).floor(), ramp, 255 - ramp),
        "solarize_add": torch.where(moved < 128, moved, 255 - moved),
    }
    table = ramp.expand(rows, channels, LEVELS)
    for name, other in tables.items():
        table = torch.where(draw.chosen(name)[:, None, None], other, table)
    return table.gather(2, flat).view_as(levels)


def blend(levels: Tensor, draw: Draw) -> Tensor:
    """The enhancements: from .1 to 1.9 of the way from an image without brightness, colour, contrast or edges."""
    colourless = grey(levels)
    without = {
        "brightness": torch.zeros_like(colourless),
        "color": colourless,
        "contrast": mean_grey(levels),
        "sharpness": _smooth(levels),
    }
    start, factor = levels, torch.ones_like(draw.amount)
    for name, other in without.items():
        start = torch.where(draw.chosen(name)[:, None, None, None], other, start)
        factor = torch.where(draw.chosen(name), 0.1 + 1.8 * draw.amount, factor)
    return mixed(levels, start, factor)


def mixed(levels: Tensor, start: Tensor, factor: Tensor) -> Tensor:
    """Each image `factor`, (rows,), of the way from `start` to itself, or beyond."""
    return (start + factor[:, None, None, None] * (levels - start)).clamp(0, 255).floor()


def grey(levels: Tensor) -> Tensor:
    """The luma of ITU-R 601 in Pillow's integers, exact in float32; a grey image is its own."""
    if levels.shape[1] == 1:
        return levels
    red, green, blue = levels.split(1, dim=1)
    weighted: Tensor = 19595 * red + 38470 * green + 7471 * blue + 32768
    return (weighted / 65536).floor()


def mean_grey(levels: Tensor) -> Tensor:
    """Each image's mean level, rounded: (rows, 1, 1, 1)."""
    return (grey(levels).mean(dim=(2, 3), keepdim=True) + 0.5).floor()


def cut(levels: Tensor, size: Tensor, *, centre: Tensor) -> Tensor:
    """A grey square of `size` pixels a side, (rows,), around `centre`; the part outside the image is lost."""
    _, _, height, width = levels.shape
    inside = [_covers(side, size, centre[:, axis]) for axis, side in enumerate((height, width))]
    square = inside[0][:, None, :, None] & inside[1][:, None, None, :]
    return torch.where(square, GREY, levels)


def _covers(side: int, size: Tensor, centre: Tensor) -> Tensor:
    """Which positions of a side, (rows, side), the square covers."""
    first = (centre * side - size / 2).floor()[:, None]
    position = torch.arange(side, device=size.device)
    return (position >= first) & (position < first + size[:, None])


def _stretched(levels: Tensor, ramp: Tensor) -> Tensor:
    """A channel's darkest level to 0, its brightest to 255; a constant channel stays."""
    low, high = levels.amin(dim=(2, 3))[:, :, None], levels.amax(dim=(2, 3))[:, :, None]
    span = (high - low).clamp(min=1)
    return torch.where(high > low, ((ramp - low) * 255 / span).floor().clamp(0, 255), ramp)


def _equalized(flat: Tensor, ramp: Tensor) -> Tensor:
    """Levels by rank; a channel stays that is constant or has too few pixels below its brightest level."""
    rows, channels, _ = flat.shape
    counts = torch.zeros(rows, channels, LEVELS, device=flat.device)
    counts.scatter_add_(2, flat, torch.ones_like(flat, dtype=counts.dtype))
    below = counts.cumsum(dim=2) - counts
    step = (below.gather(2, flat.amax(dim=2, keepdim=True)) / 255).floor()
    table = ((below + (step / 2).floor()) / step.clamp(min=1)).floor().clamp(max=255)
    return torch.where(step > 0, table, ramp)


def _smooth(levels: Tensor) -> Tensor:
    """Each pixel mixed with its eight neighbours, 5 parts to 1 each; the outermost stay."""
    columns = levels[..., :-2] + levels[..., 1:-1] + levels[..., 2:]
    squares = columns[..., :-2, :] + columns[..., 1:-1, :] + columns[..., 2:, :]
    smooth = levels.clone()
    inside = smooth[..., 1:-1, 1:-1]
    inside.copy_(((squares + 4 * inside) / 13 + 0.5).floor())
    return smooth
