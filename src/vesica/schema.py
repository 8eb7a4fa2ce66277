"""What one party's model input looks like: always one tensor, with the first dimension the rows."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TableSchema:
    """Rows of float32: first the numeric columns, then one integer code a categorical column.

    `categories[i]` is the number of codes of categorical column i. Code 0 means a category that was not
    (or hardly) seen in training, code 1 a missing value; the known ones follow.
    """

    numeric: int
    categories: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        return self.numeric + len(self.categories)

    @property
    def row_shape(self) -> tuple[int, ...]:
        return (self.width,)


@dataclass(frozen=True)
class ImageSchema:
    """Images of shape (rows, channels, height, width): uint8, or float in [0, 1].

    `mean` and `std` are per channel, on the scale [0, 1]; the encoder applies them.
    """

    channels: int
    height: int
    width: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def row_shape(self) -> tuple[int, ...]:
        return (self.channels, self.height, self.width)


Schema = TableSchema | ImageSchema


def schema_to_json(schema: Schema) -> dict[str, Any]:
    return {"kind": "image" if isinstance(schema, ImageSchema) else "table", **vars(schema)}


def schema_from_json(values: dict[str, Any]) -> Schema:
    fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items() if n != "kind"}
    return ImageSchema(**fields) if values["kind"] == "image" else TableSchema(**fields)
