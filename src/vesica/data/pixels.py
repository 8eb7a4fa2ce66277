"""Images as the input of a model: the statistics of their channels, and their tensor."""

import numpy as np
import torch
from torch import Tensor

from vesica.data.table import Array
from vesica.errors import InputError
from vesica.schema import ImageSchema

BLOCK = 4096  # rows counted at a time, which bounds the memory


def fit_image(image: Array, rows: Array) -> ImageSchema:
    """The shape of the images and, over the given rows, mean and standard deviation a channel."""
    height, width, channels = image.shape[1:]
    counts = np.zeros((channels, 256))
    for start in range(0, len(rows), BLOCK):
        block = image[rows[start : start + BLOCK]].reshape(-1, channels)
        for channel in range(channels):
            counts[channel] += np.bincount(block[:, channel], minlength=256)
    statistics = [mean_and_deviation(count) for count in counts]
    means, deviations = zip(*statistics, strict=True)
    return ImageSchema(channels, height, width, means, deviations)


def mean_and_deviation(counts: Array) -> tuple[float, float]:
    """Of pixel values 0..255 on the scale [0, 1], from how often each occurs; a constant deviates by 1."""
    values, weights = np.arange(256) / 255, counts / counts.sum()
    mean = float(weights @ values)
    deviation = float(np.sqrt(weights @ (values - mean) ** 2))
    return mean, deviation if np.count_nonzero(counts) > 1 else 1.0


def image_tensor(image: Array | None, schema: ImageSchema) -> Tensor:
    """uint8 (rows, channels, height, width)."""
    expected = (schema.height, schema.width, schema.channels)
    if image is None:
        raise InputError(f"the table has no image; give images of shape {expected}")
    if image.shape[1:] != expected:
        raise InputError(
            f"the images have shape {image.shape[1:]} where {expected} is expected "
            "(height, width, channels); resize them"
        )
    # A copy, because a read-only or shared array must not become a writable tensor.
    return torch.from_numpy(np.array(image.transpose(0, 3, 1, 2), order="C"))
