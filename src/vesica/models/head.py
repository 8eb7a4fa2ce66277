"""What the host puts on top of the parties' representations: a join, then an MLP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vesica.errors import InputError, nearest
from vesica.models.mlp import MLP


def concat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts), dim=1)


def mean(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(parts)).mean(dim=0)


def maximum(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(parts)).amax(dim=0)


JOINS: dict[str, Callable[[Sequence[Tensor]], Tensor]] = {"concat": concat, "mean": mean, "max": maximum}


class Head(nn.Module):
    """Joins one part a party, (rows, dim) each and in the order of `dims`, and maps it to `outputs`."""

    def __init__(
        self, dims: Mapping[str, int], outputs: int, *, hidden: Sequence[int] = (), join: str = "concat"
    ) -> None:
        super().__init__()
        _check(dims, join)
        self.dims = dict(dims)
        self.parties = tuple(dims)
        self.outputs = outputs
        self.hidden = tuple(hidden)
        self.join = join
        width = sum(dims.values()) if join == "concat" else next(iter(dims.values()))
        self.mlp = MLP(width, hidden, outputs)

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        if len(parts) != len(self.dims):
            raise InputError(f"the head joins {', '.join(self.parties)} and got {len(parts)} parts")
        for (party, dim), part in zip(self.dims.items(), parts, strict=True):
            if part.shape[1:] != (dim,):
                raise InputError(f"the part of {party} must be (rows, {dim}) and is {tuple(part.shape)}")
        outputs: Tensor = self.mlp(JOINS[self.join](parts))
        return outputs

    def spec(self) -> dict[str, Any]:
        """What rebuilds this head, ready for JSON; lists, because the order of the parties matters."""
        return {
            "parties": list(self.parties),
            "dims": list(self.dims.values()),
            "outputs": self.outputs,
            "hidden": list(self.hidden),
            "join": self.join,
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Head:
        dims = dict(zip(spec["parties"], spec["dims"], strict=True))
        return cls(dims, spec["outputs"], hidden=spec["hidden"], join=spec["join"])


def _check(dims: Mapping[str, int], join: str) -> None:
    if not dims:
        raise InputError("a head needs the representation of at least one party and got none")
    if join not in JOINS:
        raise InputError(f"there is no join '{join}'{nearest(join, JOINS)}")
    if join != "concat" and len(set(dims.values())) > 1:
        sizes = ", ".join(f"{party} {dim}" for party, dim in dims.items())
        raise InputError(f"the join '{join}' needs parts of equal dimension and got {sizes}: use 'concat'")
