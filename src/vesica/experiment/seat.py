"""One party's whole program: agree, take part in the method, score the test rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vesica.data.federation import PartyData
from vesica.data.preparation import Preparation, naming
from vesica.data.rows import PartyRows, Split
from vesica.errors import InputError
from vesica.experiment.belongings import Belongings
from vesica.experiment.models import PartyModel
from vesica.methods import Method
from vesica.metrics import Task, score
from vesica.nn.models import EncoderSpec
from vesica.privacy import Release, Spent
from vesica.protocol import Budget, Guest, Host, Ledger, Link, Rows
from vesica.protocol.agreement import Agreement, Terms
from vesica.protocol.budget import Meter
from vesica.protocol.link import Conversation
from vesica.protocol.party import Milestone, Party
from vesica.protocol.prediction import Parts, answer, ask, outputs_of
from vesica.protocol.released_rows import ReleasedRows

RELEASED = "released"  # the folder of the draws that a guest has given away


@dataclass(frozen=True)
class Outcome:
    """What a party's program leaves behind."""

    model: PartyModel
    training: Ledger
    scoring: Ledger
    belongings: Belongings
    metrics: Mapping[str, float | None] | None = None  # the host's
    statements: tuple[str, ...] = ()  # what this party can say; a result has the host's
    privacy: Spent | None = None
    missing: tuple[str, ...] = ()  # the guests the host left out
    reached: Milestone | None = None  # where it is one
    milestones: Mapping[str, Outcome] = field(default_factory=dict)

    def save_models(self, folder: Path) -> None:
        """The party's model; what it was at a milestone is in a folder of that name."""
        self.model.save(folder)
        for name, earlier in self.milestones.items():
            earlier.model.save(folder / name)


@dataclass(frozen=True)
class Seat:
    """One party before the talk begins, its rows sorted out and prepared."""

    name: str
    rows: PartyRows
    preparation: Preparation | None  # None: a host with labels only
    spec: EncoderSpec | None
    inputs: Tensor
    ids: tuple[str, ...]  # of the rows of `inputs`

    @classmethod
    def take(cls, party: PartyData, rows: PartyRows, *, device: torch.device) -> Seat:
        ids = tuple(party.table.ids.tolist())
        if not party.has_features:
            return cls(party.name, rows, None, None, torch.empty(len(party.table), 0, device=device), ids)
        preparation = Preparation.fit(
            party.table, rows.training, party=party.name, kinds=party.kinds, scale=party.scale
        )
        with naming(party.name):
            if party.encoder == "raw":
                raise InputError("encoder 'raw' would send the columns themselves: leave it to pooled and linear")
            if party.encoder == "filters":
                raise InputError("encoder 'filters' has nothing to train: take fedonce with representation=filters")
            if party.encoder == "bins":
                raise InputError("encoder 'bins' is made by vertical-trees: leave it to that method")
            spec = EncoderSpec.choose(party.encoder, preparation.schema, dim=party.dim)
        return cls(party.name, rows, preparation, spec, preparation.apply(party.table).to(device), ids)

    @property
    def fingerprint(self) -> str:
        """Tells this party's prepared rows from any others."""
        return hashlib.sha256(self.inputs.cpu().numpy().data).hexdigest()

    def be_guest(self, method: Method, terms: Terms, talk: Conversation, links: Mapping[str, Link]) -> Outcome:
        assert self.spec is not None
        (host,) = links.values()
        counts = getattr(method, "label_counts", ())
        agreement = Agreement.accept(terms, host, rows=len(self.rows.aligned), dim=self.spec.dim, label_counts=counts)
        rows = self._sort(agreement)
        me = Guest(
            self.name,
            agreement.task,
            rows,
            self.inputs,
            self.spec,
            talk,
            links,
            agreement.draws,
            parties=terms.parties,
            released=self._released(getattr(method, "representation_noise", None), talk.folder),
        )
        method.guest(me)
        training = begin_scoring(talk)
        answer(me, me.rows.test)
        scoring, model, own = talk.ledger, self._model(me), Belongings.of(me)
        earlier = {}
        for name, milestone in me.milestones.items():
            begin_scoring(talk)
            me.encoder = milestone.encoder
            answer(me, me.rows.test)
            then = self._ledger(me, milestone)
            earlier[name] = Outcome(self._model(me), then, talk.ledger, own, reached=milestone)
        said = tuple(talk.statements)
        return Outcome(model, training, scoring, own, None, said, talk.privacy, milestones=earlier)

    def be_host(
        self,
        method: Method,
        terms: Terms,
        talk: Conversation,
        links: Mapping[str, Link],
        *,
        split: Split,
        fewer: Sequence[Split],
        run: str,
    ) -> Outcome:
        task, labels = prepare_labels(terms, split)
        positions, *others = ((torch.from_numpy(s.labelled), torch.from_numpy(s.validation)) for s in (split, *fewer))
        agreement = Agreement(terms, run, task, *positions, tuple(others))
        own = {} if self.spec is None else {self.name: self.spec.dim}
        me = Host(
            self.name,
            task,
            self._sort(agreement),
            self.inputs,
            self.spec,
            talk,
            links,
            agreement.draws,
            parties=terms.parties,
            labels=labels.to(self.inputs.device),
            known=self._tensor(split.known),
            dims={**own, **agreement.propose(links)},
        )
        method.host(me)
        training = begin_scoring(talk)
        gathered, scoring = ask(me, me.rows.test), talk.ledger
        last = me.encoder, me.head
        gathered_then = {}
        for name, milestone in me.milestones.items():
            begin_scoring(talk)
            me.encoder, me.head = milestone.encoder, milestone.head
            gathered_then[name] = ask(me, me.rows.test), talk.ledger
        me.encoder, me.head = last
        for work in me.after_messages:
            work()
        belongings, said = Belongings.of(me), tuple(talk.statements)
        metrics, model = self._judge(me, gathered), self._host_model(me)
        earlier = {}
        for name, (parts, ledger) in gathered_then.items():
            milestone = me.milestones[name]
            me.encoder, me.head = milestone.encoder, milestone.head
            earlier[name] = Outcome(
                metrics=self._judge(me, parts),
                model=self._host_model(me),
                training=self._ledger(me, milestone),
                scoring=ledger,
                belongings=belongings,
                statements=tuple(milestone.statements),
                privacy=talk.privacy,
                reached=milestone,
            )
        return Outcome(
            model, training, scoring, belongings, metrics, said, talk.privacy, me.missing, milestones=earlier
        )

    def _judge(self, me: Host, gathered: Sequence[Parts]) -> Mapping[str, float | None]:
        """The metrics of the host's head on the test rows."""
        assert me.head is not None
        return score(me.task, outputs_of(me.head, gathered), me.labels[me.rows.test])

    def _sort(self, agreement: Agreement) -> Rows:
        """This party's rows, now that it is agreed which aligned ones are labelled and which validate."""
        aligned = self._tensor(self.rows.aligned)
        labelled, validation = aligned[agreement.labelled], aligned[agreement.validation]
        rows = Rows(aligned, self._tensor(self.rows.unaligned), self._tensor(self.rows.test), labelled, validation)
        fewer = [replace(rows, labelled=aligned[some], validation=aligned[held]) for some, held in agreement.fewer]
        return replace(rows, fewer=tuple(fewer))

    def _released(self, release: Release | None, folder: Path | None) -> ReleasedRows | None:
        if release is None:
            return None
        return ReleasedRows(release, self.ids, folder=None if folder is None else folder / RELEASED)

    def _tensor(self, rows: np.ndarray[Any, Any]) -> Tensor:
        return torch.from_numpy(rows).to(self.inputs.device)

    def _ledger(self, me: Party, milestone: Milestone) -> Ledger:
        ledger = Ledger(self.name, host=me.conversation.ledger.host)
        ledger.restore(milestone.entries)
        return ledger

    def _host_model(self, me: Host) -> PartyModel:
        return replace(self._model(me), head=me.head and me.head.cpu(), task=me.task)

    def _model(self, me: Party) -> PartyModel:
        """What is kept of the party, wherever it was trained: on the CPU."""
        encoder = None if me.encoder is None else me.encoder.cpu()
        release = None if me.released is None else me.released.release
        wire = me.conversation.wire
        return PartyModel(self.name, self.preparation, me.encoder_spec, encoder, wire=wire, release=release)


def prepare_labels(terms: Terms, split: Split) -> tuple[Task, Tensor]:
    """The task, and the host's labels as a model takes them: class numbers, or values standardised."""
    if terms.task == "classification":
        return Task(terms.task, terms.metric, split.classes), torch.from_numpy(split.label)
    seen = split.label[split.known]
    task = Task(terms.task, terms.metric, (), float(seen.mean()), float(seen.std()) or 1.0)
    return task, torch.from_numpy((split.label - task.centre) / task.spread).float()


def begin_scoring(talk: Conversation) -> Ledger:
    """Training has ended: scoring is a conversation of its own, with no budget. Returns training's ledger."""
    training = talk.ledger
    talk.ledger = Ledger(training.party, host=training.host, phase="scoring")
    talk.meter = Meter(Budget())
    return training
