"""Prediction: the host asks, the guests it needs answer; a conversation with a ledger of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from vesica.nn.models import AnyHead, Head
from vesica.protocol.message import has_scalars
from vesica.protocol.party import Guest, Host
from vesica.protocol.pooling import check_codes
from vesica.schema import ImageSchema

_ROWS_A_MESSAGE = 100_000


def answer(me: Guest, rows: Tensor) -> None:
    """Give the host what its head reads, if it reads anything of this guest's."""
    request = me.host.receive("request", check=has_scalars(kind=str, wanted=bool))
    kind = request.scalar("kind", str)
    if request.scalar("wanted", bool):
        for some in rows.split(_ROWS_A_MESSAGE):
            me.host.send(kind, me.represent(some), wire=None if kind == "representations" else "float32")


Parts = list[Tensor | None]  # what a head reads of some rows, in the order of its parties


def ask(me: Host, rows: Tensor, *, without: Sequence[str] = ()) -> list[Parts]:
    """Gather what the head reads of the rows, which are in the same order at every party.

    The guests in `without` are not asked.
    """
    assert me.head is not None, "the method left no head to predict with"
    kind = me.head.reads
    asked = [name for name in me.head.parties if name not in without]
    for name, link in me.guests.items():
        link.send("request", scalars={"wanted": name in asked, "kind": kind})
    gathered: list[Parts] = []
    for some in rows.split(_ROWS_A_MESSAGE):
        me.about(some)
        parts = {
            name: me.represent(some) if name == me.name else _receive(me, name, kind, rows=len(some)) for name in asked
        }
        gathered.append([parts.get(name) for name in me.head.parties])
    return gathered


@torch.no_grad()
def outputs_of(head: AnyHead, gathered: Sequence[Parts]) -> Tensor:
    """The head's outputs (rows, outputs); it fills in for the parts that are not there."""
    head.eval()
    return torch.cat([head(parts) for parts in gathered])


def predict(me: Host, rows: Tensor, *, without: Sequence[str] = ()) -> Tensor:
    """Ask for the rows and predict them."""
    assert me.head is not None, "the method left no head to predict with"
    return outputs_of(me.head, ask(me, rows, without=without))


def _receive(me: Host, guest: str, kind: str, *, rows: int) -> Tensor:
    assert me.head is not None
    if isinstance(me.head, Head):
        return me.guests[guest].receive(kind, shape=(rows, me.head.dims[guest])).tensor
    schema = me.head.schemas[guest]
    dtype = torch.uint8 if isinstance(schema, ImageSchema) else torch.float32
    check = partial(check_codes, guest, schema=schema) if kind == "columns" else None
    return me.guests[guest].receive(kind, shape=(rows, *schema.row_shape), dtype=dtype, check=check).tensor
