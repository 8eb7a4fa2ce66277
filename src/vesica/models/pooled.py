"""Models over all parties' columns in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vesica.models.build import EncoderSpec
from vesica.models.head import Head
from vesica.models.tabular import LinearEncoder
from vesica.schema import Schema, TableSchema, schema_from_json, schema_to_json


class PooledModel(nn.Module):
    """One encoder over the columns of all tables together, one for each party with images, a head on top."""

    def __init__(self, schemas: Mapping[str, Schema], outputs: int, *, hidden: Sequence[int] = ()) -> None:
        super().__init__()
        self.schemas = dict(schemas)
        self.parties = tuple(schemas)
        self.outputs = outputs
        self.hidden = tuple(hidden)
        specs = [EncoderSpec.choose(None, schema) for schema in self._inputs()]
        self.encoders = nn.ModuleList(spec.build() for spec in specs)
        self.head = Head({str(i): spec.dim for i, spec in enumerate(specs)}, outputs, hidden=hidden)

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        inputs = self._join_tables(parts)
        outputs: Tensor = self.head([encoder(x) for encoder, x in zip(self.encoders, inputs, strict=True)])
        return outputs

    def _inputs(self) -> list[Schema]:
        """The schema of all tables together, if there are any, then those of the images."""
        tables = [schema for schema in self.schemas.values() if isinstance(schema, TableSchema)]
        images = [schema for schema in self.schemas.values() if not isinstance(schema, TableSchema)]
        categories = tuple(size for table in tables for size in table.categories)
        together = TableSchema(sum(table.numeric for table in tables), categories)
        return [together, *images] if tables else [*images]

    def _join_tables(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Put the columns as `_inputs` has them: all numeric ones first, then all codes, then the images."""
        numeric, codes, images = [], [], []
        for schema, part in zip(self.schemas.values(), parts, strict=True):
            if isinstance(schema, TableSchema):
                numeric.append(part[:, : schema.numeric])
                codes.append(part[:, schema.numeric :])
            else:
                images.append(part)
        return [torch.cat([*numeric, *codes], dim=1), *images] if numeric else images

    def spec(self) -> dict[str, Any]:
        return {**_spec(self.schemas, self.outputs), "hidden": list(self.hidden)}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> PooledModel:
        return cls(_schemas(spec), spec["outputs"], hidden=spec["hidden"])


class LinearModel(nn.Module):
    """Linear in every column, pixel and category of all parties."""

    def __init__(self, schemas: Mapping[str, Schema], outputs: int) -> None:
        super().__init__()
        self.schemas = dict(schemas)
        self.parties = tuple(schemas)
        self.outputs = outputs
        self.encoders = nn.ModuleList(LinearEncoder(schema, outputs) for schema in schemas.values())

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        shares = [encoder(part) for encoder, part in zip(self.encoders, parts, strict=True)]
        return torch.stack(shares).sum(dim=0)

    def spec(self) -> dict[str, Any]:
        return _spec(self.schemas, self.outputs)

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> LinearModel:
        return cls(_schemas(spec), spec["outputs"])


def _spec(schemas: Mapping[str, Schema], outputs: int) -> dict[str, Any]:
    return {
        "schemas": [[party, schema_to_json(schema)] for party, schema in schemas.items()],
        "outputs": outputs,
    }


def _schemas(spec: Mapping[str, Any]) -> dict[str, Schema]:
    return {party: schema_from_json(values) for party, values in spec["schemas"]}
