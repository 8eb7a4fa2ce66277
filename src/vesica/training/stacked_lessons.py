"""Several parties' trainings towards noise, done as one."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import accumulate

import torch
from torch import Tensor

from vesica.nn.objectives import assign_each, distance
from vesica.training.lesson import Lesson
from vesica.training.stacked import Stack, join, stacked


class StackedLessons:
    """Lessons that are alike, taken as one: every tensor has a first axis more, which counts the parties."""

    def __init__(self, lessons: Sequence[Lesson]) -> None:
        self._lessons = lessons
        self._stack = Stack([each.encoder for each in lessons], [each.draws for each in lessons], lessons[0].inputs[:1])
        self._optimiser = lessons[0].schedule.optimiser(self._stack.weights.values())
        join(self._optimiser, [each.optimiser for each in lessons])
        self._points = stacked([each.targets.points for each in lessons])
        self._device = self._points.device
        self._inputs: Tensor | None = None  # where all see their rows as they are
        if all(each.view is None for each in lessons):
            self._inputs = torch.stack([each.inputs for each in lessons])
        self._parties = torch.arange(len(lessons), device=self._device).unsqueeze(1)

    def learn(self) -> None:
        with ThreadPoolExecutor() as pool:
            while self._lessons[0].epoch is not None:
                self.train_epoch(pool)
                for lesson in self._lessons:
                    lesson.go_on()
        self._stack.take_apart()

    def train_epoch(self, pool: Executor) -> None:
        """A GPU is waited for only where points are handed on."""
        for rows in self.order():
            outputs = self._stack(self.see(rows))
            points = self._points[self._parties, rows]
            if self._lessons[0].hands_on:
                points = points[self._parties, assign_each(outputs, points, pool=pool)]
                self._points[self._parties, rows] = points
            self._optimiser.zero_grad()
            losses = distance(outputs.flatten(0, 1), points.flatten(0, 1))
            (losses.sum() / rows.shape[1]).backward()  # of each party's loss with its own weights
            self._optimiser.step()

    def order(self) -> Sequence[Tensor]:
        """An epoch's rows, (parties, batch) at a time; they cross to the device at once."""
        orders = []
        for lesson in self._lessons:
            with lesson.draws:
                orders.append(lesson.order())
        whole = torch.stack([torch.cat(order) for order in orders]).to(self._device)
        sizes = [len(batch) for batch in orders[0]]
        return [whole[:, end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]

    def see(self, rows: Tensor) -> Tensor:
        if self._inputs is not None:
            return self._inputs[self._parties, rows]
        seen = []
        for lesson, own in zip(self._lessons, rows, strict=True):
            with lesson.draws:
                seen.append(lesson.see(own))
        return torch.stack(seen)
