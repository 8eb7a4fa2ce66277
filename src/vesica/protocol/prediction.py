"""Prediction: the host asks, the guests it needs answer; a conversation with a ledger of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from vesica.models import Head
from vesica.protocol.party import Guest, Host

_ROWS_A_MESSAGE = 100_000


def answer(me: Guest, rows: Tensor) -> None:
    """Give the host what its head reads, if it reads anything of this guest's."""
    wanted = me.host.receive("request").scalars
    if wanted["wanted"]:
        for some in rows.split(_ROWS_A_MESSAGE):
            me.host.send(str(wanted["kind"]), me.represent(some))


@torch.no_grad()
def predict(me: Host, rows: Tensor) -> Tensor:
    """The outputs (rows, outputs) of the rows, which are in the same order at every party."""
    assert me.head is not None, "the method left no head to predict with"
    me.head.eval()
    needed = me.head.parties
    kind = "representations" if isinstance(me.head, Head) else "columns"
    for name, link in me.guests.items():
        link.send("request", scalars={"wanted": name in needed, "kind": kind})
    outputs = []
    for some in rows.split(_ROWS_A_MESSAGE):
        received = {name: me.guests[name].receive(kind).tensor for name in needed if name != me.name}
        parts = [me.represent(some) if name == me.name else received[name] for name in needed]
        outputs.append(me.head(parts))
    return torch.cat(outputs)
