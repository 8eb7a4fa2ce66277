"""Before round 1 all parties must mean the same run."""

from dataclasses import replace

import pytest
import torch

from conversations import Talk
from vesica.errors import AgreementError
from vesica.metrics import Task
from vesica.protocol.agreement import Agreement, Terms, digest_of

TERMS = Terms(
    method="split-nn",
    config={"epochs": 3, "hidden": (4, 2)},
    parties=("bank", "shop"),
    task="classification",
    metric="auc",
    wire="float32",
    aligned=digest_of(["a", "b", "c"]),
    test=digest_of(["d"]),
    version="1",
)
TASK = Task("classification", "auc", ("no", "yes"))


def proposal(terms: Terms = TERMS, labelled=(0, 1, 2), validation=(1,)) -> Agreement:
    return Agreement(terms, "run", TASK, torch.as_tensor(labelled), torch.as_tensor(validation))


def agree(host: Agreement, guest: Terms, label_counts=()):
    talk = Talk(["bank", "shop"])
    results = talk.run(
        {
            "bank": host.propose,
            "shop": lambda links: Agreement.accept(guest, links["bank"], rows=3, dim=16, label_counts=label_counts),
        }
    )
    return results, talk


def test_parties_that_mean_the_same_agree_and_draw_the_same_public_numbers() -> None:
    results, talk = agree(proposal(), TERMS)
    accepted = results["shop"]
    assert accepted.digest == proposal().digest
    assert accepted.task.classes == ("no", "yes")
    assert accepted.labelled.tolist() == [0, 1, 2]
    assert accepted.validation.tolist() == [1]
    assert results["bank"] == {"shop": 16}
    assert talk.ledger("bank").rounds == 0
    assert len(talk.ledger("bank").entries) == 2


FEWER = ((torch.tensor([0, 2]), torch.tensor([2])), (torch.tensor([0]), torch.tensor([0])))


def test_a_guest_is_told_which_rows_are_meant_where_fewer_labels_are_learned_from_as_well() -> None:
    proposed = replace(proposal(), fewer=FEWER)
    accepted = agree(proposed, TERMS, label_counts=(2, 1))[0]["shop"]
    assert [[part.tolist() for part in pair] for pair in accepted.fewer] == [[[0, 2], [2]], [[0], [0]]]
    assert accepted.digest == proposed.digest
    assert len({proposed.digest, proposal().digest, replace(proposal(), fewer=FEWER[:1]).digest}) == 3


def test_rows_beyond_the_aligned_ones_are_refused_among_fewer_labels_too() -> None:
    with pytest.raises(AgreementError, match="speaks of rows beyond the 3 aligned ones"):
        agree(replace(proposal(), fewer=((torch.tensor([3]), torch.tensor([3])),)), TERMS, label_counts=(1,))


@pytest.mark.parametrize(
    ("labelled", "validation", "sentence"),
    [
        ((0, 1, 1), (1,), "names labelled rows twice or out of order"),
        ((1, 0), (1,), "names labelled rows twice or out of order"),
        ((0, 1, 2), (1, 1), "names validation rows twice or out of order"),
        ((0, 1), (2,), "validation rows that are not among the labelled ones"),
        ((), (), "does not say which rows are labelled"),
    ],
)
@pytest.mark.parametrize("fewer", [False, True])
def test_a_host_can_name_a_row_only_once(labelled, validation, sentence: str, fewer: bool) -> None:
    """A guest releases the rows that it is told of: a row named twice would be released twice."""
    pair = (torch.tensor(labelled, dtype=torch.int64), torch.tensor(validation, dtype=torch.int64))
    proposed = replace(proposal(), fewer=(pair,)) if fewer else proposal(labelled=pair[0], validation=pair[1])
    with pytest.raises(AgreementError, match=sentence):
        agree(proposed, TERMS, label_counts=(len(labelled),) if fewer else ())


@pytest.mark.parametrize(
    ("label_counts", "sentence"),
    [
        ((), "does not say which rows each of label_counts"),
        ((2,), "does not say which rows each of label_counts"),
        ((2, 1, 1), "does not say which rows each of label_counts"),
        ((2, 2), "does not name 2 of the labelled rows for label_counts"),
    ],
)
def test_a_host_cannot_name_more_subsets_of_the_rows_than_all_agreed_on(label_counts, sentence: str) -> None:
    with pytest.raises(AgreementError, match=sentence):
        agree(replace(proposal(), fewer=FEWER), TERMS, label_counts=label_counts)


def test_a_subset_has_labelled_rows_only() -> None:
    fewer = ((torch.tensor([2]), torch.tensor([2])),)
    with pytest.raises(AgreementError, match="does not name 1 of the labelled rows for label_counts"):
        agree(replace(proposal(labelled=(0, 1)), fewer=fewer), TERMS, label_counts=(1,))


@pytest.mark.parametrize("change", [{"run": "r" * 65}, {"task": Task("classification", "auc", ("yes", "yes"))}])
def test_names_in_an_agreement_are_short_and_classes_distinct(change) -> None:
    with pytest.raises(AgreementError, match="no proper name of the run, or classes that are not distinct"):
        agree(replace(proposal(), **change), TERMS)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("method", "one-shot"),
        ("config", {"epochs": 4, "hidden": (4, 2)}),
        ("parties", ("bank", "clinic")),
        ("task", "regression"),
        ("wire", "int8"),
        ("aligned", digest_of(["a", "c", "b"])),
        ("test", digest_of([])),
        ("version", "2"),
    ],
)
def test_a_guest_that_means_something_else_refuses_and_names_it(field: str, value: object) -> None:
    with pytest.raises(AgreementError, match=f"shop: 'bank' means another run: its {field} is"):
        agree(proposal(), replace(TERMS, **{field: value}))


@pytest.mark.parametrize(
    ("field", "value"),
    [("method", "x" * 200_000), ("config", {"epochs": "x" * 200_000}), ("parties", ("x",) * 10_000)],
)
def test_what_a_host_means_is_shortened_in_the_refusal(field: str, value: object) -> None:
    with pytest.raises(AgreementError, match=f"'bank' means another run: its {field} is") as refusal:
        agree(proposal(replace(TERMS, **{field: value})), TERMS)
    assert len(str(refusal.value)) < 500


def test_of_many_settings_those_that_differ_are_named() -> None:
    many = {f"setting-{number}": number for number in range(100)}
    theirs, ours = (replace(TERMS, config={**many, **more}) for more in ({"setting-57": 0}, {"patience": 3}))
    with pytest.raises(
        AgreementError, match=r"its config is \{'setting-57': 0\}, here it is \{.*'patience': 3"
    ) as refusal:
        agree(proposal(theirs), ours)
    assert "setting-56" not in str(refusal.value)


@pytest.mark.parametrize(
    ("task", "names", "expected"),
    [
        ("classification", (), "has 0 classes for classification with 3 labelled rows, expected 2 to 3"),
        ("classification", ("yes",), "has 1 classes"),
        ("classification", tuple("abcd"), "has 4 classes for classification with 3 labelled rows"),
        ("regression", ("no", "yes"), "has 2 classes for regression with 3 labelled rows, expected 0 to 0"),
    ],
)
def test_a_guest_refuses_a_number_of_classes_that_no_host_can_have(task: str, names, expected: str) -> None:
    terms = replace(TERMS, task=task)
    with pytest.raises(AgreementError, match=f"shop: the host's agreement {expected}"):
        agree(replace(proposal(terms), task=Task(task, "auc", names)), terms)


@pytest.mark.parametrize(("task", "names"), [("classification", tuple("abc")), ("regression", ())])
def test_a_guest_takes_as_many_classes_as_there_are_labelled_rows(task: str, names) -> None:
    terms = replace(TERMS, task=task)
    results, _ = agree(replace(proposal(terms), task=Task(task, "auc", names)), terms)
    assert results["shop"].task.classes == names


@pytest.mark.parametrize("rows", [(0, 3), (-1, 0)])
def test_rows_beyond_the_aligned_ones_are_refused(rows: tuple[int, ...]) -> None:
    with pytest.raises(AgreementError, match="rows beyond the 3 aligned ones"):
        agree(proposal(labelled=rows), TERMS)


def test_no_seed_is_in_the_agreement() -> None:
    assert "seed" not in TERMS.to_json()


def test_ids_cannot_be_shifted_between_neighbours() -> None:
    assert digest_of(["ab", "c"]) != digest_of(["a", "bc"])
    assert digest_of(["a", "b"]) != digest_of(["b", "a"])


@pytest.mark.parametrize("dim", [0, -1, 10**11, True])
def test_a_guest_cannot_make_the_host_allocate_what_it_likes(dim: int) -> None:
    talk = Talk(["bank", "shop"])
    with pytest.raises(AgreementError, match="expected 1 to 65536"):
        talk.run(
            {
                "bank": proposal().propose,
                "shop": lambda links: Agreement.accept(TERMS, links["bank"], rows=3, dim=dim),
            }
        )


def test_public_numbers_do_not_follow_from_where_a_run_stops() -> None:
    limited, free = (proposal(replace(TERMS, config={**TERMS.config, **more})) for more in ({"stop_at_bytes": 9}, {}))
    assert limited.digest != free.digest
    assert limited.draws == free.draws == free.digest
    assert proposal(replace(TERMS, config={"epochs": 4})).draws != free.draws


def test_which_rows_are_labelled_is_part_of_what_is_agreed() -> None:
    assert proposal(labelled=(0, 1)).digest != proposal(labelled=(0, 2)).digest
    assert proposal(validation=(0,)).digest != proposal(validation=(1,)).digest
