"""One-shot's gradients with label differential privacy: clipped and noised once, and the labels not looked at again."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from federations import small_federation
from overhearing import Frames, labels_of, messages, overhear
from vesica.data import Federation, split_rows
from vesica.errors import InputError, PartyError
from vesica.experiment import fit
from vesica.methods import FewShot, OneShot, make_method, one_shot
from vesica.privacy import Release, Spent, gaussian_epsilon, gaussian_noise
from vesica.privacy import release as release_module

TINY = OneShot(guest_steps=3, host_epochs=1, hidden=(8,), gradient_epsilon=2.0)
SETTINGS = replace(TINY, guest_steps=20, host_epochs=5, host_patience=2, guest_patience=1)


def watch_releases(patch: pytest.MonkeyPatch) -> list[tuple[Release, Tensor, Tensor]]:
    """Every release from now on: what was shown of which rows."""
    seen: list[tuple[Release, Tensor, Tensor]] = []
    call = Release.__call__

    def watched(self: Release, rows: Tensor) -> Tensor:
        seen.append((self, rows.clone(), call(self, rows)))
        return seen[-1][2]

    patch.setattr(Release, "__call__", watched)
    return seen


def received(federation: Federation, shown: Tensor) -> tuple[Frames, float | None]:
    """All that the guests receive in a run that releases these gradients, and the norm that was clipped to."""
    clips = []

    def pinned(self: Release, rows: Tensor) -> Tensor:
        clips.append(self.clip)
        assert rows.shape == shown.shape
        return shown.clone()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Release, "__call__", pinned)
        frames = overhear(patch)
        fit(SETTINGS, federation)
    (clip,) = clips
    return frames, clip


@pytest.mark.parametrize("host_features", [True, False], ids=["features", "labels only"])
def test_all_that_the_guests_receive_follows_from_the_released_gradients(host_features: bool) -> None:
    """Bit for bit, whatever the true labels are; and so does how strongly rows are clipped."""
    federation = small_federation(rows=200, guests=2, host_features=host_features, keep=100)
    garbage = replace(federation, label=(np.random.default_rng(1).random(200) < 0.3).astype(np.int64))
    assert not torch.equal(labels_of(federation), labels_of(garbage))
    shown = torch.randn(100, 64, generator=torch.Generator().manual_seed(0))
    first, second = (received(truth, shown) for truth in (federation, garbage))
    assert first == second
    assert first[1] is not None
    sent = [message.tensor for message in messages(first[0], "gradients")]
    assert torch.equal(torch.cat(sent, dim=1), shown)


def test_the_gradients_for_all_guests_are_clipped_and_noised_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    federation = small_federation(rows=800, guests=3, keep=500)
    releases = watch_releases(monkeypatch)
    frames = overhear(monkeypatch)
    fit(replace(TINY, gradient_epsilon=1.0, gradient_delta=1e-4), federation)
    ((release, exact, shown),) = releases
    assert shown.shape == (500, 3 * 32)
    assert torch.equal(torch.cat([message.tensor for message in messages(frames, "gradients")], dim=1), shown)
    assert release.clip is not None
    assert gaussian_epsilon([release.mechanism], 1e-4) == pytest.approx(1.0, rel=1e-5)
    assert release.sigma == pytest.approx(2 * release.clip * gaussian_noise(1.0, 1e-4))
    norms = exact.norm(dim=1, keepdim=True)
    clipped = exact * (release.clip / norms.clamp(min=release.clip))
    assert 0.2 < (norms > release.clip).double().mean() < 0.8  # the clip is a middle one: it bites, but not on all
    assert (shown - clipped).std().item() == pytest.approx(release.sigma, rel=0.02)


def test_a_label_moves_its_own_rows_gradients_alone_and_by_twice_the_clip_at_most() -> None:
    federation = small_federation(rows=200, guests=2, keep=100)
    host_row = int(split_rows(federation).parties["bank"].aligned[7])
    other = np.array(federation.label)
    other[host_row] = 1 - other[host_row]
    exact = []
    for label in (federation.label, other):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(release_module, "long_tailed_normals", lambda count, *, entropy: torch.zeros(count))
            releases = watch_releases(patch)
            fit(TINY, replace(federation, label=label))
        ((release, _, shown),) = releases
        exact.append(shown)
    moved = (exact[1] - exact[0]).norm(dim=1)
    assert release.clip is not None
    assert moved.nonzero().squeeze(1).tolist() == [7]
    assert 0 < float(moved[7]) <= 2 * release.clip * (1 + 1e-4)


def test_a_run_that_goes_on_does_not_draw_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: Any, **named: Any) -> Any:
        raise RuntimeError("the power is gone")

    federation = small_federation(guests=2)
    releases = watch_releases(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(one_shot, "cluster", failing)
        with pytest.raises(PartyError, match="the power is gone"):
            fit(TINY, federation, out=tmp_path)
    frames = overhear(monkeypatch)
    result = fit(TINY, federation, out=tmp_path)
    assert len(releases) == 1
    assert result.privacy == Spent(2.0, 1e-5, "labels")
    for message in messages(frames, "gradients"):  # where they had not arrived
        assert any(torch.equal(message.tensor, part) for part in releases[0][2].split(32, dim=1))


def test_the_head_that_stays_has_the_true_labels() -> None:
    federation = small_federation(rows=400, guests=2, keep=200)
    method = OneShot(guest_steps=50, host_epochs=60, host_learning_rate=0.05, gradient_epsilon=0.1)
    assert (fit(method, federation).metrics["auc"] or 0) > 0.65  # the gradients alone tell nothing


def test_the_result_says_what_was_spent() -> None:
    result = fit(TINY, small_federation(guests=2))
    assert result.privacy == Spent(2.0, 1e-5, "labels")
    said, measured = result.statements
    assert said == (
        "The gradients of each of the 40 labelled aligned rows, those for all guests as one, were clipped to a norm "
        "that follows from no label and carry Gaussian noise, drawn from the operating system's entropy: label "
        "differential privacy, epsilon 2 at delta 1e-05, neighbours differ in one row's label, one release (the "
        "analytic Gaussian mechanism, exact), after which the guests were sent nothing that follows from the labels. "
        "Not covered: the features, the names of the classes, which rows are aligned, labelled and for test, that a "
        "run is refused whose labels are of one class only, how long the host trains the models that it keeps, and "
        "what it shows of its result."
    )
    assert measured.startswith("k-means on the gradients still puts ")
    loose = fit(replace(TINY, gradient_delta=0.1), small_federation())
    assert "A delta of 0.1 is not below 1 / 40" in loose.statements[0]
    assert "one person's label as it is" in loose.statements[0]


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, "1"])
def test_a_bad_epsilon_is_refused(epsilon: Any) -> None:
    with pytest.raises(InputError, match=f"gradient_epsilon is {epsilon!r}: give a positive number, or leave it out"):
        OneShot(gradient_epsilon=epsilon)


def test_what_cannot_be_meant_is_refused_before_anyone_talks() -> None:
    with pytest.raises(InputError, match="label_epsilon and gradient_epsilon each make the labels private: give one"):
        OneShot(label_epsilon=1.0, gradient_epsilon=1.0)
    with pytest.raises(InputError, match=r"delta is 1\.0: give a number between 0 and 1"):
        OneShot(gradient_epsilon=1.0, gradient_delta=1.0)
    with pytest.raises(InputError, match=r"gradient_epsilon is of one-shot alone.*give few-shot label_epsilon"):
        FewShot(gradient_epsilon=1.0)
    assert make_method("one-shot", {"gradient_epsilon": "0.5"}) == OneShot(gradient_epsilon=0.5)
