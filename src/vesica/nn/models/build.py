"""Encoders by name, chosen to fit a party's data and rebuilt from a few values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vesica.errors import InputError, nearest
from vesica.nn.models.cnn import CNN0, CNN1, Normalise
from vesica.nn.models.filters import EdgeFilters, TurnedColumns
from vesica.nn.models.mlp import MLP
from vesica.nn.models.quick_cnn import QuickCNN
from vesica.nn.models.resnet import FEATURES, ResNet18
from vesica.nn.models.tabular import LinearEncoder, NormedEncoder, TabularEncoder
from vesica.nn.models.trees import Bins
from vesica.nn.models.wide_resnet import WideResNet
from vesica.schema import ImageSchema, Schema, TableSchema, schema_from_json, schema_to_json

Output = Literal["whole", "halves"]
HIDDEN = (128, 64)
DROPOUT = 0.2  # a few hundred rows are learned by heart without it
TABLE_DIM = 32
IMAGE_DIM = 128


def _mlp(schema: TableSchema, dim: int) -> nn.Module:
    return MLP(schema.numeric, HIDDEN, dim, dropout=DROPOUT)


def _tabular(schema: TableSchema, dim: int) -> nn.Module:
    return TabularEncoder(schema, HIDDEN, dim, dropout=DROPOUT)


def _wrn(schema: ImageSchema, dim: int) -> nn.Module:
    normalise, width = Normalise(schema.mean, schema.std), 2
    outputs = None if dim == 64 * width else dim
    return WideResNet(22, width, channels=schema.channels, outputs=outputs, normalise=normalise)


def _resnet18(schema: ImageSchema, dim: int) -> nn.Module:
    normalise = Normalise(schema.mean, schema.std)
    outputs = None if dim == FEATURES else dim
    return ResNet18(channels=schema.channels, outputs=outputs, normalise=normalise)


def _quick(*widths: int) -> Callable[[ImageSchema, int], nn.Module]:
    def build(schema: ImageSchema, dim: int) -> nn.Module:
        normalise = Normalise(schema.mean, schema.std)
        return QuickCNN(widths, channels=schema.channels, outputs=dim, normalise=normalise)

    return build


def _raw(schema: Schema, dim: int) -> nn.Module:
    """No encoder at all: the prepared columns themselves, for the references that pool them."""
    return nn.Identity()


TABLE_ENCODERS: dict[str, Callable[[TableSchema, int], nn.Module]] = {
    "mlp": _mlp,
    "mlp2": NormedEncoder,
    "tabular": _tabular,
    "linear": LinearEncoder,
    "filters": TurnedColumns,
    "raw": _raw,
    "bins": Bins,
}
IMAGE_ENCODERS: dict[str, Callable[[ImageSchema, int], nn.Module]] = {
    "cnn": CNN0,
    "cnn1": CNN1,
    "wrn": _wrn,
    "resnet18": _resnet18,
    "quick": _quick(64, 256, 256),
    "quick-wide": _quick(128, 256, 512),
    "linear": LinearEncoder,
    "filters": EdgeFilters,
    "raw": _raw,
    "bins": Bins,
}
ENCODERS: dict[str, Callable[..., nn.Module]] = {**TABLE_ENCODERS, **IMAGE_ENCODERS}


class TwoHeads(nn.Module):
    """Two linear layers on one encoder, half of its `dim` each, their outputs side by side."""

    def __init__(self, trunk: nn.Module, dim: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.heads = nn.ModuleList(nn.Linear(dim, half) for half in (dim // 2, dim - dim // 2))

    def forward(self, rows: Tensor) -> Tensor:
        features = self.trunk(rows).relu()
        return torch.cat([head(features) for head in self.heads], dim=1)


class MeanEncoder(nn.Module):
    """The mean of what several encoders make of the same rows."""

    def __init__(self, encoders: Sequence[nn.Module]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)

    def forward(self, rows: Tensor) -> Tensor:
        return torch.stack([encoder(rows) for encoder in self.encoders]).mean(dim=0)


def top_of(encoder: nn.Module) -> nn.Module:
    """The part of an encoder that does not depend on what its inputs look like; nothing, where it has none."""
    top = getattr(encoder, "top", None)
    return top if isinstance(top, nn.Module) else nn.Sequential()


@dataclass(frozen=True)
class EncoderSpec:
    """What rebuilds an encoder; one that exists fits its data."""

    name: str
    dim: int
    schema: Schema
    copies: int = 1  # more than one: the mean of so many encoders, each with weights of its own
    output: Output = "whole"  # "halves": two linear layers on top give half of it each

    def __post_init__(self) -> None:
        if self.name not in ENCODERS:
            raise InputError(f"there is no encoder '{self.name}'{nearest(self.name, set(ENCODERS) - {'raw', 'bins'})}")
        if type(self.dim) is not int or self.dim < 1:
            raise InputError(f"an encoder's dim is a whole number from 1 on and not {self.dim!r}: change it")
        _check_fit(self.name, self.schema)

    @classmethod
    def choose(cls, name: str | None, schema: Schema, *, dim: int | None = None) -> EncoderSpec:
        """The encoder asked for, with the defaults that fit the data where nothing was asked."""
        default_dim = TABLE_DIM if isinstance(schema, TableSchema) else IMAGE_DIM
        return cls(default_name(schema) if name is None else name, default_dim if dim is None else dim, schema)

    def build(self) -> nn.Module:
        """A fresh encoder from rows of the schema to (rows, dim); torch's generator draws its weights."""
        return self._build_one() if self.copies == 1 else MeanEncoder([self._build_one() for _ in range(self.copies)])

    def _build_one(self) -> nn.Module:
        return self._build_trunk() if self.output == "whole" else TwoHeads(self._build_trunk(), self.dim)

    def _build_trunk(self) -> nn.Module:
        if isinstance(self.schema, TableSchema):
            return TABLE_ENCODERS[self.name](self.schema, self.dim)
        return IMAGE_ENCODERS[self.name](self.schema, self.dim)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dim": self.dim,
            "schema": schema_to_json(self.schema),
            "copies": self.copies,
            "output": self.output,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> EncoderSpec:
        schema = schema_from_json(values["schema"])
        return cls(values["name"], values["dim"], schema, values.get("copies", 1), values.get("output", "whole"))


def build_encoder(name: str | None, schema: Schema, *, dim: int | None = None) -> nn.Module:
    return EncoderSpec.choose(name, schema, dim=dim).build()


def default_name(schema: Schema) -> str:
    if isinstance(schema, ImageSchema):
        return "cnn"
    return "tabular" if schema.categories else "mlp"


def _check_fit(name: str, schema: Schema) -> None:
    if isinstance(schema, ImageSchema):
        if name not in IMAGE_ENCODERS:
            raise InputError(f"encoder '{name}' is for tables and this party has images: use 'cnn'")
        return
    if schema.width == 0:
        raise InputError(f"encoder '{name}' needs at least one column and this table has none")
    if name not in TABLE_ENCODERS:
        instead = default_name(schema)
        raise InputError(f"encoder '{name}' is for images and this party has a table: use '{instead}'")
    if name == "mlp" and schema.categories:
        count = len(schema.categories)
        raise InputError(
            f"encoder 'mlp' takes numeric columns only and this table has {count} categorical: use 'tabular'"
        )
