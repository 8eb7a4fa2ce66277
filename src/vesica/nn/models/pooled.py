"""Models over all parties' columns in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vesica.nn.models.build import EncoderSpec
from vesica.nn.models.head import Head
from vesica.nn.models.tabular import LinearEncoder
from vesica.schema import Schema, TableSchema, schema_from_json, schema_to_json


class PooledModel(nn.Module):
    """One encoder over the columns of all tables together, each image party's own, and a head on top.

    `specs` are the encoders the parties were set to use; those of tables do not fit all columns together, so the
    default for such a table takes their place.
    """

    reads = "columns"

    def __init__(self, specs: Mapping[str, EncoderSpec], outputs: int, *, hidden: Sequence[int] = ()) -> None:
        super().__init__()
        self.specs = dict(specs)
        self.parties = tuple(specs)
        self.outputs = outputs
        self.hidden = tuple(hidden)
        used = self._used()
        self.encoders = nn.ModuleList(spec.build() for spec in used)
        self.head = Head({str(i): spec.dim for i, spec in enumerate(used)}, outputs, hidden=hidden)

    @property
    def schemas(self) -> dict[str, Schema]:
        return {party: spec.schema for party, spec in self.specs.items()}

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        inputs = self._join_tables(parts)
        outputs: Tensor = self.head([encoder(x) for encoder, x in zip(self.encoders, inputs, strict=True)])
        return outputs

    def _used(self) -> list[EncoderSpec]:
        """An encoder of all tables together, if there are any, then those of the images."""
        tables = [schema for schema in self.schemas.values() if isinstance(schema, TableSchema)]
        images = [spec for spec in self.specs.values() if not isinstance(spec.schema, TableSchema)]
        categories = tuple(size for table in tables for size in table.categories)
        together = TableSchema(sum(table.numeric for table in tables), categories)
        return [EncoderSpec.choose(None, together), *images] if tables else images

    def _join_tables(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Put the columns as `_used` has them: all numeric ones first, then all codes, then the images."""
        numeric, codes, images = [], [], []
        for schema, part in zip(self.schemas.values(), parts, strict=True):
            if isinstance(schema, TableSchema):
                numeric.append(part[:, : schema.numeric])
                codes.append(part[:, schema.numeric :])
            else:
                images.append(part)
        return [torch.cat([*numeric, *codes], dim=1), *images] if numeric else images

    def spec(self) -> dict[str, Any]:
        specs = [[party, spec.to_json()] for party, spec in self.specs.items()]
        return {"specs": specs, "outputs": self.outputs, "hidden": list(self.hidden)}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> PooledModel:
        specs = {party: EncoderSpec.from_json(values) for party, values in spec["specs"]}
        return cls(specs, spec["outputs"], hidden=spec["hidden"])


class LinearModel(nn.Module):
    """Linear in every column, pixel and category of all parties."""

    reads = "columns"

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
        schemas = [[party, schema_to_json(schema)] for party, schema in self.schemas.items()]
        return {"schemas": schemas, "outputs": self.outputs}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> LinearModel:
        return cls({party: schema_from_json(values) for party, values in spec["schemas"]}, spec["outputs"])
