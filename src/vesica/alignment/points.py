"""Sets of points as arrays of 32 bytes a point: in order, compared, and sent in messages of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch

from vesica.alignment.curve import SIZE
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


def receive_points(link: Link, count: int) -> Array:
    """So many points, which must be distinct, and such as X25519 gives."""
    points = np.empty((count, SIZE), dtype=np.uint8)
    for start in range(0, count, A_MESSAGE):
        shape = (min(A_MESSAGE, count - start), SIZE)
        points[start : start + A_MESSAGE] = link.receive("points", shape=shape, dtype=torch.uint8).tensor.cpu().numpy()
    faults = {
        "a point of zeros": ~words_of(points).any(axis=1),
        "a point beyond the field": points[:, -1] > 127,
        "a point twice": same_as_before(points),
    }
    for what, found in faults.items():
        if found.any():
            raise ProtocolError(f"'{link.peer}' sent {what}, as no party does that follows the protocol")
    return points


def receive_positions(link: Link, *, within: int, size: int | None) -> Array:
    """Distinct positions in a list of length `within`, and so many of them if that is known."""
    positions: Array = link.receive("positions", shape=(size,), dtype=torch.int64).tensor.cpu().numpy()
    fits = len(positions) == 0 or (positions.min() >= 0 and positions.max() < within)
    if not fits or len(np.unique(positions)) < len(positions):
        raise ProtocolError(f"'{link.peer}' sent positions that are not distinct ones of {within}")
    return positions
