"""A view: what one party had and received in a run. An attack is a guess from it; whoever has the truth scores it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
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
    kind: str
    read: Callable[[], Message]  # from the disk, each time: all of a long run would not fit into memory
    rows: Tensor | None  # None: it is not about rows
    numbers: int
    bytes: int  # of its frame

    @property
    def message(self) -> Message:
        return self.read()


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
        for seen in self._of(kinds, sender):
            assert seen.rows is not None
            here = seen.rows != ELSEWHERE
            yield seen.rows[here], seen.message.tensor[here]

    def latest(self, kind: str, *, sender: str) -> tuple[Tensor, Tensor]:
        """Of each row the last value that was seen, by rising numbers: (rows,) and (rows, dim)."""
        known, rows, values = torch.empty(0, dtype=torch.int64), [], []
        for seen in reversed(self._of((kind,), sender)):
            assert seen.rows is not None
            new = ~torch.isin(seen.rows, known) & (seen.rows != ELSEWHERE)
            if new.any():
                rows.append(seen.rows[new])
                values.append(seen.message.tensor[new].flatten(1))
                known = torch.cat([known, rows[-1]])
        if not rows:
            return known, torch.empty(0, 0)
        order = known.argsort()
        return known[order], torch.cat(values)[order]

    def _of(self, kinds: Collection[str], sender: str | None) -> list[Seen]:
        return [
            seen
            for seen in self.received
            if seen.rows is not None and seen.kind in kinds and sender in (None, seen.sender)
        ]
