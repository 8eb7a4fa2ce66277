"""A view: what one party had and received in a run. An attack is a guess from it; whoever has the truth scores it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vesica.metrics import Task
from vesica.nn.models import EncoderSpec
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

    def by_times(self, kind: str, *, sender: str) -> dict[int, tuple[Tensor, Tensor]]:
        """Of rows that were shown so many times the numbers, rising, and all that one can use of what was shown.

        That is the first, a middle and the last value side by side, (rows, numbers): an encoder that learns forgets.
        """
        about = [seen.rows[seen.rows != ELSEWHERE] for seen in self._of((kind,), sender) if seen.rows is not None]
        if not about:
            return {}
        rows, times = torch.cat(about).unique(return_counts=True)
        found = {}
        for count in times.unique().tolist():
            of_count = rows[times == count]
            moments = sorted({1, (count + 1) // 2, count})
            found[count] = of_count, torch.cat(self._at(of_count, moments, kind, sender), dim=1)
        return found

    def _at(self, rows: Tensor, moments: Sequence[int], kind: str, sender: str) -> list[Tensor]:
        """The values of some rows when they were shown for the first time, the second, as asked."""
        place = torch.full((int(rows.max()) + 1,), ELSEWHERE)
        place[rows] = torch.arange(len(rows))
        times = torch.zeros(len(rows), dtype=torch.int64)
        values: dict[int, Tensor] = {}
        for seen in self._of((kind,), sender):
            assert seen.rows is not None
            mine = (seen.rows != ELSEWHERE) & (seen.rows < len(place))
            mine[mine.clone()] = place[seen.rows[mine]] != ELSEWHERE
            here = place[seen.rows[mine]]
            times[here] += 1
            for moment in moments:
                now = times[here] == moment
                if now.any():
                    given = seen.message.tensor[mine][now].flatten(1).float()
                    values.setdefault(moment, given.new_zeros(len(rows), given.shape[1]))[here[now]] = given
        return [values[moment] for moment in moments]

    def _of(self, kinds: Collection[str], sender: str | None) -> list[Seen]:
        return [
            seen
            for seen in self.received
            if seen.rows is not None and seen.kind in kinds and sender in (None, seen.sender)
        ]
