"""Averaging weights that parties hold in the same shapes, at the host (FedAvg, all parties alike)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import torch
from torch import Tensor

from vesica.errors import ProtocolError
from vesica.privacy import isotropic_noise
from vesica.protocol.message import Message, has_scalars
from vesica.protocol.party import Guest, Host

Weights = Mapping[str, Tensor]

# Trained weights stay far below it. With larger ones a party could make the others' next step overflow, and these would
# be told that their own learning rate is too high.
LARGEST_WEIGHT = 1e5


class GuestAveraging:
    """A guest's part: whether others have such weights as it has is settled once, in one exchange."""

    def __init__(self, me: Guest, weights: Weights) -> None:
        self._me, self._weights = me, weights
        me.host.send("shapes", scalars={"digest": shapes_of(weights)})
        self.takes_part = me.host.receive("group", check=has_scalars(shared=bool)).scalar("shared", bool)

    def average(self) -> None:
        """Give the host the weights and take the average, where there is one."""
        if self.takes_part:
            self._me.host.send("weights", self._weights)
            put(self._weights, self._me.host.receive("weights", check=self._check).tensors)

    def _check(self, message: Message) -> None:
        if shapes_of(message.tensors) != shapes_of(self._weights):
            raise ProtocolError(
                f"'weights' from '{self._me.host.peer}' have other shapes than those here: start both parties anew"
            )
        _check_size(self._me.host.peer, message)


class HostAveraging:
    """The host's part: it averages what has the same shapes, its own among them, and sees every guest's.

    `noise` goes on the host's own weights before they are averaged (isotropic, a share of their largest row).
    """

    def __init__(self, me: Host, weights: Weights | None, *, noise: float = 0.0) -> None:
        self._me, self._noise = me, noise
        self._weights: Weights = weights or {}
        shapes = {} if weights is None else {me.name: shapes_of(weights)}
        shapes |= {
            name: message.scalar("digest", str)
            for name, message in me.gather("shapes", check=has_scalars(digest=str)).items()
        }
        groups = [[name for name in shapes if shapes[name] == digest] for digest in dict.fromkeys(shapes.values())]
        self.groups = [group for group in groups if len(group) > 1]
        self.alone = [group[0] for group in groups if len(group) == 1]
        self._shapes = shapes
        for name, link in me.guests.items():
            link.send("group", scalars={"shared": name not in self.alone})

    def average(self) -> None:
        """A round up and one down, with the guests that are in a group."""
        me = self._me
        held = {name: self._take(name) for group in self.groups for name in group if name != me.name}
        if self._weights and me.name not in self.alone:
            held[me.name] = {name: isotropic_noise(weight, self._noise) for name, weight in self._weights.items()}
        for group in self.groups:
            mean = {key: torch.stack([held[name][key] for name in group]).mean(dim=0) for key in held[group[0]]}
            for name in group:
                if name == me.name:
                    put(self._weights, mean)
                else:
                    me.guests[name].send("weights", mean)

    def _take(self, guest: str) -> Weights:
        def check(message: Message) -> None:
            if shapes_of(message.tensors) != self._shapes[guest]:
                raise ProtocolError(f"'weights' from '{guest}' have other shapes than it said: start both parties anew")
            _check_size(guest, message)

        return self._me.guests[guest].receive("weights", check=check).tensors


def _check_size(peer: str, message: Message) -> None:
    largest = max((float(weight.abs().max()) for weight in message.tensors.values() if weight.numel()), default=0.0)
    if largest > LARGEST_WEIGHT:
        raise ProtocolError(
            f"'weights' from '{peer}' go up to {largest:.3g}, expected at most {LARGEST_WEIGHT:.0e}: "
            "lower its learning rate"
        )


def shapes_of(weights: Weights) -> str:
    """A digest that tells names, shapes and types of weights from any others."""
    described = [[name, list(weight.shape), str(weight.dtype)] for name, weight in weights.items()]
    return hashlib.sha256(json.dumps(sorted(described)).encode()).hexdigest()


@torch.no_grad()
def put(weights: Weights, values: Weights) -> None:
    """Copy values, in the same shapes, into the weights that a model holds."""
    for name, weight in weights.items():
        weight.copy_(values[name])
