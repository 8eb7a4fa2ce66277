"""Bringing every party's columns to the host: what the pooled references do, and no federation should."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import get_args

import torch
from torch import Tensor

from vesica.data.features import FIRST, MOST_CATEGORIES
from vesica.data.json_forms import Either, Lacking, check, one_of
from vesica.data.text_files import parse_json, shown
from vesica.errors import InputError, ProtocolError
from vesica.nn.models import EncoderSpec
from vesica.nn.models.build import Output
from vesica.protocol.link import form
from vesica.protocol.message import Message
from vesica.protocol.party import Guest, Host, Party
from vesica.schema import ImageSchema, Schema

MOST_CODES = FIRST + MOST_CATEGORIES  # of a categorical column
MOST_PARAMETERS = 2**29  # of the host's encoder of a guest's columns; `cnn` for images of 512 x 512 has as many

# How a schema and an encoder are written, in these messages and in a model.json.
SCHEMA = Either(
    {
        "table": {"kind": str, "numeric": int, "categories": [int]},
        "image": {"kind": str, "channels": int, "height": int, "width": int, "mean": [float], "std": [float]},
    }
)
ENCODER = {
    "name": str,
    "dim": int,
    "schema": SCHEMA,
    Lacking("copies"): int,
    Lacking("output"): one_of(get_args(Output)),
}


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
        read = partial(read_spec, name, rows=len(me.rows.labelled), dim=me.dims[name])
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


def read_spec(guest: str, message: Message, *, rows: int, dim: int) -> EncoderSpec:
    """What a guest says of its columns, which must be as it says; `dim` is what was agreed with it.

    The host builds an encoder from this. So nothing in it may be larger than what an honest guest can say.
    """
    try:
        values = parse_json(message.scalar("encoder", str))
        check(values, ENCODER)
        spec = EncoderSpec.from_json(values)
    except (ValueError, InputError) as error:
        raise ProtocolError(
            f"'{guest}' describes its columns in a way that cannot be used ({shown(str(error))}): "
            "give both parties the same version"
        ) from error
    dtype = torch.uint8 if isinstance(spec.schema, ImageSchema) else torch.float32
    got, expected = form(message.tensor.shape, message.tensor.dtype), form((rows, *spec.schema.row_shape), dtype)
    if got != expected:
        raise ProtocolError(f"'columns' from '{guest}' is {got}, expected {expected}")
    if (spec.dim, spec.copies) != (dim, 1):
        raise ProtocolError(
            f"'{guest}' describes {spec.copies} encoders of dim {spec.dim} and agreed on one of dim {dim}: "
            "start both parties anew"
        )
    check_codes(guest, message, schema=spec.schema)
    _check_build(guest, spec)
    return spec


def check_codes(guest: str, message: Message, *, schema: Schema) -> None:
    """Refuse a table's columns whose category codes do not fit its schema, or a schema with too many codes."""
    if isinstance(schema, ImageSchema) or not schema.categories:
        return
    if max(schema.categories) > MOST_CODES:
        raise ProtocolError(
            f"'{guest}' says that a column has {max(schema.categories):,} categories, expected at most {MOST_CODES:,}"
        )
    codes = message.tensor[:, schema.numeric :]
    sizes = torch.tensor(schema.categories, device=message.tensor.device)
    if ((codes < 0) | (codes >= sizes) | (codes != codes.round())).any():
        raise ProtocolError(
            f"'columns' from '{guest}' has category codes that are not whole numbers below the number of categories "
            "that it said: give both parties the same version"
        )


def _check_build(guest: str, spec: EncoderSpec) -> None:
    """Build the encoder and run it on a device that allocates nothing."""
    used = spec if isinstance(spec.schema, ImageSchema) else EncoderSpec.choose(None, spec.schema)
    try:
        with torch.device("meta"):
            encoder = used.build().eval()
            outputs = encoder(torch.empty(1, *spec.schema.row_shape))
    except (InputError, RuntimeError, ValueError) as error:
        raise ProtocolError(
            f"'{guest}' describes an encoder that does not fit its columns ({shown(str(error))})"
        ) from error
    if outputs.shape != (1, used.dim):
        raise ProtocolError(f"'{guest}' describes an encoder '{used.name}' that is none for training")
    parameters = sum(parameter.numel() for parameter in encoder.parameters())
    if parameters > MOST_PARAMETERS:
        raise ProtocolError(
            f"the columns of '{guest}' need an encoder of {parameters:,} parameters, expected at most "
            f"{MOST_PARAMETERS:,}: take a smaller dim, smaller images or fewer categories there"
        )
