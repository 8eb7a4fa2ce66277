"""Guests of a simulation that train together, as they do on a GPU; here on a CPU."""

from importlib import import_module
from pathlib import Path

import pytest
import torch

from federations import small_federation
from vesica.errors import InputError
from vesica.experiment import Result, fit
from vesica.methods import FedOnce, FewShot, Method, OneShot
from vesica.training import self_supervised, semi_supervised, unsupervised
from vesica.training.beside import Beside, side_by_side
from vesica.training.stacked_lessons import StackedLessons

FIT = import_module("vesica.experiment.fit")  # not the function
METHOD = FedOnce(guest_epochs=3, host_epochs=2, batch_size=16)


class KillError(Exception):
    """In place of SIGKILL."""


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many were trained as one, each time that some were."""
    sizes: list[int] = []

    class Noted(StackedLessons):
        def __init__(self, lessons) -> None:
            sizes.append(len(lessons))
            super().__init__(lessons)

    monkeypatch.setattr(unsupervised, "StackedLessons", Noted)
    return sizes


def together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FIT, "TRAIN_TOGETHER_ON", ("cpu",))


def assert_same(one: Result, two: Result) -> None:
    assert one.parties == two.parties
    for party in one.parties:
        ours, theirs = (dict(result.models[party].encoder.state_dict()) for result in (one, two))
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert one.ledger.wire == two.ledger.wire


def test_guests_that_train_together_come_to_what_they_come_to_alone(
    monkeypatch: pytest.MonkeyPatch, groups: list[int]
) -> None:
    federation = small_federation(guests=3, rows=60, keep=42)
    alone = fit(METHOD, federation)
    assert groups == []
    together(monkeypatch)
    assert_same(fit(METHOD, federation), alone)
    assert groups == [3]


def test_a_guest_that_never_comes_keeps_nobody_from_training(
    monkeypatch: pytest.MonkeyPatch, groups: list[int]
) -> None:
    federation = small_federation(guests=3, rows=60, keep=42)
    late = {"wait": 3600.0, "absent": ("shop2",)}
    alone = fit(METHOD, federation, **late)
    together(monkeypatch)
    result = fit(METHOD, federation, **late)
    assert_same(result, alone)
    assert result.missing == ("shop2",)
    assert groups == [2]


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_run_that_broke_off_while_guests_trained_together_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, groups: list[int], epoch: int
) -> None:
    federation = small_federation(guests=3, rows=60, keep=42)
    together(monkeypatch)
    whole = fit(METHOD, federation, out=tmp_path / "whole")
    train = StackedLessons.train_epoch

    def broken(self: StackedLessons, pool) -> None:
        if self._lessons[0].epoch == epoch:
            raise KillError
        train(self, pool)

    with monkeypatch.context() as patch:
        patch.setattr(StackedLessons, "train_epoch", broken)
        with pytest.raises(Exception, match="KillError"):
            fit(METHOD, federation, out=tmp_path / "broken")
    resumed = fit(METHOD, federation, out=tmp_path / "broken")
    for party in whole.parties:
        ours, theirs = (result.models[party].encoder.state_dict() for result in (resumed, whole))
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert groups == [3, 3, 3]


def test_a_run_killed_between_two_guests_checkpoints_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, groups: list[int]
) -> None:
    """One guest's epoch is on disk and the others' are not: it goes on by itself."""
    federation = small_federation(guests=3, rows=60, keep=42)
    together(monkeypatch)
    whole = fit(METHOD, federation, out=tmp_path / "whole")
    resumable = import_module("vesica.protocol.resumable")
    save, saved = resumable.save_atomically, []

    def broken(path, state) -> None:
        if len(saved) == 4:  # three of the first epoch, one of the second
            raise KillError
        saved.append(path)
        save(path, state)

    with monkeypatch.context() as patch:
        patch.setattr(resumable, "save_atomically", broken)
        with pytest.raises(Exception, match="KillError"):
            fit(METHOD, federation, out=tmp_path / "broken")
    assert_same(fit(METHOD, federation, out=tmp_path / "broken"), whole)
    assert groups == [3, 3, 2]


@pytest.mark.parametrize(
    ("method", "sizes"),
    [
        (OneShot(guest_steps=110, guest_patience=1, host_epochs=2), [3]),
        (FewShot(guest_steps=110, host_epochs=2), [3, 3]),
        (OneShot(warm_up="simclr", warm_up_steps=110, guest_steps=3, host_epochs=2), [3, 3]),
    ],
)
def test_parties_that_learn_side_by_side_come_to_what_they_come_to_alone(
    method: Method, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host has features too; whatever is drawn after the training is as it would be."""
    federation = small_federation(guests=2, rows=60, keep=42)
    alone, met = fit(method, federation), []

    def noted(trainings: list[Beside]) -> None:
        met.append(len(trainings))
        side_by_side(trainings)

    for learning in (self_supervised, semi_supervised):
        monkeypatch.setattr(learning, "side_by_side", noted)
    together(monkeypatch)
    result = fit(method, federation)
    assert met == sizes
    assert result.metrics == alone.metrics
    for party in result.parties:
        ours, theirs = (each.models[party].encoder.state_dict() for each in (result, alone))
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_failure_in_work_that_several_came_for_names_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(trainings: list[Beside]) -> None:
        raise InputError("no luck")

    monkeypatch.setattr(semi_supervised, "side_by_side", failing)
    together(monkeypatch)
    with pytest.raises(InputError, match=r"^bank or shop1 or shop2: no luck"):
        fit(OneShot(guest_steps=1), small_federation(guests=2, rows=60, keep=42))
