"""Self-supervised training of one party's encoder at home: no labels, two views of every row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.nn.objectives import Pair
from vesica.training.beside import Beside, side_by_side
from vesica.training.meeting import Meet, alone
from vesica.training.pretext import Pretext, SelfSupervision, Tower, pretext
from vesica.training.recording import compiled, keep_layout, recorded
from vesica.training.resume import Resume, Stateful, Straight

CHECKPOINT_EVERY = 100  # steps
MOST_CHECKPOINTS = 200  # in a run: a longer one has them further apart
STEEPEST = 5.0  # a gradient's norm, beyond which it is shortened


class Views(Protocol):
    """Two random views of the same rows."""

    def pair(self, rows: Tensor) -> Pair: ...


def self_supervised(
    encoder: nn.Module,
    inputs: Tensor,
    *,
    dim: int,
    ssl: SelfSupervision,
    views: Views,
    steps: int,
    learning_rate: float,
    batch_size: int = 512,
    width: int = 512,
    ema: float = 0.999,
    tau: float = 1.0,
    momentum: float = 0.9,
    weight_decay: float = 3e-5,
    resume: Resume | None = None,
    meet: Meet = alone,
) -> None:
    """Train `encoder`, from rows of `inputs` to (rows, dim), so that two views of a row are alike.

    `ssl` says what keeps them from being all alike: "simsiam", "byol" and "moco" as in FedHSSL, or "simclr", by SGD, or
    "scarf" as in VFLHLP, by Adam; `usual_rate` is their rate. It falls as half a cosine, but for the predictor's, which
    stays. `width` is that of the projections, dropped in the end. A step draws `batch_size` rows, each at most once, or
    all where there are fewer. `tau` is the temperature of "scarf". On a GPU a step is compiled and recorded; there, and
    on a CPU that has it, it multiplies in bfloat16. Parties that `meet` train side by side, each to what it would come
    to alone.
    """
    _check(inputs, steps=steps, batch_size=batch_size)
    device = inputs.device
    encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # images only; much faster
    model = pretext(ssl, encoder, dim=dim, width=width, ema=ema, device=device, tau=tau).train()
    optimiser = optimiser_of(ssl, model, momentum=momentum, weight_decay=weight_decay)
    parts: dict[str, Stateful] = {**model.parts(), "optimiser": optimiser}
    weights = list(model.parameters())
    loss = compiled(Loss(model, views), device)
    rates = Rates(optimiser, learning_rate, device)

    def step() -> None:
        rows = inputs[_draw(len(inputs), batch_size, device)]
        optimiser.zero_grad()
        loss(rows).backward()
        nn.utils.clip_grad_norm_(weights, STEEPEST)
        optimiser.step()
        model.follow()

    advance = recorded(step, device)
    stride = max(CHECKPOINT_EVERY, math.ceil(steps / MOST_CHECKPOINTS))

    def course() -> Iterator[None]:
        for position in (resume or Straight()).steps(math.ceil(steps / stride), parts):
            for count in range(position * stride, min((position + 1) * stride, steps)):
                rates.set(half_cosine(count / steps))
                advance()
                yield

    beside = Beside(course(), device)
    meet(beside, side_by_side)
    beside.draws.go_on()
    optimiser.zero_grad()
    encoder.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


def usual_rate(ssl: SelfSupervision, batch_size: int) -> float:
    """FedHSSL's and VFLHLP's: .05 for every 256 rows of a batch by SGD, .001 by Adam."""
    return 1e-3 if ssl == "scarf" else 0.05 * batch_size / 256


def usual_corruption(ssl: SelfSupervision) -> float:
    """FedHSSL's and VFLHLP's share of a table's columns that a view has other values in."""
    return 0.6 if ssl == "scarf" else 0.3


def half_cosine(done: float) -> float:
    """The share of the learning rate, from 1 at the start down to 0."""
    return (1 + math.cos(math.pi * done)) / 2


class Rates:
    """The learning rates of an optimiser from `optimiser_of`; tensors, so that a recorded step sees them change."""

    def __init__(self, optimiser: torch.optim.Optimizer, learning_rate: float, device: torch.device) -> None:
        self._optimiser = optimiser
        self._learning_rate = learning_rate
        self._falling, self._steady = (torch.full((), learning_rate, device=device) for _ in range(2))

    def set(self, share: float) -> None:
        """This share of the rate; the predictor's does not fall."""
        self._falling.fill_(self._learning_rate * share)
        for group, rate in zip(self._optimiser.param_groups, (self._falling, self._steady), strict=True):
            group["lr"] = rate  # a restored optimiser comes with one of its own


class Loss:
    """The loss of rows, in views that are drawn anew each time; a `guide` sees the same views."""

    def __init__(self, model: Pretext, views: Views, *, guide: Tower | None = None, gamma: float = 0.0) -> None:
        self._model = model
        self._views = views
        self._guide = guide
        self._gamma = gamma

    def __call__(self, rows: Tensor) -> Tensor:
        one, two = self._views.pair(rows)
        if rows.ndim == 4:
            one, two = (view.contiguous(memory_format=torch.channels_last) for view in (one, two))
        guides = None if self._guide is None else self._guide.guide(one, two)
        loss: Tensor = self._model(one, two, guides, gamma=self._gamma)
        return loss


def _draw(rows: int, count: int, device: torch.device) -> Tensor:
    """`count` of so many rows, each at most once: a row is no example against itself."""
    return torch.rand(rows, device=device).topk(min(count, rows), sorted=False).indices


def optimiser_of(ssl: SelfSupervision, model: Tower, *, momentum: float, weight_decay: float) -> torch.optim.Optimizer:
    """Two groups of weights: the predictor's rate does not fall."""
    predictor = list(model.predictor.parameters())
    others = [*model.encoder.parameters(), *model.projector.parameters()]
    groups = [{"params": others}, {"params": predictor}]
    optimiser: torch.optim.Optimizer
    if ssl == "scarf":
        on_gpu = others[0].is_cuda
        optimiser = torch.optim.Adam(
            groups, betas=(momentum, 0.999), weight_decay=weight_decay, fused=True, capturable=on_gpu
        )
    else:
        optimiser = torch.optim.SGD(groups, momentum=momentum, weight_decay=weight_decay, fused=True)
    keep_layout(optimiser)
    return optimiser


def _check(inputs: Tensor, *, steps: int, batch_size: int) -> None:
    if len(inputs) < 2 or batch_size < 2:
        raise InputError(
            f"self-supervised learning compares the rows of a batch and has {len(inputs)} rows in batches of "
            f"{batch_size}: give at least two"
        )
    if steps < 0:
        raise InputError(f"self-supervised learning takes 0 or more steps and not {steps}: change steps")
