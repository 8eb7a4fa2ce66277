"""Private labels, method by method: with the noisy labels held fixed, no byte of a run depends on the true ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from federations import quick, small_federation
from overhearing import Frames, Pinned, messages, overhear
from vesica.data import Federation, rows, split_rows
from vesica.errors import VesicaError
from vesica.experiment import fit
from vesica.experiment.fit import validate_blindly
from vesica.methods import METHODS, OneShot, label_release
from vesica.privacy import Release
from vesica.protocol import Link, link
from vesica.protocol.link import LARGEST
from vesica.protocol.message import decode
from vesica.protocol.party import Party

ROWS = 200
# More of a method than its cheapest run: early stopping, fewer labels first, the parts that only some settings have.
SETTINGS: dict[str, dict[str, Any]] = {
    "one-shot": {"host_patience": 1, "guest_patience": 1},
    "few-shot": {
        "guest_steps": 20,
        "guest_patience": 1,
        "host_epochs": 10,
        "host_patience": 3,
        "host_learning_rate": 0.05,
        "finetune_iterations": 8,
        "finetune_learning_rate": 0.01,
    },
    "split-nn": {"epochs": 4, "patience": 1, "batch_size": 16, "learning_rate": 0.05},
    "fedbcd": {"epochs": 4, "patience": 1, "batch_size": 16, "local_steps": 2, "learning_rate": 0.05},
    "fedcvt": {"epochs": 3, "patience": 1, "batch_size": 16, "joint_threshold": 0.0, "local_threshold": 0.0},
    "fedhssl": {"pretrain_epochs": 1, "width": 4, "label_counts": (20, 30), "finetune_patience": 1},
    "fedgssl": {"pretrain_epochs": 1, "width": 4, "label_counts": (20,), "finetune_patience": 1},
    "fedcssl": {"pretrain_epochs": 1, "width": 4, "label_counts": (20,), "finetune_patience": 1},
    "fedlocalssl": {"pretrain_epochs": 1, "width": 4, "label_counts": (20,), "finetune_patience": 1},
    "vflhlp": {"patience": 1, "start": "warm", "host_patience": 1, "guest_steps": 5, "eta_1": 0.05},
    "vflhlp-a": {"patience": 1, "start": "warm", "host_patience": 1, "eta_1": 0.05},
    "vflhlp-p": {"patience": 1, "guest_steps": 5, "eta_1": 0.05},
}
STOPPED = [name for name in SETTINGS if name != "one-shot"]  # which has no batches to stop between


def method_of(name: str, **settings: Any) -> Any:
    return replace(quick(name), **{"label_epsilon": 1.0} | SETTINGS[name] | settings)


def truths(*, classes: int = 3, guests: int = 2) -> list[Federation]:
    """The same rows and classes with labels that can be learned, and with others for every row."""
    federation = replace(small_federation(rows=ROWS, guests=guests, keep=80), labels="all", metric="accuracy")
    learnable = sum(party.table.columns["x0"] for party in federation.parties)
    of_rows = np.searchsorted(np.quantile(learnable, np.arange(1, classes) / classes), learnable)
    shift = np.random.default_rng(1).integers(1, classes, ROWS)
    return [replace(federation, label=label) for label in (of_rows, (of_rows + shift) % classes)]


def released(federation: Federation, *, known: bool) -> Tensor:
    """Noisy labels of all rows that the host learns from, or of the labelled aligned ones: neither truth."""
    split = split_rows(federation)
    own = federation.guests[0].table.columns["x1"]
    classes = len(split.classes)
    noisy = torch.from_numpy(np.searchsorted(np.quantile(own, np.arange(1, classes) / classes), own))
    return noisy[split.known if known else split.parties["bank"].aligned[split.labelled]]


def said(method: Any, federation: Federation, *, shown: Tensor | None = None, **options: Any) -> Frames:
    """Every frame of a run, of training and of scoring, in both directions."""
    with pytest.MonkeyPatch.context() as patch:
        if shown is not None:
            patch.setattr(label_release, "randomise", Pinned(shown))
        frames = overhear(patch, everyone=True)
        fit(method, federation, **options)
    return frames


def first_difference(one: Frames, other: Frames) -> str | None:
    """Where two runs first differ, in words, for the message of a test that fails."""
    for number, (ours, theirs) in enumerate(zip_longest(one, other)):
        if ours != theirs:
            kinds = [frame and f"{decode(frame[1]).kind!r} to '{frame[0]}'" for frame in (ours, theirs)]
            return f"frame {number} of {len(one)} and {len(other)}: {kinds[0]} and {kinds[1]}"
    return None


def compare(name: str, federations: list[Federation], method: Any, **options: Any) -> Frames:
    shown = released(federations[0], known="shot" not in name)
    first, second = (said(method, truth, shown=shown, **options) for truth in federations)
    assert first_difference(first, second) is None
    return first


def test_every_method_with_label_epsilon_is_tested_here() -> None:
    assert set(SETTINGS) == {name for name, kind in METHODS.items() if "label_epsilon" in kind.__dataclass_fields__}
    assert [name for name in SETTINGS if getattr(method_of(name), "stops_at_bytes", False)] == STOPPED


@pytest.mark.parametrize("name", SETTINGS)
def test_no_byte_of_a_run_depends_on_the_true_labels(name: str) -> None:
    """Three classes, two guests, early stopping, fewer labels first; the labels of unaligned and test rows vary too."""
    frames = compare(name, truths(), method_of(name))
    kinds = {decode(frame).kind for _, frame in frames}
    assert {"agreement", "gradients", "request", "representations"} <= kinds


@pytest.mark.parametrize("name", SETTINGS)
def test_without_label_epsilon_the_same_comparison_finds_the_true_labels(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it can fail. The validation rows are the same in both runs: only what follows from labels differs."""
    monkeypatch.setattr(rows, "_draw_validation", lambda random, numbers, *, stratified: np.arange(len(numbers) // 10))
    method = method_of(name, label_epsilon=None)
    first, second = (said(method, truth) for truth in truths())
    agreed = len(messages(first, "agreement"))
    assert agreed > 0
    assert first[:agreed] == second[:agreed]
    assert first_difference(first, second) is not None
    assert not all(
        torch.equal(one.tensor, other.tensor)
        for one, other in zip(messages(first, "gradients"), messages(second, "gradients"), strict=False)
    )


@pytest.mark.parametrize("name", STOPPED)
def test_where_a_run_stops_at_a_number_of_bytes_follows_from_the_noisy_labels(name: str) -> None:
    unstopped = {"patience": 50, "finetune_patience": 50, "label_counts": ()}  # by anything but the bytes
    method = method_of(name)
    method = replace(method, **{field: value for field, value in unstopped.items() if hasattr(method, field)})
    before_the_last = sum(entry.wire for entry in fit(method, truths()[0]).ledger.messages) - 1000
    frames = compare(name, truths(), method, stop_at_bytes=before_the_last)
    assert sum(message.scalars.get("then") in ("final", "close") for message in messages(frames, "gradients")) == 2


@pytest.mark.parametrize("name", ["one-shot", "few-shot", "split-nn", "fedlocalssl", "vflhlp-a"])
def test_no_byte_depends_on_them_where_the_host_has_labels_only(name: str) -> None:
    federations = [replace(truth, host=replace(truth.host, table=truth.host.table.only([]))) for truth in truths()]
    compare(name, federations, method_of(name))


@pytest.mark.parametrize("wire", ["float16", "int8"])
@pytest.mark.parametrize("name", ["split-nn", "few-shot"])
def test_no_byte_depends_on_them_on_a_narrow_wire(name: str, wire: str) -> None:
    compare(name, truths(classes=2, guests=1), method_of(name), wire=wire)


@pytest.mark.parametrize("classes", [2, 3])
def test_with_gradient_epsilon_no_byte_depends_on_the_true_labels(classes: int) -> None:
    """Here the released gradients are held fixed, which all later messages follow from."""
    method = method_of("one-shot", label_epsilon=None, gradient_epsilon=2.0)
    shown = torch.randn(80, 64, generator=torch.Generator().manual_seed(0))
    runs = []
    for truth in truths(classes=classes):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Release, "__call__", lambda self, gradients: shown.clone())
            runs.append(said(method, truth))
    assert first_difference(*runs) is None
    sent = [message.tensor for message in messages(runs[0], "gradients")]
    assert torch.equal(torch.cat(sent, dim=1), shown)
    assert isinstance(method, OneShot)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("one-shot", {"label_epsilon": 1.0}),
        ("one-shot", {"gradient_epsilon": 1.0}),
        ("few-shot", {"label_epsilon": 1.0, "finetune_iterations": 2}),
    ],
    ids=["labels", "gradients", "few-shot"],
)
def test_heads_of_the_true_labels_are_trained_after_the_last_message(
    name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long they train depends on true labels: a guest that waits for a message would see it."""
    federation = truths(classes=2)[0]
    monkeypatch.setattr(label_release, "randomise", Pinned(released(federation, known=False)))
    frames = overhear(monkeypatch, everyone=True)
    trained: list[int] = []
    settle = OneShot.settle

    def settled(*given: Any) -> None:
        trained.append(len(frames))
        settle(*given)

    monkeypatch.setattr(OneShot, "settle", settled)
    result = fit(method_of(name, **{"label_epsilon": None, "gradient_epsilon": None} | settings), federation)
    assert trained == [len(frames)]
    assert len(result.milestones) == (2 if name == "few-shot" else 0)


def without_own_checks(sender: Link, *message: Any, send: Any = Link.send, **options: Any) -> None:
    """Send as a hostile party would: whatever the values are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link, "fault_of", lambda tensors: None)
        send(sender, *message, **options)


@pytest.mark.parametrize(
    ("moment", "epsilon"),
    [("last upload", "label_epsilon"), ("last upload", "gradient_epsilon"), ("scoring", "label_epsilon")],
)
@pytest.mark.parametrize("size", [1e15, 6e37])
def test_a_guest_cannot_make_the_runs_end_depend_on_a_true_label(
    size: float, moment: str, epsilon: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One-shot's last heads learn from the true labels: a guest that sends huge values may hope that they overflow.

    One training row teaches the head, and the validation or test rows are as large as it takes. Whether the host goes
    on, asks for the test rows, and ends well must be the same whatever that row's label is.
    """
    federation = truths(classes=2)[0]
    split = split_rows(federation)
    held_out = np.isin(split.labelled, validate_blindly(split, seed=federation.overlap.seed).validation)
    row = int(np.flatnonzero(~held_out)[0])
    other = federation.label.copy()
    other[split.parties["bank"].aligned[split.labelled][row]] ^= 1
    shown, represent = released(federation, known=False), Party.represent
    gradients = torch.randn(80, 64, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(Release, "__call__", lambda self, rows: gradients.clone())

    def run(truth: Federation) -> tuple[Frames, str]:
        sent = 0

        def hostile(self: Party, rows: Tensor) -> Tensor:
            nonlocal sent
            values = represent(self, rows)
            sent += self.name == "shop1"
            if self.name == "shop1" and sent == 2:
                values = torch.zeros_like(values)
                values[row] = 0.3
                values[torch.from_numpy(held_out)] = size if moment == "last upload" else 0.0
            if self.name == "shop1" and sent == 3 and moment == "scoring":
                values = torch.full_like(values, size)
            return values

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Party, "represent", hostile)
            patch.setattr(Link, "send", without_own_checks)
            patch.setattr(label_release, "randomise", Pinned(shown))
            frames = overhear(patch, everyone=True)
            settings = {"label_epsilon": None, "gradient_epsilon": None, epsilon: 1.0}
            epochs = 200 if size > LARGEST else 20  # what is refused is never learned from
            long = {"guest_patience": 0, "guest_steps": 2, "host_epochs": epochs, "host_patience": 0}
            try:
                fit(method_of("one-shot", **settings, **long), truth)
            except VesicaError as fault:
                return frames, str(fault)
        return frames, "done"

    first, second = run(federation), run(replace(federation, label=other))
    assert first == second
    if size <= LARGEST:
        assert first[1] == "done"
    else:
        assert "'representations' from 'shop1' has values that are beyond 1e+15" in first[1]
