"""Weak and strong views of images."""

import pytest
import torch
from torch import Tensor

from vesica.errors import InputError
from vesica.nn.augmentations import ImageViews, strong, views_of, weak
from vesica.nn.augmentations.images import shifted
from vesica.schema import ImageSchema

VIEWS = (weak, strong)


def pictures(*shape: int) -> Tensor:
    return torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def by_hand(image: Tensor, flip: bool, down: int, right: int) -> Tensor:
    """Mirror, pad with torch's own reflection, and crop."""
    image = image.flip(2) if flip else image
    vertical, horizontal = abs(down), abs(right)
    padded = torch.nn.functional.pad(image[None], (horizontal, horizontal, vertical, vertical), mode="reflect")[0]
    top, left = vertical - down, horizontal - right
    return padded[:, top : top + image.shape[1], left : left + image.shape[2]]


def test_a_shifted_image_is_mirrored_then_moved_then_filled_by_reflection() -> None:
    images = pictures(4, 3, 16, 9).float()
    flip = torch.tensor([False, True, True, False])
    down, right = torch.tensor([0, 2, -1, -2]), torch.tensor([1, 0, -1, 1])
    moved = shifted(images, flip, down=down, right=right)
    for row in range(4):
        assert torch.equal(moved[row], by_hand(images[row], bool(flip[row]), int(down[row]), int(right[row])))


def test_a_weak_view_is_one_of_the_possible_flips_and_shifts() -> None:
    image = pictures(1, 1, 16, 8)
    possible = {
        tuple(by_hand(image[0].float(), flip, down, right).flatten().tolist())
        for flip in (False, True)
        for down in range(-2, 3)
        for right in range(-1, 2)
    }
    torch.manual_seed(0)
    views = (weak(image.expand(2000, -1, -1, -1)) * 255).round()
    assert {tuple(view.flatten().tolist()) for view in views} == possible


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("shape", [(8, 3, 32, 16), (8, 1, 14, 14), (8, 3, 5, 40), (8, 1, 2, 2)])
def test_a_view_is_float_in_0_to_1_of_the_same_shape(view, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    result = view(pictures(*shape))
    assert result.shape == shape
    assert result.dtype == torch.float32
    assert result.min() >= 0
    assert result.max() <= 1


@pytest.mark.parametrize("view", VIEWS)
def test_whole_numbers_and_fractions_give_the_same_view(view) -> None:
    images = pictures(64, 3, 32, 16)
    torch.manual_seed(3)
    of_bytes = view(images)
    torch.manual_seed(3)
    assert torch.equal(view(images.float() / 255), of_bytes)


@pytest.mark.parametrize("view", VIEWS)
def test_equal_images_get_draws_of_their_own(view) -> None:
    torch.manual_seed(0)
    views = view(pictures(1, 3, 32, 16).expand(16, -1, -1, -1))
    assert len({tuple(each.flatten().tolist()) for each in views}) > 8


@pytest.mark.parametrize("view", VIEWS)
def test_the_global_generator_decides_and_the_images_stay(view) -> None:
    images = pictures(8, 3, 32, 16)
    before = images.clone()
    torch.manual_seed(5)
    one = view(images)
    assert not torch.equal(view(images), one)
    torch.manual_seed(5)
    assert torch.equal(view(images), one)
    assert torch.equal(images, before)


def test_strong_blanks_at_most_a_quarter_of_a_half_and_mostly_that() -> None:
    torch.manual_seed(0)
    white = torch.full((500, 3, 32, 16), 255, dtype=torch.uint8)
    grey = (strong(white, chance=0.0) * 255 == 127).all(dim=1).sum(dim=(1, 2))
    assert grey.max() == 64
    assert grey.min() >= 16
    assert (grey == 64).float().mean() > 0.3


@pytest.mark.parametrize(("views", "left_out"), [(ImageViews(), 4000), (ImageViews(chance=1.0), 0)])
def test_two_operations_are_applied_half_of_the_time_each_or_as_often_as_asked(
    views: ImageViews, left_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("vesica.nn.augmentations.images.apply", lambda levels, draw: seen.append(draw) or levels)
    torch.manual_seed(0)
    views.both(pictures(1, 1, 8, 8).expand(8000, -1, -1, -1))
    assert len(seen) == 2
    for draw in seen:
        counts = torch.bincount(draw.operation, minlength=17)
        assert len(counts) == 17
        assert abs(counts[16] - left_out) < min(300, left_out + 1)
        assert counts[:16].min() > (8000 - left_out) / 16 - 100
        assert set(draw.sign.tolist()) == {-1, 1}
        assert 0.48 < draw.amount.mean() < 0.52


def test_the_two_views_of_an_image_are_a_weak_and_a_strong_one() -> None:
    schema = ImageSchema(3, 32, 16, (0.5,) * 3, (0.2,) * 3)
    images = pictures(4, 3, 32, 16)
    views = views_of(schema, images)
    assert isinstance(views, ImageViews)
    torch.manual_seed(0)
    first, second = views.both(images)
    torch.manual_seed(0)
    assert torch.equal(first, weak(images))
    assert torch.equal(second, strong(images))


@pytest.mark.parametrize("shape", [(2, 4, 8, 8), (3, 8, 8)])
def test_other_than_grey_and_colour_images_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="give grey or colour images"):
        weak(pictures(*shape))


@pytest.mark.parametrize("view", VIEWS)
def test_no_view_waits_for_its_device_or_has_shapes_that_depend_on_data(view) -> None:
    """A meta tensor has no values: whoever asks for one fails."""
    assert view(torch.empty(8, 3, 32, 16, dtype=torch.uint8, device="meta")).shape == (8, 3, 32, 16)
