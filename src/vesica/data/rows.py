"""Which rows are for what: common, test, aligned, labelled, validation, unaligned, in this order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vesica.data.federation import Federation, PartyData, TestRows
from vesica.data.labels import class_numbers, distinct, known
from vesica.data.table import Array, Text
from vesica.errors import InputError

_VALIDATION_PART = 10  # a tenth of the labelled aligned rows


@dataclass(frozen=True)
class PartyRows:
    """Positions in one party's table; `aligned` and `test` are in the same order at every party."""

    aligned: Array
    unaligned: Array
    test: Array

    @property
    def training(self) -> Array:
        """What scales and vocabularies may be fitted on."""
        return np.concatenate([self.aligned, self.unaligned])


@dataclass(frozen=True)
class Split:
    """The rows of a federation, sorted out."""

    parties: dict[str, PartyRows]
    aligned_ids: Array
    test_ids: Array
    classes: tuple[str, ...]  # () for regression
    label: Array  # of the host's rows: class numbers or values; meaningful at `known` and at the test rows
    known: Array  # the host's rows whose labels it may train with, validation included
    labelled: Array  # positions in the aligned rows
    validation: Array  # positions in the aligned rows

    @property
    def fingerprint(self) -> str:
        """Tells these rows and labels from any others."""
        digest = hashlib.sha256("\n".join([*self.classes, "", *self.aligned_ids, "", *self.test_ids]).encode())
        for values in (self.labelled, self.validation, np.sort(self.known), self.label[np.sort(self.known)]):
            digest.update(np.ascontiguousarray(values).data)
        return digest.hexdigest()


def split_rows(federation: Federation, *, secret: int | None = None) -> Split:
    """Sort the rows out; every draw comes from the federation's own seeds.

    But, with a `secret`, the one that looks at labels: the agreement tells all guests which rows validate, and whoever
    could draw them again would see in what order the rows of each class were taken. (Where some common rows are kept
    as aligned and labels are not drawn, which is for simulations, the shares of the others come out otherwise then.)
    """
    ids, rows = common_rows(federation.parties)
    classes, label, has_label = _read_label(federation)
    of_host = rows[federation.host.name]

    test = _draw_test(federation, ids, of_host, has_label)
    rest = np.setdiff1d(np.arange(len(ids)), test)
    random = np.random.default_rng([federation.overlap.seed, 1])
    aligned = _draw_aligned(random, rest, federation.overlap.keep)
    labelled = np.flatnonzero(has_label[of_host[aligned]])
    draws = random
    if federation.labelled is not None:
        labelled = _draw_labelled(federation, rest, aligned, labelled)
        draws = np.random.default_rng([federation.overlap.seed, 3])
    if secret is not None:
        draws = np.random.default_rng(secret)
    numbers = label[of_host[aligned[labelled]]]
    _check_enough(federation, classes, numbers)
    validation = labelled[_draw_validation(draws, numbers, stratified=bool(classes))]

    unaligned = _share_out(federation, np.setdiff1d(rest, aligned), random)
    parties = {
        party.name: PartyRows(
            rows[party.name][aligned],
            np.concatenate([rows[party.name][unaligned[party.name]], _alone(party, rows[party.name])]),
            rows[party.name][test],
        )
        for party in federation.parties
    }
    mine = parties[federation.host.name]
    trainable = mine.aligned[labelled]
    if federation.labels == "all":
        trainable = np.concatenate([trainable, mine.unaligned[has_label[mine.unaligned]]])
    return Split(parties, ids[aligned], ids[test], classes, label, trainable, labelled, validation)


def hold_out(federation: Federation, *, fraction: float = 0.2, seed: int = 0) -> Federation:
    """The federation as if its test rows were unknown, with others drawn in their stead: to choose settings on.

    Where its test rows are whole groups, these are too.
    It has a name of its own, so that its figures never stand for those on test rows.
    """
    hidden = set(split_rows(federation).test_ids.tolist())
    kept = {
        party.name: np.array([row for row, id in enumerate(party.table.ids.tolist()) if id not in hidden], np.int64)
        for party in federation.parties
    }
    host, *guests = (replace(party, table=party.table.take(kept[party.name])) for party in federation.parties)
    assert federation.label is not None  # or it would have no test rows
    label = federation.label[kept[host.name]]
    groups = None if federation.test.groups is None else federation.test.groups[kept[host.name]]
    test, name = TestRows(fraction, seed=seed, groups=groups), f"{federation.name} (hold-out)"
    return replace(federation, host=host, label=label, guests=tuple(guests), test=test, name=name, source={})


def common_rows(parties: Sequence[PartyData]) -> tuple[Array, dict[str, Array]]:
    """The ids that every party has, sorted, and where each party has them."""
    positions = [{id: row for row, id in enumerate(party.table.ids.tolist())} for party in parties]
    for party, of_id in zip(parties, positions, strict=True):
        if len(of_id) < len(party.table):
            raise InputError(f"'{party.name}' has {len(party.table) - len(of_id)} duplicated ids: keep a row an id")
    common = set(positions[0]).intersection(*positions[1:])
    if not common:
        examples = "; ".join(
            f"'{party.name}' has {len(party.table)} ids such as {', '.join(map(repr, party.table.ids[:2].tolist()))}"
            for party in parties[:4]
        )
        raise InputError(
            f"no id is common to all parties ({examples}): the usual causes are zero padding ('007' and '7'), "
            "case ('ab1' and 'AB1'), type ('7.0' and '7') and spaces, or the wrong id column"
        )
    ids = sorted(common)
    rows = {
        party.name: np.array([of_id[id] for id in ids], dtype=np.int64)
        for party, of_id in zip(parties, positions, strict=True)
    }
    return np.array(ids, dtype=object), rows


def _alone(party: PartyData, common: Array) -> Array:
    """A party's rows that some other party does not have; without features there is nothing to learn from them."""
    return np.setdiff1d(np.arange(len(party.table) if party.has_features else 0), common)


def _read_label(federation: Federation) -> tuple[tuple[str, ...], Array, Array]:
    """The classes, each host row's class number or value, and where there is one."""
    host, label = federation.host.name, federation.label
    if label is None:
        raise InputError(f"'{host}' has no label column: name one under [host] label")
    has_label = known(label)
    if not has_label.any():
        raise InputError(f"the label of '{host}' is empty in all {len(label)} rows: is it the right column?")
    if not isinstance(label, Text) and label.dtype.kind == "f" and np.isinf(label).any():
        raise InputError(f"the label of '{host}' has {np.isinf(label).sum()} infinite values: mend or empty them")
    if federation.task == "regression":
        if isinstance(label, Text) or label.dtype.kind not in "iufb":
            raise InputError(f"the label of '{host}' is no number: regression needs one; or set task to classification")
        return (), label.astype(np.float64), has_label
    classes = distinct(label)
    if len(classes) > max(100, int(has_label.sum()) // 2):
        raise InputError(
            f"the label of '{host}' has {len(classes)} distinct values in {has_label.sum()} rows: "
            "classification needs classes; or set task to regression"
        )
    return classes, class_numbers(label, classes), has_label


def _draw_test(federation: Federation, ids: Array, of_host: Array, has_label: Array) -> Array:
    """The test rows, as positions in the common ids, from those with a label."""
    candidates = np.flatnonzero(has_label[of_host])
    if not len(candidates):
        raise InputError(f"none of the {len(ids)} common rows has a label at '{federation.host.name}'")
    if federation.test.ids is not None:
        asked = federation.test.ids.astype(str)
        test = candidates[np.isin(ids[candidates].astype(str), asked)]
        if len(test) < len(asked):
            stray = sorted(set(asked.tolist()) - set(ids[test].tolist()))
            raise InputError(
                f"{len(stray)} of the {len(asked)} test ids, such as {stray[0]!r}, are not at every party with a label "
                f"at '{federation.host.name}': leave them out of [test] rows"
            )
    else:
        random = np.random.default_rng([federation.test.seed, 0])
        count = round(len(candidates) * federation.test.fraction)
        groups = federation.test.groups
        if groups is None:
            test = np.sort(random.permutation(candidates)[:count])
        else:
            test = candidates[_draw_groups(random, groups[of_host[candidates]], count)]
    if not len(test):
        raise InputError(
            f"no test row is left of {len(candidates)} common labelled rows: "
            "give a larger [test] fraction, or ids that all parties have"
        )
    return test


def _draw_groups(random: np.random.Generator, groups: Array, count: int) -> Array:
    """Where the rows of so many groups are that they come to `count` rows, or just above."""
    found, sizes = np.unique(groups, return_counts=True)
    order = random.permutation(len(found))
    before = np.cumsum(sizes[order]) - sizes[order]
    return np.isin(groups, found[order[before < count]])


def _draw_aligned(random: np.random.Generator, rows: Array, keep: int | None) -> Array:
    """Keep so many of the rows, in their order."""
    if keep is None:
        return rows
    _check_keep(keep, rows, setting="overlap")
    return np.sort(random.permutation(rows)[:keep])


def _check_keep(keep: int, rows: Array, *, setting: str) -> None:
    if keep > len(rows):
        raise InputError(f"[{setting}] keep is {keep} and there are only {len(rows)} such rows outside the test rows")


def _draw_labelled(federation: Federation, rest: Array, aligned: Array, labelled: Array) -> Array:
    """The first of the labelled rows, as positions in the aligned ones, in the order that these were drawn in.

    So fewer are some of more, and they are the same ones whether fewer or more rows are aligned.
    """
    keep = federation.labelled
    assert keep is not None
    _check_keep(keep, labelled, setting="labelled")
    order = np.random.default_rng([federation.overlap.seed, 1]).permutation(rest)
    return np.flatnonzero(np.isin(aligned, order[np.isin(order, aligned[labelled])][:keep]))


def _check_enough(federation: Federation, classes: tuple[str, ...], numbers: Array) -> None:
    host = federation.host.name
    if classes and len(classes) < 2:
        raise InputError(f"the label of '{host}' is '{classes[0]}' in every row: there is nothing to learn")
    if not classes and len(numbers) and np.ptp(numbers) == 0:
        raise InputError(f"the label of '{host}' is {numbers[0]} in every row: there is nothing to learn")
    least = max(2, len(classes))
    if len(numbers) < least:
        raise InputError(
            f"there are {len(numbers)} overlapping rows with a label outside the test rows and {len(classes)} classes: "
            f"at least {least} are needed; keep more or find more common ids"
        )
    if classes and len(np.unique(numbers)) < 2:
        raise InputError(
            f"all {len(numbers)} labelled aligned rows are of class '{classes[int(numbers[0])]}': "
            "there is nothing to learn; keep more of them"
        )


def _draw_validation(random: np.random.Generator, numbers: Array, *, stratified: bool) -> Array:
    """A tenth of the labelled rows, at least one; classification takes its share of every class."""
    order = random.permutation(len(numbers))
    count = max(1, len(numbers) // _VALIDATION_PART)
    if not stratified:
        return np.sort(order[:count])
    # A row's rank within its own class, as a fraction of the class: the smallest ones are a fair share of each.
    rank = np.empty(len(numbers))
    for number in np.unique(numbers):
        members = order[numbers[order] == number]
        rank[members] = (np.arange(len(members)) + 0.5) / len(members)
    return np.sort(np.argsort(rank, kind="stable")[:count])


def _share_out(federation: Federation, others: Array, random: np.random.Generator) -> dict[str, Array]:
    """Who has which of the common rows that are not aligned; a party without features has none."""
    shares = dict.fromkeys((party.name for party in federation.parties), others[:0])
    takers = [party.name for party in federation.parties if party.has_features]
    if federation.overlap.share == "everyone":
        # Each in an order of its own: the links between the parties' rows are withheld.
        return shares | {name: random.permutation(others) for name in takers}
    if federation.overlap.share == "draw":
        draw = federation.overlap.draw or 0
        if draw > len(others):
            raise InputError(f"[overlap] draw is {draw} and only {len(others)} common rows are not aligned")
        return shares | {name: random.permutation(others)[:draw] for name in takers}
    return shares | dict(zip(takers, np.array_split(random.permutation(others), len(takers)), strict=True))
