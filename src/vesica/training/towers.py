"""A party's two towers in FedHSSL: one learns from the other parties' projections, one from views of its own rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vesica.nn.models import top_of
from vesica.nn.objectives import info_nce, negative_cosine
from vesica.training.pretext import Pretext, SelfSupervision, Tower
from vesica.training.recording import compiled, quick_precision, recorded
from vesica.training.resume import Stateful
from vesica.training.self_supervised import STEEPEST, Loss, Rates, Views, optimiser_of

MOMENTUM, WEIGHT_DECAY = 0.9, 3e-5
TEMPERATURE = 0.5  # of the projections of a batch that are told apart


class CrossTower:
    """Learns to see in a party's rows what the other parties see in theirs (FedHSSL, Eq. 2-3)."""

    def __init__(self, ssl: SelfSupervision, tower: Tower, *, learning_rate: float, device: torch.device) -> None:
        self.tower = tower
        self._contrasts = ssl == "moco"
        self._optimiser = optimiser_of(ssl, tower, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
        self._rates = Rates(self._optimiser, learning_rate, device)

    def parts(self) -> dict[str, Stateful]:
        """All that a checkpoint keeps of it."""
        return {"cross": self.tower, "cross-optimiser": self._optimiser}

    def begin(self, share: float) -> None:
        """An epoch, at this share of the learning rate."""
        self.tower.train()
        self._rates.set(share)

    def project(self, rows: Tensor) -> Tensor:
        """What the other parties are shown of the rows: (rows, width)."""
        with quick_precision(rows.device):
            return self.tower.project(_laid_out(rows)).float()

    def learn(self, projections: Tensor, theirs: Sequence[Tensor]) -> None:
        """One step towards what the others have shown of the same rows; their mean counts."""
        with quick_precision(projections.device):
            predictions = self.tower.predictor(projections)
        losses = [self._disagreement(predictions, other) for other in theirs]
        self._optimiser.zero_grad()
        torch.stack(losses).mean().backward()
        nn.utils.clip_grad_norm_(self.tower.parameters(), STEEPEST)
        self._optimiser.step()

    def _disagreement(self, predictions: Tensor, other: Tensor) -> Tensor:
        if self._contrasts:
            return info_nce(predictions, other, temperature=TEMPERATURE)
        return negative_cosine(predictions, other)


class LocalTower:
    """Learns from two views of a party's own rows, and from a guide's projections of the same views (FedHSSL, Eq. 4).

    The guide does not learn from it: it is in evaluation mode, so that its batch norm keeps what it knows.
    """

    def __init__(
        self,
        ssl: SelfSupervision,
        tower: Pretext,
        inputs: Tensor,
        *,
        views: Views,
        batch_size: int,
        learning_rate: float,
        guide: Tower | None = None,
        gamma: float = 0.0,
    ) -> None:
        self.tower = tower
        self._inputs = inputs
        self._guide = guide
        self._optimiser = optimiser_of(ssl, tower, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
        self._rates = Rates(self._optimiser, learning_rate, inputs.device)
        self._weights = list(tower.parameters())
        self._loss = compiled(Loss(tower, views, guide=guide, gamma=gamma), inputs.device)
        self._batch = torch.zeros(min(batch_size, len(inputs)), dtype=torch.long, device=inputs.device)
        self._advance = recorded(self._step, inputs.device)

    def parts(self) -> dict[str, Stateful]:
        """All that a checkpoint keeps of it."""
        return {
            "local-optimiser": self._optimiser,
            **{f"local-{name}": part for name, part in self.tower.parts().items()},
        }

    def epoch(self, share: float) -> None:
        """Every row once, in random order, at this share of the learning rate.

        All batches have one size, as a recorded step needs: the last is filled up with rows of the first.
        """
        self.tower.train()
        if self._guide is not None:
            self._guide.eval()
        self._rates.set(share)
        size, order = len(self._batch), torch.randperm(len(self._inputs), device=self._inputs.device)
        for rows in torch.cat([order, order[: -len(order) % size]]).split(size):
            self._batch.copy_(rows)
            self._advance()

    def _step(self) -> None:
        self._optimiser.zero_grad()
        self._loss(self._inputs[self._batch]).backward()
        nn.utils.clip_grad_norm_(self._weights, STEEPEST)
        self._optimiser.step()
        self.tower.follow()

    def shared(self) -> dict[str, Tensor]:
        """What parties average: the weights of the encoder's top, of projector and predictor, by name.

        The running statistics of batch norm are not among them: they describe the party's own rows, behind a bottom
        that no other party has.
        """
        parts = {"top": top_of(self.tower.encoder), "projector": self.tower.projector}
        whole = nn.ModuleDict({**parts, "predictor": self.tower.predictor})
        return {name: weight.detach() for name, weight in whole.named_parameters()}


def _laid_out(rows: Tensor) -> Tensor:
    return rows.contiguous(memory_format=torch.channels_last) if rows.ndim == 4 else rows
