"""Weak and strong views of images and of tables, drawn per row: plain torch, useful without federation."""

from torch import Tensor

from vesica.augmentations.images import ImageViews, strong, weak
from vesica.augmentations.tables import TableViews
from vesica.schema import Schema, TableSchema

__all__ = ["ImageViews", "TableViews", "strong", "views_of", "weak"]


def views_of(schema: Schema, rows: Tensor) -> ImageViews | TableViews:
    """The views that fit a party's data; `rows` are the local training rows that a table's means are taken of."""
    return TableViews(schema, rows) if isinstance(schema, TableSchema) else ImageViews()
