"""VFLHLP: nothing is sent to learn alone, every party learns from all its rows, and either half is what it says."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from federations import photo_federation, small_federation
from vesica.data import Federation, Overlap
from vesica.datasets.scenario import make_federation
from vesica.errors import InputError
from vesica.experiment import Result, fit
from vesica.methods import VFLHLP, VFLHLPA, VFLHLPP, SplitNN, make_method, vflhlp
from vesica.protocol.end_to_end import EndToEnd
from vesica.protocol.party import Party

ALONE: dict[str, Any] = {"host_epochs": 2, "guest_steps": 10}
TOGETHER: dict[str, Any] = {"epochs": 2, "patience": 2, "batch_size": 16}
TINY = VFLHLP(**ALONE, **TOGETHER)


def all_labels(federation: Federation) -> Federation:
    return replace(federation, labels="all")


def script(result: Result) -> list[tuple[int, str, str, str, int]]:
    return [(m.round, m.sender, m.receiver, m.kind, m.payload) for m in result.ledger.messages]


def weights(module: nn.Module | None) -> list[Tensor]:
    assert module is not None
    return list(module.state_dict().values())


def same(ours: list[Tensor], theirs: list[Tensor]) -> bool:
    return all(map(torch.equal, ours, theirs))


@pytest.mark.parametrize("guests", [1, 2, 3])
@pytest.mark.parametrize("host_features", [True, False])
def test_the_messages_are_those_of_split_nn_and_learning_alone_sends_none(guests: int, host_features: bool) -> None:
    federation = all_labels(small_federation(guests=guests, host_features=host_features))
    assert script(fit(TINY, federation)) == script(fit(SplitNN(**TOGETHER), federation))


def batches_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of different settings agree on different batches."""
    in_order = lambda self, me, epoch: iter(me.rows.train.new_tensor(range(len(me.rows.train))).split(16))  # noqa: E731
    monkeypatch.setattr(EndToEnd, "batches_of", in_order)


def test_without_beta_it_is_split_training_from_the_guests_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in vflhlp-p, bit for bit: what the host learned alone has no part in it."""
    monkeypatch.setattr("vesica.nn.models.build.DROPOUT", 0.0)  # its draws would differ
    batches_in_order(monkeypatch)
    federation = all_labels(small_federation(guests=2))
    whole = fit(replace(TINY, beta=0.0), federation)
    half = fit(VFLHLPP(guest_steps=10, **TOGETHER), federation)
    for name, model in whole.models.items():
        assert same(weights(model.encoder), weights(half.models[name].encoder))
    assert same(weights(whole.models["bank"].head), weights(half.models["bank"].head))


def test_the_host_learns_alone_from_all_its_labels_and_no_test_row(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Tensor, Tensor]] = []
    monkeypatch.setattr(vflhlp, "train", lambda *_, rows, validation, **__: seen.append((rows, validation)))
    federation = small_federation(rows=200)
    every, aligned = (fit(TINY, replace(federation, labels=labels)) for labels in ("all", "aligned"))
    (rows, held), (few, validation) = seen
    count = every.rows["unaligned"]["bank"]
    assert (len(few), len(validation)) == (36, 4)
    assert (len(rows), len(held)) == (36 + count - 5, 4 + 5)  # every tenth of 50
    assert len(torch.unique(torch.cat([rows, held]))) == 40 + count == 90
    assert every.statements[0].startswith(f"The host learned from the labels of {40 + count} rows, of which {count} ")
    assert not any("not aligned" in statement for statement in aligned.statements)


def test_every_guest_learns_from_all_its_rows_with_the_settings_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Tensor, dict[str, Any]]] = []
    parties: list[Party] = []
    guest = vflhlp.VFLHLPP.guest
    monkeypatch.setattr(vflhlp.VFLHLPP, "guest", lambda self, me: (parties.append(me), guest(self, me))[1])
    monkeypatch.setattr(vflhlp, "self_supervised", lambda _, rows, **more: given.append((rows, more)))
    result = fit(replace(TINY, tau=0.5, corruption=0.7), small_federation(rows=200, guests=2))
    assert [len(rows) for rows, _ in given] == [40 + result.rows["unaligned"][name] for name in ("shop1", "shop2")]
    for (learned, settings), me in zip(given, parties, strict=True):
        own = torch.cat([me.rows.aligned, me.rows.unaligned])
        assert not torch.isin(me.rows.test, own).any()
        assert torch.equal(learned, me.inputs[own])
        assert (settings["ssl"], settings["tau"], settings["steps"]) == ("scarf", 0.5, 10)
        rows = torch.randn(50, 3)
        one, two = settings["views"].pair(rows)
        assert torch.equal(one, rows)
        assert ((one != two).sum(dim=1) == 2).all()  # of three columns


def test_tau_reaches_the_loss() -> None:
    federation = small_federation()
    sharp, soft = (fit(VFLHLPP(epochs=0, guest_steps=10, tau=tau), federation) for tau in (0.1, 1.0))
    assert not same(weights(sharp.models["shop1"].encoder), weights(soft.models["shop1"].encoder))


def test_either_half_leaves_the_other_side_as_it_was() -> None:
    federation = all_labels(small_federation())
    whole = fit(replace(TINY, epochs=0, start="warm"), federation)
    active = fit(VFLHLPA(epochs=0, host_epochs=2, start="warm"), federation)
    passive = fit(VFLHLPP(epochs=0, guest_steps=10), federation)
    plain = fit(SplitNN(epochs=0, hidden=()), federation)
    for party, mine, other in (("bank", active, passive), ("shop1", passive, active)):
        encoders = [weights(run.models[party].encoder) for run in (whole, mine, other, plain)]
        assert same(encoders[0], encoders[1])
        assert same(encoders[2], encoders[3])
        assert not same(encoders[0], encoders[3])


def test_a_half_has_no_setting_of_the_other() -> None:
    names = {method: {field.name for field in fields(method)} for method in (VFLHLP, VFLHLPA, VFLHLPP)}
    assert names[VFLHLPA] | names[VFLHLPP] == names[VFLHLP]
    assert {"beta", "start"} <= names[VFLHLPA] - names[VFLHLPP]
    assert {"tau", "corruption"} <= names[VFLHLPP] - names[VFLHLPA]


def test_a_host_with_labels_only_has_nothing_to_learn_alone_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    batches_in_order(monkeypatch)
    federation = small_federation(guests=2, host_features=False)
    result = fit(TINY, federation)
    assert result.statements == (
        "The host has labels only: it learned nothing alone, and split training had no constraint.",
    )
    half = fit(VFLHLPP(guest_steps=10, **TOGETHER), federation)
    assert same(weights(result.models["bank"].head), weights(half.models["bank"].head))


def test_it_runs_without_unaligned_rows() -> None:
    result = fit(TINY, replace(all_labels(small_federation()), overlap=Overlap()))
    assert result.rows["unaligned"] == {"bank": 0, "shop1": 0}
    assert 0 <= (result.metrics["auc"] or -1) <= 1


def test_images_and_regression_are_learned_too() -> None:
    photos = fit(VFLHLP(guest_steps=20, epochs=15, eta_1=0.01, eta_2=1e-3), photo_federation())
    assert (photos.metrics["accuracy"] or 0) > 0.9
    federation = all_labels(small_federation(rows=400, keep=250, task="regression"))
    numbers = fit(VFLHLP(guest_steps=50, epochs=60, eta_2=3e-3), federation)
    assert (numbers.metrics["rmse"] or 9) < 0.8  # the labels' deviation is about 2.4, the host alone is at 1.8


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"tau": "0"}, "tau of vflhlp is 0.0: give a temperature above 0"),
        ({"corruption": "1.2"}, "corruption of vflhlp is 1.2: give a share of the columns above 0, up to 1"),
        ({"guest_batch_size": "1"}, "field 'guest_batch_size' of method 'vflhlp' is 1: it is 2 or more"),
        ({"start": "hot"}, "field 'start' of method 'vflhlp' is 'hot'; there are: fresh, warm"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_sentence(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(InputError) as refusal:
        make_method("vflhlp", settings)
    assert str(refusal.value) == reason


@pytest.mark.parametrize("settings", [{"tau": "0"}, {"corruption": "1.2"}])
def test_the_guests_half_alone_is_refused_by_its_own_name(settings: dict[str, str]) -> None:
    with pytest.raises(InputError, match=f"^{next(iter(settings))} of vflhlp-p is"):
        make_method("vflhlp-p", settings)


def test_with_few_aligned_rows_of_real_clicks_it_is_better_than_split_nn(data_dir: Path) -> None:
    """Both halves and both starts: 250 aligned rows, of parties that have 3,000 each, on rows held out."""
    from vesica.data.rows import hold_out

    federation = hold_out(make_federation("avazu-three", data_dir, overlap=250, draw=2750, dim=16))
    alone = fit(SplitNN(epochs=10, patience=0, hidden=()), federation).metrics["auc"] or 1
    for start in ("fresh", "warm"):
        assert (fit(VFLHLP(guest_steps=300, start=start), federation).metrics["auc"] or 0) > alone + 0.02
