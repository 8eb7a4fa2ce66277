"""A run folder with kept messages, read for an audit: the view of each party, and the truth where it is there.

A simulation's folder has every party's; between organisations each has its own folder, with its own side of the talk.
What a party whose folder is elsewhere received is known from what was sent to it, of course without what is its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from numbers import Number
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vesica.attacks.view import ELSEWHERE, Own, Seen, View
from vesica.errors import RunFolderError
from vesica.experiment.belongings import NAME, Belongings
from vesica.experiment.folder import read_json
from vesica.experiment.models import PartyModel
from vesica.metrics import Task
from vesica.protocol.journal import Journal, Kept
from vesica.protocol.message import decode


@dataclass(frozen=True)
class Transcript:
    """A finished run, as far as this folder has it."""

    folder: Path
    run: dict[str, Any]
    result: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> Transcript:
        run = _read(folder / "run.json", method=str, config=dict, parties=list)
        result = _read(folder / "result.json", statements=list)
        if result.get("epsilon") is not None:
            _read(folder / "result.json", epsilon=Number, delta=Number, protects=str)
        transcript = cls(folder, run, result)
        if not transcript.present:
            raise RunFolderError(
                f"{folder} has no messages to look into: run it again with --keep-messages, in a new folder"
            )
        return transcript

    @property
    def parties(self) -> list[str]:
        """The host first."""
        return list(self.run["parties"])

    @property
    def host(self) -> str:
        return self.parties[0]

    @cached_property
    def present(self) -> list[str]:
        """The parties whose own side is here."""
        return [
            party
            for party in self.parties
            if (self.folder / party / "journal").is_dir() and (self.folder / party / NAME).exists()
        ]

    @cached_property
    def models(self) -> dict[str, PartyModel]:
        return {party: PartyModel.load(self.folder / party) for party in self.present}

    @cached_property
    def belongings(self) -> dict[str, Belongings]:
        return {party: Belongings.load(self.folder / party) for party in self.present}

    @cached_property
    def task(self) -> Task:
        """As the host agreed on it with everyone."""
        if self.host in self.present:
            task = self.models[self.host].task
            assert task is not None
            return task
        said = (decode(kept.read()) for party in self.present for kept in self._kept[party])
        terms = json.loads(next(str(each.scalars["terms"]) for each in said if "terms" in each.scalars))
        return Task(terms["task"], terms["metric"], tuple(terms["classes"]))

    @cached_property
    def views(self) -> dict[str, View]:
        """By party; that of one whose folder is elsewhere has no more than was sent to it from here."""
        return {party: self._view(party) for party in self.parties}

    def common(self, party: str) -> Tensor:
        """Where a party's table has the common rows, by their numbers: the aligned ones, then the test rows."""
        rows = self.belongings[party].rows
        return torch.cat([rows.aligned, rows.test])

    def numbers(self, party: str, rows: Tensor) -> Tensor:
        """The common rows' numbers for positions in a party's table."""
        of_position = torch.full((len(self.belongings[party].inputs) + 1,), ELSEWHERE)  # the last: another's
        of_position[self.common(party)] = torch.arange(len(self.common(party)))
        return of_position[rows]

    def inputs(self, party: str) -> Tensor:
        """A party's prepared columns of the common rows, by their numbers."""
        return self.belongings[party].inputs[self.common(party)]

    @property
    def labels(self) -> Tensor:
        """Of the common rows, by their numbers: meaningful where there is a label."""
        labels = self.belongings[self.host].labels
        assert labels is not None
        return labels[self.common(self.host)]

    def of_use(self, use: str) -> Tensor:
        """The numbers of the rows that are aligned, labelled, validation, train or test."""
        party = self.present[0]
        return self.numbers(party, getattr(self.belongings[party].rows, use))

    def _view(self, party: str) -> View:
        if party in self.present:
            seen = [self._seen(party, kept, kept.peer) for kept in self._kept[party] if not kept.sent]
        else:
            seen = [
                self._seen(teller, kept, teller)
                for teller in self.present
                for kept in self._kept[teller]
                if kept.sent and kept.peer == party
            ]
        return View(party, self.task, tuple(seen), self._own(party))

    @cached_property
    def _kept(self) -> dict[str, list[Kept]]:
        guests = self.parties[1:]
        peers = {party: guests if party == self.host else [self.host] for party in self.present}
        journals = {party: Journal.read(self.folder / party / "journal", peers[party]) for party in self.present}
        return {party: list(journal.messages()) for party, journal in journals.items()}

    def _seen(self, teller: str, kept: Kept, sender: str) -> Seen:
        rows = None if kept.rows is None else self.numbers(teller, torch.tensor(kept.rows))
        frame = kept.read()
        message = decode(frame)
        numbers = sum(tensor.numel() for tensor in message.tensors.values())
        return Seen(sender, message.kind, lambda: decode(kept.read()), rows, numbers, len(frame))

    def _own(self, party: str) -> Own | None:
        model = self.models[party] if party in self.present else None
        if model is None or model.encoder is None or model.encoder_spec is None:
            return None
        own, common = self.belongings[party], self.common(party)
        inputs = own.inputs[torch.cat([common, own.rows.unaligned])]
        return Own(inputs, len(common), model.encoder_spec, model.encoder)


def _read(path: Path, **needed: type) -> dict[str, Any]:
    values = read_json(path)
    for key, kind in needed.items():
        if not isinstance(values.get(key), kind):
            raise RunFolderError(f"{path} is torn (it has no {kind.__name__} '{key}'): run it again in a new folder")
    return values
