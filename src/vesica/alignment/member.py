"""One party of an alignment, as its program sees it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from vesica.alignment.curve import SIZE, blind, clear_cofactor, hash_to_curve
from vesica.alignment.normalisation import Columns, Ids
from vesica.alignment.points import Bulk, in_bulk, order_of, receive_points
from vesica.data.table import Array
from vesica.protocol.link import Link, Progress, silently


@dataclass(frozen=True)
class Member:
    """One party of an alignment. No journal of its conversation can be gone on from: the secret is kept nowhere."""

    name: str
    parties: tuple[str, ...]  # everyone, the host first
    links: Mapping[str, Link]  # a guest's: to the host alone
    ids: Ids
    columns: Columns  # which the ids were prepared from, for the doctor
    bulk: Bulk = map  # or that of a pool of processes
    progress: Progress = silently
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(SIZE), repr=False)

    @property
    def host(self) -> Link:
        return self.links[self.parties[0]]

    def points(self, run: bytes) -> Array:
        """This party's own ids on the curve."""
        return self._in_bulk("hash", partial(hash_to_curve, run=run), self.ids.digests)

    def receive(self, link: Link, count: int) -> Array:
        """So many points of a peer, checked."""
        return receive_points(link, count, clear_cofactor=partial(self._in_bulk, "check", clear_cofactor))

    def blind(self, points: Array) -> Array:
        return self._in_bulk("blind", partial(blind, secret=self.secret), points)

    def mix(self, points: Array) -> tuple[Array, Array]:
        """The points blinded and sorted, and where each stood before."""
        blinded = self.blind(points)
        order = order_of(blinded)
        return blinded[order], order

    def _in_bulk(self, step: str, function: Callable[[bytes], bytes], values: Array) -> Array:
        return in_bulk(function, values, bulk=self.bulk, watch=partial(self.progress, self.name, step))
