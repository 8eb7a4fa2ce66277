"""Supervised training of one model at one party, stopped by validation rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from vesica.metrics import Task, standing
from vesica.training.resume import Resume, Stateful, Straight


class Stopping:
    """Keeps the best state of some modules and says when there was no better one for `patience` epochs.

    A patience of 0 never stops and keeps the latest state: a few validation rows tell one epoch from another by chance.
    """

    def __init__(self, modules: Mapping[str, nn.Module], *, patience: int) -> None:
        self._modules = dict(modules)
        self._patience = patience
        self._best: tuple[float, float] | None = None
        self._since = 0
        self._kept: dict[str, dict[str, Tensor]] = {}

    @property
    def stop(self) -> bool:
        return self._since >= self._patience > 0

    def judge(self, value: tuple[float, float]) -> bool:
        """Whether this epoch is the best so far; if it is, its modules are kept."""
        better = not self._patience or self._best is None or value > self._best
        if better:
            self._best = value
        self.take(better)
        return better

    def take(self, better: bool) -> None:
        """Another party judged."""
        self._since = 0 if better else self._since + 1
        if better:
            self._kept = {name: copy.deepcopy(module.state_dict()) for name, module in self._modules.items()}

    def restore_best(self) -> None:
        for name, state in self._kept.items():
            self._modules[name].load_state_dict(state)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self._best, "since": self._since, "kept": self._kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._best = None if state["best"] is None else tuple(state["best"])
        self._since = state["since"]
        self._kept = state["kept"]


def batches(rows: int, size: int, *, generator: torch.Generator | None = None) -> Iterator[Tensor]:
    """Positions 0..rows-1 in random order, `size` at a time, the last batch shorter.

    A lone last row joins the batch before it: batch norm cannot take one row.
    """
    sizes = [size] * (rows // size) + [rows % size] * (rows % size > 0)
    if sizes[-1:] == [1] and len(sizes) > 1:
        sizes[-2:] = [sizes[-2] + 1]
    yield from torch.randperm(rows, generator=generator).split(sizes)


Forward = Callable[[Tensor], Tensor]  # positions -> outputs


def train(
    modules: Mapping[str, nn.Module],
    forward: Forward,
    labels: Tensor,
    *,
    rows: Tensor,
    validation: Tensor,
    task: Task,
    epochs: int,
    patience: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float,
    resume: Resume | None = None,
) -> None:
    """Train with Adam on `rows` and keep the epoch that is best on `validation`.

    `forward` maps positions to outputs, so that the model may read several inputs; `labels` is indexed alike.
    """
    parameters = [parameter for module in modules.values() for parameter in module.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=learning_rate, weight_decay=weight_decay)
    stopping = Stopping(modules, patience=patience)
    parts: dict[str, Stateful] = {**modules, "optimiser": optimiser, "stopping": stopping}
    for _ in (resume or Straight()).steps(epochs, parts):
        for batch in batches(len(rows), batch_size):
            some = rows[batch]
            optimiser.zero_grad()
            task.loss(forward(some), labels[some]).backward()
            optimiser.step()
        stopping.judge(evaluate(modules, forward, labels, rows=validation, task=task))
        if stopping.stop:
            break
    stopping.restore_best()


@torch.no_grad()
def evaluate(
    modules: Mapping[str, nn.Module], forward: Forward, labels: Tensor, *, rows: Tensor, task: Task
) -> tuple[float, float]:
    for module in modules.values():
        module.eval()
    value = standing(task, torch.cat([forward(some) for some in rows.split(4096)]), labels[rows])
    for module in modules.values():
        module.train()
    return value
