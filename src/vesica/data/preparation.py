"""A party's table as the input of its model, with all that is fitted taken from its training rows."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from vesica.data.features import Category, Quantity, Scale
from vesica.data.kinds import kinds_of
from vesica.data.pixels import fit_image, image_tensor
from vesica.data.table import Array, Column, Table
from vesica.errors import InputError, nearest
from vesica.schema import ImageSchema, Schema, TableSchema, schema_from_json, schema_to_json


@dataclass(frozen=True)
class Preparation:
    """How one party's columns, or its images, become one tensor."""

    party: str
    quantities: tuple[Quantity, ...]
    categories: tuple[Category, ...]
    image: ImageSchema | None
    ignored: dict[str, str]  # columns left out, and why

    @classmethod
    def fit(
        cls,
        table: Table,
        rows: Array,
        *,
        party: str,
        kinds: Mapping[str, str] = {},
        scale: Scale = "standard",
    ) -> "Preparation":
        """Fitted on the rows at the given positions alone."""
        with naming(party):
            if not len(rows):
                raise InputError("there are no training rows; give at least one")
            if scale not in get_args(Scale):
                raise InputError(f"there is no scale '{scale}'{nearest(scale, get_args(Scale))}")
            chosen = kinds_of(table.columns, kinds)
            if table.image is not None:
                return cls.fit_image(table.image, rows, party=party, kinds=chosen)
            return cls.fit_columns(table, rows, party=party, kinds=chosen, scale=scale)

    @classmethod
    def fit_image(cls, image: Array, rows: Array, *, party: str, kinds: Mapping[str, str]) -> "Preparation":
        features = [name for name, kind in kinds.items() if kind != "ignore"]
        if features:
            raise InputError(
                f"the table has an image and the column(s) {', '.join(features)}, but one party trains on "
                'images or on columns; set the columns to "ignore"'
            )
        ignored = dict.fromkeys(kinds, IGNORED)
        return cls(party, (), (), fit_image(image, rows), ignored)

    @classmethod
    def fit_columns(
        cls, table: Table, rows: Array, *, party: str, kinds: Mapping[str, str], scale: Scale
    ) -> "Preparation":
        quantities: list[Quantity] = []
        categories: list[Category] = []
        ignored: dict[str, str] = {}
        for name, kind in kinds.items():
            if kind == "ignore":
                ignored[name] = IGNORED
            elif kind != "categorical":
                quantities.append(Quantity.fit(name, table.columns[name][rows], kind=kind, scale=scale))
            elif (category := Category.fit(name, table.columns[name][rows])).known:
                categories.append(category)
            else:
                ignored[name] = RARE
        if not quantities and not categories:
            raise InputError("the table has no usable column; give it one, or use a host without features")
        return cls(party, tuple(quantities), tuple(categories), None, ignored)

    @property
    def schema(self) -> Schema:
        if self.image is not None:
            return self.image
        numeric = sum(quantity.width for quantity in self.quantities)
        return TableSchema(numeric, tuple(category.codes for category in self.categories))

    def apply(self, table: Table) -> Tensor:
        """All rows, in order: float32 (rows, width), or uint8 (rows, channels, height, width)."""
        with naming(self.party):
            if self.image is not None:
                return image_tensor(table.image, self.image)
            return self.apply_columns(table)

    def apply_columns(self, table: Table) -> Tensor:
        # Filled column by column: contiguous writes, and one transposition at the end, are twice as fast.
        filled = np.empty((self.schema.width, len(table)), dtype=np.float32)
        position = 0
        for quantity in self.quantities:
            for values in quantity.apply(column_named(quantity.column, table)):
                filled[position] = values
                position += 1
        for category in self.categories:
            filled[position] = category.apply(column_named(category.column, table))
            position += 1
        return torch.from_numpy(filled).t().contiguous()

    def to_json(self) -> dict[str, Any]:
        return {
            "party": self.party,
            "quantities": [asdict(quantity) for quantity in self.quantities],
            "categories": [{"column": each.column, "known": list(each.known)} for each in self.categories],
            "image": None if self.image is None else schema_to_json(self.image),
            "ignored": dict(self.ignored),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Preparation":
        image = None if values["image"] is None else schema_from_json(values["image"])
        return cls(
            values["party"],
            tuple(
                Quantity(**{**each, "knots": tuple(each["knots"]), "scores": tuple(each["scores"])})
                for each in values["quantities"]
            ),
            tuple(Category(each["column"], tuple(each["known"])) for each in values["categories"]),
            image if isinstance(image, ImageSchema) else None,
            dict(values["ignored"]),
        )


IGNORED = 'set to "ignore"'
RARE = "no category occurs twice in the training rows"


def column_named(name: str, table: Table) -> Column:
    if name not in table.columns:
        raise InputError(f"the table has no column '{name}'{nearest(name, table.columns)}")
    return table.columns[name]


@contextmanager
def naming(party: str) -> Iterator[None]:
    """Puts the party's name on what is refused inside."""
    try:
        yield
    except InputError as error:
        error.party = party
        raise
