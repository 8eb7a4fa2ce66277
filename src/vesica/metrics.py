"""What a prediction is worth: accuracy, AUC, F1, RMSE, as fractions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from sklearn.metrics import f1_score, roc_auc_score
from torch import Tensor
from torch.nn import functional

from vesica.errors import VesicaError

METRICS = ("accuracy", "auc", "f1", "rmse")


@dataclass(frozen=True)
class Task:
    """What is predicted. Regression labels are standardised for training; `centre` and `spread` undo it."""

    kind: str  # "classification" or "regression"
    metric: str  # what stopping and choosing look at
    classes: tuple[str, ...] = ()
    centre: float = 0.0
    spread: float = 1.0

    @property
    def outputs(self) -> int:
        """How many numbers a model gives for a row."""
        return len(self.classes) if self.kind == "classification" else 1

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        if self.kind == "classification":
            return functional.cross_entropy(outputs, labels)
        return functional.mse_loss(outputs.squeeze(1), labels)

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The loss of each row: (rows,)."""
        if self.kind == "classification":
            return functional.cross_entropy(outputs, labels, reduction="none")
        return (outputs.squeeze(1) - labels).square()

    def predictions(self, outputs: Tensor) -> Tensor:
        """Probabilities (rows, classes), or values (rows,) in the label's own unit."""
        if self.kind == "classification":
            return outputs.softmax(dim=1)
        return outputs.squeeze(1) * self.spread + self.centre


def score(task: Task, outputs: Tensor, labels: Tensor) -> dict[str, float | None]:
    """Every metric that applies; None for those that do not, or are not defined on these rows."""
    if not outputs.isfinite().all():
        raise VesicaError("the model's outputs are not finite: training diverged; lower the learning rate")
    metrics: dict[str, float | None] = dict.fromkeys(METRICS)
    predictions = task.predictions(outputs.detach()).double().cpu()
    labels = labels.cpu()
    if task.kind == "regression":
        truth = labels.double() * task.spread + task.centre
        metrics["rmse"] = math.sqrt(functional.mse_loss(predictions, truth).item())
        return metrics
    guess = predictions.argmax(dim=1)
    binary = len(task.classes) == 2
    metrics["accuracy"] = (guess == labels).double().mean().item()
    metrics["f1"] = float(f1_score(labels, guess, average="binary" if binary else "macro", zero_division=0.0))
    if len(torch.unique(labels)) == len(task.classes):
        chances = predictions[:, 1] if binary else predictions
        metrics["auc"] = float(roc_auc_score(labels, chances, multi_class="ovr"))
    return metrics


def standing(task: Task, outputs: Tensor, labels: Tensor) -> tuple[float, float]:
    """How good outputs are, to compare and to stop by: the task's metric, then the loss where it is even."""
    value = score(task, outputs, labels)[task.metric]
    better = -math.inf if value is None else -value if task.metric == "rmse" else value
    return better, -task.loss(outputs, labels).item()
