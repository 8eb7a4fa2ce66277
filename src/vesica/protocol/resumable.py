"""Long steps that go on where they were: their state on disk, in safetensors and JSON.

A checkpoint replaces the one before it, so it holds only what stays of one size. What grows with the step, its part of
the ledger and of the curve, is appended to a file beside it, of which the checkpoint says how much counts.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from vesica.data.text_files import parse_json
from vesica.errors import RunFolderError
from vesica.protocol.files import replacing, sync, writing_to
from vesica.protocol.ledger import Entry
from vesica.protocol.link import Conversation, Link
from vesica.training.draws import random_state, set_random_state
from vesica.training.resume import Stateful

_VALUES = attrgetter(*Entry.__slots__)


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
    text = json.dumps(pack(state, tensors))
    metadata = {"state": text, "checksum": str(_checksum(text, tensors))}
    with replacing(path) as partial:
        save_file(tensors, partial, metadata)


def load(path: Path, *, remedy: str = "start again in a new folder") -> Any:
    """Read a state. One that is damaged is a RunFolderError, which ends with the `remedy`."""
    with _opened(path, remedy) as file:
        text, tensors = file.metadata()["state"], {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if file.metadata()["checksum"] != str(_checksum(text, tensors)):
            raise ValueError("its checksum is another one")
        return unpack(parse_json(text), tensors)


def _checksum(text: str, tensors: Mapping[str, Tensor]) -> int:
    """Of all that a state says: safetensors would not notice a flipped bit."""
    checksum = zlib.crc32(text.encode())
    for name in sorted(tensors):
        checksum = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, checksum)
    return checksum


@contextmanager
def _opened(path: Path, remedy: str = "start again in a new folder") -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path} is torn ({error}): {remedy}") from error


@dataclass(frozen=True)
class _Mark:
    """Where a step's conversation stood: what the ledger and the curve held, and how far the file had been written."""

    entries: int
    points: int
    size: int = 0
    checksum: int = 0


class _Course:
    """The ledger entries and curve points of one step, appended to a file of its own at every checkpoint.

    Those from before the step are not in it: a resumed run has them again by the time it enters the step.
    """

    def __init__(self, path: Path, conversation: Conversation) -> None:
        self._path, self._talk = path, conversation
        self._ledger_entries = conversation.ledger.entries
        self._mark = _Mark(len(self._ledger_entries), len(conversation.curve))
        self._before = self._mark

    def save(self) -> dict[str, Any]:
        """Append what is new; returns what the checkpoint has to say about it."""
        entries, curve, mark = self._talk.ledger.entries, self._talk.curve, self._mark
        if entries is not self._ledger_entries:
            raise ValueError("the ledger was put back in the middle of a long step: do that before it or after it")
        new = {"entries": list(map(_VALUES, entries[mark.entries :])), "curve": curve[mark.points :]}
        if any(new.values()):
            line = json.dumps(new).encode() + b"\n"
            with writing_to(self._path), self._path.open("ab" if mark.size else "wb") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            if not mark.size:
                sync(self._path.parent)
            size, checksum = mark.size + len(line), zlib.crc32(line, mark.checksum)
            self._mark = _Mark(len(entries), len(curve), size, checksum)
        before = [self._before.entries, self._before.points]
        return {"before": before, "size": self._mark.size, "checksum": self._mark.checksum}

    def restore(self, said: Mapping[str, Any]) -> None:
        """Add what the step had added up to its checkpoint, and drop what was written behind that."""
        content = self._path.read_bytes()[: said["size"]] if self._path.exists() else b""
        before = [self._before.entries, self._before.points]
        if said["before"] != before or len(content) < said["size"] or zlib.crc32(content) != said["checksum"]:
            raise RunFolderError(f"{self._path} is torn (it does not fit its checkpoint): start again in a new folder")
        for line in map(json.loads, content.splitlines()):
            self._talk.ledger.extend(Entry(*entry) for entry in line["entries"])
            self._talk.curve += line["curve"]
        if content:
            with writing_to(self._path):
                os.truncate(self._path, len(content))
        self._mark = _Mark(len(self._ledger_entries), len(self._talk.curve), said["size"], said["checksum"])


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
        self._course: _Course | None = None

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
        if self._path is None:
            return 0, journal.begin_step()
        self._course = _Course(self._path.with_suffix(".jsonl"), self._talk)
        if not self._path.exists():
            return 0, journal.begin_step()
        state = load(self._path)
        for name, part in parts.items():
            part.load_state_dict(state["parts"][name])
        for peer, (sent, received) in state["links"].items():
            self._links[peer].sent, self._links[peer].received = sent, received
        self._course.restore(state["course"])
        set_random_state(state["random"])
        journal.resume_step(state["first_segment"])
        return int(state["position"]), int(state["first_segment"])

    def _save(self, position: int, first_segment: int, parts: Mapping[str, Stateful]) -> None:
        if self._path is None:
            return
        assert self._course is not None
        journal = self._talk.journal
        journal.sync()  # the messages first: a checkpoint must not know more than the journal
        state = {
            "step": [self._talk.party, self._name],
            "position": position,
            "parts": {name: part.state_dict() for name, part in parts.items()},
            "links": {peer: [link.sent, link.received] for peer, link in self._links.items()},
            "course": self._course.save(),
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


def recall(folder: Path, party: str) -> Past:
    """Read how far this party's checkpoints reach, without their tensors. Refuse checkpoints of other parties."""
    reached: dict[str, tuple[int, int]] = {}
    seconds = 0.0
    for path in folder.glob("step-*.safetensors"):
        with _opened(path) as file:
            parts = dict(parse_json(file.metadata()["state"])["dict"])
            said = unpack(parts.get("step"), {})  # None in a run that an earlier version began
            if said not in (None, [party, path.stem.removeprefix("step-")]):
                raise RunFolderError(
                    f"{path} is the checkpoint of another party or step than '{party}' has under that name: "
                    "put the files back where they were, or start again in a new folder"
                )
            seconds = max(seconds, float(unpack(parts["seconds"], {})))
            for peer, (sent, received) in dict(unpack(parts["links"], {})).items():
                before = reached.get(peer, (0, 0))
                reached[peer] = max(before[0], sent), max(before[1], received)
    return Past(reached, seconds)
