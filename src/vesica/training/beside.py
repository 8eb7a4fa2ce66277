"""Several parties' trainings on one GPU, side by side: the small kernels of one leave room for another's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from vesica.training.draws import Draws
from vesica.training.recording import RECORDED_AFTER


class Beside:
    """One party's training, a step at a time, with its own random numbers and, on a GPU, a stream of its own."""

    def __init__(self, steps: Iterator[None], device: torch.device) -> None:
        self._steps = steps
        self.draws = Draws()
        self._on_gpu = _OwnStream(device) if device.type == "cuda" else None

    def go_on(self) -> bool:
        """Do a step, or hand it to the GPU; whether there was one left."""
        if self._on_gpu is None:
            return self._next()
        with self._on_gpu.current():
            return self._next()

    def wait(self) -> None:
        if self._on_gpu is not None:
            self._on_gpu.stream.synchronize()

    def _next(self) -> bool:
        with self.draws:
            return next(self._steps, self) is None


class _OwnStream:
    """A stream, and where on the device its recordings find the state of their random numbers.

    That state is one for all recordings unless it is exchanged: another's step would move it while one is under way.
    """

    def __init__(self, device: torch.device) -> None:
        torch.cuda.init()
        index = torch.cuda.current_device() if device.index is None else device.index
        self._generator = torch.cuda.default_generators[index]
        self._own = self._generator.clone_state()
        self.stream = torch.cuda.Stream(index)
        self.stream.wait_stream(torch.cuda.current_stream(index))

    @contextmanager
    def current(self) -> Iterator[None]:
        others = self._generator.graphsafe_get_state()
        self._generator.graphsafe_set_state(self._own)
        try:
            with torch.cuda.stream(self.stream):
                yield
        finally:
            self._generator.graphsafe_set_state(others)


def side_by_side(trainings: Sequence[Beside]) -> None:
    """Train them all, a step of each in turn: each comes to what it would come to alone."""
    for training in trainings:  # cuDNN tries its algorithms, which wants the GPU to itself
        for _ in range(RECORDED_AFTER):
            training.go_on()
        training.wait()
    going = list(trainings)
    while going:
        going = [training for training in going if training.go_on()]
    for training in trainings:
        training.wait()
