"""Private set intersection of two or more parties by Diffie-Hellman, as a host's and a guest's program.

Each party hashes its ids to points, and has a secret scalar that lives as long as the run. Every set of points goes
round all guests and the host; each blinds it with its scalar and sorts it by what comes out. Only sets that all have
blinded are compared, by the host. Where a common point stands in each set goes the same way back, each party undoing
its sorting, until every owner knows which of its rows are common, in one order.

Why nobody learns more:
- Without its scalar a blinded set looks like random points (decisional Diffie-Hellman; the hash is a random oracle),
  and sorted by value it says nothing about the order it came in.
- No two sets that a guest sees are blinded by the same parties (they go round a ring from different places), so that it
  cannot compare them. It learns how many ids each party has, and the result.
- The host compares, so it counts how many points each group of parties has in common. It cannot tell which, not even
  among its own ids: every other party has sorted them. Only the points that all have are traced back to ids.
- To learn the size alone (`reveal="size"`) is to leave out the way back.

It holds for parties that follow the protocol; docs/align.md says what one that does not could do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch

from vesica.alignment.curve import require_cryptography
from vesica.alignment.doctor import examine, few
from vesica.alignment.member import Member
from vesica.alignment.points import common, receive_positions, send_points
from vesica.alignment.summary import from_text, summarise, to_text
from vesica.alignment.terms import Agreed, Terms
from vesica.data.ids import Rules
from vesica.data.table import Array
from vesica.errors import InputError, ProtocolError, nearest

Reveal = Literal["ids", "size"]


@dataclass(frozen=True)
class Aligned:
    """What a party knows in the end."""

    size: int  # how many ids all parties have in common
    rows: Array | None  # where these stand in the party's own table, in one order for all; None: the size alone
    sizes: Mapping[str, int]  # how many ids each party has
    hints: tuple[str, ...] = ()  # why they may be so few


@dataclass(frozen=True)
class Alignment:
    """What the parties want to know of their ids; all must want the same."""

    rules: Rules = field(default_factory=Rules)
    reveal: Reveal = "ids"
    doctor: bool = False  # where few ids are in common, every party gets counts of what the others' look like

    def __post_init__(self) -> None:
        if self.reveal not in get_args(Reveal):
            raise InputError(f"'{self.reveal}' cannot be revealed{nearest(str(self.reveal), get_args(Reveal))}")

    def host(self, me: Member) -> Aligned:
        """The program of the party that all links end at, which compares."""
        require_cryptography()
        agreed = self._terms(me).propose(me.links, ids=len(me.ids))
        sets, order = self._send_round(me, agreed)
        positions = common(sets)
        del sets  # a large part of all memory
        size = len(positions[me.name])
        rows = None
        if self.reveal == "size":
            for link in me.links.values():
                link.send("size", scalars={"common": size})
        else:
            rows = me.ids.rows[order[self._trace_back(me, positions, agreed.sizes)]]
        hints = self._gather_summaries(me) if self.doctor and few(size, agreed.sizes) else ()
        return Aligned(size, rows, agreed.sizes, hints)

    def guest(self, me: Member) -> Aligned:
        """The program of every other party."""
        require_cryptography()
        agreed = self._terms(me).accept(me.host, me=me.name, ids=len(me.ids))
        orders = self._mix_all(me, agreed)
        rows = None
        if self.reveal == "size":
            size = me.host.receive("size").scalar("common", int)
            check_size(me, size, agreed)
        else:
            rows = me.ids.rows[self._undo(me, orders, agreed)]
            size = len(rows)
        hints = self._give_summary(me) if self.doctor and few(size, agreed.sizes) else ()
        return Aligned(size, rows, agreed.sizes, hints)

    def _terms(self, me: Member) -> Terms:
        rules = self.rules
        return Terms(me.parties, me.ids.keys, rules.trim, rules.case, rules.pad, self.reveal, self.doctor)

    def _send_round(self, me: Member, agreed: Agreed) -> tuple[dict[str, Array], Array]:
        """Every party's set, blinded by all, and how the host sorted its own.

        At its first stop a guest's set is still with its owner.
        """
        sets: dict[str, Array] = {}
        sets[me.name], order = me.mix(me.points(agreed.run))
        for leg in legs(me.parties):
            for owner, guest in leg:
                if owner != guest:
                    send_points(me.links[guest], sets[owner])
            for owner, guest in leg:
                sets[owner] = me.receive(me.links[guest], agreed.sizes[owner])
        for guest in me.parties[1:]:
            sets[guest] = me.blind(sets[guest])
        return sets, order

    def _mix_all(self, me: Member, agreed: Agreed) -> dict[str, Array]:
        """A guest's side of it: how it sorted each set."""
        orders = {}
        for owners in turns(me):
            for owner in owners:
                received = owner != me.name
                points = me.receive(me.host, agreed.sizes[owner]) if received else me.points(agreed.run)
                mixed, orders[owner] = me.mix(points)
                send_points(me.host, mixed)
        return orders

    def _trace_back(self, me: Member, positions: dict[str, Array], sizes: Mapping[str, int]) -> Array:
        """The way back, at whose end each guest keeps what is its own; the host's own is returned."""
        size = len(positions[me.name])
        for leg in reversed(legs(me.parties)):
            for owner, guest in leg:
                me.links[guest].send("positions", torch.from_numpy(positions[owner]))
            for owner, guest in leg:
                if owner != guest:
                    positions[owner] = receive_positions(me.links[guest], within=sizes[owner], size=size)
        return positions[me.name]

    def _undo(self, me: Member, orders: Mapping[str, Array], agreed: Agreed) -> Array:
        """A guest's side of the way back: what was sorted here is put back; its own is the last, and is returned."""
        size: int | None = None
        own: Array | None = None
        for owners in reversed(turns(me)):
            for owner in owners:
                order = orders[owner]
                before = order[receive_positions(me.host, within=len(order), size=size)]
                size = len(before)
                check_size(me, size, agreed)
                if owner == me.name:
                    own = before
                else:
                    me.host.send("positions", torch.from_numpy(before))
        assert own is not None
        return own

    def _gather_summaries(self, me: Member) -> tuple[str, ...]:
        """Every party's summary to every other."""
        texts = {me.name: to_text(summarise(me.columns, self.rules))}
        for guest in me.parties[1:]:
            texts[guest] = me.links[guest].receive("summary").scalar("counts", str)
        for guest in me.parties[1:]:
            for party in others(me.parties, guest):
                me.links[guest].send("summary", scalars={"counts": texts[party]})
        return self._hints(me, texts)

    def _give_summary(self, me: Member) -> tuple[str, ...]:
        texts = {me.name: to_text(summarise(me.columns, self.rules))}
        me.host.send("summary", scalars={"counts": texts[me.name]})
        for party in others(me.parties, me.name):
            texts[party] = me.host.receive("summary").scalar("counts", str)
        return self._hints(me, texts)

    def _hints(self, me: Member, texts: Mapping[str, str]) -> tuple[str, ...]:
        read = {party: from_text(text, keys=me.ids.keys, party=party) for party, text in texts.items()}
        return tuple(
            hint for party in others(me.parties, me.name) for hint in examine(read[me.name], read[party], party=party)
        )


def check_size(me: Member, size: int, agreed: Agreed) -> None:
    """Refuse a number of common ids that cannot be, before a guest answers to it."""
    if not 0 <= size <= min(agreed.sizes.values()):
        raise ProtocolError(f"'{me.host.peer}' says that {size} ids are common, more than a party has")


def legs(parties: tuple[str, ...]) -> list[list[tuple[str, str]]]:
    """Which guest blinds whose set, one leg of the way after the other: a guest's set starts with its owner."""
    guests = parties[1:]
    starts = {owner: max(0, number - 1) for number, owner in enumerate(parties)}
    return [
        [(owner, guests[(start + leg) % len(guests)]) for owner, start in starts.items()] for leg in range(len(guests))
    ]


def turns(me: Member) -> list[list[str]]:
    """Whose sets a guest blinds, leg by leg."""
    return [[owner for owner, guest in leg if guest == me.name] for leg in legs(me.parties)]


def others(parties: tuple[str, ...], me: str) -> list[str]:
    return [party for party in parties if party != me]
