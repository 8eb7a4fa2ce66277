"""Dropout whose mask costs little on a CPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional

_LEVELS = 256


class Dropout(nn.Dropout):
    """torch's dropout; on a CPU its mask comes from random bytes, a tenth of the time, so `p` counts in 256ths."""

    def forward(self, input: Tensor) -> Tensor:
        dropped = round(self.p * _LEVELS)
        if not self.training or input.device.type != "cpu" or not 0 < dropped < _LEVELS:
            return functional.dropout(input, self.p, self.training)
        words = torch.empty(-(-input.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
        kept = words.view(torch.uint8)[: input.numel()].view(input.shape) >= dropped
        return input * kept * (_LEVELS / (_LEVELS - dropped))
