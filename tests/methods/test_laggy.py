"""Guests that are late or absent: left out, said, decided once; and predictions without a guest."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

import pytest
import torch
from sklearn.metrics import roc_auc_score

from conversations import HandClock
from federations import small_federation
from vesica.data import Federation, Table, split_rows
from vesica.engines import InProcess
from vesica.errors import InputError, PartyError
from vesica.experiment import Result, fit, predict_from
from vesica.methods import FedOnce, LocalOnly, Method, SplitNN, fedonce
from vesica.nn.models import Head
from vesica.protocol import Host

TINY = {"guest_epochs": 3, "host_epochs": 2, "batch_size": 16}
ROBUST = FedOnce(**TINY, party_dropout=0.3)
FIT = import_module("vesica.experiment.fit")  # not the function

Slow = Callable[..., None]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Have guests take so many seconds, by a clock that nobody else moves."""
    clock, learn = HandClock(), FedOnce.learn
    takes: dict[str, float] = {}

    class Simulated(InProcess):
        def __init__(self, parties: list[str]) -> None:
            super().__init__(parties, clock=clock)

    def learn_slowly(self: FedOnce, me) -> None:
        learn(self, me)
        clock.work(takes.get(me.name, 0.0))

    monkeypatch.setattr(FIT, "InProcess", Simulated)
    monkeypatch.setattr(FedOnce, "learn", learn_slowly)
    return lambda **seconds: (takes.clear(), takes.update(seconds))


def head_of(result: Result) -> Head:
    head = result.models["bank"].head
    assert isinstance(head, Head)
    return head


def same_host(one: Result, two: Result) -> bool:
    ours, theirs = (head_of(result).state_dict() for result in (one, two))
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def tables(federation: Federation, *, but: tuple[str, ...] = ()) -> Mapping[str, Table]:
    return {party.name: party.table for party in federation.parties if party.name not in but}


def senders(result: Result) -> set[str]:
    return {entry.sender for entry in (*result.ledger.messages, *result.scoring.messages)}


def test_a_guest_that_is_late_is_left_out_and_the_result_says_so(slow: Slow) -> None:
    slow(shop1=6.0, shop2=5.0, shop3=4.0)
    result = fit(FedOnce(**TINY), small_federation(guests=3), wait=5)
    assert result.missing == ("shop1",)
    assert result.to_json()["missing"] == ["shop1"]
    assert head_of(result).parties == ("bank", "shop2", "shop3")
    assert result.title == "fedonce, without shop1"
    assert result.statements == (
        "'shop1' did not answer within 5 s and was left out: "
        "nothing was learned from its columns, and no prediction reads them.",
    )
    assert senders(result) == {"bank", "shop2", "shop3"}


def test_all_guests_have_the_same_deadline(slow: Slow) -> None:
    """The host's wait for the second begins when it began for the first."""
    slow(shop1=4.0, shop2=6.0)
    assert fit(FedOnce(**TINY), small_federation(guests=2), wait=5).missing == ("shop2",)


def test_who_comes_in_time_makes_the_run_what_it_is_without_a_deadline(slow: Slow) -> None:
    slow(shop1=4.0, shop2=5.0)
    federation = small_federation(guests=2)
    waited, patient = fit(FedOnce(**TINY), federation, wait=5), fit(FedOnce(**TINY), federation)
    assert waited.missing == patient.missing == ()
    assert same_host(waited, patient)
    assert waited.metrics == patient.metrics
    assert waited.statements == patient.statements == ()


def test_an_absent_guest_is_as_one_that_is_late(slow: Slow) -> None:
    slow(shop2=6.0)
    federation = small_federation(guests=2)
    late = fit(FedOnce(**TINY), federation, wait=5)
    absent = fit(FedOnce(**TINY), federation, wait=5, absent=["shop2"])
    assert late.missing == absent.missing == ("shop2",)
    assert same_host(late, absent)
    assert late.metrics == absent.metrics
    assert late.config_hash != absent.config_hash


def test_with_no_guest_in_time_a_host_with_features_goes_on_alone() -> None:
    result = fit(FedOnce(**TINY), small_federation(guests=2), wait=5, absent=["shop1", "shop2"])
    assert result.missing == ("shop1", "shop2")
    assert result.ledger.rounds == 0
    assert head_of(result).parties == ("bank",)


def test_with_no_guest_in_time_a_host_without_features_says_so() -> None:
    federation = small_federation(guests=2, host_features=False)
    with pytest.raises(InputError, match="shop1, shop2 did not answer within 5 s and the host has no features"):
        fit(FedOnce(**TINY), federation, wait=5, absent=["shop1", "shop2"])


@pytest.mark.parametrize("late", ["slow", "absent"])
def test_a_killed_run_does_not_decide_again_who_was_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: Slow, late: str
) -> None:
    absent = ["shop1"] if late == "absent" else []
    slow(shop1=6.0)
    federation = small_federation(guests=2)
    whole = fit(ROBUST, federation, wait=5, absent=absent)

    def killed(*arguments: object, **named: object) -> None:
        raise MemoryError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(fedonce, "train", killed)
        with pytest.raises(PartyError, match="killed"):
            fit(ROBUST, federation, wait=5, absent=absent, out=tmp_path / "run")
    slow()  # this time it would come in time
    hosts, gather = [], Host.gather_in_time
    monkeypatch.setattr(Host, "gather_in_time", lambda me, rows: (hosts.append(me), gather(me, rows))[1])
    resumed = fit(ROBUST, federation, wait=5, absent=absent, out=tmp_path / "run")
    assert resumed.missing == ("shop1",)
    assert [hosts[0].guests[guest].given_up for guest in ("shop1", "shop2")] == [True, False]
    assert resumed.statements == whole.statements
    assert resumed.ledger.entries == whole.ledger.entries
    assert same_host(resumed, whole)


def test_a_deadline_makes_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method, federation = FedOnce(**TINY), small_federation()
    monkeypatch.setattr(fedonce, "train", lambda *arguments, **named: 1 / 0)
    with pytest.raises(PartyError):
        fit(method, federation, out=tmp_path / "run")
    with pytest.raises(InputError, match="holds another run"):
        fit(method, federation, wait=5, out=tmp_path / "run")


@pytest.mark.parametrize(
    ("method", "wait", "absent", "sentence"),
    [
        (SplitNN(), 5.0, [], "split-nn with these settings leaves no guest out and takes no --wait"),
        (LocalOnly(), None, ["shop1"], "local-only with these settings leaves no guest out"),
        (FedOnce(more_epochs=1), 5.0, [], "fedonce with these settings leaves no guest out .* without more_epochs"),
        (FedOnce(), None, ["shop1"], "--absent without --wait would never end: give the seconds"),
        (FedOnce(), 0.0, [], "--wait is 0: give a number of seconds above 0"),
        (FedOnce(), float("inf"), [], "--wait is inf"),
        (FedOnce(), float("nan"), [], "--wait is nan"),
        (FedOnce(), 5.0, ["shop"], "--absent names 'shop', who is no guest here; did you mean 'shop1'"),
        (FedOnce(), 5.0, ["bank"], "--absent names 'bank', who is no guest here"),
    ],
)
def test_a_deadline_that_cannot_be_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, method: Method, wait: float | None, absent: list[str], sentence: str
) -> None:
    monkeypatch.setattr(FIT, "split_rows", lambda federation: pytest.fail("it ran"))
    with pytest.raises(InputError, match=sentence):
        fit(method, small_federation(), wait=wait, absent=absent)


@pytest.mark.parametrize("chance", [1.0, 1.5, float("nan")])
def test_a_party_dropout_that_leaves_nothing_is_refused(chance: float) -> None:
    with pytest.raises(InputError, match=r"party_dropout of fedonce is .*: give a probability below 1"):
        FedOnce(party_dropout=chance)


def test_party_dropout_and_more_rounds_exclude_each_other() -> None:
    with pytest.raises(InputError, match="more_epochs with every guest there"):
        FedOnce(party_dropout=0.3, more_epochs=2)


# Prediction without a guest.


def test_with_party_dropout_a_prediction_does_without_a_guest_who_is_not_asked(tmp_path: Path) -> None:
    federation = small_federation(guests=2)
    result = fit(ROBUST, federation, out=tmp_path / "run")
    present = tables(federation, but=("shop2",))
    predictions = result.predict(present, without=["shop2"])
    assert predictions.without == ("shop2",)
    assert {entry.sender for entry in predictions.ledger.messages} == {"bank", "shop1"}
    assert {entry.receiver for entry in predictions.ledger.messages} == {"bank", "shop1"}

    parts = {}
    for name, model in result.models.items():
        assert model.preparation is not None
        assert model.encoder is not None
        parts[name] = model.encoder.eval()(model.preparation.apply(tables(federation)[name]))
    by_hand = head_of(result).eval()([parts["bank"], parts["shop1"], None]).softmax(dim=1)
    assert torch.allclose(torch.from_numpy(predictions.probabilities), by_hand, atol=1e-6)

    later = predict_from(tmp_path / "run", present, without=["shop2"])
    assert (later.probabilities == predictions.probabilities).all()
    with_all = result.predict(tables(federation))
    assert with_all.without == ()
    assert not (with_all.probabilities == predictions.probabilities).all()


def test_the_table_of_a_guest_that_is_left_out_is_not_read() -> None:
    federation = small_federation(guests=2)
    result = fit(ROBUST, federation)
    few = {**tables(federation), "shop2": federation.guests[1].table.take(range(3))}
    assert len(result.predict(few, without=["shop2"]).ids) == 100


def test_without_party_dropout_no_guest_may_be_missing_and_the_refusal_says_what_to_do() -> None:
    federation = small_federation(guests=2)
    result = fit(FedOnce(**TINY), federation)
    with pytest.raises(InputError, match=r"cannot predict without 'shop2'.*--set party_dropout=0\.3"):
        result.predict(tables(federation), without=["shop2"])


def test_the_papers_zeros_are_asked_for_by_name() -> None:
    federation = small_federation(guests=2)
    result = fit(FedOnce(**TINY, fill="zero"), federation)
    assert same_but_for_the_fill(result, fit(FedOnce(**TINY), federation))
    assert result.predict(tables(federation), without=["shop1"]).without == ("shop1",)
    assert not any(fill.any() for fill in head_of(result).fills)


def same_but_for_the_fill(one: Result, two: Result) -> bool:
    pairs = zip(head_of(one).mlp.parameters(), head_of(two).mlp.parameters(), strict=True)
    return all(torch.equal(ours, theirs) for ours, theirs in pairs)


def test_the_host_and_the_last_guest_of_one_without_features_are_needed() -> None:
    federation = small_federation(guests=2)
    with pytest.raises(InputError, match="cannot predict without 'bank'"):
        fit(ROBUST, federation).predict(tables(federation), without=["bank"])
    federation = small_federation(guests=2, host_features=False)
    result = fit(ROBUST, federation)
    assert result.predict(tables(federation), without=["shop1"]).without == ("shop1",)
    with pytest.raises(InputError, match="without shop1, shop2 nothing is left to predict from"):
        result.predict(tables(federation), without=["shop1", "shop2"])


def test_a_guest_that_was_left_out_in_training_is_none_to_predict_without() -> None:
    federation = small_federation(guests=2)
    result = fit(FedOnce(**TINY), federation, wait=3600, absent=["shop2"])
    predictions = result.predict(tables(federation, but=("shop2",)), without=["shop2"])
    assert predictions.without == ()


def test_the_result_says_what_each_guest_is_worth_on_the_validation_rows() -> None:
    federation = small_federation(rows=400, keep=250, guests=2)
    result = fit(ROBUST, federation)
    split = split_rows(federation)
    chosen = split.parties["bank"].aligned[split.validation]
    rows = {
        party.name: party.table.take(split.parties[party.name].aligned[split.validation])
        for party in federation.parties
    }
    truth = dict(zip(rows["bank"].ids, split.label[chosen], strict=True))

    def auc(*without: str) -> float:
        predictions = result.predict(rows, without=without)
        assert predictions.probabilities is not None
        return float(roc_auc_score([truth[one] for one in predictions.ids], predictions.probabilities[:, 1]))

    said = [re.findall(r"'(\w+)' .* auc .* ([\d.]+) instead of ([\d.]+)\.$", text) for text in result.statements]
    assert said == [[(guest, f"{auc(guest):.4f}", f"{auc():.4f}")] for guest in ("shop1", "shop2")]


def test_a_model_trained_with_party_dropout_stands_a_missing_guest_better_than_zeros() -> None:
    federation = small_federation(rows=600, keep=400, guests=2)
    settings = {"guest_epochs": 20, "host_epochs": 40, "batch_size": 32}
    losses = {}
    for name, method in {
        "zeros": FedOnce(**settings, fill="zero"),
        "ours": FedOnce(**settings, party_dropout=0.3),
    }.items():
        result = fit(method, federation)
        split = split_rows(federation)
        rows = {p.name: p.table.take(split.parties[p.name].test) for p in federation.parties}
        predictions = result.predict(rows, without=["shop1"])
        assert predictions.probabilities is not None
        truth = dict(zip(rows["bank"].ids, split.label[split.parties["bank"].test], strict=True))
        labels = torch.tensor([truth[one] for one in predictions.ids])
        losses[name] = torch.nn.functional.nll_loss(torch.from_numpy(predictions.probabilities).log(), labels).item()
    assert losses["ours"] < losses["zeros"]
