"""Semi-supervised training of one classifier at one party: few labelled rows, many unlabelled ones (FixMatch)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from vesica.errors import InputError, nearest
from vesica.metrics import Task
from vesica.nn.objectives import AdaptiveThreshold, Alignment, FixedThreshold, FixMatch
from vesica.training.beside import Beside, side_by_side
from vesica.training.ema import MovingAverage
from vesica.training.labeller import labelling
from vesica.training.meeting import Meet, alone
from vesica.training.recording import compiled, drawn_ahead, keep_layout, mixed_precision, quick_precision, recorded
from vesica.training.resume import Resume, Stateful, Straight
from vesica.training.supervised import Stopping, evaluate

Threshold = Literal["fixed", "adaptive"]
Align = Literal["none", "uniform", "labels", "left"]
LabelledViews = Literal["weak", "both"]

LOOK_EVERY = 100  # steps between two looks at validation rows, and between two checkpoints
MOST_LOOKS = 200  # in a run: a longer one has them further apart


@dataclass(frozen=True)
class Stop:
    """When to stop: after `patience` looks at some labelled rows of which none was the best."""

    task: Task
    rows: Tensor  # positions in the inputs
    labels: Tensor
    patience: int

    def look(self, model: nn.Module, inputs: Tensor) -> tuple[float, float]:
        modules = {"model": model}
        labels = torch.zeros(len(inputs), dtype=self.labels.dtype, device=self.labels.device)
        labels[self.rows] = self.labels
        return evaluate(modules, lambda rows: model(inputs[rows]), labels, rows=self.rows, task=self.task)


class Views(Protocol):
    """Random views of rows: a weak one, or a weak and a strong one of the same rows."""

    def weak(self, rows: Tensor) -> Tensor: ...

    def both(self, rows: Tensor) -> tuple[Tensor, Tensor]: ...


def semi_supervised(
    model: nn.Module,
    inputs: Tensor,
    *,
    labelled: Tensor,
    labels: Tensor,
    unlabelled: Tensor,
    classes: int,
    views: Views,
    steps: int,
    batch_size: int = 32,
    mu: int = 7,
    lambda_u: float = 1.0,
    threshold: Threshold = "fixed",
    align: Align = "none",
    labelled_views: LabelledViews = "weak",
    temperature: float = 1.0,
    ema: float = 0.999,
    learning_rate: float = 0.03,
    momentum: float = 0.9,
    weight_decay: float = 5e-4,
    stopping: Stop | None = None,
    resume: Resume | None = None,
    meet: Meet = alone,
) -> nn.Module:
    """Train `model`, from rows of `inputs` to logits (rows, classes), and give it back with its averaged weights.

    `labelled` and `unlabelled` are positions in `inputs`, `labels` go with `labelled`. A step draws `batch_size`
    labelled rows and `mu` times as many unlabelled ones, with replacement, so that any number of them will do;
    without unlabelled rows it is supervised training. FixMatch shows the model weak views of the labelled rows;
    `labelled_views` "both" adds strong ones, against learning few labels by heart. `ema` 0 gives the last weights.
    With `stopping` the averaged weights that were best on its rows are given back, looked at every hundred steps (or
    a two-hundredth of all, in a longer run). On a GPU the step is compiled, recorded, and in bfloat16 where that is
    safe; on a CPU that is quicker at it products of images are. Parties that `meet` train side by side, each to what it
    would come to alone.
    """
    _check(labelled, labels, classes=classes, batch_size=batch_size)
    for word, kind in ((threshold, Threshold), (align, Align), (labelled_views, LabelledViews)):
        if word not in get_args(kind):
            raise InputError(f"semi-supervised learning has no setting '{word}'{nearest(word, get_args(kind))}")
    device = inputs.device
    chosen = FixedThreshold() if threshold == "fixed" else AdaptiveThreshold(classes)
    alignment = _alignment(align, labels, classes=classes, unlabelled=len(unlabelled))
    objective = FixMatch(chosen, temperature=temperature, alignment=alignment).to(device)
    optimiser = _optimiser(model, momentum=momentum, weight_decay=weight_decay)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # images only; much faster
    average = MovingAverage(model, decay=ema)
    parts: dict[str, Stateful] = {"model": model, "optimiser": optimiser, "average": average, "objective": objective}
    best = Stopping({"model": average.module}, patience=stopping.patience if stopping else 0)
    if stopping:
        parts["best"] = best
    rate = torch.zeros((), device=device)  # a tensor, so that a recorded step sees it change
    stride = max(LOOK_EVERY, math.ceil(steps / MOST_LOOKS))
    with labelling(model) as labeller:
        see = compiled(Seeing(views, labelled=labelled_views), device)
        losses = compiled(Losses(model, labeller, objective), device)

        def draw() -> Seen:
            some, others = _draw(labelled, batch_size), unlabelled[_draw(unlabelled, mu * batch_size)]
            return see(inputs[labelled[some]], labels[some], inputs[others])

        seen = drawn_ahead(draw, device)

        def step() -> None:
            with seen as now:
                supervised, unsupervised = losses(*now)
                optimiser.zero_grad()
                (supervised + lambda_u * unsupervised).backward()
                optimiser.step()
                average.update()

        advance = recorded(step, device)

        def course() -> Iterator[None]:
            model.train()
            for position in (resume or Straight()).steps(math.ceil(steps / stride), parts):
                _set_rate(optimiser, rate)  # a restored optimiser comes with one of its own
                for count in range(position * stride, min((position + 1) * stride, steps)):
                    rate.fill_(learning_rate * cosine(count / steps))
                    advance()
                    yield
                if stopping:
                    best.judge(stopping.look(average.module, inputs))
                    if best.stop:
                        break

        beside = Beside(course(), device)
        meet(beside, side_by_side)
    beside.draws.go_on()
    best.restore_best()
    model.load_state_dict(average.module.state_dict())
    optimiser.zero_grad()
    model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return model


def cosine(done: float) -> float:
    """FixMatch's share of the learning rate, from 1 at the start down to cos(7/16 pi) = .195."""
    return math.cos(7 / 16 * math.pi * done)


Seen = tuple[Tensor, Tensor, Tensor]  # views to learn from, labels of the first of them, weak views


class Seeing:
    """Views to learn from, of labelled rows, with their labels, and of others; then weak views of the others."""

    def __init__(self, views: Views, *, labelled: LabelledViews) -> None:
        self._views = views
        self._labelled = labelled

    def __call__(self, rows: Tensor, labels: Tensor, others: Tensor) -> Seen:
        if self._labelled == "both":
            rows, labels = torch.cat(self._views.both(rows)), labels.repeat(2)
        else:
            rows = self._views.weak(rows)
        if not len(others):
            return rows, labels, others
        weak, strong = self._views.both(others)
        return torch.cat([rows, strong]), labels, weak


class Losses:
    """The loss of labelled rows and that of others."""

    def __init__(self, model: nn.Module, labeller: nn.Module, objective: FixMatch) -> None:
        self._model = model
        self._labeller = labeller
        self._objective = objective

    def __call__(self, seen: Tensor, labels: Tensor, weak: Tensor) -> tuple[Tensor, Tensor]:
        with _precision(seen):
            logits = _logits(self._model, seen)  # all at once, so that batch norm sees one distribution and not two
            of_rows, of_strong = logits.split([len(labels), len(weak)])
            supervised = functional.cross_entropy(of_rows, labels)
            if not len(weak):
                return supervised, torch.zeros((), device=seen.device)
            with torch.no_grad():
                of_weak = _logits(self._labeller, weak)
            return supervised, self._objective(of_weak, of_strong)


def _logits(model: nn.Module, rows: Tensor) -> Tensor:
    if rows.ndim == 4:
        rows = rows.contiguous(memory_format=torch.channels_last)
    logits: Tensor = model(rows)
    return logits


def _precision(rows: Tensor) -> AbstractContextManager[None]:
    """Of products; the small network of a table gains nothing by quicker ones on a CPU."""
    return quick_precision(rows.device) if rows.ndim == 4 else mixed_precision(rows.device)


def _draw(positions: Tensor, count: int) -> Tensor:
    """`count` places in `positions`, with replacement; none where there are no positions."""
    rows = len(positions)
    return torch.randint(max(rows, 1), (count if rows else 0,), device=positions.device)


def _alignment(align: Align, labels: Tensor, *, classes: int, unlabelled: int) -> Alignment | None:
    """Towards the classes that the unlabelled rows should have.

    Equally many of each, or as the labelled rows have them, or what the labelled rows leave of equally many: where many
    rows of some classes have got labels, as in few-shot, fewer of the others are of these. A class of which too many
    have one keeps a hundredth of its share.
    """
    if align == "none":
        return None
    often = torch.bincount(labels, minlength=classes).float()
    left = (len(labels) + unlabelled) / classes - often
    targets = {"uniform": torch.ones(classes), "labels": often, "left": left.clamp(min=0.01 * unlabelled / classes)}
    return Alignment(targets[align])


def _optimiser(model: nn.Module, *, momentum: float, weight_decay: float) -> torch.optim.Optimizer:
    """Nesterov's SGD; biases and the scales of norms do not decay."""
    parameters = list(model.parameters())
    groups = [
        {"params": [parameter for parameter in parameters if parameter.ndim > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in parameters if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.SGD(groups, momentum=momentum, nesterov=momentum > 0, fused=True)
    keep_layout(optimiser)
    return optimiser


def _set_rate(optimiser: torch.optim.Optimizer, rate: Tensor) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate


def _check(labelled: Tensor, labels: Tensor, *, classes: int, batch_size: int) -> None:
    if not len(labelled) or len(labels) != len(labelled):
        raise InputError(
            f"semi-supervised learning needs labelled rows with a label each and got {len(labelled)} rows and "
            f"{len(labels)} labels: give both"
        )
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise InputError(
            f"the labels of semi-supervised learning are 0..{classes - 1} and these go from {int(labels.min())} to "
            f"{int(labels.max())}: give the number of classes that there are"
        )
    if batch_size < 1:
        raise InputError(f"a batch has at least one row and not {batch_size}: change batch_size")
