"""Predicting new rows with a trained model: a conversation of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from vesica.data.federation import PartyData
from vesica.data.rows import common_rows
from vesica.data.table import Array, Table
from vesica.engines import InProcess
from vesica.errors import InputError, RunFolderError, nearest
from vesica.experiment.folder import read_json
from vesica.experiment.models import PartyModel
from vesica.experiment.predictions import Predictions, named
from vesica.metrics import Task
from vesica.nn.models import Head
from vesica.protocol import Budget, Guest, Host, Ledger, Link, Rows, prediction
from vesica.protocol.budget import Meter
from vesica.protocol.journal import Journal
from vesica.protocol.link import Conversation
from vesica.protocol.released_rows import ReleasedRows


def predict_from(folder: Path, tables: Mapping[str, Table], *, without: Sequence[str] = ()) -> Predictions:
    """Predict with the models of a finished run folder."""
    run = read_json(folder / "run.json")
    if not (folder / "result.json").exists():
        raise RunFolderError(f"the run in {folder} has not finished: run the same command again to go on")
    parties = run.get("parties")
    if not (isinstance(parties, list) and parties and all(isinstance(name, str) for name in parties)):
        raise RunFolderError(f"{folder / 'run.json'} does not name its parties: give the folder of a run")
    models = {name: PartyModel.load(folder / name) for name in parties}
    for name, model in models.items():
        if model.name != name:
            raise RunFolderError(f"the model in {folder / name} is that of '{model.name}': give the folder of a run")
    head = models[parties[0]].head
    if head is None or models[parties[0]].task is None:
        raise RunFolderError(f"the model in {folder / parties[0]} is no host's: give the folder of a run")
    if strange := [name for name in head.parties if name not in models]:
        raise RunFolderError(
            f"the model in {folder / parties[0]} reads from {', '.join(strange)}, which {folder / 'run.json'} does not "
            "name: give the folder of a run"
        )
    return predict(models, tables, without=without)


def predict(
    models: Mapping[str, PartyModel], tables: Mapping[str, Table], *, without: Sequence[str] = ()
) -> Predictions:
    """Predict the rows that every party the model needs has, in the order of their ids."""
    host = next(iter(models.values()))
    assert host.head is not None
    assert host.task is not None
    needed = [name for name in host.head.parties if name not in without]
    check_parties(models, host, tables, without=without)
    present = [name for name in models if name in needed or (name == host.name and name in tables)]
    ids, rows = common_rows([PartyData(name, tables[name]) for name in present])
    talking = [host.name, *(name for name in needed if name != host.name)]
    carrier = InProcess(talking)
    programs: dict[str, Callable[[], Any]] = {}
    for name in talking:
        ledger = Ledger(name, host=host.name, phase="prediction")
        talk = Conversation(name, carrier, Journal(None, talking), ledger, Meter(Budget()), host.wire)
        peers = talking[1:] if name == host.name else [host.name]
        links = {peer: Link(peer, talk) for peer in peers}
        role = Host if name == host.name else Guest
        me = seat(role, models[name], host.task, talk, links, tables.get(name), rows.get(name), ids.tolist())
        if isinstance(me, Host):
            me.head = host.head
            programs[name] = partial(prediction.predict, me, torch.arange(len(ids)), without=without)
            counted = ledger
        elif isinstance(me, Guest):
            programs[name] = partial(prediction.answer, me, torch.arange(len(ids)))
    outputs = carrier.run(programs, dict.fromkeys(talking, 0))[host.name]
    filled = tuple(name for name in host.head.parties if name in without)
    return named(ids, host.task.predictions(outputs).numpy(), host.task.classes, counted, without=filled)


def seat(
    role: type[Host] | type[Guest],
    model: PartyModel,
    task: Task,
    talk: Conversation,
    links: Mapping[str, Link],
    table: Table | None,
    rows: Array | None,
    ids: Sequence[str],
) -> Host | Guest:
    """A party with its trained encoder, and the asked rows prepared as in training."""
    inputs = torch.empty(0)
    if model.preparation is not None and table is not None and rows is not None:
        inputs = model.preparation.apply(table.take(rows))
    none = torch.empty(0, dtype=torch.int64)
    return role(
        model.name,
        task,
        Rows(none, none, none, none, none),
        inputs,
        model.encoder_spec,
        talk,
        links,
        encoder=model.encoder,
        released=None if model.release is None else ReleasedRows(model.release, ids),
    )


def check_parties(
    models: Mapping[str, PartyModel], host: PartyModel, tables: Mapping[str, Table], *, without: Sequence[str]
) -> None:
    assert host.head is not None
    read, optional = host.head.parties, host.head.optional if isinstance(host.head, Head) else ()
    for name in without:
        if name not in models:
            raise InputError(f"there is no party '{name}' in this run{nearest(name, models)}")
        if name in read and name not in optional:
            raise InputError(
                f"this model cannot predict without '{name}', which was there for every row it learned from: "
                "train fedonce with party_dropout, such as --set party_dropout=0.3, for one that does without a guest"
            )
    needed = [name for name in read if name not in without]
    if not needed:
        raise InputError(f"without {', '.join(without)} nothing is left to predict from: leave fewer parties out")
    for name in tables:
        if name not in models:
            raise InputError(f"'{name}' was no party of this run{nearest(name, models)}")
    for name in needed:
        if name not in tables:
            raise InputError(f"the rows of '{name}' are needed to predict: add its table")
