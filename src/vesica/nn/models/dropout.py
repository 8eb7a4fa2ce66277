"""Dropout whose mask costs little on a CPU."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

_LEVELS = 256


class Dropout(nn.Dropout):
    """torch's dropout; on a CPU its mask comes from random bytes, a tenth of the time, so `p` counts in 256ths.

    Whoever runs several networks as one draws each one's masks beforehand and puts them in its place.
    """

    mask: Tensor | None

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)
        self.register_buffer("mask", None, persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        if self.mask is not None:
            return input * self.mask
        if not self.training or input.device.type != "cpu":
            return functional.dropout(input, self.p, self.training)
        return input * self.draw(input.shape, device=input.device)

    def draw(self, shape: Sequence[int], *, device: torch.device) -> Tensor:
        """What an input of this shape is multiplied with: 0 where it is dropped, elsewhere what keeps the mean."""
        dropped = round(self.p * _LEVELS)
        if device.type != "cpu" or not 0 < dropped < _LEVELS:
            return functional.dropout(torch.ones(*shape, device=device), self.p)
        count = math.prod(shape)
        words = torch.empty(-(-count // 8), dtype=torch.int64).random_(-(2**63), None)
        kept = words.view(torch.uint8)[:count].view(*shape) >= dropped
        return kept * (_LEVELS / (_LEVELS - dropped))
