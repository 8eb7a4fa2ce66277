"""The moving average of a module in training."""

import copy
from collections.abc import Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn


class MovingAverage:
    """A copy of a module whose weights and buffers follow the original's: `module`.

    The decay warms up as (1 + n) / (10 + n) over n updates, so that a short run forgets its first weights too. The
    count is a tensor beside the weights: an update never waits for the device and can be recorded.
    """

    def __init__(self, original: nn.Module, *, decay: float = 0.999) -> None:
        self.module = copy.deepcopy(original).requires_grad_(False)
        self._decay = decay
        pairs = list(zip(_values(self.module), _values(original), strict=True))
        self._floats = [pair for pair in pairs if pair[0].is_floating_point()]
        self._counts = [pair for pair in pairs if not pair[0].is_floating_point()]
        self._updates = torch.zeros((), device=self._floats[0][0].device)

    @torch.no_grad()
    def update(self) -> None:
        self._updates += 1
        weight = 1 - ((1 + self._updates) / (10 + self._updates)).clamp(max=self._decay)
        averages, values = map(list, zip(*self._floats, strict=True))
        if self._decay == 0:
            torch._foreach_copy_(averages, values)
        else:
            steps = torch._foreach_sub(values, averages)
            torch._foreach_mul_(steps, weight)
            torch._foreach_add_(averages, steps)
        for average, value in self._counts:
            average.copy_(value)

    def state_dict(self) -> dict[str, Any]:
        return {"module": self.module.state_dict(), "updates": self._updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.module.load_state_dict(state["module"])
        self._updates.copy_(state["updates"])


def _values(module: nn.Module) -> list[Tensor]:
    return list(chain(module.parameters(), module.buffers()))
