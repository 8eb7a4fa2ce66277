"""Sets of points as arrays of 32 bytes a point: in order, compared, and sent in messages of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch

from vesica.alignment.curve import PRIME, SIZE
from vesica.data.table import Array
from vesica.errors import ProtocolError
from vesica.protocol.link import Link

A_MESSAGE = 2**18  # points: 8 MiB
AT_ONCE = 2**11  # points that one process takes at a time
MOST = 2**26  # points of a set: 2 GiB

Bulk = Callable[[Callable[[bytes], bytes], Iterable[bytes]], Iterable[bytes]]  # `map`, or that of a pool of processes
Watch = Callable[[int, int], None]  # position, total


def in_bulk(function: Callable[[bytes], bytes], values: Array, *, bulk: Bulk, watch: Watch) -> Array:
    """A function of values of 32 bytes each, applied to many at a time."""
    found = np.empty_like(values)
    watch(0, len(values))
    pieces = (values[start : start + AT_ONCE].tobytes() for start in range(0, len(values), AT_ONCE))
    for number, piece in enumerate(bulk(function, pieces)):
        some = np.frombuffer(piece, dtype=np.uint8).reshape(-1, SIZE)
        found[number * AT_ONCE :][: len(some)] = some
        watch(number * AT_ONCE + len(some), len(values))
    return found


def words_of(points: Array) -> Array:
    """The same bytes as four numbers a point, which are faster to compare."""
    return np.ascontiguousarray(points).view("<u8")


def order_of(points: Array) -> Array:
    """The positions of the points by value; of equal ones, the earlier first."""
    return np.lexsort(words_of(points).T)


def equal_apart(points: Array, order: Array, *, by: int) -> Array:
    """For each place in the order, whether the point so many places on is equal; the last places have none."""
    equal = np.ones(max(0, len(order) - by), dtype=bool)
    for word in words_of(points).T:  # one at a time: a sorted copy of them all is as large as the set
        ordered = word[order]
        equal &= ordered[: len(equal)] == ordered[by:]
    return equal


def same_as_before(points: Array) -> Array:
    """For each point, whether an earlier one is equal."""
    order, again = order_of(points), np.zeros(len(points), dtype=bool)
    again[order[1:]] = equal_apart(points, order, by=1)
    return again


def common(sets: Mapping[str, Array]) -> dict[str, Array]:
    """The points that are in all sets, each of distinct points: where they stand in each, all in one order."""
    points = np.concatenate(list(sets.values()))
    order = order_of(points)
    begins = np.flatnonzero(equal_apart(points, order, by=len(sets) - 1))
    found, start = {}, 0
    for number, (owner, each) in enumerate(sets.items()):  # equal points stand in the order of the sets
        found[owner] = order[begins + number] - start
        start += len(each)
    return found


def send_points(link: Link, points: Array) -> None:
    for start in range(0, len(points), A_MESSAGE):
        link.send("points", torch.from_numpy(points[start : start + A_MESSAGE]))


def receive_points(link: Link, count: int, *, clear_cofactor: Callable[[Array], Array]) -> Array:
    """So many points, which must be such as X25519 gives, and stay distinct however they are blinded.

    All of this is checked before a point is blinded or passed on, so that the peer is to blame for what is wrong.
    """
    points = np.empty((count, SIZE), dtype=np.uint8)
    for start in range(0, count, A_MESSAGE):
        shape = (min(A_MESSAGE, count - start), SIZE)
        points[start : start + A_MESSAGE] = link.receive("points", shape=shape, dtype=torch.uint8).tensor.cpu().numpy()
    refuse(link, "a point of zeros", is_zeros(points))
    refuse(link, "a point beyond the field", beyond_the_field(points))
    refuse(link, "a point twice", same_as_before(points))
    cleared = clear_cofactor(points)
    refuse(link, "a point of small order", is_zeros(cleared))
    refuse(link, "two points that are one when blinded", same_as_before(cleared))
    return points


def refuse(link: Link, what: str, found: Array) -> None:
    if found.any():
        raise ProtocolError(f"'{link.peer}' sent {what}, as no party does that follows the protocol")


def is_zeros(points: Array) -> Array:
    zeros: Array = (words_of(points) == 0).all(axis=1)
    return zeros


def beyond_the_field(points: Array) -> Array:
    """Whether each is the prime or more: X25519 takes it for the remainder, so that a point could be written twice."""
    low, *others = words_of(points).T
    whole = np.frombuffer(PRIME.to_bytes(SIZE, "little"), dtype="<u8")
    beyond: Array = (others[-1] > whole[-1]) | ((low >= whole[0]) & (np.array(others) == whole[1:, None]).all(axis=0))
    return beyond


def receive_positions(link: Link, *, within: int, size: int | None) -> Array:
    """Distinct positions in a list of length `within`, and so many of them if that is known."""
    positions: Array = link.receive("positions", shape=(size,), dtype=torch.int64).tensor.cpu().numpy()
    fits = len(positions) == 0 or (positions.min() >= 0 and positions.max() < within)
    if not fits or len(np.unique(positions)) < len(positions):
        raise ProtocolError(f"'{link.peer}' sent positions that are not distinct ones of {within}")
    return positions
