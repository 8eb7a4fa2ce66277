"""A view: what one party had and received in a run. An attack is a guess from it; whoever has the truth scores it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vesica.metrics import Task
from vesica.models import EncoderSpec
from vesica.protocol.message import Message

ELSEWHERE = -1  # in place of a row's number: a row that not all parties have


@dataclass(frozen=True, eq=False)
class Seen:
    """A message as it came, and the rows it has a value each for.

    Rows are numbered as all parties do, the aligned ones first and then the test rows.
    """

    sender: str
    message: Message
    rows: Tensor | None = None  # None: it is not about rows
    bytes: int = 0  # of its frame


@dataclass(frozen=True, eq=False)
class Own:
    """What a party brought into the run and took home from it."""

    inputs: Tensor  # its prepared table: the common rows first, by their numbers, then those that only it has
    common: int  # so many are common
    spec: EncoderSpec
    encoder: nn.Module  # as it was in the end


@dataclass(frozen=True, eq=False)
class View:
    """Without its `own`, a view is what others can tell that they have sent."""

    party: str
    task: Task
    received: tuple[Seen, ...]
    own: Own | None = None

    def about_rows(self, *kinds: str, sender: str | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """The values of these kinds of messages, (rows, ...) each, with the numbers of their rows."""
        for seen in self.received:
            if seen.rows is not None and seen.message.kind in kinds and sender in (None, seen.sender):
                here = seen.rows != ELSEWHERE
                yield seen.rows[here], seen.message.tensor[here]


def latest(observed: Iterator[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Of each row the last value that was seen, by rising numbers."""
    last: dict[int, Tensor] = {}
    for rows, values in observed:
        last.update(zip(rows.tolist(), values.flatten(1), strict=True))
    if not last:
        return torch.empty(0, dtype=torch.int64), torch.empty(0, 0)
    rising = sorted(last)
    return torch.tensor(rising), torch.stack([last[row] for row in rising])
