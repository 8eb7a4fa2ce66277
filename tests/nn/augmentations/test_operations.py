"""The sixteen operations against Pillow, and every image for itself."""

import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageChops, ImageEnhance, ImageOps
from torch import Tensor

from vesica.nn.augmentations.operations import COUNT, OPERATIONS, Draw, apply, cut

AMOUNTS = (0.0, 0.3, 0.55, 0.97)
SHAPES = ((3, 32, 16), (3, 40, 33), (1, 28, 28))


def pictures(shape: tuple[int, int, int], rows: int = 6) -> Tensor:
    """Smooth images and noisy ones: some dark, one constant."""
    random = np.random.default_rng(0)
    channels, height, width = shape
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / (2 + k) + k) * np.cos(y / (3 + k)) * 60 + 128 for k in range(rows * channels)]
    images = np.stack(waves).reshape(rows, channels, height, width) + random.normal(0, 12, (rows, *shape))
    images[1] = images[1] / 3
    images[2] = random.integers(0, 256, shape)
    images[3] = 77
    return torch.from_numpy(images.clip(0, 255).round()).float()


def drawing(name: str, rows: int, *, amount: float = 0.5, sign: int = 1) -> Draw:
    return Draw(
        operation=torch.full((rows,), OPERATIONS.index(name)),
        amount=torch.full((rows,), amount),
        sign=torch.full((rows,), sign),
        centre=torch.full((rows, 2), 0.5),
    )


def to_pillow(levels: Tensor) -> Image.Image:
    array = levels.byte().permute(1, 2, 0).numpy()
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def from_pillow(image: Image.Image) -> Tensor:
    array = np.array(image)
    return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1)).float()


def about_centre(image: Image.Image, a: float, b: float, d: float, e: float) -> Image.Image:
    x, y = image.width / 2, image.height / 2
    matrix = (a, b, x - a * x - b * y, d, e, y - d * x - e * y)
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


def moved(image: Image.Image, right: float, down: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, (1, 0, int(right), 0, 1, int(down)))


def solarize_add(image: Image.Image, value: int) -> Image.Image:
    added = Image.fromarray((np.array(image).astype(int) + value).clip(0, 255).astype(np.uint8))
    return ImageOps.solarize(added, 128)


def by_pillow(image: Image.Image, name: str, amount: float, sign: int) -> Image.Image:
    factor, shear = 0.1 + 1.8 * amount, 0.3 * amount * sign
    match name:
        case "autocontrast":
            return ImageOps.autocontrast(image)
        case "brightness":
            return ImageEnhance.Brightness(image).enhance(factor)
        case "color":
            return ImageEnhance.Color(image).enhance(factor)
        case "contrast":
            return ImageEnhance.Contrast(image).enhance(factor)
        case "equalize":
            return ImageOps.equalize(image)
        case "invert":
            return ImageChops.invert(image)
        case "posterize":
            return ImageOps.posterize(image, 4 + int(4 * amount))
        case "rotate":
            return image.rotate(30 * amount * sign)
        case "sharpness":
            return ImageEnhance.Sharpness(image).enhance(factor)
        case "shear_x":
            return about_centre(image, 1, shear, 0, 1)
        case "shear_y":
            return about_centre(image, 1, 0, shear, 1)
        case "solarize":
            return ImageOps.solarize(image, 256 - int(256 * amount))
        case "solarize_add":
            return solarize_add(image, sign * int(110 * amount))
        case "translate_x":
            return moved(image, 0.45 * amount * sign * image.width, 0)
        case "translate_y":
            return moved(image, 0, 0.45 * amount * sign * image.height)
    raise AssertionError(name)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "cutout"])
def test_an_operation_is_that_of_pillow(name: str, shape: tuple[int, int, int]) -> None:
    images = pictures(shape)
    # Where a pixel lies on the border of two, the nearest one is a matter of rounding.
    tolerated = 0.01 if name in ("rotate", "shear_x", "shear_y") else 0.0
    for amount in AMOUNTS:
        for sign in (-1, 1):
            ours = apply(images, drawing(name, len(images), amount=amount, sign=sign))
            theirs = torch.stack([from_pillow(by_pillow(to_pillow(image), name, amount, sign)) for image in images])
            different = (ours - theirs).abs() > 1
            assert different.float().mean() <= tolerated, (amount, sign)


@pytest.mark.parametrize("name", ["equalize", "invert", "posterize", "solarize", "solarize_add", "translate_x"])
def test_an_operation_without_fractions_is_exactly_that_of_pillow(name: str) -> None:
    images = pictures((3, 32, 32))
    ours = apply(images, drawing(name, len(images), amount=0.8, sign=-1))
    theirs = torch.stack([from_pillow(by_pillow(to_pillow(image), name, 0.8, -1)) for image in images])
    assert torch.equal(ours, theirs)


def test_every_operation_but_the_colour_of_grey_images_does_something() -> None:
    for shape in ((3, 32, 32), (1, 32, 32)):
        images = pictures(shape)[:1]
        for name in OPERATIONS:
            changed = not torch.equal(apply(images, drawing(name, 1, amount=0.9)), images)
            assert changed == ((name, shape[0]) != ("color", 1)), name


def test_in_a_mixed_batch_every_image_is_as_alone() -> None:
    torch.manual_seed(1)
    rows = COUNT + 1
    images = pictures((3, 32, 16), rows)
    draw = Draw(torch.arange(rows), torch.rand(rows), torch.randint(2, (rows,)) * 2 - 1, torch.rand(rows, 2))
    together = apply(images, draw)
    for row in range(rows):
        one = slice(row, row + 1)
        alone = Draw(draw.operation[one], draw.amount[one], draw.sign[one], draw.centre[one])
        assert torch.equal(apply(images[one], alone), together[one])


def test_no_operation_leaves_the_image_as_it_is() -> None:
    images = pictures((3, 32, 16))
    rows = len(images)
    draw = Draw(torch.full((rows,), COUNT), torch.rand(rows), torch.ones(rows), torch.rand(rows, 2))
    assert torch.equal(apply(images, draw), images)


@pytest.mark.parametrize("shape", SHAPES)
def test_levels_stay_whole_and_in_range(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    images = pictures(shape)
    for name in OPERATIONS:
        levels = apply(images, drawing(name, len(images), amount=1.0, sign=-1))
        assert torch.equal(levels, levels.round())
        assert levels.min() >= 0
        assert levels.max() <= 255


def test_images_of_one_pixel_come_through() -> None:
    images = torch.full((COUNT, 1, 1, 1), 200.0)
    rows = len(images)
    draw = Draw(torch.arange(rows), torch.full((rows,), 0.5), torch.ones(rows), torch.full((rows, 2), 0.5))
    assert apply(images, draw).isfinite().all()


def test_a_cut_is_a_grey_square_of_its_own_size() -> None:
    images = torch.full((3, 3, 32, 16), 200.0)
    size = torch.tensor([8, 5, 0])
    grey = cut(images, size, centre=torch.full((3, 2), 0.5)) == 127
    assert grey.all(dim=1).sum(dim=(1, 2)).tolist() == [64, 25, 0]
    assert grey[0, 0].nonzero().aminmax(dim=0).min.tolist() == [12, 4]


def test_a_cut_at_the_corner_is_a_quarter_of_it() -> None:
    images = torch.full((1, 1, 32, 16), 200.0)
    assert (cut(images, torch.tensor([8]), centre=torch.zeros(1, 2)) == 127).sum() == 16


def test_the_cut_of_the_pool_grows_to_a_fifth_of_the_shorter_side() -> None:
    images = torch.full((1, 1, 32, 20), 200.0)
    for amount in (0.0, 0.5, 1.0):
        side = math.floor(0.2 * 20 * amount)
        assert (apply(images, drawing("cutout", 1, amount=amount)) == 127).sum() == side**2
