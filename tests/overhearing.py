"""What the guests of a simulation are sent, and which labels the host looks at."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from vesica import metrics
from vesica.data import Federation, split_rows
from vesica.engines import InProcess
from vesica.experiment import fit
from vesica.methods import Method, label_release
from vesica.metrics import Task
from vesica.protocol.message import Message, decode

Frames = list[tuple[str, bytes]]


@dataclass
class Pinned:
    """A mechanism that always gives the same labels, and remembers how often it was asked."""

    labels: Tensor
    asked: list[float] = field(default_factory=list)

    def __call__(self, labels: Tensor, classes: int, *, epsilon: float) -> Tensor:
        self.asked.append(epsilon)
        assert labels.shape == self.labels.shape
        return self.labels.clone()


def labels_of(federation: Federation) -> Tensor:
    """The true labels of the labelled aligned rows."""
    split = split_rows(federation)
    return torch.from_numpy(split.label[split.parties["bank"].aligned[split.labelled]])


def overhear(patch: pytest.MonkeyPatch, *, everyone: bool = False) -> Frames:
    """Every frame that the guests are sent from now on; with `everyone` also what they send."""
    frames: Frames = []
    deliver = InProcess.deliver

    def overheard(engine: InProcess, sender: str, receiver: str, sequence: int, frame: memoryview) -> None:
        if everyone or sender == "bank":
            frames.append((receiver, bytes(frame)))
        deliver(engine, sender, receiver, sequence, frame)

    patch.setattr(InProcess, "deliver", overheard)
    return frames


def watch_standing(patch: pytest.MonkeyPatch, frames: list[Any]) -> list[tuple[int, list[int]]]:
    """The labels that outputs are judged by from now on, wherever that is, and how many frames had left by then."""
    looks: list[tuple[int, list[int]]] = []
    standing = metrics.standing

    def watched(task: Task, outputs: Tensor, labels: Tensor) -> tuple[float, float]:
        looks.append((len(frames), labels.tolist()))
        return standing(task, outputs, labels)

    for name, module in list(sys.modules.items()):
        if name.startswith("vesica.") and getattr(module, "standing", None) is standing:
            patch.setattr(module, "standing", watched)
    return looks


def received(method: Method, federation: Federation, released: Tensor) -> Frames:
    """All that the guests receive in a run in which these labels are released."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_release, "randomise", Pinned(released))
        frames = overhear(patch)
        fit(method, federation)
    return frames


def messages(frames: Frames, kind: str) -> list[Message]:
    return [message for _, frame in frames if (message := decode(frame)).kind == kind]
