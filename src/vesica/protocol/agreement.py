"""The agreement: before round 1 every party checks that all mean the same run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from vesica.errors import AgreementError
from vesica.metrics import Task
from vesica.protocol.link import Link
from vesica.protocol.message import Message

MOST_DIMENSIONS = 65_536
_USES = ("labelled", "validation")


def digest_of(ids: Iterable[str]) -> str:
    """One digest for ids in their order; each is preceded by its length, so that none can be shifted."""
    digest = hashlib.sha256()
    for one in ids:
        text = one.encode()
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()


@dataclass(frozen=True)
class Terms:
    """What a party knows of the run before it talks to anyone, and expects all others to know alike.

    No run's seed is in it: a guest that knew the host's could redraw its random head and read the labels off.
    """

    method: str
    config: Mapping[str, Any]
    parties: tuple[str, ...]
    task: str
    metric: str
    wire: str
    aligned: str  # the digest of the aligned ids, in order
    test: str  # the digest of the test ids, in order
    version: str

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(vars(self), sort_keys=True, default=list))  # type: ignore[no-any-return]

    def check(self, theirs: Mapping[str, Any], *, host: str) -> None:
        for name, ours in self.to_json().items():
            if theirs.get(name) != ours:
                raise AgreementError(
                    f"'{host}' means another run: its {name} is {theirs.get(name)!r}, here it is {ours!r}; "
                    "give both parties the same settings and the same aligned rows"
                )


@dataclass(frozen=True)
class Agreement:
    """What the host adds once it is known who takes part: the classes, and which aligned rows are labelled."""

    terms: Terms
    run: str  # tells this run from any other, and is no secret
    task: Task
    labelled: Tensor  # positions in the aligned rows
    validation: Tensor  # positions in the aligned rows
    fewer: tuple[tuple[Tensor, Tensor], ...] = ()  # the same two, where fewer labels are learned from as well

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self._text().encode() + self._positions()).digest()

    @property
    def draws(self) -> bytes:
        """What public random numbers follow from: not from where the run stops, so that it begins like a longer one."""
        config = {name: value for name, value in self.terms.config.items() if name != "stop_at_bytes"}
        return replace(self, terms=replace(self.terms, config=config)).digest

    def _text(self) -> str:
        said = {**self.terms.to_json(), "run": self.run, "classes": list(self.task.classes)}
        return json.dumps(said, sort_keys=True)

    def _positions(self) -> bytes:
        return b"|".join(positions.cpu().numpy().tobytes() for positions in self._tensors().values())

    def _tensors(self) -> dict[str, Tensor]:
        pairs = {"": (self.labelled, self.validation)} | {f"-{n}": pair for n, pair in enumerate(self.fewer, start=1)}
        return {
            f"{use}{which}": positions
            for which, pair in pairs.items()
            for use, positions in zip(_USES, pair, strict=True)
        }

    def propose(self, links: Mapping[str, Link]) -> dict[str, int]:
        """The host's side: say it to every guest, and have it said back; how long their representations are."""
        for link in links.values():
            link.send("agreement", self._tensors(), scalars={"terms": self._text()})
        answers = {name: link.receive("agreement").scalars for name, link in links.items()}
        for name, answer in answers.items():
            if answer.get("digest") != self.digest.hex():
                raise AgreementError(f"'{name}' agreed to something else: start both parties anew")
            dim = answer.get("dim")
            if type(dim) is not int or not 1 <= dim <= MOST_DIMENSIONS:
                raise AgreementError(
                    f"'{name}' says that its representations have {dim!r} dimensions, expected 1 to {MOST_DIMENSIONS}"
                )
        return {name: int(answer["dim"]) for name, answer in answers.items()}

    @classmethod
    def accept(cls, terms: Terms, link: Link, *, rows: int, dim: int) -> Agreement:
        """A guest's side: compare what the host says with what is known here, and say it back."""
        message = link.receive("agreement")
        said = _said(message)
        terms.check(said, host=link.peer)
        task = Task(terms.task, terms.metric, tuple(said["classes"]))
        fewer = [_positions(message, rows, f"-{number}") for number in range(1, len(message.tensors) // 2)]
        agreement = cls(terms, said["run"], task, *_positions(message, rows), tuple(fewer))
        link.send("agreement", scalars={"digest": agreement.digest.hex(), "dim": dim})
        return agreement


def _said(message: Message) -> dict[str, Any]:
    try:
        said = json.loads(str(message.scalars["terms"]))
        classes, run = said["classes"], said["run"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise AgreementError(f"the host's agreement cannot be read ({error!r})") from error
    if not isinstance(run, str) or not isinstance(classes, list) or not all(isinstance(c, str) for c in classes):
        raise AgreementError("the host's agreement has a run or classes that are no text")
    return dict(said)


def _positions(message: Message, rows: int, which: str = "") -> tuple[Tensor, Tensor]:
    """The labelled and the validation rows, which must be positions in this party's aligned rows."""
    found = [message.tensors.get(f"{use}{which}") for use in _USES]
    for positions in found:
        if positions is None or positions.dtype != torch.int64 or positions.dim() != 1:
            raise AgreementError("the host's agreement does not say which rows are labelled")
        if len(positions) and not (int(positions.min()) >= 0 and int(positions.max()) < rows):
            raise AgreementError(f"the host's agreement speaks of rows beyond the {rows} aligned ones here")
    labelled, validation = found
    assert labelled is not None
    assert validation is not None
    return labelled, validation
