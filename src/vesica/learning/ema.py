"""The moving average of a module in training."""

import copy
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn


class MovingAverage:
    """A copy of a module whose weights and buffers follow the original's: `module`.

    The decay warms up as (1 + n) / (10 + n) over n updates, so that a short run forgets its first weights too.
    """

    def __init__(self, original: nn.Module, *, decay: float = 0.999) -> None:
        self.module = copy.deepcopy(original).requires_grad_(False)
        self._original = original
        self._decay = decay
        self._updates = 0

    @torch.no_grad()
    def update(self) -> None:
        self._updates += 1
        decay = min(self._decay, (1 + self._updates) / (10 + self._updates))
        for average, value in zip(_values(self.module), _values(self._original), strict=True):
            if average.is_floating_point():
                average.lerp_(value, 1 - decay)
            else:
                average.copy_(value)

    def state_dict(self) -> dict[str, Any]:
        return {"module": self.module.state_dict(), "updates": self._updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.module.load_state_dict(state["module"])
        self._updates = state["updates"]


def _values(module: nn.Module) -> Iterator[Tensor]:
    return chain(module.parameters(), module.buffers())
