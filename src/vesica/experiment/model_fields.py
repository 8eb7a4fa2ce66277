"""What each field of a model.json must be, checked before anything is made of it."""

from __future__ import annotations

from typing import get_args

from vesica.data.features import VALUES
from vesica.data.json_forms import Either, Lacking, Maybe, Texts, one_of
from vesica.metrics import METRICS
from vesica.nn.models import HEADS, JOINS
from vesica.nn.models.head import Fill
from vesica.nn.models.trees import Library
from vesica.protocol.message import Wire
from vesica.protocol.pooling import ENCODER, SCHEMA

QUANTITY = {
    "column": str,
    "kind": one_of(VALUES),
    "median": float,
    "center": float,
    "divisor": float,
    "indicator": bool,
    Lacking("clock"): bool,
    "knots": [float],
    "scores": [float],
}
PREPARATION = {
    "party": str,
    "quantities": [QUANTITY],
    "categories": [{"column": str, "known": [str]}],
    "image": Maybe(SCHEMA),
    "ignored": Texts(),
}
HEAD = Either(
    {
        "head": {
            "kind": str,
            "parties": [str],
            "dims": [int],
            "outputs": int,
            "hidden": [int],
            "join": one_of(JOINS),
            Lacking("optional"): [str],
            Lacking("fill"): one_of(get_args(Fill)),
        },
        "pooled": {"kind": str, "specs": [(str, ENCODER)], "outputs": int, "hidden": [int]},
        "linear": {"kind": str, "schemas": [(str, SCHEMA)], "outputs": int},
        "trees": {
            "kind": str,
            "schemas": [(str, SCHEMA)],
            "outputs": int,
            "reads": one_of(["columns", "bins"]),
            Lacking("library"): one_of(get_args(Library)),
        },
    }
)
TASK = {
    "kind": one_of(["classification", "regression"]),
    "metric": one_of(METRICS),
    "classes": [str],
    "centre": float,
    "spread": float,
}
MODEL = {
    "name": str,
    "preparation": Maybe(PREPARATION),
    "encoder": Maybe(ENCODER),
    "head": Maybe(HEAD),
    "task": Maybe(TASK),
    "wire": one_of(get_args(Wire)),
    "release": Maybe({"sigma": float, "clip": Maybe(float)}),
}
assert HEAD.forms.keys() == HEADS.keys()
