"""What the host puts on top of the parties' representations: a join, then an MLP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from vesica.errors import InputError, nearest
from vesica.nn.models.mlp import MLP


def concat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts), dim=1)


def unit(parts: Sequence[Tensor]) -> Tensor:
    """As `concat`, each row of a part divided by its root mean square: no party counts more for its longer rows."""
    return concat([functional.rms_norm(part, part.shape[1:]) for part in parts])


def mean(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(parts)).mean(dim=0)


def maximum(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(parts)).amax(dim=0)


JOINS: dict[str, Callable[[Sequence[Tensor]], Tensor]] = {
    "concat": concat,
    "unit": unit,
    "mean": mean,
    "max": maximum,
}
SIDE_BY_SIDE = ("concat", "unit")


Fill = Literal["learned", "zero"]


class Head(nn.Module):
    """Joins one part a party, (rows, dim) each and in the order of `dims`, and maps it to `outputs`.

    The `optional` parties may be missing: a `fill` stands in for their part, a vector that is learned or zero. In
    training each of their parts of each row is missing with the probability `party_dropout`, but never all of a row's.
    """

    reads = "representations"  # what it asks a party for

    def __init__(
        self,
        dims: Mapping[str, int],
        outputs: int,
        *,
        hidden: Sequence[int] = (),
        join: str = "concat",
        optional: Sequence[str] = (),
        fill: Fill = "learned",
        party_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _check(dims, join)
        self.dims = dict(dims)
        self.parties = tuple(dims)
        self.outputs = outputs
        self.hidden = tuple(hidden)
        self.join = join
        width = sum(dims.values()) if join in SIDE_BY_SIDE else next(iter(dims.values()))
        self.mlp = MLP(width, hidden, outputs)
        self.optional = tuple(optional)
        self.fill: Fill = fill
        self.party_dropout = party_dropout
        vectors = (nn.Parameter(torch.zeros(dims[party]), requires_grad=fill == "learned") for party in optional)
        self.fills = nn.ParameterList(vectors)

    def forward(self, parts: Sequence[Tensor | None]) -> Tensor:
        if len(parts) != len(self.dims):
            raise InputError(f"the head joins {', '.join(self.parties)} and got {len(parts)} parts")
        for (party, dim), part in zip(self.dims.items(), parts, strict=True):
            if part is None and party not in self.optional:
                raise InputError(f"the part of {party} is missing, and the head cannot do without it")
            if part is not None and part.shape[1:] != (dim,):
                raise InputError(f"the part of {party} must be (rows, {dim}) and is {tuple(part.shape)}")
        outputs: Tensor = self.mlp(JOINS[self.join](self._filled(parts)))
        return outputs

    def _filled(self, parts: Sequence[Tensor | None]) -> list[Tensor]:
        """The parts, with the fills where one is missing or dropped."""
        there = [part for part in parts if part is not None]
        if not there:
            raise InputError(f"the parts of {', '.join(self.parties)} are all missing: nothing is left to predict from")
        filled = dict(zip(self.parties, parts, strict=True))
        dropped = self._drop(len(there[0]), device=there[0].device)
        for number, (party, fill) in enumerate(zip(self.optional, self.fills, strict=True)):
            part = filled[party]
            if part is None:
                filled[party] = fill.expand(len(there[0]), -1)
            elif dropped is not None:
                filled[party] = torch.where(dropped[:, number, None], fill, part)
        return [part for part in filled.values() if part is not None]

    def _drop(self, rows: int, *, device: torch.device) -> Tensor | None:
        """Which optional parts (rows, optional) are to be missing; None: none."""
        if not (self.training and self.party_dropout and self.optional):
            return None
        chances = torch.rand(rows, len(self.optional), device=device)
        dropped = chances < self.party_dropout
        if len(self.optional) == len(self.parties):  # the luckiest part of a row stays
            dropped.scatter_(1, chances.argmax(dim=1, keepdim=True), value=False)
        return dropped

    def spec(self) -> dict[str, Any]:
        """What rebuilds this head, ready for JSON; lists, because the order of the parties matters."""
        return {
            "parties": list(self.parties),
            "dims": list(self.dims.values()),
            "outputs": self.outputs,
            "hidden": list(self.hidden),
            "join": self.join,
            "optional": list(self.optional),
            "fill": self.fill,
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Head:
        dims = dict(zip(spec["parties"], spec["dims"], strict=True))
        return cls(
            dims,
            spec["outputs"],
            hidden=spec["hidden"],
            join=spec["join"],
            optional=spec.get("optional", ()),  # heads of earlier versions need all their parties
            fill=spec.get("fill", "learned"),
        )


def _check(dims: Mapping[str, int], join: str) -> None:
    if not dims:
        raise InputError("a head needs the representation of at least one party and got none")
    if join not in JOINS:
        raise InputError(f"there is no join '{join}'{nearest(join, JOINS)}")
    if join not in SIDE_BY_SIDE and len(set(dims.values())) > 1:
        sizes = ", ".join(f"{party} {dim}" for party, dim in dims.items())
        raise InputError(f"the join '{join}' needs parts of equal dimension and got {sizes}: use 'concat'")
