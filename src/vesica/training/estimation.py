"""Estimating what another party would say of a row that it does not have, and judging such rows by it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vesica.nn.models import Head

_ROWS_AT_ONCE = 4096


def estimate(queries: Tensor, keys: Tensor, values: Sequence[Tensor]) -> list[Tensor]:
    """Scaled dot-product attention: the values of the rows whose keys are like the queries (Eq. 10).

    `queries` (rows, dim) and `keys` (aligned, dim) are one party's representations; each of `values` (aligned, ...) is
    another party's, of the same aligned rows.
    """
    found: list[list[Tensor]] = [[] for _ in values]
    for some in queries.split(_ROWS_AT_ONCE):
        weights = (some @ keys.T / math.sqrt(keys.shape[1])).softmax(dim=1)
        for parts, value in zip(found, values, strict=True):
            parts.append(weights @ value)
    return [torch.cat(parts) for parts in found]


def gate(local: Tensor, joint: Tensor, *, threshold: float) -> Tensor:
    """How likely each row may be given a pseudo-label (Eq. 9).

    From probabilities (rows, classes): those of the party's own classifier and of the joint one. Zero unless both name
    the same class and both are surer than the threshold; then as likely as the joint one is sure.
    """
    local_sure, local_class = local.max(dim=1)
    joint_sure, joint_class = joint.max(dim=1)
    agree = (local_class == joint_class) & (local_sure > threshold) & (joint_sure > threshold)
    return joint_sure * agree


@dataclass(frozen=True)
class Judge:
    """Judges rows that one party alone has: by its own part, and with the others' parts estimated."""

    party: str
    local: Head
    joint: Head
    aligned: Mapping[str, Tensor]  # every party's part of the same rows, in the order of the joint head

    @torch.no_grad()
    def judge(self, rows: Tensor, keep: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The probabilities of both classifiers; the others' parts come from the aligned rows that are kept."""
        known = {name: part if keep is None else part[keep] for name, part in self.aligned.items()}
        others = [name for name in known if name != self.party]
        estimates = dict(zip(others, estimate(rows, known[self.party], [known[n] for n in others]), strict=True))
        parts = [rows if name == self.party else estimates[name] for name in known]
        return self.local([rows]).softmax(dim=1), self.joint(parts).softmax(dim=1)

    def held_out(self, held_out: Tensor) -> tuple[Tensor, Tensor]:
        """Aligned rows judged as if the other parties did not have them."""
        return self.judge(self.aligned[self.party][held_out], ~held_out)


def choose_threshold(
    judges: Mapping[str, Judge], held_out: Tensor, labels: Tensor, *, thresholds: Sequence[float]
) -> float:
    """The threshold that lets most right pseudo-labels through, less nine times the wrong ones, on rows held out.

    Of each party of which any come through, one more counts as wrong: a few guesses are all right by chance. So a
    threshold that is best may still be worth nothing; then it is 1, which lets nothing through, as where no party can
    know the classes by itself.
    """

    def balance(threshold: float) -> int:
        total = 0
        for judge in judges.values():
            local, joint = judge.held_out(held_out)
            through = gate(local, joint, threshold=threshold) > 0
            right = local.argmax(dim=1) == labels[held_out]
            if through.any():
                total += int((through & right).sum()) - 9 * (int((through & ~right).sum()) + 1)
        return total

    return max((*thresholds, 1.0), key=lambda threshold: (balance(threshold), threshold))
