"""Methods that train end to end: private labels, and noise on their gradients."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from federations import small_federation
from overhearing import Pinned, labels_of, messages, overhear, received, watch_standing
from vesica.data import Federation, split_rows
from vesica.errors import InputError, PartyError
from vesica.experiment import fit
from vesica.experiment.belongings import Belongings
from vesica.experiment.fit import validate_blindly
from vesica.methods import (
    VFLHLP,
    VFLHLPA,
    VFLHLPP,
    FedBCD,
    FedCVT,
    FedHSSL,
    FedLocalSSL,
    Method,
    SplitNN,
    label_release,
    make_method,
)
from vesica.privacy import Spent, marvell_noise
from vesica.privacy import protection as protection_module
from vesica.privacy.iso import isotropic_noise
from vesica.protocol.end_to_end import EndToEnd
from vesica.protocol.message import decode
from vesica.protocol.party import Party

SPLIT: dict[str, Any] = {"epochs": 3, "batch_size": 16, "learning_rate": 0.01}
SSL: dict[str, Any] = {
    "pretrain_epochs": 1,
    "batch_size": 32,
    "width": 4,
    "finetune_epochs": 3,
    "finetune_batch_size": 32,
}
ALONE: dict[str, Any] = {"guest_steps": 20, "host_epochs": 3, "epochs": 3, "batch_size": 16, "patience": 2}
METHODS: dict[str, Any] = {
    "split-nn": SplitNN(**SPLIT),
    "split-nn-iso": SplitNN(**SPLIT, iso_gradients=0.5),
    "split-nn-marvell": SplitNN(**SPLIT, marvell=2.0),
    "fedbcd": FedBCD(**SPLIT, local_steps=2),
    "fedbcd-sequential": FedBCD(**SPLIT, local_steps=2, order="sequential", marvell=2.0),
    "fedcvt": FedCVT(**SPLIT, unaligned_batch_size=8, joint_threshold=0.0, local_threshold=0.0, iso_gradients=0.5),
    "fedhssl": FedHSSL(**SSL, iso_gradients=0.5),
    "fedhssl-counts": FedHSSL(**SSL, label_counts=(20, 30)),
    "fedlocalssl": FedLocalSSL(**SSL, marvell=2.0),
    "vflhlp": VFLHLP(**ALONE),
    "vflhlp-a": VFLHLPA(**{name: value for name, value in ALONE.items() if name != "guest_steps"}, start="warm"),
    "vflhlp-p": VFLHLPP(**{name: value for name, value in ALONE.items() if name != "host_epochs"}),
}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def hidden(method: Any, epsilon: float = 1.0) -> Any:
    return replace(method, label_epsilon=epsilon)


def federation_of(label: np.ndarray | None = None, *, host_features: bool = True) -> Federation:
    """The host also has labels of rows that are not aligned."""
    federation = replace(small_federation(rows=200, guests=2, keep=60, host_features=host_features), labels="all")
    return federation if label is None else replace(federation, label=label)


def known_labels(federation: Federation) -> Tensor:
    """Of every row that the host may learn from."""
    split = split_rows(federation)
    return torch.from_numpy(split.label[split.known])


@every_method
def test_all_that_the_guests_receive_follows_from_the_released_labels(method: Any) -> None:
    """From the agreement to scoring, bit for bit, whatever the true labels are."""
    garbage = (np.random.default_rng(1).random(200) < 0.3).astype(np.int64)
    truths = [federation_of(), federation_of(garbage)]
    released = known_labels(truths[0]).roll(3)
    assert not torch.equal(*map(labels_of, truths))
    assert not np.array_equal(*(split_rows(truth).validation for truth in truths))  # as they would be drawn otherwise
    first, second = (received(hidden(method), truth, released) for truth in truths)
    assert [decode(frame).kind for _, frame in first] == [decode(frame).kind for _, frame in second]
    assert first == second
    assert first != received(hidden(method), truths[0], released.roll(1))
    assert messages(first, "gradients")
    assert messages(first, "verdict")


@pytest.mark.parametrize("name", ["split-nn-marvell", "fedlocalssl"])
def test_a_host_with_labels_only_shows_no_more(name: str) -> None:
    garbage = (np.random.default_rng(1).random(200) < 0.3).astype(np.int64)
    truths = [federation_of(host_features=False), federation_of(garbage, host_features=False)]
    released = known_labels(truths[0]).roll(3)
    first, second = (received(hidden(METHODS[name]), truth, released) for truth in truths)
    assert first == second


@pytest.mark.parametrize("name", ["split-nn", "fedcvt", "vflhlp", "fedhssl"])
def test_epochs_are_judged_by_the_released_labels_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    federation = replace(federation_of(), labels="aligned")
    truth, split = labels_of(federation), split_rows(federation)
    held_out = np.isin(split.labelled, validate_blindly(split, seed=federation.overlap.seed).validation)
    released = 1 - truth
    monkeypatch.setattr(label_release, "randomise", Pinned(released))
    looks = watch_standing(monkeypatch, overhear(monkeypatch))
    fit(hidden(METHODS[name]), federation)
    assert {tuple(labels) for _, labels in looks} == {tuple(released[held_out].tolist())}


def test_the_head_that_stays_learned_from_the_released_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the result is scored with the true ones: labels turned around give predictions turned around."""
    federation = small_federation(rows=400, guests=2, keep=200)
    monkeypatch.setattr(label_release, "randomise", Pinned(1 - labels_of(federation)))
    result = fit(SplitNN(epochs=10, learning_rate=0.01, label_epsilon=1.0), federation)
    assert (result.metrics["auc"] or 1) < 0.2


@pytest.mark.parametrize("name", ["split-nn", "fedhssl-counts", "vflhlp"])
def test_the_labels_are_drawn_once_a_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = Pinned(known_labels(federation_of()))
    monkeypatch.setattr(label_release, "randomise", mechanism)
    result = fit(hidden(METHODS[name], 2.5), federation_of())
    assert mechanism.asked == [2.5]
    for run in (*result.milestones, result):
        assert run.privacy == Spent(2.5, 0.0, "labels")
        assert sum("randomised response" in said for said in run.statements) == 1


def test_a_run_that_goes_on_does_not_draw_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, used = [], []
    randomise, lead, batch = label_release.randomise, EndToEnd.lead, EndToEnd.lead_batch

    def drawing(*given: Any, **named: Any) -> Tensor:
        drawn.append(randomise(*given, **named))
        return drawn[-1]

    def watched(self: EndToEnd, me: Any, labels: Tensor, **named: Any) -> None:
        used.append(labels[me.known].clone())
        lead(self, me, labels, **named)

    def failing(*given: Any, **named: Any) -> None:
        batch(*given, **named)
        raise RuntimeError("the power is gone")

    monkeypatch.setattr(label_release, "randomise", drawing)
    monkeypatch.setattr(EndToEnd, "lead", watched)
    with monkeypatch.context() as patch:
        patch.setattr(EndToEnd, "lead_batch", failing)
        with pytest.raises(PartyError, match="the power is gone"):
            fit(hidden(METHODS["split-nn"]), federation_of(), out=tmp_path)
    fit(hidden(METHODS["split-nn"]), federation_of(), out=tmp_path)
    assert len(drawn) == 1
    assert [labels.tolist() for labels in used] == [drawn[0].tolist()] * 2
    assert not torch.equal(drawn[0], known_labels(federation_of()))


def test_the_host_keeps_the_true_labels_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For an audit, which scores what the guests could guess."""
    federation = federation_of()
    monkeypatch.setattr(label_release, "randomise", Pinned(1 - known_labels(federation)))
    fit(hidden(METHODS["split-nn"]), federation, out=tmp_path, keep_messages=True)
    (folder,) = (path.parent for path in tmp_path.rglob("rows.safetensors") if "bank" in str(path))
    kept = Belongings.load(folder)
    assert kept.labels is not None
    assert torch.equal(kept.labels[kept.rows.labelled], labels_of(federation))


def test_the_statement_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    federation = federation_of()
    rows = len(known_labels(federation))
    assert rows > 60  # also those that are not aligned
    assert fit(hidden(METHODS["split-nn"]), federation).statements == (
        f"Each label of the {rows} rows that the host learns from went through 2-ary randomised response (epsilon = 1, "
        "kept with probability 0.731) before anything was computed from it for the guests: label differential privacy, "
        "pure epsilon, neighbours differ in one row's label, one release, drawn from the operating system's entropy. "
        "The head that the host keeps was trained, the epoch chosen and the curve measured with the labels that came "
        "out. Not covered: the features, the names of the classes, which rows are aligned, labelled and for test, that "
        "a run is refused whose labels are of one class only, and what the host shows of its result.",
    )
    # with these the classifiers agree on some rows; with others they may agree on none, and no share is named
    monkeypatch.setattr(label_release, "randomise", Pinned(known_labels(federation)))
    counted = fit(hidden(METHODS["fedcvt"]), federation).statements
    assert any("of them right by the noisy labels" in said for said in counted)


@every_method
def test_without_a_defence_none_is_claimed(method: Any) -> None:
    open_labels = replace(method, iso_gradients=0.0, marvell=0.0)
    result = fit(open_labels, federation_of())
    assert result.privacy is None
    assert not open_labels.hides_labels
    assert not [said for said in result.statements if "epsilon" in said or "noise" in said]


@pytest.fixture
def one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of batches follows from the whole agreement, every setting included: here it does not."""
    monkeypatch.setattr(Party, "public_random", lambda self, purpose: torch.Generator().manual_seed(len(purpose)))


def gradients_sent(method: Method, federation: Federation) -> list[Tensor]:
    with pytest.MonkeyPatch.context() as patch:
        frames = overhear(patch)
        fit(method, federation)
    return [message.tensor.clone() for message in messages(frames, "gradients")]


NOISY: dict[str, Any] = {
    "split-nn": SplitNN(epochs=1, batch_size=600),
    "fedbcd": FedBCD(epochs=1, batch_size=600, local_steps=2),
    "fedbcd-sequential": FedBCD(epochs=1, batch_size=600, local_steps=2, order="sequential"),
    "fedcvt": FedCVT(epochs=1, batch_size=600, unaligned_batch_size=8),
    "vflhlp": VFLHLP(guest_steps=2, host_epochs=1, epochs=1, batch_size=600),
    "fedhssl": FedHSSL(**SSL | {"finetune_epochs": 1, "finetune_batch_size": 600}),
}


@pytest.mark.parametrize("name", NOISY)
def test_the_gradients_carry_isotropic_noise(name: str, one_order: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first guest in the first batch, which both runs compute alike."""
    monkeypatch.setattr("vesica.nn.models.build.DROPOUT", 0.0)
    federation = small_federation(rows=800, guests=2, keep=500)
    plain, noisy = (gradients_sent(replace(NOISY[name], iso_gradients=ratio), federation)[0] for ratio in (0.0, 3.0))
    largest = float(plain.norm(dim=1).max())
    assert (noisy - plain).norm(dim=1).mean().item() == pytest.approx(3 * largest, rel=0.1)


LABELS_ONLY = ("split-nn", "fedbcd", "fedbcd-sequential")  # whose host may be without features


@pytest.mark.parametrize(
    ("name", "host_features"), [*((name, True) for name in NOISY), *((name, False) for name in LABELS_ONLY)]
)
def test_no_noise_comes_twice(name: str, host_features: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sees the same noise in two messages takes it off both; nor may two guests have the same."""
    noises: list[Tensor] = []

    def watched(gradients: Tensor, ratio: float) -> Tensor:
        noised = isotropic_noise(gradients, ratio)
        if ratio:
            noises.append((noised - gradients).flatten())
        return noised

    monkeypatch.setattr(protection_module, "isotropic_noise", watched)
    rows = "finetune_batch_size" if name == "fedhssl" else "batch_size"
    method = replace(NOISY[name], iso_gradients=3.0, **{rows: 64})
    fit(method, small_federation(rows=800, guests=2, keep=500, host_features=host_features))
    whole = torch.stack([noise for noise in noises if len(noise) == len(noises[0])])
    assert len(whole) >= 10
    alike = torch.corrcoef(whole) - torch.eye(len(whole))
    assert alike.abs().max() < 0.15


@pytest.mark.parametrize("name", [name for name in NOISY if name != "fedcvt"])
def test_the_gradients_carry_marvells_noise(name: str, one_order: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each guest's noise lies along the line between the classes of its own gradients, of the right rows."""
    monkeypatch.setattr("vesica.nn.models.build.DROPOUT", 0.0)
    federation = small_federation(rows=800, guests=2, keep=500)
    seen: list[tuple[Tensor, Tensor]] = []

    def watched(gradients: Tensor, labels: Tensor, *, power: float) -> Any:
        assert power == 3.0
        seen.append((gradients, labels))
        return marvell_noise(gradients, labels, power=power)

    monkeypatch.setattr(protection_module, "marvell_noise", watched)
    sent = gradients_sent(replace(NOISY[name], marvell=3.0), federation)
    assert len(sent) == len(seen) == 2
    for noisy, (plain, labels) in zip(sent, seen, strict=True):
        apart = plain[labels == 1].mean(0) - plain[labels == 0].mean(0)
        noise = noisy - plain
        power = float(noise.square().sum(1).mean())
        assert power == pytest.approx(3.0 * float(apart.square().sum()), rel=0.25)
        along = (noise @ (apart / apart.norm())).square().mean().item()
        assert along > 0.5 * power  # of 32 directions
        assert roc_auc_score(labels, plain @ apart) > 0.9  # labels of other rows would not tell them apart


def test_marvell_says_what_it_left_and_that_it_guarantees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([0.64, None, *[0.16] * 10])

    def measured(gradients: Tensor, labels: Tensor, *, power: float) -> Any:
        return replace(marvell_noise(gradients, labels, power=power), sum_kl=next(left))

    monkeypatch.setattr(protection_module, "marvell_noise", measured)
    result = fit(SplitNN(epochs=2, batch_size=16, marvell=2.0), small_federation(guests=2))  # 3 batches an epoch
    assert result.privacy is None
    assert result.statements == (
        "On the gradients there is Marvell's Gaussian noise, whose squared norm a row is on average 2 times the "
        "squared distance of the two classes' means in a batch. It carries no guarantee of differential privacy: no "
        "epsilon is stated for it. If the gradients of a class were Gaussian, alike in all directions, nobody who sees "
        "one message alone could tell the classes apart with an AUC above 0.820 (0.693 on average), the largest bound "
        "of 11 messages; who sees the same rows in many can. In 1 more, with fewer than two rows of a class, it "
        "was alike for both, with no bound.",
    )
    said = fit(SplitNN(epochs=1, iso_gradients=5.0), small_federation()).statements
    assert len(said) == 1
    assert "about 5 times" in said[0]
    assert "no guarantee of differential privacy" in said[0]


def test_fine_tuning_with_fewer_labels_counts_its_own_messages() -> None:
    result = fit(replace(METHODS["fedhssl-counts"], marvell=2.0), federation_of())
    for run, rows in zip((*result.milestones, result), (20, 30, 60), strict=True):
        (said,) = (each for each in run.statements if "Marvell" in each)
        batches = 3 * 2 * -(-(rows - rows // 10) // 32)
        assert f"the largest bound of {batches} messages" in said


REFUSED = {
    "label_epsilon draws other classes and a regression has none": {"label_epsilon": 1.0},
    "marvell hides two classes from each other and the task 'regression' here has 1 outputs": {"marvell": 1.0},
}


@pytest.mark.parametrize("kind", [SplitNN, FedBCD, FedHSSL, FedLocalSSL, VFLHLP, VFLHLPA, VFLHLPP])
@pytest.mark.parametrize("why", REFUSED)
def test_a_regression_is_refused(kind: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        fit(kind(**REFUSED[why]), small_federation(task="regression"))


def test_marvell_refuses_three_classes() -> None:
    federation = small_federation()
    three = replace(federation, label=np.arange(100) % 3, metric="accuracy")
    with pytest.raises(InputError, match=r"marvell hides two classes.* has 3 outputs: take iso_gradients"):
        fit(SplitNN(marvell=1.0), three)
    fit(SplitNN(epochs=1, iso_gradients=1.0, label_epsilon=1.0), three)


@pytest.mark.parametrize("kind", [SplitNN, FedBCD, FedCVT, FedHSSL, FedLocalSSL, VFLHLP, VFLHLPA, VFLHLPP])
def test_what_cannot_be_meant_is_refused_before_anyone_talks(kind: Any) -> None:
    with pytest.raises(InputError, match="iso_gradients and marvell are two noises on the same gradients: give one of"):
        kind(iso_gradients=1.0, marvell=1.0)
    with pytest.raises(InputError, match=r"label_epsilon is 0.0: give a positive number, or leave it out"):
        kind(label_epsilon=0.0)
    with pytest.raises(InputError, match=r"field 'iso_gradients' of method .* is -1.0: it is 0 or more"):
        fit(kind(iso_gradients=-1.0), small_federation())


def test_fedcvt_refuses_marvell() -> None:
    with pytest.raises(InputError, match="the unaligned ones of fedcvt have none: take iso_gradients"):
        FedCVT(marvell=1.0)


def test_defences_can_be_set_from_text() -> None:
    expected = SplitNN(label_epsilon=0.5, marvell=4.0)
    assert make_method("split-nn", {"label_epsilon": "0.5", "marvell": "4"}) == expected
