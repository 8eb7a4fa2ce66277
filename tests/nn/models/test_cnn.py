"""FedOnce's two convolutional networks and the standardisation of images."""

import pytest
import torch
from torch import nn

from vesica.errors import InputError
from vesica.nn.models import CNN0, CNN1, Normalise
from vesica.schema import ImageSchema


def images_of(channels: int, height: int, width: int) -> ImageSchema:
    return ImageSchema(channels, height, width, mean=(0.5,) * channels, std=(0.25,) * channels)


def test_uint8_and_float_images_are_standardised_alike() -> None:
    images = torch.randint(256, (5, 3, 4, 6), dtype=torch.uint8)
    normalise = Normalise((0.4, 0.5, 0.6), (0.2, 0.25, 0.5))
    outputs = normalise(images)
    torch.testing.assert_close(outputs, normalise(images.float() / 255), rtol=0, atol=0)
    torch.testing.assert_close(outputs[:, 2], (images[:, 2].float() / 255 - 0.6) / 0.5)
    assert outputs.dtype == torch.float32


def test_the_standardisation_is_not_part_of_the_state() -> None:
    assert not Normalise((0.5,), (0.5,)).state_dict()


def test_a_constant_channel_is_refused() -> None:
    with pytest.raises(InputError, match=r"positive std per channel.*std \[0\.5, 0\.0\]"):
        Normalise((0.5, 0.5), (0.5, 0.0))


def test_cnn0_on_a_quadrant_of_a_digit_flattens_to_1600() -> None:
    cnn = CNN0(images_of(1, 14, 14), 16)
    convolutions = (1 * 9 * 32 + 32) + (32 * 9 * 64 + 64)
    layers = (1600 * 128 + 128) + (128 * 16 + 16)
    assert sum(p.numel() for p in cnn.parameters()) == convolutions + layers


def test_cnn1_on_a_quadrant_of_a_digit_flattens_to_32() -> None:
    cnn = CNN1(images_of(1, 14, 14), 16)
    convolutions = (1 * 64 * 16 + 16) + (16 * 16 * 32 + 32)
    assert sum(p.numel() for p in cnn.parameters()) == convolutions + (32 * 16 + 16)


@pytest.mark.parametrize(("network", "sizes"), [(CNN0, [12, 12, 10, 10, 5]), (CNN1, [7, 7, 6, 2, 2, 1])])
def test_a_quadrant_shrinks_as_in_the_paper(network: type[CNN0] | type[CNN1], sizes: list[int]) -> None:
    values = torch.rand(1, 1, 14, 14)
    seen = []
    for layer in list(network(images_of(1, 14, 14), 16).features)[:-1]:
        values = layer(values)
        seen.append(values.shape[-1])
    assert seen == sizes


def test_cnn0_drops_features_in_training_only() -> None:
    cnn = CNN0(images_of(1, 14, 14), 16)
    images = torch.rand(2, 1, 14, 14)
    assert not torch.equal(cnn(images), cnn(images))
    cnn.eval()
    assert torch.equal(cnn(images), cnn(images))


def test_cnn1_has_no_dropout() -> None:
    assert not any(isinstance(module, nn.Dropout) for module in CNN1(images_of(1, 14, 14), 16).modules())


@pytest.mark.parametrize(("network", "smallest"), [(CNN0, 6), (CNN1, 14)])
def test_the_smallest_image_is_encoded_and_a_smaller_one_refused(
    network: type[CNN0] | type[CNN1], smallest: int
) -> None:
    images = torch.rand(2, 3, smallest, 32)
    assert network(images_of(3, smallest, 32), 8)(images).shape == (2, 8)
    sentence = f"at least {smallest} x {smallest} pixels and these are 32 x {smallest - 1}: use"
    with pytest.raises(InputError, match=sentence):
        network(images_of(3, 32, smallest - 1), 8)
