"""Where training ends that may take so many bytes: end to end, as the host reckons it, or tree by tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal, get_args

import torch

from vesica.errors import InputError
from vesica.protocol.gate import Count
from vesica.protocol.message import Message, Scalar, Wire, frame_bytes
from vesica.protocol.party import Host

# What follows a batch: the next one; the validation rows, and a verdict; the same for the last time; a verdict alone.
# All of one length, so that the length of a frame does not depend on the word.
Then = Literal["train", "score", "final", "close"]
THENS: tuple[Then, ...] = get_args(Then)


class ByteLimit:
    """Keeps the wire bytes of a run's training at or under a limit, and ends it where one more batch would not fit.

    The validation rows are scored after the last batch, so room for that is kept back. Where a batch fits and the
    scoring at an epoch's end does not fit beside it, the batch goes first. Where not even one batch and one scoring
    fit, the batches that do are trained unscored, unless there is something to be better than (`must_score`).
    """

    def __init__(
        self,
        me: Host,
        limit: int,
        batches: Sequence[int],
        *,
        scored: int,
        must_score: bool,
        rows_after: int,
        beside: int = 0,
        twice: Sequence[str] = (),
    ) -> None:
        """`batches` are the rows of an epoch's batches; a guest may add `beside`, and those `twice` send them again.

        After an epoch they send `scored` rows, and `rows_after` in the end.
        """
        self._me, self._limit, self._batches, self._twice = me, limit, batches, twice
        self.beside = dict.fromkeys(me.guests, beside)  # the most, until it is seen what each does
        # A verdict of two false words is the longest.
        verdict = len(me.guests) * frame_bytes(Message("verdict", {}, {"better": False, "stop": False}))
        after = self._up(rows_after) if rows_after else 0
        self._scoring = self._up(scored) + verdict
        first = me.conversation.ledger.wire + sum(self._exchange(rows) for rows in batches[:1])
        self._scores = must_score or first + self._scoring + after <= limit
        self._kept_back = (self._scoring if self._scores else verdict) + after
        if not self._fits(first):
            raise InputError(
                f"not even one batch fits into --stop-at-bytes {limit:,}: with what was sent before, the bytes would "
                f"come to {first + self._kept_back:,}; raise it in a new run, "
                "or take a smaller batch_size or dim or a narrower wire"
            )

    def after(self, batch: int, *, last_epoch: bool) -> Then:
        """What follows this batch of an epoch, whose gradients are about to leave."""
        ends = batch + 1 == len(self._batches)
        passed = self._me.conversation.ledger.wire + self._rest(self._batches[batch])
        following = passed + self._exchange(self._batches[0 if ends else batch + 1])
        if (ends and last_epoch) or not self._fits(following):
            return "final" if self._scores else "close"
        return "score" if ends and self._fits(following + self._scoring) else "train"

    def _fits(self, total: int) -> bool:
        return total + self._kept_back <= self._limit

    def _exchange(self, rows: int) -> int:
        return self._of_batch("representations", rows, self._me.guests) + self._rest(rows)

    def _rest(self, rows: int) -> int:
        """What is to come of a batch once the guests' parts of it are here."""
        return self._of_batch("gradients", rows, self._me.guests) + self._of_batch("representations", rows, self._twice)

    def _of_batch(self, kind: str, rows: int, guests: Iterable[str]) -> int:
        return sum(self._wire_bytes(kind, rows + self.beside[guest], guest) for guest in guests)

    def _up(self, rows: int) -> int:
        """Of representations from every guest."""
        return sum(self._wire_bytes("representations", rows, guest) for guest in self._me.guests)

    def _wire_bytes(self, kind: str, rows: int, guest: str) -> int:
        return _length(kind, rows, self._me.dims[guest], self._me.conversation.wire)


class TreeLimit:
    """Keeps the wire bytes of vertical trees at or under a limit, as gates count them.

    What a tree takes is known once it has been grown. The first one that does not fit is dropped, with its messages.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.trees = 0  # that fit
        self.counts: list[Count] = []  # of each gate, after the last of these
        self.beyond = 0  # what the bytes came to with one more; 0: there was none

    def take(self, counts: list[Count]) -> bool:
        """Whether the next tree, after which the gates stand like this, is one that fits."""
        total = sum(count.wire for count in counts)
        if total <= self._limit:
            self.trees, self.counts = self.trees + 1, counts
            return True
        if not self.trees:
            raise InputError(
                f"not even one tree fits into --stop-at-bytes {self._limit:,}: with what was sent before, the bytes "
                f"would come to {total:,}; raise it in a new run, or take a smaller max_depth"
            )
        self.beyond = total
        return False


@cache  # a training asks for the same few lengths again and again
def _length(kind: str, rows: int, dim: int, wire: Wire) -> int:
    """Of the frame with a value for every row and dimension."""
    scalars: dict[str, Scalar] = {"then": "train"} if kind == "gradients" else {}
    return frame_bytes(Message(kind, {"values": torch.empty(rows, dim, device="meta")}, scalars), wire=wire)
