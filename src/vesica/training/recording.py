"""A training step on a GPU: compiled, and recorded once as a CUDA graph that is then replayed; and in which numbers."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Generic, ParamSpec, TypeVar

import torch
from torch import Tensor

Inputs = ParamSpec("Inputs")
Output = TypeVar("Output")

_CPU_HAS_BFLOAT16: bool = getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()  # torch says it nowhere else
RECORDED_AFTER = 3  # steps: buffers are made and kernels are chosen


def compiled(function: Callable[Inputs, Output], device: torch.device) -> Callable[Inputs, Output]:
    """On a GPU whose torch can compile: the function with its small operations fused."""
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return function
    return torch.compile(function, dynamic=False, options={"combo_kernels": True})  # small ones that can be one are


def mixed_precision(device: torch.device) -> AbstractContextManager[None]:
    """On a GPU: convolutions and matrix products in bfloat16."""
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()


def quick_precision(device: torch.device) -> AbstractContextManager[None]:
    """The same on a CPU too, if it multiplies bfloat16 faster than float32."""
    if device.type == "cpu" and _CPU_HAS_BFLOAT16:
        return torch.autocast("cpu", torch.bfloat16)
    return mixed_precision(device)


def recorded(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The step; on a GPU as one graph, because its hundreds of kernels take longer to launch than to run.

    So it must have fixed shapes, never wait for the device, and take what changes from step to step out of tensors.
    """
    return Recorded(step, device) if device.type == "cuda" else step


Drawn = TypeVar("Drawn", bound=tuple[Tensor, ...])


def drawn_ahead(draw: Callable[[], Drawn], device: torch.device) -> AbstractContextManager[Drawn]:
    """What a step learns from, around the step; on a GPU what the next one learns from is made meanwhile.

    The small kernels that make views of images leave room for the model's, and need not be waited for.
    """
    return Ahead(draw) if device.type == "cuda" else AtOnce(draw)


def keep_layout(optimiser: torch.optim.Optimizer) -> None:
    """Let a state that is put back be laid out as the weights are: a fused step pairs values by place in memory."""

    def lay_out(restored: torch.optim.Optimizer) -> None:
        for weight, state in restored.state.items():
            for name, value in state.items():
                if isinstance(value, Tensor) and value.shape == weight.shape:
                    state[name] = torch.empty_like(weight).copy_(value)

    optimiser.register_load_state_dict_post_hook(lay_out)


@contextmanager
def _best_convolutions() -> Iterator[None]:
    """Let cuDNN try its algorithms and keep the fastest: the shapes never change."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


class Recorded:
    """Runs a step a few times, then records it and replays the recording."""

    def __init__(self, step: Callable[[], None], device: torch.device) -> None:
        self._step = step
        self._device = device
        self._done = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if self._graph is not None:
            self._graph.replay()
            return
        with torch.cuda.device(self._device), _best_convolutions():
            if self._done < RECORDED_AFTER:
                self._run_aside()
                self._done += 1
                return
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._step()  # nothing runs yet
        self._graph.replay()

    def _run_aside(self) -> None:
        """On a stream that is not the default one: what a recording needs to be warm."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._step()
        torch.cuda.current_stream().wait_stream(stream)


class AtOnce(Generic[Drawn]):
    """Draws when it is asked."""

    def __init__(self, draw: Callable[[], Drawn]) -> None:
        self._draw = draw

    def __enter__(self) -> Drawn:
        return self._draw()

    def __exit__(self, *_: object) -> None:
        pass


class Ahead(Generic[Drawn]):
    """Draws for the next step on a stream of its own, beside the step; inside a recording that is part of it."""

    def __init__(self, draw: Callable[[], Drawn]) -> None:
        self._draw = draw
        self._stream = torch.cuda.Stream()
        self._now: Drawn | None = None
        self._next: Drawn | None = None

    def __enter__(self) -> Drawn:
        if self._now is None:
            self._now = self._draw()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._next = self._draw()
        return self._now

    def __exit__(self, *_: object) -> None:
        """The next step finds what it needs where this one found it: a recording reads the same places every time."""
        torch.cuda.current_stream().wait_stream(self._stream)
        assert self._now is not None
        assert self._next is not None
        for now, following in zip(self._now, self._next, strict=True):
            now.copy_(following)
