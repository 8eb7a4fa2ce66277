"""Views of images and of tables, drawn per row: plain torch, useful without federation."""

from torch import Tensor

from vesica.nn.augmentations.images import CHANCE, ImageViews, strong, weak
from vesica.nn.augmentations.tables import TableViews
from vesica.schema import Schema, TableSchema

__all__ = ["ImageViews", "TableViews", "strong", "views_of", "weak"]


def views_of(
    schema: Schema, rows: Tensor, *, corrupted: float = 0.6, chance: float = CHANCE
) -> ImageViews | TableViews:
    """The views that fit a party's data; `rows` are the local training rows that a table's values are taken of."""
    if isinstance(schema, TableSchema):
        return TableViews(schema, rows, corrupted=corrupted)
    return ImageViews(chance=chance)
