"""Bringing every party's columns to the host: what the pooled references do, and no federation should."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from vesica.errors import InputError, ProtocolError
from vesica.models import EncoderSpec
from vesica.protocol.link import form
from vesica.protocol.message import Message
from vesica.protocol.party import Guest, Host, Party
from vesica.schema import ImageSchema


@dataclass(frozen=True)
class Pool:
    """The labelled aligned rows with all their columns; positions are in these rows."""

    specs: dict[str, EncoderSpec]  # the encoder each party was set to use
    columns: list[Tensor]  # one a party, in the order of `specs`
    labels: Tensor
    train: Tensor
    validation: Tensor

    def take(self, rows: Tensor) -> list[Tensor]:
        return [column[rows] for column in self.columns]


def give_columns(me: Guest) -> None:
    """Send the prepared columns themselves, now and in every prediction; codes must not be rounded."""
    spec = give_raw(me)
    columns = me.inputs[me.about(me.rows.labelled)]
    me.host.send("columns", columns, scalars={"encoder": json.dumps(spec.to_json())}, wire="float32")


def gather_columns(me: Host) -> Pool:
    """All columns of the labelled aligned rows: a round up."""
    specs: dict[str, EncoderSpec] = {}
    columns: list[Tensor] = []
    if me.encoder_spec is not None:
        specs[me.name] = give_raw(me)
        columns.append(me.inputs[me.rows.labelled])
    me.about(me.rows.labelled)
    for name, link in me.guests.items():
        read = partial(read_spec, name, rows=len(me.rows.labelled))
        message = link.receive("columns", check=read)
        specs[name] = read(message)
        columns.append(message.tensor)
    is_validation = torch.isin(me.rows.labelled, me.rows.validation)
    return Pool(
        specs,
        columns,
        me.labels[me.rows.labelled],
        train=torch.nonzero(~is_validation).squeeze(1),
        validation=torch.nonzero(is_validation).squeeze(1),
    )


def give_raw(me: Party) -> EncoderSpec:
    """From now on this party represents its rows by their columns; the encoder it was set to use."""
    spec = me.encoder_spec
    assert spec is not None
    me.use(EncoderSpec.choose("raw", spec.schema))
    return spec


def read_spec(guest: str, message: Message, *, rows: int) -> EncoderSpec:
    """What a guest says of its columns, which must be as it says."""
    try:
        spec = EncoderSpec.from_json(json.loads(message.scalar("encoder", str)))
    except (ValueError, TypeError, KeyError, RecursionError, InputError) as error:
        raise ProtocolError(f"'{guest}' describes its columns in a way that cannot be read ({error!r})") from error
    dtype = torch.uint8 if isinstance(spec.schema, ImageSchema) else torch.float32
    got, expected = form(message.tensor.shape, message.tensor.dtype), form((rows, *spec.schema.row_shape), dtype)
    if got != expected:
        raise ProtocolError(f"'columns' from '{guest}' is {got}, expected {expected}")
    return spec
