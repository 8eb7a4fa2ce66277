"""RGB pixels out of image files and of mosaics of many small images."""

import io

import numpy as np
from PIL import Image

from vesica.data.table import Array
from vesica.datasets.files import File

COLUMNS, ROWS = 25, 40  # of tiles in a mosaic


def pixels(file: File, *, side: int | None = None) -> Array:
    """An image of shape (height, width, 3), resized to `side` x `side` where one is given."""
    try:
        with Image.open(io.BytesIO(file.content)) as image:
            picture = image.convert("RGB")
    except (OSError, ValueError, SyntaxError) as error:  # Pillow raises any of them on a damaged file
        raise file.wrong("is not a whole image") from error
    if side is not None:
        picture = picture.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(picture)


def tiles(file: File, side: int) -> Array:
    """The 1,000 square images of a mosaic, row by row: (1000, side, side, 3)."""
    mosaic = pixels(file)
    expected = (ROWS * side, COLUMNS * side, 3)
    if mosaic.shape != expected:
        raise file.wrong(f"has {mosaic.shape[:2]} pixels where {expected[:2]} are expected")
    grid = mosaic.reshape(ROWS, side, COLUMNS, side, 3).transpose(0, 2, 1, 3, 4)
    return grid.reshape(-1, side, side, 3)
