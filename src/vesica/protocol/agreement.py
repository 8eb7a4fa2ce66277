"""The agreement: before round 1 every party checks that all mean the same run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from vesica.data.text_files import shown
from vesica.errors import AgreementError
from vesica.metrics import Task
from vesica.protocol.link import Link
from vesica.protocol.message import Message

MOST_DIMENSIONS = 65_536
LONGEST_NAME = 64  # characters of a run's name
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
                there, here = _differing(theirs.get(name), ours)
                raise AgreementError(
                    f"'{host}' means another run: its {name} is {shown(there)}, here it is {shown(here)}; "
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
        answers = {name: link.receive("agreement", check=partial(self._check, name)) for name, link in links.items()}
        return {name: answer.scalar("dim", int) for name, answer in answers.items()}

    def _check(self, guest: str, answer: Message) -> None:
        if answer.scalars.get("digest") != self.digest.hex():
            raise AgreementError(f"'{guest}' agreed to something else: start both parties anew")
        dim = answer.scalars.get("dim")
        if type(dim) is not int or not 1 <= dim <= MOST_DIMENSIONS:
            raise AgreementError(
                f"'{guest}' says that its representations have {shown(dim)} dimensions, expected 1 to {MOST_DIMENSIONS}"
            )

    @classmethod
    def accept(cls, terms: Terms, link: Link, *, rows: int, dim: int, label_counts: Sequence[int] = ()) -> Agreement:
        """A guest's side: compare what the host says with what is known here, and say it back.

        The host chooses which of the `rows` aligned rows are labelled, so it chooses what a guest gives away of them.
        It can name a row once only, and no more subsets of them than the `label_counts` that all agreed on.
        """
        read = partial(cls._read, terms, host=link.peer, rows=rows, label_counts=label_counts)
        agreement = read(link.receive("agreement", check=read))
        link.send("agreement", scalars={"digest": agreement.digest.hex(), "dim": dim})
        return agreement

    @classmethod
    def _read(cls, terms: Terms, message: Message, *, host: str, rows: int, label_counts: Sequence[int]) -> Agreement:
        said = _said(message)
        terms.check(said, host=host)
        task = Task(terms.task, terms.metric, tuple(said["classes"]))
        if len(message.tensors) != len(_USES) * (1 + len(label_counts)):
            raise AgreementError(
                f"the host's agreement does not say which rows each of label_counts {tuple(label_counts)} means"
            )
        labelled, validation = _positions(message, rows)
        _check_classes(task, labelled=len(labelled))
        fewer = [_positions(message, rows, f"-{number}") for number in range(1, len(label_counts) + 1)]
        for count, (some, _) in zip(label_counts, fewer, strict=True):
            if len(some) != count or not torch.isin(some, labelled).all():
                raise AgreementError(
                    f"the host's agreement does not name {count} of the labelled rows for label_counts"
                )
        return cls(terms, said["run"], task, labelled, validation, tuple(fewer))


def _differing(theirs: Any, ours: Any) -> tuple[Any, Any]:
    """Of two objects the fields that differ, so that a shortened one still shows them; other values as they are."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return theirs, ours
    missing = object()
    names = [name for name in {**ours, **theirs} if ours.get(name, missing) != theirs.get(name, missing)]
    there, here = ({name: side[name] for name in names if name in side} for side in (theirs, ours))
    return there, here


def _check_classes(task: Task, *, labelled: int) -> None:
    """A host refuses labels of one class, and fewer labelled aligned rows than classes, before it proposes anything."""
    count = len(task.classes)
    least, most = (2, labelled) if task.kind == "classification" else (0, 0)
    if not least <= count <= most:
        raise AgreementError(
            f"the host's agreement has {count} classes for {task.kind} with {labelled} labelled rows, expected {least} "
            f"to {most}: start both parties anew"
        )


def _said(message: Message) -> dict[str, Any]:
    try:
        said = json.loads(str(message.scalars["terms"]))
        classes, run = said["classes"], said["run"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise AgreementError(f"the host's agreement cannot be read ({shown(error)})") from error
    texts = isinstance(run, str) and isinstance(classes, list) and all(isinstance(name, str) for name in classes)
    if not texts or len(run) > LONGEST_NAME or len(set(classes)) < len(classes):
        raise AgreementError("the host's agreement has no proper name of the run, or classes that are not distinct")
    return dict(said)


def _positions(message: Message, rows: int, which: str = "") -> tuple[Tensor, Tensor]:
    """The labelled rows and, among them, the validation rows: positions in this party's aligned rows.

    Each rises, so that no row is named twice and neither is longer than the rows there are.
    """
    labelled, validation = (_rising(message.tensors.get(f"{use}{which}"), rows, use) for use in _USES)
    if not torch.isin(validation, labelled).all():
        raise AgreementError("the host's agreement has validation rows that are not among the labelled ones")
    return labelled, validation


def _rising(positions: Tensor | None, rows: int, use: str) -> Tensor:
    if positions is None or positions.dtype != torch.int64 or positions.dim() != 1 or not len(positions):
        raise AgreementError("the host's agreement does not say which rows are labelled and which validate")
    if int(positions.min()) < 0 or int(positions.max()) >= rows:
        raise AgreementError(f"the host's agreement speaks of rows beyond the {rows} aligned ones here")
    if not (positions.diff() > 0).all():
        raise AgreementError(f"the host's agreement names {use} rows twice or out of order: each may be named once")
    return positions
