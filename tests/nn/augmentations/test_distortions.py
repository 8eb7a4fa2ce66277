"""Crops, colours and blur against Pillow and formulas by hand, and every image for itself."""

import colorsys
import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from vesica.errors import InputError
from vesica.nn.augmentations import ImageViews, distortions
from vesica.nn.augmentations.distortions import blurred, cropped, distorted, draw_boxes, turned
from vesica.nn.augmentations.operations import grey, mean_grey, mixed

SHAPES = ((3, 32, 16), (3, 24, 33), (1, 14, 14))
CPU = torch.device("cpu")


def pictures(shape: tuple[int, int, int], rows: int = 5) -> Tensor:
    return torch.randint(256, (rows, *shape), generator=torch.Generator().manual_seed(0)).float()


def to_pillow(levels: Tensor) -> Image.Image:
    array = levels.byte().permute(1, 2, 0).numpy()
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def from_pillow(image: Image.Image) -> Tensor:
    array = np.array(image)
    return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1)).float()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_crop_is_that_of_pillow_and_mirrored_where_it_should_be(shape: tuple[int, int, int]) -> None:
    images = pictures(shape)
    torch.manual_seed(0)
    boxes = draw_boxes(len(images), CPU)
    flip = torch.arange(len(images)) % 2 == 1
    for image, (top, left, high, wide), mirror, ours in zip(
        images, boxes.tolist(), flip, cropped(images, boxes, flip=flip), strict=True
    ):
        _, height, width = shape
        box = (left * width, top * height, (left + wide) * width, (top + high) * height)
        theirs = from_pillow(to_pillow(image).resize((width, height), Image.Resampling.BILINEAR, box=box))
        assert (ours - (theirs.flip(2) if mirror else theirs)).abs().max() <= 1


def test_the_whole_image_is_a_crop_that_changes_nothing() -> None:
    images = pictures((3, 9, 7))
    boxes = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(5, -1)
    assert torch.equal(cropped(images, boxes, flip=torch.zeros(5, dtype=torch.bool)), images)


def test_boxes_keep_three_tenths_to_all_of_an_image_and_lie_inside() -> None:
    torch.manual_seed(0)
    top, left, high, wide = draw_boxes(20000, CPU).unbind(dim=1)
    area, aspect = high * wide, wide / high
    assert area.min() == pytest.approx(0.3, abs=0.001)
    assert area.max() == pytest.approx(1, abs=0.001)
    assert area.mean() == pytest.approx(0.65, abs=0.005)
    assert aspect.max() == pytest.approx(4 / 3, abs=0.01)
    assert aspect.min() == pytest.approx(3 / 4, abs=0.01)
    assert aspect.log().mean() == pytest.approx(0, abs=0.005)
    for start, length in ((top, high), (left, wide)):
        assert start.min() >= 0
        assert (start + length).max() <= 1 + 1e-6
        assert (start / (1 - length).clamp(min=1e-6)).mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.23])
def test_brightness_contrast_and_saturation_are_those_of_pillow(factor: float) -> None:
    images = pictures((3, 32, 16))
    factors = torch.full((len(images),), factor)
    ours = [mixed(images, start, factors) for start in (torch.zeros_like(images), mean_grey(images), grey(images))]
    for of_ours, enhance in zip(
        ours, (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color), strict=True
    ):
        theirs = torch.stack([from_pillow(enhance(to_pillow(image)).enhance(factor)) for image in images])
        assert (of_ours - theirs).abs().max() <= 1


@pytest.mark.parametrize("turn", [-0.1, 0.0, 0.04, 0.5])
def test_a_hue_is_turned_as_by_the_standard_library(turn: float) -> None:
    images = pictures((3, 8, 8))
    images[0] = 93  # grey has no hue
    images[1, 1] = images[1, 0]  # two equal largest channels
    ours = turned(images, torch.full((len(images),), turn))
    for image, result in zip(images / 255, ours, strict=True):
        for pixel, got in zip(image.flatten(1).T.tolist(), result.flatten(1).T.tolist(), strict=True):
            hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
            expected = [255 * level for level in colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)]
            assert got == pytest.approx(expected, abs=0.51)


@pytest.mark.parametrize(("height", "width", "reach"), [(6, 5, (1, 1)), (45, 20, (2, 1))])
def test_each_image_is_blurred_by_its_own_gaussian(height: int, width: int, reach: tuple[int, int]) -> None:
    images, sigma = pictures((1, height, width)), torch.tensor([0.0, 0.1, 0.8, 1.3, 2.0])
    ours = blurred(images, sigma)
    assert torch.equal(ours[0], images[0])
    for row in range(1, 5):
        for y, x in ((0, 0), (2, 3), (4, 1), (height - 1, width - 1)):
            total = weights = 0.0
            for a in range(max(0, y - reach[0]), min(height, y + reach[0] + 1)):
                for b in range(max(0, x - reach[1]), min(width, x + reach[1] + 1)):
                    weight = math.exp(-((a - y) ** 2 + (b - x) ** 2) / (2 * float(sigma[row]) ** 2))
                    total += weight * float(images[row, 0, a, b])
                    weights += weight
            assert ours[row, 0, y, x].item() == pytest.approx(total / weights, abs=0.01)


def test_four_of_five_images_get_other_colours_and_half_are_blurred(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Tensor] = {}
    monkeypatch.setattr(distortions, "turned", lambda levels, turn: seen.setdefault("turn", turn)[0] * 0 + levels)
    monkeypatch.setattr(distortions, "blurred", lambda levels, sigma: seen.setdefault("sigma", sigma)[0] * 0 + levels)
    torch.manual_seed(0)
    distorted(pictures((3, 2, 2), 8000))
    turn, sigma = seen["turn"], seen["sigma"]
    assert (turn != 0).float().mean() == pytest.approx(0.8, abs=0.02)
    assert turn.abs().max() == pytest.approx(0.1, abs=0.001)
    assert turn.mean() == pytest.approx(0, abs=0.003)
    assert (sigma > 0).float().mean() == pytest.approx(0.5, abs=0.02)
    assert sigma[sigma > 0].min() == pytest.approx(0.1, abs=0.01)
    assert sigma.max() == pytest.approx(2, abs=0.01)


def test_the_colours_of_an_image_are_changed_all_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    factors: list[Tensor] = []
    monkeypatch.setattr(distortions, "mixed", lambda levels, start, factor: factors.append(factor) or levels)
    torch.manual_seed(0)
    distorted(pictures((3, 2, 2), 4000))
    brightness, contrast, saturation = factors
    changed = brightness != 1
    for factor in (brightness, contrast, saturation):
        assert torch.equal(factor != 1, changed)
        assert factor.min() == pytest.approx(0.7, abs=0.01)
        assert factor.max() == pytest.approx(1.3, abs=0.01)
    assert torch.corrcoef(torch.stack(factors))[0, 1].abs() < 0.05


def test_grey_images_stay_grey_and_have_views_too() -> None:
    torch.manual_seed(0)
    one, two = ImageViews().pair(pictures((1, 14, 14)).byte())
    assert one.shape == two.shape == (5, 1, 14, 14)
    torch.manual_seed(0)
    three, _ = ImageViews().pair(pictures((1, 14, 14)).byte().expand(-1, 3, -1, -1))
    torch.testing.assert_close(three[:, 0], three[:, 1])


@pytest.mark.parametrize("shape", [*SHAPES, (1, 2, 2), (3, 5, 40)])
def test_a_pair_is_float_in_0_to_1_of_the_same_shape_and_of_two_draws(shape: tuple[int, int, int]) -> None:
    images = pictures(shape, 64).byte()
    before = images.clone()
    torch.manual_seed(0)
    one, two = ImageViews().pair(images)
    assert not torch.equal(one, two)
    for view in (one, two):
        assert view.shape == images.shape
        assert view.dtype == torch.float32
        assert view.min() >= 0
        assert view.max() <= 1 + 1e-6
    assert torch.equal(images, before)
    torch.manual_seed(0)
    assert torch.equal(ImageViews().pair(images.float() / 255)[0], one)


def test_equal_images_get_views_of_their_own() -> None:
    torch.manual_seed(0)
    one, _ = ImageViews().pair(pictures((3, 16, 16), 1).expand(16, -1, -1, -1) / 255)
    assert len({tuple(each.flatten().tolist()) for each in one}) == 16


def test_a_pair_of_other_than_grey_and_colour_images_is_refused() -> None:
    with pytest.raises(InputError, match="give grey or colour images"):
        ImageViews().pair(torch.zeros(2, 4, 8, 8))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_pair_neither_waits_for_its_device_nor_breaks_a_compiled_graph(channels: int) -> None:
    shape = (8, channels, 32, 16)
    views = ImageViews()
    assert views.pair(torch.empty(shape, dtype=torch.uint8, device="meta"))[1].shape == shape
    images = pictures((channels, 32, 16), 8).byte()
    torch.manual_seed(0)
    expected = views.pair(images)
    torch.manual_seed(0)
    whole = torch.compile(views.pair, backend="eager", fullgraph=True, dynamic=False)
    for ours, theirs in zip(whole(images), expected, strict=True):
        torch.testing.assert_close(ours, theirs)
