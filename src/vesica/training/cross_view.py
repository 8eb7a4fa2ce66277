"""FedCVT's learning where all representations meet: missing parts estimated, pseudo-labels by agreement, its losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor, nn
from torch.nn import functional

from vesica.nn.models import Head
from vesica.training.estimation import estimate

UNKNOWN = -1  # in place of a label


@dataclass(frozen=True)
class Batch:
    """Some aligned rows and, of each party, some rows that it alone has; a part a party, in their order."""

    aligned: list[Tensor]  # (rows, dim) each
    unaligned: list[Tensor]  # (own rows, dim) each
    labels: Tensor  # (rows,): of the aligned ones
    known: list[Tensor]  # (own rows,) each: the labels of the others, or UNKNOWN
    reference: Tensor  # (parties, aligned rows, dim): what missing parts are estimated from; not trained through
    positions: Tensor  # (rows,): where the aligned rows of this batch are in it


class Classifiers(nn.Module):
    """One of all parts, and one of each party's part alone."""

    def __init__(self, joint: Head, alone: Sequence[Head]) -> None:
        super().__init__()
        self.joint = joint
        self.alone = nn.ModuleList(alone)

    def forward(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of all of them, the joint one's first."""
        return [self.joint(parts), *(head([part]) for head, part in zip(self.alone, parts, strict=True))]


@dataclass(frozen=True)
class CrossView:
    """What the classifiers and, through the gradients of its parts, every party's encoder learn from."""

    classifiers: Classifiers
    joint_threshold: float
    local_threshold: float
    temperature: float
    lambda_sim: float
    lambda_diff: float
    lambda_est: float

    def loss(self, batch: Batch, counts: Counter[str]) -> Tensor:
        """All terms of a batch; `counts` takes down what became of the unaligned rows."""
        parties = range(len(batch.aligned))
        differences = [difference(torch.cat([batch.aligned[p], batch.unaligned[p]])) for p in parties]
        return (
            self.entropies(batch, counts)
            + self.lambda_sim * similarity(batch.aligned)
            + self.lambda_diff * torch.stack(differences).sum()
            + self.lambda_est * torch.stack([self.estimation(batch, party) for party in parties]).sum()
        )

    def entropies(self, batch: Batch, counts: Counter[str]) -> Tensor:
        """The cross entropies of all classifiers: of the aligned rows, and of the others that have a label by now."""
        joint, *alone = ([outputs] for outputs in self.classifiers(batch.aligned))
        labels = [batch.labels]
        total = torch.zeros((), device=batch.labels.device)
        for party, rows in enumerate(batch.unaligned):
            outputs = self.classifiers(complete(party, rows, batch.reference, temperature=self.temperature))
            has_label, given = self.label(outputs, batch.known[party], counts)
            joint.append(outputs[0][has_label])
            labels.append(given[has_label])
            alone[party].append(outputs[1 + party][has_label])
            total = total + functional.cross_entropy(torch.cat(alone[party]), torch.cat([batch.labels, labels[-1]]))
        return total + functional.cross_entropy(torch.cat(joint), torch.cat(labels))

    def label(self, outputs: Sequence[Tensor], known: Tensor, counts: Counter[str]) -> tuple[Tensor, Tensor]:
        """Which rows have a label, a true one or a pseudo-label, and which."""
        accepted, guess = self.agree(outputs)
        is_known = known != UNKNOWN
        accepted = accepted & ~is_known
        counts["known"] += int(is_known.sum())
        counts["unlabelled"] += int((~is_known).sum())
        counts["accepted"] += int(accepted.sum())
        return accepted | is_known, torch.where(is_known, known, guess)

    def agree(self, outputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The rows of which all classifiers, the joint one first, name the same class and are sure; the class."""
        joint, *alone = (each.detach().softmax(dim=1).max(dim=1) for each in outputs)
        accepted = joint.values > self.joint_threshold
        for local in alone:
            accepted = accepted & (local.indices == joint.indices) & (local.values > self.local_threshold)
        return accepted, joint.indices

    def estimation(self, batch: Batch, party: int) -> Tensor:
        """How far from the truth the others' parts are, estimated from this party's.

        No row is estimated from itself: half of the batch is left out of what the estimates of that half come from.
        """
        losses = []
        for half in torch.arange(len(batch.labels), device=batch.labels.device).chunk(2):
            kept = torch.ones(batch.reference.shape[1], dtype=torch.bool, device=half.device)
            kept[batch.positions[half]] = False
            rows = batch.aligned[party][half]
            found = complete(party, rows, batch.reference[:, kept], temperature=self.temperature)
            others = [number for number in range(len(found)) if number != party]
            losses += [(found[number] - batch.aligned[number][half]).square().mean(dim=1) for number in others]
        return torch.cat(losses).mean()

    @torch.no_grad()
    def measure(self, parts: Tensor, labels: Tensor, reference: Tensor) -> dict[str, int]:
        """Aligned rows with labels judged as if each party in turn had them alone."""
        counts: Counter[str] = Counter()
        for party, rows in enumerate(parts):
            found = complete(party, rows, reference, temperature=self.temperature)
            accepted, guess = self.agree(self.classifiers(found))
            counts["judged"] += len(rows)
            counts["vouched"] += int(accepted.sum())
            counts["right"] += int((accepted & (guess == labels)).sum())
        return counts


def halves(part: Tensor) -> tuple[Tensor, Tensor]:
    """What of a party's part is its own (u) and what it shares with the others (c)."""
    unique, shared = part.chunk(2, dim=1)
    return unique, shared


def complete(party: int, rows: Tensor, reference: Tensor, *, temperature: float) -> list[Tensor]:
    """Every party's part of rows that one party alone has: its own as it is, the others' by attention.

    What is another's own comes from the reference rows whose own half at this party is like that of the row; what it
    shares, from those whose shared half at the other party is. A low `temperature` makes the weights sharper.
    """
    unique, shared = (half / temperature for half in halves(rows))
    uniques, shareds = zip(*map(halves, reference), strict=True)
    found_unique = estimate(unique, uniques[party], uniques)
    found_shared = [estimate(shared, theirs, [theirs])[0] for theirs in shareds]
    found = [torch.cat(pair, dim=1) for pair in zip(found_unique, found_shared, strict=True)]
    return [rows if number == party else part for number, part in enumerate(found)]


def similarity(parts: Sequence[Tensor]) -> Tensor:
    """The squared distance of what two parties share of a row, on average over rows and pairs of parties."""
    shared = [halves(part)[1] for part in parts]
    return torch.stack([(one - other).square().sum(dim=1).mean() for one, other in combinations(shared, 2)]).mean()


def difference(part: Tensor) -> Tensor:
    """How far a party's own halves are from orthogonal to its shared ones: ||U C^T||_F / rows."""
    unique, shared = halves(part)
    norm: Tensor = torch.linalg.vector_norm(unique @ shared.T)
    return norm / len(part)
