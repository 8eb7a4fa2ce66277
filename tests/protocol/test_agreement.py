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
    return Agreement(terms, "run", TASK, torch.tensor(labelled), torch.tensor(validation))


def agree(host: Agreement, guest: Terms):
    talk = Talk(["bank", "shop"])
    results = talk.run(
        {
            "bank": host.propose,
            "shop": lambda links: Agreement.accept(guest, links["bank"], rows=3, dim=16),
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
    accepted = agree(proposed, TERMS)[0]["shop"]
    assert [[part.tolist() for part in pair] for pair in accepted.fewer] == [[[0, 2], [2]], [[0], [0]]]
    assert accepted.digest == proposed.digest
    assert len({proposed.digest, proposal().digest, replace(proposal(), fewer=FEWER[:1]).digest}) == 3


def test_rows_beyond_the_aligned_ones_are_refused_among_fewer_labels_too() -> None:
    with pytest.raises(AgreementError, match="speaks of rows beyond the 3 aligned ones"):
        agree(replace(proposal(), fewer=((torch.tensor([3]), torch.tensor([3])),)), TERMS)


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
