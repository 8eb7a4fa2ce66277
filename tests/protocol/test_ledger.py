"""Rounds and bytes mean what ARCHITECTURE says."""

import pytest

from vesica.errors import BudgetError
from vesica.protocol import Budget, Ledger
from vesica.protocol.budget import Meter


def talk(*directions: str) -> Ledger:
    ledger = Ledger("bank", host="bank")
    for i, (way, guest) in enumerate(direction.split() for direction in directions):
        sender, receiver = (guest, "bank") if way == "up" else ("bank", guest)
        ledger.record(sender, receiver, "values", payload=10 + i, wire=100 + i)
    return ledger


def test_a_round_is_a_change_of_direction_not_a_message() -> None:
    ledger = talk("up shop", "up clinic", "down shop", "down clinic", "up shop", "up clinic")
    assert ledger.rounds == 3
    assert [entry.round for entry in ledger.messages] == [1, 1, 2, 2, 3, 3]


def test_the_agreement_is_listed_apart_and_not_counted() -> None:
    ledger = Ledger("bank", host="bank")
    ledger.record("bank", "shop", "agreement", payload=1, wire=50)
    ledger.record("shop", "bank", "agreement", payload=1, wire=50)
    ledger.record("shop", "bank", "representations", payload=8, wire=70)
    assert (ledger.rounds, len(ledger.messages), ledger.wire, ledger.sent_bytes) == (1, 1, 70, 0)
    assert [row["phase"] for row in ledger.to_json()] == ["agreement", "agreement", "training"]


def test_a_budget_of_nothing_still_allows_the_agreement() -> None:
    meter, ledger = Meter(Budget(rounds=0, bytes=0)), Ledger("bank", host="bank")
    meter.allow(ledger, "shop", "agreement", wire=1000)
    with pytest.raises(BudgetError, match="would be round 1"):
        meter.allow(ledger, "shop", "gradients", wire=1000)


def test_up_is_to_the_host_and_down_from_it() -> None:
    ledger = talk("up shop", "down shop", "up shop")
    assert (ledger.up, ledger.down) == (100 + 102, 101)
    assert ledger.payload == 10 + 11 + 12
    assert ledger.sent_bytes == 101


def test_entries_of_an_earlier_life_count_like_those_of_now() -> None:
    ledger = talk("up shop", "down clinic", "up shop")
    again = Ledger("bank", host="bank")
    again.extend(ledger.entries[:2])
    again.record("shop", "bank", "values", payload=12, wire=102)
    assert again.entries == ledger.entries
    assert (again.rounds, again.sent_bytes) == (ledger.rounds, ledger.sent_bytes)
    assert again.round_of("shop") == ledger.round_of("shop") == 4
