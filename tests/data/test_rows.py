"""Which rows are for what: the order of the draws, and every rule about who gets which rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vesica.data import Federation, Overlap, PartyData, Table, TestRows, Text, split_rows
from vesica.data.rows import Split, common_rows, hold_out
from vesica.data.table import Array, Column
from vesica.errors import InputError

A_FIFTH, ALL = TestRows(), Overlap()


def table(ids: list[str], *, features: bool = True) -> Table:
    return Table(np.array(ids), {"x": np.arange(float(len(ids)))} if features else {})


def numbered(first: int, last: int) -> list[str]:
    return [f"p{i:03d}" for i in range(first, last)]


def federation(
    *tables: Table,
    label: Column | None = None,
    task: str = "classification",
    test: TestRows = A_FIFTH,
    overlap: Overlap = ALL,
) -> Federation:
    """The first table is the host's; its labels alternate unless given."""
    guests = tuple(PartyData(f"guest-{i}", one) for i, one in enumerate(tables[1:], start=1))
    return Federation(
        PartyData("host", tables[0]),
        np.arange(len(tables[0])) % 2 if label is None else label,
        guests,
        task=task,
        metric="auc" if task == "classification" else "rmse",
        test=test,
        overlap=overlap,
    )


def hundred(**changes: object) -> Federation:
    """A host and two guests with the same hundred rows."""
    return replace(federation(*[table(numbered(0, 100))] * 3), **changes)  # type: ignore[arg-type]


def ids_of(federation: Federation, split: Split, part: str) -> dict[str, list[str]]:
    """The ids of a part of the rows, by party, in that party's order."""
    return {
        party.name: party.table.ids[getattr(split.parties[party.name], part)].tolist() for party in federation.parties
    }


def some_labels(known: list[int], *, rows: int = 100) -> Array:
    label = np.full(rows, np.nan)
    label[known] = np.arange(len(known)) % 2
    return label


# Test rows.


def test_test_rows_are_the_asked_fraction_of_the_common_labelled_rows() -> None:
    label = some_labels(list(range(50)))
    split = split_rows(federation(table(numbered(0, 100)), table(numbered(10, 100)), label=label))
    assert len(split.test_ids) == 8  # a fifth of p010..p049
    assert set(split.test_ids) <= set(numbered(10, 50))


def test_given_test_ids_are_the_test_rows() -> None:
    split = split_rows(hundred(test=TestRows(ids=np.array(["p007", "p003"]))))
    assert split.test_ids.tolist() == ["p003", "p007"]


def test_a_given_test_id_that_some_party_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="1 of the 3 test ids, such as 'nobody', are not at every party"):
        split_rows(hundred(test=TestRows(ids=np.array(["p007", "p003", "nobody"]))))


def test_a_given_test_id_without_a_label_is_refused() -> None:
    label = some_labels(list(range(50)))
    with pytest.raises(InputError, match="1 of the 2 test ids, such as 'p070', are not at every party with a label"):
        split_rows(hundred(label=label, test=TestRows(ids=np.array(["p003", "p070"]))))


def test_labelled_rows_of_one_class_alone_are_refused() -> None:
    label = np.zeros(100, dtype=np.int64)
    label[-3:] = 1
    with pytest.raises(InputError, match="all 3 labelled aligned rows are of class '0'"):
        split_rows(hundred(label=label, labelled=3, test=TestRows(0.1)))


def test_a_duplicated_id_of_a_table_made_by_hand_is_refused() -> None:
    twice = Table(np.array(["a", "b", "b"]), {"x": np.arange(3.0)})
    with pytest.raises(InputError, match="'host' has 1 duplicated ids"):
        common_rows([PartyData("host", twice)])


def test_a_host_with_labels_only_has_no_unaligned_rows() -> None:
    shared = hundred(overlap=Overlap(20))
    bare = replace(shared, host=PartyData("host", Table(shared.host.table.ids)))
    assert len(split_rows(bare).parties["host"].unaligned) == 0


def test_the_test_rows_depend_on_their_own_seed_alone() -> None:
    def drawn(test_seed: int, overlap_seed: int) -> list[str]:
        split = split_rows(hundred(test=TestRows(seed=test_seed), overlap=Overlap(20, seed=overlap_seed)))
        return list(split.test_ids)

    assert drawn(0, 0) == drawn(0, 1)
    assert drawn(0, 0) != drawn(1, 0)


def test_the_test_rows_do_not_depend_on_the_order_of_the_tables() -> None:
    forward, backward = numbered(0, 100), numbered(0, 100)[::-1]
    label = np.arange(100) % 2
    one = split_rows(federation(table(forward), table(forward), label=label))
    other = split_rows(federation(table(backward), table(forward), label=label[::-1]))
    assert one.test_ids.tolist() == other.test_ids.tolist()
    assert one.aligned_ids.tolist() == other.aligned_ids.tolist()


PATIENTS = np.arange(100) % 15  # of six or seven rows each, far apart


def test_a_fraction_for_testing_is_drawn_of_whole_groups() -> None:
    split = split_rows(hundred(test=TestRows(0.2, groups=PATIENTS)))
    rows = split.parties["host"]
    tested = set(PATIENTS[rows.test])
    assert not tested & set(PATIENTS[rows.training])
    assert len(tested) > 1
    assert 20 <= len(rows.test) <= 26  # whole groups that come to a fifth, or just above
    others = split_rows(hundred(test=TestRows(0.2, groups=PATIENTS, seed=1))).parties["host"]
    assert set(PATIENTS[others.test]) != tested


def test_groups_are_of_the_hosts_rows_in_its_own_order() -> None:
    forward, backward = numbered(0, 100), numbered(0, 100)[::-1]
    shared = federation(table(backward), table(forward), test=TestRows(0.2, groups=PATIENTS))
    rows = split_rows(shared).parties["host"]
    assert not set(PATIENTS[rows.test]) & set(PATIENTS[rows.training])


def test_a_number_of_groups_that_is_not_that_of_the_rows_is_refused() -> None:
    with pytest.raises(InputError, match="'host' has 100 rows and 99 groups to test by: give one for each row"):
        hundred(test=TestRows(groups=PATIENTS[1:]))


def test_no_test_row_left_is_refused() -> None:
    with pytest.raises(InputError, match="no test row is left of 100 common labelled rows"):
        split_rows(hundred(test=TestRows(0.001)))


# Aligned and labelled rows.


def test_without_keep_every_common_row_that_is_no_test_row_is_aligned() -> None:
    split = split_rows(hundred())
    assert sorted([*split.aligned_ids, *split.test_ids]) == numbered(0, 100)


def test_keep_takes_so_many_of_the_rows_that_are_no_test_rows() -> None:
    split = split_rows(hundred(overlap=Overlap(30)))
    assert len(split.aligned_ids) == 30
    assert not set(split.aligned_ids) & set(split.test_ids)


def test_more_overlap_than_there_is_is_refused() -> None:
    with pytest.raises(InputError, match=r"\[overlap\] keep is 81 and there are only 80"):
        split_rows(hundred(overlap=Overlap(81)))


def test_an_empty_label_means_an_unlabelled_aligned_row() -> None:
    split = split_rows(hundred(label=some_labels(list(range(0, 100, 2)))))
    assert len(split.aligned_ids) == 90  # ten of the fifty labelled rows are for testing
    assert [int(id[1:]) % 2 for id in split.aligned_ids[split.labelled]] == [0] * 40


@pytest.mark.parametrize("empty", ["", "  ", None])
def test_an_empty_text_is_no_class(empty: str | None) -> None:
    split = split_rows(hundred(label=Text.of(["yes", "no", empty, "yes", "no"] * 20)))
    assert split.classes == ("no", "yes")
    assert {int(id[1:]) % 5 for id in split.aligned_ids[split.labelled]} == {0, 1, 3, 4}


def test_labelled_keep_restricts_the_labels_and_not_the_rows() -> None:
    split = split_rows(hundred(labelled=25, overlap=Overlap(60)))
    assert (len(split.aligned_ids), len(split.labelled), len(split.known)) == (60, 25, 25)


@pytest.mark.parametrize("keep", [60, None])
def test_fewer_labels_are_some_of_more(keep: int | None) -> None:
    ids = [labelled_ids(labelled=count, keep=keep) for count in (20, 40, 55)]
    assert [len(some) for some in ids] == [20, 40, 55]
    assert ids[0] < ids[1] < ids[2]


def labelled_ids(*, labelled: int, keep: int | None, seed: int = 0) -> set[str]:
    split = split_rows(hundred(labelled=labelled, overlap=Overlap(keep, seed=seed)))
    return set(split.aligned_ids[split.labelled])


def test_the_same_rows_are_labelled_and_validate_whether_fewer_or_more_are_aligned() -> None:
    splits = [split_rows(hundred(labelled=20, overlap=Overlap(keep, seed=3))) for keep in (30, 60, None)]
    assert len({tuple(split.aligned_ids[split.labelled]) for split in splits}) == 1
    assert len({tuple(split.aligned_ids[split.validation]) for split in splits}) == 1
    assert set(splits[0].aligned_ids) < set(splits[1].aligned_ids)
    assert labelled_ids(labelled=20, keep=30, seed=3) != labelled_ids(labelled=20, keep=30, seed=4)


def test_only_rows_with_a_label_are_drawn_where_some_have_none() -> None:
    label = some_labels(list(range(0, 100, 2)))
    few, more = (split_rows(hundred(label=label, labelled=10, overlap=Overlap(keep))) for keep in (40, 80))
    assert all(int(id[1:]) % 2 == 0 for id in few.aligned_ids[few.labelled])
    assert few.aligned_ids[few.labelled].tolist() == more.aligned_ids[more.labelled].tolist()


def test_how_many_rows_are_labelled_does_not_change_who_has_which_unaligned_rows() -> None:
    drawn = [split_rows(hundred(labelled=count, overlap=Overlap(40))).parties for count in (10, 30)]
    for party in drawn[0]:
        assert drawn[0][party].unaligned.tolist() == drawn[1][party].unaligned.tolist()


def test_where_no_number_of_labels_is_given_all_draws_come_from_one_generator_as_ever() -> None:
    split = split_rows(hundred(overlap=Overlap(40, seed=3)))
    random = np.random.default_rng([3, 1])
    rest = np.array([row for row, id in enumerate(numbered(0, 100)) if id not in set(split.test_ids)])
    aligned = np.sort(random.permutation(rest)[:40])
    order = random.permutation(40)
    rank = np.empty(40)
    for number in (0, 1):
        members = order[aligned[order] % 2 == number]
        rank[members] = (np.arange(len(members)) + 0.5) / len(members)
    others = random.permutation(np.setdiff1d(rest, aligned))
    assert split.parties["host"].aligned.tolist() == aligned.tolist()
    assert split.validation.tolist() == sorted(np.argsort(rank, kind="stable")[:4])
    assert split.parties["host"].unaligned.tolist() == np.array_split(others, 3)[0].tolist()


def test_more_labels_than_there_are_is_refused() -> None:
    with pytest.raises(InputError, match=r"\[labelled\] keep is 61 and there are only 60"):
        split_rows(hundred(labelled=61, overlap=Overlap(60)))


def test_the_split_is_the_same_every_time_and_another_with_another_seed() -> None:
    def drawn(seed: int) -> list[list[int]]:
        split = split_rows(hundred(overlap=Overlap(40, seed=seed), labelled=20))
        rows = [rows for party in split.parties.values() for rows in (party.aligned, party.unaligned, party.test)]
        return [part.tolist() for part in (*rows, split.labelled, split.validation, split.known)]

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)


# Validation rows.


def test_validation_is_a_tenth_of_the_labelled_rows_with_a_fair_share_of_each_class() -> None:
    classes = [0] * 60 + [1] * 30 + [2] * 10
    label = np.array(classes * 11)
    test = TestRows(ids=np.array(numbered(0, 1100)[:100]))
    rows = table(numbered(0, 1100))
    split = split_rows(federation(rows, rows, label=label, test=test))
    of_validation = label[split.parties["host"].aligned[split.validation]]
    assert np.bincount(of_validation).tolist() == [60, 30, 10]


def test_validation_of_a_regression_is_a_tenth_too() -> None:
    split = split_rows(hundred(label=np.arange(100.0), task="regression", metric="rmse"))
    assert len(split.validation) == 8


def test_the_fewest_labelled_rows_still_give_one_to_validate_and_one_to_train() -> None:
    split = split_rows(hundred(labelled=2))
    assert (len(split.labelled), len(split.validation)) == (2, 1)


def test_a_secret_changes_which_rows_validate_and_nothing_else() -> None:
    one, other, same = (split_rows(hundred(labelled=60), secret=secret) for secret in (1, 2, 1))
    assert one.validation.tolist() == same.validation.tolist() != other.validation.tolist()
    assert one.validation.tolist() != split_rows(hundred(labelled=60)).validation.tolist()
    assert replace(one, validation=other.validation).fingerprint == other.fingerprint
    of_validation = one.label[one.parties["host"].aligned[one.validation]]
    assert np.bincount(of_validation.astype(int)).tolist() == [3, 3]


# Unaligned rows.


def test_disjoint_shares_each_row_out_to_one_party() -> None:
    shared = hundred(overlap=Overlap(20))
    split = split_rows(shared)
    unaligned = ids_of(shared, split, "unaligned")
    assert [len(ids) for ids in unaligned.values()] == [20, 20, 20]
    rest = set(numbered(0, 100)) - set(split.aligned_ids) - set(split.test_ids)
    assert sorted(id for ids in unaligned.values() for id in ids) == sorted(rest)


def test_everyone_gives_every_party_all_rows_in_an_order_of_its_own() -> None:
    shared = hundred(overlap=Overlap(20, "everyone"))
    unaligned = list(ids_of(shared, split_rows(shared), "unaligned").values())
    assert len(unaligned[0]) == 60
    assert sorted(unaligned[0]) == sorted(unaligned[1]) == sorted(unaligned[2])
    assert unaligned[0] != unaligned[1] != unaligned[2] != unaligned[0]


def test_draw_gives_every_party_so_many_rows_independently() -> None:
    shared = hundred(overlap=Overlap(20, "draw", 30))
    unaligned = [set(ids) for ids in ids_of(shared, split_rows(shared), "unaligned").values()]
    assert [len(ids) for ids in unaligned] == [30, 30, 30]
    assert 0 < len(unaligned[0] & unaligned[1]) < 30


def test_more_draws_than_rows_are_refused() -> None:
    with pytest.raises(InputError, match=r"\[overlap\] draw is 61 and only 60 common rows"):
        split_rows(hundred(overlap=Overlap(20, "draw", 61)))


@pytest.mark.parametrize(
    ("overlap", "counts"),
    [
        (Overlap(20), [0, 30, 30]),
        (Overlap(20, "everyone"), [0, 60, 60]),
        (Overlap(20, "draw", 10), [0, 10, 10]),
    ],
)
def test_a_host_with_labels_only_takes_no_unaligned_rows(overlap: Overlap, counts: list[int]) -> None:
    rows = numbered(0, 100)
    shared = federation(table(rows, features=False), table(rows), table(rows), overlap=overlap)
    assert [len(party.unaligned) for party in split_rows(shared).parties.values()] == counts


def test_rows_that_another_party_does_not_have_are_unaligned_where_they_are() -> None:
    shared = federation(table(numbered(0, 60)), table(numbered(20, 80)), table(numbered(10, 90)))
    unaligned = ids_of(shared, split_rows(shared), "unaligned")
    assert unaligned == {
        "host": numbered(0, 20),
        "guest-1": numbered(60, 80),
        "guest-2": [*numbered(10, 20), *numbered(60, 90)],
    }


# The host's labels.


def test_with_labels_aligned_the_host_trains_with_the_labelled_aligned_rows() -> None:
    split = split_rows(hundred(overlap=Overlap(40)))
    assert split.known.tolist() == split.parties["host"].aligned[split.labelled].tolist()


def test_with_labels_all_the_host_trains_with_its_unaligned_rows_too_but_never_with_test_rows() -> None:
    label = some_labels(list(range(0, 120, 3)), rows=120)
    shared = replace(
        federation(table(numbered(0, 120)), table(numbered(0, 100)), label=label, overlap=Overlap(40)), labels="all"
    )
    split = split_rows(shared)
    host = split.parties["host"]
    everything = np.concatenate([host.aligned, host.unaligned])
    assert sorted(split.known) == sorted(row for row in everything if row % 3 == 0)
    assert not set(split.known) & set(host.test)
    assert 117 in split.known


# Ids.


def test_ids_of_different_types_match_across_parties() -> None:
    rows = range(50)
    host = {"id": [str(i) for i in rows], "y": [i % 2 for i in rows], "x": [float(i) for i in rows]}
    shared = Federation.from_tables(
        pd.DataFrame(host),
        {
            "whole": {"id": np.arange(50), "x": np.arange(50.0)},
            "fractional": {"id": np.arange(50.0), "x": np.arange(50.0)},
            "bytes": {"id": np.array([str(i).encode() for i in rows]), "x": np.arange(50.0)},
        },
        id="id",
        label="y",
    )
    split = split_rows(shared)
    assert len(split.aligned_ids) + len(split.test_ids) == 50
    aligned = ids_of(shared, split, "aligned")
    assert aligned["host"] == aligned["whole"] == aligned["fractional"] == aligned["bytes"]


def test_no_common_id_is_refused_with_counts_examples_and_the_usual_causes() -> None:
    host, guest = table(["007", "008", "009"]), table(["7", "8"])
    with pytest.raises(InputError) as refusal:
        split_rows(federation(host, guest))
    message = str(refusal.value)
    assert "'host' has 3 ids such as '007', '008'" in message
    assert "'guest-1' has 2 ids such as '7', '8'" in message
    assert all(cause in message for cause in ("padding", "case", "type"))


# Labels that cannot be learned.


@pytest.mark.parametrize(
    ("task", "label", "telling"),
    [
        ("classification", np.full(100, np.nan), "is empty in all 100 rows"),
        ("classification", np.ones(100), "is '1' in every row"),
        ("regression", np.ones(100), "is 1.0 in every row"),
        ("regression", Text.of(["a", "b"] * 50), "is no number"),
        ("regression", np.array(["2020-01-01", "2020-01-02"] * 50, dtype="datetime64[us]"), "is no number"),
        ("regression", np.array([0.0, np.inf] * 50), "50 infinite values"),
        ("classification", np.array([0.0, 1.0, np.inf, np.nan] * 25), "25 infinite values"),
        ("classification", np.linspace(0, 1, 100), "80 overlapping rows with a label outside the test rows and 100"),
        ("classification", None, "has no label column"),
    ],
)
def test_a_label_that_cannot_be_learned_is_refused(task: str, label: Column | None, telling: str) -> None:
    metric = "rmse" if task == "regression" else "auc"
    with pytest.raises(InputError, match=telling):
        split_rows(hundred(task=task, metric=metric, label=label))


def test_a_label_of_nothing_but_distinct_values_is_refused_as_no_classes() -> None:
    rows = table(numbered(0, 300))
    with pytest.raises(InputError, match="has 300 distinct values in 300 rows"):
        split_rows(federation(rows, rows, label=np.linspace(0, 1, 300)))


def test_labels_on_rows_of_the_host_alone_are_refused() -> None:
    shared = federation(table(numbered(0, 100)), table(numbered(50, 100)), label=some_labels(list(range(50))))
    with pytest.raises(InputError, match="none of the 50 common rows has a label at 'host'"):
        split_rows(shared)


def test_fewer_overlapping_rows_than_classes_are_refused() -> None:
    with pytest.raises(InputError, match=r"there are 4 overlapping rows with a label .* and 5 classes"):
        split_rows(hundred(label=np.arange(100) % 5, overlap=Overlap(4)))


@pytest.mark.parametrize(
    ("label", "classes"),
    [
        (np.array([10.0, 9.0] * 50), ("9", "10")),
        (np.array([True, False] * 50), ("False", "True")),
        (Text.of(["b", "a"] * 50), ("a", "b")),
        (np.array([2.0, 0.5] * 50), ("0.5", "2")),
    ],
)
def test_classes_are_named_in_order_and_numbered_alike(label: Column, classes: tuple[str, str]) -> None:
    split = split_rows(hundred(label=label))
    assert split.classes == classes
    assert split.label.tolist() == [1, 0] * 50


# Properties.


@st.composite
def federations(draw: st.DrawFn) -> Federation:
    """Tables of 60 to 90 people of a hundred, each in its own order, some labels missing."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    people = np.array(numbered(0, 100))
    common = random.permutation(people)[:60]
    others = np.setdiff1d(people, common)

    def some() -> Table:
        mine = np.concatenate([common, random.permutation(others)[: draw(st.integers(0, 30))]])
        return table(random.permutation(mine).tolist())

    tables = [some() for _ in range(draw(st.integers(2, 4)))]
    if draw(st.booleans()):
        tables[0] = Table(tables[0].ids)
    label = random.integers(0, 3, len(tables[0])).astype(float)
    label[random.random(len(label)) < draw(st.sampled_from([0.0, 0.2]))] = np.nan
    share = draw(st.sampled_from(["disjoint", "everyone", "draw"]))
    keep = draw(st.integers(30, 40))
    chosen = Overlap(keep, share, 5 if share == "draw" else None, draw(st.integers(0, 100)))
    made = federation(*tables, label=label, test=TestRows(draw(st.sampled_from([0.1, 0.2]))), overlap=chosen)
    labelled = draw(st.sampled_from([None, 12]))
    return replace(made, labelled=labelled, labels=draw(st.sampled_from(["aligned", "all"])))


@settings(max_examples=30, deadline=None)
@given(federations())
def test_aligned_and_test_rows_are_the_same_people_in_the_same_order_everywhere(shared: Federation) -> None:
    split = split_rows(shared)
    assert set(map(tuple, ids_of(shared, split, "aligned").values())) == {tuple(split.aligned_ids)}
    assert set(map(tuple, ids_of(shared, split, "test").values())) == {tuple(split.test_ids)}
    assert list(split.aligned_ids) == sorted(split.aligned_ids)  # an order that any party can make for itself
    assert list(split.test_ids) == sorted(split.test_ids)


@settings(max_examples=30, deadline=None)
@given(federations())
def test_no_row_has_two_uses_and_no_test_row_is_ever_trained_on(shared: Federation) -> None:
    split = split_rows(shared)
    for rows in split.parties.values():
        everything = np.concatenate([rows.aligned, rows.unaligned, rows.test])
        assert len(np.unique(everything)) == len(everything)
    assert not set(split.known) & set(split.parties["host"].test)
    assert len(np.unique(split.known)) == len(split.known)


@settings(max_examples=30, deadline=None)
@given(federations())
def test_every_row_of_a_party_with_features_has_its_use(shared: Federation) -> None:
    split = split_rows(shared)
    tables = {party.name: set(party.table.ids) for party in shared.parties}
    common = set.intersection(*tables.values())
    rest = common - set(split.aligned_ids) - set(split.test_ids)
    shares: dict[str, set[str]] = {}
    for party in shared.parties:
        unaligned = set(ids_of(shared, split, "unaligned")[party.name])
        if party.has_features:
            assert tables[party.name] - common <= unaligned
            shares[party.name] = unaligned & common
        else:
            assert not unaligned
    takers = list(shares.values())
    match shared.overlap.share:
        case "disjoint":
            assert set.union(*takers) == rest
            assert sum(map(len, takers)) == len(rest)
        case "everyone":
            assert all(taken == rest for taken in takers)
        case "draw":
            assert all(len(taken) == 5 and taken <= rest for taken in takers)


@settings(max_examples=30, deadline=None)
@given(federations())
def test_labelled_rows_have_labels_and_validation_is_a_tenth_of_them(shared: Federation) -> None:
    split = split_rows(shared)
    host = split.parties["host"]
    assert (split.label[host.aligned[split.labelled]] >= 0).all()
    assert (split.label[host.test] >= 0).all()
    assert (split.label[split.known] >= 0).all()
    assert set(split.validation) <= set(split.labelled)
    assert len(split.validation) == max(1, len(split.labelled) // 10)
    assert set(host.aligned[split.labelled]) <= set(split.known)


CHOSEN = TestRows(ids=np.array(numbered(40, 60)))


def uneven(*, features: bool, test: TestRows) -> Federation:
    """Every party has rows that the others have not, in an order of its own."""
    host = table(numbered(0, 110)[::-1], features=features)
    return federation(host, table(numbered(5, 120)), table(numbered(3, 115)), test=test, overlap=Overlap(30))


@pytest.mark.parametrize("test", [A_FIFTH, CHOSEN], ids=["fraction", "ids"])
@pytest.mark.parametrize("features", [False, True], ids=["labels only", "features"])
def test_no_test_row_is_left_in_a_federation_to_choose_settings_on(features: bool, test: TestRows) -> None:
    whole = uneven(features=features, test=test)
    hidden = set(split_rows(whole).test_ids)
    held = hold_out(whole)
    split = split_rows(held)
    assert len(hidden) >= 20
    assert not hidden & set(split.test_ids)
    assert len(split.test_ids) == round((105 - len(hidden)) / 5)
    for before, after in zip(whole.parties, held.parties, strict=True):
        assert set(after.table.ids) == set(before.table.ids) - hidden
        for part in ("aligned", "unaligned", "test"):
            assert not hidden & set(after.table.ids[getattr(split.parties[after.name], part)])


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_rows_keep_their_label_and_values_when_others_are_held_out(text: bool) -> None:
    numbers = np.arange(100) % 2
    whole = hundred(label=Text.of([f"class {n}" for n in numbers]) if text else numbers)
    held = hold_out(whole)
    split = split_rows(held)
    assert held.host.table.columns["x"].tolist() == [float(id[1:]) for id in held.host.table.ids]
    assert split.label.tolist() == [int(id[1:]) % 2 for id in held.host.table.ids]


def test_what_is_held_out_changes_with_the_seed_and_the_fraction_and_nothing_else_does() -> None:
    whole = hundred(overlap=Overlap(30, "everyone", seed=4), labelled=20, labels="all")
    drawn = [hold_out(whole), hold_out(whole, seed=1), hold_out(whole, fraction=0.5)]
    tests = [split_rows(one).test_ids.tolist() for one in drawn]
    assert [len(test) for test in tests] == [16, 16, 40]
    assert tests[0] != tests[1]
    assert tests[0] == split_rows(hold_out(whole)).test_ids.tolist()
    for one in drawn:
        assert (one.overlap, one.labelled, one.labels) == (whole.overlap, 20, "all")


@pytest.mark.parametrize("given", [False, True], ids=["drawn", "ids"])
def test_what_is_held_out_are_whole_groups_where_there_are_groups(given: bool) -> None:
    ids = np.array(numbered(0, 100))[PATIENTS < 3] if given else None
    whole = hundred(test=TestRows(ids=ids, groups=PATIENTS), overlap=Overlap(30))
    held = hold_out(whole)
    rows = split_rows(held).parties["host"]
    patients = np.array([int(id[1:]) % 15 for id in held.host.table.ids])
    tested = set(patients[rows.test])
    assert not tested & set(patients[rows.training])
    assert len(tested) > 1
    hidden = split_rows(whole).parties["host"].test
    assert not tested & set(PATIENTS[hidden])


def test_a_federation_to_choose_settings_on_has_a_name_of_its_own() -> None:
    whole = replace(hundred(), name="credit")
    assert (hold_out(whole).name, whole.name) == ("credit (hold-out)", "credit")
