"""Bringing every party's columns to the host: what the pooled references do, and no federation should."""

from __future__ import annotations

import json
from dataclasses import dataclass

import torch
from torch import Tensor

from vesica.errors import ProtocolError
from vesica.models import EncoderSpec
from vesica.protocol.party import Guest, Host, Party
from vesica.schema import ImageSchema, Schema, schema_from_json, schema_to_json


@dataclass(frozen=True)
class Pool:
    """The labelled aligned rows with all their columns; positions are in these rows."""

    schemas: dict[str, Schema]
    columns: list[Tensor]  # one a party, in the order of `schemas`
    labels: Tensor
    train: Tensor
    validation: Tensor

    def take(self, rows: Tensor) -> list[Tensor]:
        return [column[rows] for column in self.columns]


def give_columns(me: Guest) -> None:
    """Send the prepared columns themselves, now and in every prediction."""
    schema = _give_raw(me)
    me.host.send("columns", me.inputs[me.rows.labelled], scalars={"schema": json.dumps(schema_to_json(schema))})


def gather_columns(me: Host) -> Pool:
    """All columns of the labelled aligned rows: a round up."""
    schemas: dict[str, Schema] = {}
    columns: list[Tensor] = []
    if me.encoder_spec is not None:
        schemas[me.name] = _give_raw(me)
        columns.append(me.inputs[me.rows.labelled])
    for name, message in me.gather("columns").items():
        schemas[name] = _read_schema(name, str(message.scalars.get("schema")))
        _check(name, message.tensor, schemas[name], rows=len(me.rows.labelled))
        columns.append(message.tensor)
    is_validation = torch.isin(me.rows.labelled, me.rows.validation)
    return Pool(
        schemas,
        columns,
        me.labels[me.rows.labelled],
        train=torch.nonzero(~is_validation).squeeze(1),
        validation=torch.nonzero(is_validation).squeeze(1),
    )


def _give_raw(me: Party) -> Schema:
    assert me.encoder_spec is not None
    schema = me.encoder_spec.schema
    me.use(EncoderSpec.choose("raw", schema))
    return schema


def _read_schema(guest: str, text: str) -> Schema:
    try:
        return schema_from_json(json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ProtocolError(f"the schema of '{guest}' cannot be read ({error!r})") from error


def _check(guest: str, columns: Tensor, schema: Schema, *, rows: int) -> None:
    row = (schema.channels, schema.height, schema.width) if isinstance(schema, ImageSchema) else (schema.width,)
    expected = (rows, *row)
    if tuple(columns.shape) != expected:
        raise ProtocolError(f"'columns' from '{guest}' has shape {tuple(columns.shape)}, expected {expected}")
