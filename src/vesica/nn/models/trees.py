"""Boosted trees as a head, and the numbers of bins that a party gives such a head in place of its columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.schema import Schema, schema_from_json, schema_to_json

Library = Literal["xgboost", "lightgbm"]


def require_xgboost() -> Any:
    """The library, which is an extra."""
    try:
        import xgboost
    except ImportError as error:
        raise InputError("trees need XGBoost, which is not installed: pip install 'vesica[trees]'") from error
    return xgboost


def require_lightgbm() -> Any:
    """The library, which is an extra."""
    try:
        import lightgbm
    except ImportError as error:
        sentence = "library=lightgbm needs LightGBM, which is not installed: pip install 'vesica[trees]'"
        raise InputError(sentence) from error
    return lightgbm


class TreesModel(nn.Module):
    """Trees over one part a party, in the order of `schemas`; what they read is a party's `columns`, or `bins` of them.

    The trees are XGBoost's JSON or LightGBM's text, which is kept as bytes beside the tensors of other models.
    """

    def __init__(
        self,
        schemas: Mapping[str, Schema],
        outputs: int,
        *,
        reads: str = "columns",
        library: Library = "xgboost",
    ) -> None:
        super().__init__()
        self.schemas = dict(schemas)
        self.parties = tuple(schemas)
        self.outputs = outputs
        self.reads = reads
        self.library = library
        self.trees = b""
        self._booster: Any = None

    def plant(self, trees: bytes) -> TreesModel:
        """Take trees, as the library saves them."""
        self.trees = trees
        if self.library == "lightgbm":
            self._booster = require_lightgbm().Booster(model_str=trees.decode())
            return self
        self._booster = require_xgboost().Booster({"nthread": 1})
        self._booster.load_model(bytearray(trees))
        return self

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        columns = join_columns(parts)
        margin = torch.from_numpy(self._margin(columns)).float().to(parts[0].device)
        if self.outputs == 2:  # one number, the second class against the first
            return torch.stack([torch.zeros_like(margin), margin], dim=1)
        return margin.reshape(len(columns), self.outputs)

    def _margin(self, columns: np.ndarray[Any, Any]) -> Any:
        if self.library == "lightgbm":
            return self._booster.predict(columns, raw_score=True, num_threads=1)
        return self._booster.predict(require_xgboost().DMatrix(columns), output_margin=True)

    def get_extra_state(self) -> Tensor:
        return torch.frombuffer(bytearray(self.trees), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        self.plant(state.cpu().numpy().tobytes())

    def spec(self) -> dict[str, Any]:
        schemas = [[party, schema_to_json(schema)] for party, schema in self.schemas.items()]
        return {"schemas": schemas, "outputs": self.outputs, "reads": self.reads, "library": self.library}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> TreesModel:
        schemas = {party: schema_from_json(values) for party, values in spec["schemas"]}
        return cls(schemas, spec["outputs"], reads=spec["reads"], library=spec.get("library", "xgboost"))


def join_columns(parts: Sequence[Tensor]) -> np.ndarray[Any, Any]:
    """One matrix of all parts; every pixel of an image is a column."""
    return np.hstack([part.flatten(1).float().cpu().numpy() for part in parts])


class Bins(nn.Module):
    """Says of each value of a row between which of its own thresholds it lies; columns without one say 0.

    Trees that compare these numbers go the same way as trees that compare the values.
    """

    def __init__(self, schema: Schema, dim: int) -> None:
        super().__init__()
        self.thresholds: list[Tensor] = []  # one a column, rising

    def use(self, thresholds: Sequence[Tensor]) -> Bins:
        self.thresholds = list(thresholds)
        return self

    def forward(self, rows: Tensor) -> Tensor:
        columns = rows.flatten(1).float().t().contiguous()
        bins = [torch.bucketize(column, some.to(rows.device), right=True) for column, some in self._pairs(columns)]
        return torch.stack(bins, dim=1).float()

    def _pairs(self, columns: Tensor) -> list[tuple[Tensor, Tensor]]:
        return list(zip(columns, self.thresholds, strict=True))

    def get_extra_state(self) -> Tensor:
        """(columns + 1 + thresholds,): how many columns, how many thresholds each has, and these."""
        counts = [len(self.thresholds), *map(len, self.thresholds)]
        return torch.cat([torch.tensor(counts, dtype=torch.float32), *self.thresholds])

    def set_extra_state(self, state: Tensor) -> None:
        columns = int(state[0])
        counts = state[1 : columns + 1].long().tolist()
        self.thresholds = list(state[columns + 1 :].cpu().split(counts)) if columns else []


def thresholds_of(trees: bytes, columns: range) -> list[Tensor]:
    """What the trees compare each of some columns with, rising."""
    found: dict[int, set[float]] = {column: set() for column in columns}
    for tree in json.loads(trees)["learner"]["gradient_booster"]["model"]["trees"]:
        for node, child in enumerate(tree["left_children"]):
            if child >= 0 and tree["split_indices"][node] in found:
                found[tree["split_indices"][node]].add(tree["split_conditions"][node])
    return [torch.tensor(sorted(found[column]), dtype=torch.float32) for column in columns]


def over_bins(trees: bytes, columns: range, *, drop: int = 0) -> bytes:
    """The same trees, reading bins of some columns in place of their values, and without the first `drop` columns."""
    model = json.loads(trees)
    learner = model["learner"]
    number = {
        column: {value: float(place) for place, value in enumerate(some.tolist())}
        for column, some in zip(columns, thresholds_of(trees, columns), strict=True)
    }
    for tree in learner["gradient_booster"]["model"]["trees"]:
        tree["tree_param"]["num_feature"] = str(int(tree["tree_param"]["num_feature"]) - drop)
        for node, child in enumerate(tree["left_children"]):
            column = tree["split_indices"][node]
            if child >= 0 and column in number:
                value = np.float32(tree["split_conditions"][node]).item()
                tree["split_conditions"][node] = number[column][value] + 0.5
            if child >= 0:
                tree["split_indices"][node] = column - drop
    learner["learner_model_param"]["num_feature"] = str(int(learner["learner_model_param"]["num_feature"]) - drop)
    return json.dumps(model).encode()
