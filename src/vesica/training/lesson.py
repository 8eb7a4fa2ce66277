"""One party's training towards noise, an epoch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vesica.nn.objectives import assign, distance, points_on_sphere
from vesica.training.draws import Draws
from vesica.training.recording import keep_layout, quick_precision
from vesica.training.resume import Resume, Stateful
from vesica.training.supervised import batches


class Targets(nn.Module):
    """Every row's point on the sphere; it stays the row's own until an assignment hands it on."""

    points: Tensor

    def __init__(self, rows: int, dim: int, *, device: torch.device) -> None:
        super().__init__()
        self.register_buffer("points", points_on_sphere(rows, dim, device=device))


@dataclass(frozen=True)
class Schedule:
    """How long and how fast noise as targets trains; every `frequency`th epoch hands points on."""

    epochs: int
    frequency: int
    batch_size: int
    learning_rate: float
    weight_decay: float

    def optimiser(self, weights: Iterable[Tensor]) -> torch.optim.Adam:
        return torch.optim.Adam(weights, lr=self.learning_rate, weight_decay=self.weight_decay, fused=True)


class Lesson:
    """One party's training towards noise, as far as it has come, with its own random numbers and checkpoints."""

    def __init__(
        self,
        encoder: nn.Module,
        inputs: Tensor,
        *,
        dim: int,
        view: Callable[[Tensor], Tensor] | None,
        schedule: Schedule,
        resume: Resume,
    ) -> None:
        self.encoder = encoder.train().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.inputs = inputs
        self.view = view
        self.schedule = schedule
        self.targets = Targets(len(inputs), dim, device=inputs.device)
        self.optimiser = schedule.optimiser(encoder.parameters())
        keep_layout(self.optimiser)
        self.draws = Draws()
        self.epoch: int | None = None  # the one that is next
        parts: dict[str, Stateful] = {"encoder": encoder, "optimiser": self.optimiser, "targets": self.targets}
        self._epochs = resume.steps(schedule.epochs, parts)

    @property
    def hands_on(self) -> bool:
        return self.epoch is not None and (self.epoch + 1) % self.schedule.frequency == 0

    def go_on(self) -> None:
        """To the next epoch; whoever keeps checkpoints makes one now."""
        with self.draws:
            self.epoch = next(self._epochs, None)

    def order(self) -> list[Tensor]:
        """An epoch's rows, batch by batch."""
        return list(batches(len(self.inputs), self.schedule.batch_size))

    def see(self, rows: Tensor) -> Tensor:
        return self.inputs[rows] if self.view is None else self.view(self.inputs[rows])

    def look(self, seen: Tensor) -> Tensor:
        """The encoder's outputs; a small network on a GPU, or of a table, would gain nothing by quicker products."""
        quick = seen.ndim == 4 and not seen.is_cuda
        with quick_precision(seen.device) if quick else nullcontext():
            outputs: Tensor = self.encoder(seen)
        return outputs.to(self.targets.points.dtype)


def learn_alone(lesson: Lesson) -> None:
    while lesson.epoch is not None:
        with lesson.draws:
            train_epoch(lesson)
        lesson.go_on()


def train_epoch(lesson: Lesson) -> None:
    targets = lesson.targets
    for batch in lesson.order():
        rows = batch.to(lesson.inputs.device)
        seen = lesson.see(rows)
        if seen.ndim == 4:
            seen = seen.contiguous(memory_format=torch.channels_last)
        outputs = lesson.look(seen)
        points = targets.points[rows]
        if lesson.hands_on:
            points = points[assign(outputs, points)]
            targets.points[rows] = points
        lesson.optimiser.zero_grad()
        distance(outputs, points).mean().backward()
        lesson.optimiser.step()
