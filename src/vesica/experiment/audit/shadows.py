"""Membership by likelihood ratios (LiRA): shadow federations on random rows, as whoever has such rows can train.

The pool is the rows that the run learned from and as many test rows, if there are; a third of these is left to test the
shadows with. Each shadow has as many rows as the run, drawn from the pool; nobody in it has rows alone. With as many
test rows in the pool as others it learns from half of it, as it should; with fewer, few shadows leave a row out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vesica.attacks.membership import confidence, likelihood_ratio
from vesica.data.federation import Federation, Overlap, PartyData, TestRows
from vesica.data.rows import split_rows
from vesica.data.table import Array
from vesica.errors import InputError
from vesica.experiment.audit.findings import Outcome
from vesica.experiment.audit.membership_attacks import outputs_of, score
from vesica.experiment.audit.transcript import Transcript
from vesica.experiment.fit import fit, sort_out
from vesica.experiment.result import Result
from vesica.methods import Method
from vesica.protocol.link import Progress, silently

FEWEST = 2  # shadows
_TINY = 1e-30


@dataclass(frozen=True)
class Pool:
    """Rows of which some were trained on, by their numbers in the run and by their ids."""

    rows: Tensor
    members: Tensor  # (rows,) bool
    ids: Array
    size: int  # how many rows a shadow has, those it validates with included
    others: Array  # the ids of test rows that are left to test the shadows with

    @classmethod
    def draw(cls, run: Transcript, federation: Federation, *, seed: int) -> Pool:
        split, random = split_rows(federation), np.random.default_rng([seed, 5])
        ids = np.concatenate([split.aligned_ids, split.test_ids])
        trained, test = run.of_use("train").numpy(), random.permutation(run.of_use("test").numpy())
        count = min(len(trained), len(test) * 2 // 3)
        rows = np.concatenate([trained, test[:count]])
        members = torch.arange(len(rows)) < len(trained)
        size = min(len(run.of_use("labelled")), len(rows) - 1)
        return cls(torch.from_numpy(rows), members, ids[rows], size, ids[test[count:]])


@dataclass(frozen=True)
class Shadows:
    """What the shadows are trained with: the run's own method, on rows of its federation."""

    method: Method
    federation: Federation
    count: int

    def __post_init__(self) -> None:
        if self.count < FEWEST:
            raise InputError(f"there are {self.count} shadow federations: give {FEWEST} or more")


def by_shadows(
    folder: Path,
    shadows: Shadows,
    *,
    seed: int = 0,
    progress: Progress = silently,
    begin: Callable[[str], None] = lambda step: None,
) -> Iterator[Outcome]:
    """Which rows a run was trained on, from how sure its model and the shadows' are of their labels."""
    run = Transcript.open(folder)
    if run.task.kind != "classification" or set(run.parties) != set(run.present):
        yield "Shadow federations were not trained: they are for a classification, and need every party's folder."
        return
    federation, labels = shadows.federation, run.labels
    pool = Pool.draw(run, federation, seed=seed)
    sure, trained = [], []
    for number in range(shadows.count):
        begin(f"shadow federation {number + 1} of {shadows.count}")
        drawn = np.random.default_rng([seed, 6, number]).permutation(len(pool.ids))[: pool.size]
        shadow = federation_of(federation, pool, pool.ids[drawn])
        result = fit(shadows.method, shadow, seed=run.run["seed"] + 1 + number, progress=progress)
        sure.append(confidence_of(result, federation, pool, labels[pool.rows], run.task.classes))
        trained.append(torch.from_numpy(np.isin(pool.ids, learned_from(shadows.method, shadow))))
    target = confidence(outputs_of(run, pool.rows), labels[pool.rows])
    inside = torch.stack(trained)
    scores = likelihood_ratio(target, torch.stack(sure), trained=inside)
    attack = f"likelihood ratios of {shadows.count} shadow federations"
    yield from score(run, scores, pool.members, attack=attack, seed=seed, detail=strength_of(inside))


def strength_of(trained: Tensor) -> str:
    """How much shadows can tell: the fewer learned without a row, the weaker the attack."""
    without = (~trained).sum(dim=0).double()
    return (
        f"A row is left out by {without.mean():.1f} of {len(trained)} shadow federations on average, "
        f"and {(without == 0).double().mean():.0%} of the rows by none; half would tell most."
    )


def federation_of(federation: Federation, pool: Pool, ids: Array) -> Federation:
    """The parties with some rows of a pool alone, all of them aligned and labelled."""
    wanted = np.concatenate([ids, pool.others])
    host, *guests = (take(party, wanted) for party in federation.parties)
    assert federation.label is not None
    return replace(
        federation,
        host=host,
        label=federation.label[np.flatnonzero(np.isin(federation.host.table.ids, wanted))],
        guests=tuple(guests),
        test=TestRows(ids=pool.others),
        overlap=Overlap(),
        labelled=None,
        source={},
    )


def learned_from(method: Method, federation: Federation) -> Array:
    """The ids of the rows that a run learns from: not those it validates with."""
    split, _ = sort_out(method, federation, limited=False)
    learned: Array = split.aligned_ids[np.setdiff1d(split.labelled, split.validation)]
    return learned


def take(party: PartyData, ids: Array) -> PartyData:
    return replace(party, table=party.table.take(np.flatnonzero(np.isin(party.table.ids, ids))))


def confidence_of(
    result: Result, federation: Federation, pool: Pool, labels: Tensor, classes: tuple[str, ...]
) -> Tensor:
    """Of the pool's rows, in their order; a class that a shadow has not met is one it never names."""
    tables = {party.name: take(party, pool.ids).table for party in federation.parties}
    said = result.predict(tables)
    assert said.probabilities is not None
    place = {id: row for row, id in enumerate(said.ids.tolist())}
    chances = torch.full((len(pool.ids), len(classes)), _TINY, dtype=torch.float64)
    order = np.array([place[id] for id in pool.ids.tolist()])
    for column, name in enumerate(said.classes):
        chances[:, classes.index(name)] = torch.from_numpy(said.probabilities[order, column]).double()
    return confidence(chances.clamp(min=_TINY).log(), labels)
