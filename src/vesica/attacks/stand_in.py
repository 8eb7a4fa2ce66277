"""A stand-in for a party's encoder: what its top, sent to be averaged, is worth to who wants its inputs back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from vesica.attacks.completion import mixed
from vesica.attacks.inversion import Pairs, Standard
from vesica.errors import InputError
from vesica.nn.models import EncoderSpec, top_of


@dataclass(frozen=True)
class StandIn:
    """An encoder like another party's: its top as that party sent it, its bottom fitted to a few known rows.

    Through it an attacker can see what any row would be represented by, and so make up as many pairs of inputs and
    representations as an inverse wants to learn from. The rows it makes up lie between known ones.
    """

    spec: EncoderSpec
    top: Mapping[str, Tensor]  # weights, by the names they have in the top
    steps: int = 1000
    learning_rate: float = 3e-3
    rows: int = 1000
    device: str = "cpu"  # where it is fitted

    def __post_init__(self) -> None:
        own = dict(top_of(replace(self.spec, copies=1).build()).named_parameters())
        wrong = [name for name, weight in self.top.items() if name not in own or own[name].shape != weight.shape]
        if wrong or not self.top:
            raise InputError(
                f"the encoder '{self.spec.name}' has no top with weights like those sent "
                f"({', '.join(wrong) or 'none were'}): give the encoder that they are of"
            )

    def make_up(self, known: Pairs) -> Pairs:
        """Representations of rows that no one has, and these rows."""
        home = known[1].device
        representations, inputs = (rows.to(self.device) for rows in known)
        encoder = self.fit(representations, inputs)
        first, second = (inputs[torch.randint(len(inputs), (self.rows,), device=inputs.device)] for _ in range(2))
        share = torch.rand(self.rows, device=inputs.device)
        between = mixed(first, second, share=share, schema=self.spec.schema).to(inputs.dtype)
        with torch.no_grad():
            return encoder(between).to(home), between.to(home)

    def fit(self, representations: Tensor, inputs: Tensor) -> nn.Module:
        """From inputs to representations (rows, numbers) like the known ones; the top's weights stay as they came."""
        scale = Standard(representations)
        encoder = replace(self.spec, copies=1).build().to(inputs.device)
        encoder.train()
        top = dict(top_of(encoder).named_parameters())
        with torch.no_grad():
            for name, weight in self.top.items():
                top[name].copy_(weight)
                top[name].requires_grad_(False)
        whole = nn.Sequential(encoder, self._reading(scale))
        learned = [weight for weight in whole.parameters() if weight.requires_grad]
        optimiser = torch.optim.Adam(learned, lr=self.learning_rate, weight_decay=1e-4)
        targets = scale(representations)
        for _ in range(self.steps):
            optimiser.zero_grad()
            nn.functional.mse_loss(whole(inputs), targets).backward()
            optimiser.step()
        return nn.Sequential(whole.eval(), Unscaled(scale))

    def _reading(self, scale: Standard) -> nn.Linear:
        """Begins with what the top gives, as it is, for each time that a row was shown; in units of the known rows."""
        width, dim = len(scale.mean), self.spec.dim
        reading = nn.Linear(dim, width).to(scale.mean.device)
        with torch.no_grad():
            reading.weight.copy_(torch.eye(dim, device=scale.mean.device).repeat(-(-width // dim), 1)[:width])
            reading.weight.div_(scale.spread[:, None])
            reading.bias.copy_(-scale.mean / scale.spread)
        return reading


class Unscaled(nn.Module):
    """Back from units of the known rows."""

    def __init__(self, scale: Standard) -> None:
        super().__init__()
        self._scale = scale

    def forward(self, values: Tensor) -> Tensor:
        return values * self._scale.spread + self._scale.mean
