"""Long steps that go on where they were: their state on disk, in safetensors and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from vesica.errors import RunFolderError
from vesica.learning.draws import random_state, set_random_state
from vesica.learning.resume import Stateful
from vesica.protocol.files import replacing
from vesica.protocol.link import Conversation, Link


def pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """A state as JSON, its tensors put aside under names; dictionaries keep the types of their keys."""
    match value:
        case Tensor():
            name = f"tensor.{len(tensors)}"
            tensors[name] = value.detach().to("cpu", copy=True).contiguous()
            return {"tensor": name}
        case Mapping():
            return {"dict": [[key, pack(item, tensors)] for key, item in value.items()]}
        case list() | tuple():
            return {"list": [pack(item, tensors) for item in value]}
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(f"a {type(value).__name__} cannot be part of a step's state")


def unpack(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    if "dict" in value:
        return {key: unpack(item, tensors) for key, item in value["dict"]}
    return [unpack(item, tensors) for item in value["list"]]


def save_atomically(path: Path, state: Any) -> None:
    """Write a state as a file that is never half written."""
    tensors: dict[str, Tensor] = {}
    metadata = {"state": json.dumps(pack(state, tensors))}
    with replacing(path) as partial:
        save_file(tensors, partial, metadata)


def load(path: Path) -> Any:
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return unpack(json.loads(file.metadata()["state"]), tensors)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path} is torn ({error}): start again in a new folder") from error


class Resumable:
    """A long step: saved as it goes, restored when the same run enters it again.

    Its checkpoint holds where the conversation stood, so the messages of the step before it can go.
    """

    def __init__(self, name: str, conversation: Conversation, links: Mapping[str, Link]) -> None:
        if name in conversation.steps:
            raise ValueError(f"there are two long steps called '{name}': give each a name of its own")
        conversation.steps.add(name)
        self._name = name
        self._talk = conversation
        self._links = links
        folder = conversation.journal.folder
        self._path = folder / f"step-{name}.safetensors" if folder else None

    def steps(self, total: int, parts: Mapping[str, Stateful]) -> Iterator[int]:
        """The positions that are left; the state is saved after each."""
        start, first_segment = self._restore(parts)
        for position in range(start, total):
            self._talk.transport.check()
            self._talk.progress(self._talk.party, self._name, position, total)
            yield position
            self._save(position + 1, first_segment, parts)
        self._talk.progress(self._talk.party, self._name, total, total)

    def _restore(self, parts: Mapping[str, Stateful]) -> tuple[int, int]:
        journal = self._talk.journal
        if self._path is None or not self._path.exists():
            return 0, journal.begin_step()
        state = load(self._path)
        for name, part in parts.items():
            part.load_state_dict(state["parts"][name])
        for peer, (sent, received) in state["links"].items():
            self._links[peer].sent, self._links[peer].received = sent, received
        self._talk.ledger.load_state_dict(state["ledger"])
        self._talk.curve[:] = state["curve"]
        set_random_state(state["random"])
        journal.resume_step(state["first_segment"])
        return int(state["position"]), int(state["first_segment"])

    def _save(self, position: int, first_segment: int, parts: Mapping[str, Stateful]) -> None:
        if self._path is None:
            return
        journal = self._talk.journal
        journal.sync()  # the messages first: a checkpoint must not know more than the journal
        state = {
            "position": position,
            "parts": {name: part.state_dict() for name, part in parts.items()},
            "links": {peer: [link.sent, link.received] for peer, link in self._links.items()},
            "ledger": self._talk.ledger.state_dict(),
            "curve": self._talk.curve,
            "random": random_state(),
            "first_segment": first_segment,
            "seconds": self._talk.clock(),
        }
        save_atomically(self._path, state)
        journal.end_segment()


@dataclass(frozen=True)
class Past:
    """What the checkpoints of a journal's folder say of an earlier life of the run."""

    reached: dict[str, tuple[int, int]]  # how many messages were sent and received, by peer
    seconds: float  # how long it had taken when the last of them was made


def recall(folder: Path) -> Past:
    reached: dict[str, tuple[int, int]] = {}
    seconds = 0.0
    for path in folder.glob("step-*.safetensors"):
        state = load(path)
        seconds = max(seconds, state.get("seconds", 0.0))  # which older checkpoints do not have
        for peer, (sent, received) in state["links"].items():
            before = reached.get(peer, (0, 0))
            reached[peer] = max(before[0], sent), max(before[1], received)
    return Past(reached, seconds)
