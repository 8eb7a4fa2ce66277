"""The moving average of a module in training."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

_STATISTICS_DECAY = 0.9  # the least for buffers: batch norm's statistics of a single batch would say little


class MovingAverage:
    """A copy of a module whose weights and buffers follow the original's: `module`.

    A `decay` of 0 gives the last weights; the buffers are averaged over some updates even then. The decay warms up as
    (1 + n) / (10 + n) over n updates, so that a short run forgets its first weights too. The count is a tensor beside
    the weights: an update never waits for the device and can be recorded.
    """

    def __init__(self, original: nn.Module, *, decay: float = 0.999) -> None:
        self.module = copy.deepcopy(original).requires_grad_(False)
        weights: list[tuple[Tensor, Tensor]] = list(zip(self.module.parameters(), original.parameters(), strict=True))
        buffers = list(zip(self.module.buffers(), original.buffers(), strict=True))
        statistics = [pair for pair in buffers if pair[0].is_floating_point()]
        counts = [pair for pair in buffers if not pair[0].is_floating_point()]
        if decay >= _STATISTICS_DECAY:  # all at once: fewer kernels
            self._followed = [([*weights, *statistics], decay), (counts, 0.0)]
        else:
            self._followed = [(weights, decay), (statistics, _STATISTICS_DECAY), (counts, 0.0)]
        self._updates = torch.zeros((), device=weights[0][0].device)

    @torch.no_grad()
    def update(self) -> None:
        self._updates += 1
        for pairs, decay in self._followed:
            self._follow(pairs, decay)

    def _follow(self, pairs: Sequence[tuple[Tensor, Tensor]], decay: float) -> None:
        if not pairs:
            return
        averages, values = map(list, zip(*pairs, strict=True))
        if decay == 0:
            torch._foreach_copy_(averages, values)
            return
        steps = torch._foreach_sub(values, averages)
        torch._foreach_mul_(steps, 1 - ((1 + self._updates) / (10 + self._updates)).clamp(max=decay))
        torch._foreach_add_(averages, steps)

    def state_dict(self) -> dict[str, Any]:
        return {"module": self.module.state_dict(), "updates": self._updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.module.load_state_dict(state["module"])
        self._updates.copy_(state["updates"])
