"""Noise on what FedOnce's guests release: no representation leaves without it, and what it is worth is said."""

import json
import math
import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from scipy.optimize import brentq
from torch import Tensor

from federations import small_federation
from vesica.data import Table, split_rows
from vesica.engines import InProcess
from vesica.errors import AgreementError, InputError, PartyError, ProtocolError, RunFolderError, VesicaError
from vesica.experiment import fit, predict_from, seat
from vesica.experiment.models import PartyModel
from vesica.methods import FedOnce, SplitNN, fedonce, fedonce_privacy, make_method
from vesica.privacy import Mechanism, Release, Spent, at_most, gaussian_epsilon, pld_epsilon, rdp_epsilon, release
from vesica.privacy.release import gaussian_delta
from vesica.protocol import Host, Ledger, Link, agreement
from vesica.protocol.agreement import Agreement
from vesica.protocol.budget import Meter
from vesica.protocol.message import decode

TINY: dict[str, Any] = {"guest_epochs": 1, "host_epochs": 2, "batch_size": 16}
NOISES = {"sigma_r": {"sigma_r": 0.5}, "epsilon": {"representation_epsilon": 4.0, "representation_clip": 0.2}}
every_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)


def overhear(patch: pytest.MonkeyPatch) -> list[Tensor]:
    """The representations that leave the guests from now on."""
    left: list[Tensor] = []
    deliver = InProcess.deliver

    def overheard(engine: InProcess, sender: str, receiver: str, sequence: int, frame: memoryview) -> None:
        message = decode(bytes(frame))
        if message.kind == "representations":
            left.append(message.tensor)
        deliver(engine, sender, receiver, sequence, frame)

    patch.setattr(InProcess, "deliver", overheard)
    return left


def noiseless(model: PartyModel, table: Table, *, clip: float | None) -> Tensor:
    """What a guest would show of each row of its table if there were no noise."""
    assert model.encoder is not None
    assert model.preparation is not None
    with torch.no_grad():
        rows = model.encoder.eval()(model.preparation.apply(table))
    return torch.stack([row * min(1.0, (clip or math.inf) / float(row.norm())) for row in rows])


def assert_noise(noise: Tensor, sigma: float) -> None:
    """Its sample variance is within four standard deviations of what was asked for."""
    assert abs(float(noise.var()) / sigma**2 - 1) < 4 * math.sqrt(2 / noise.numel())


def sigma_of(method: FedOnce) -> float:
    """The noise that the fields ask for: itself, or what delta follows from."""
    if method.representation_epsilon is None:
        assert method.sigma_r is not None
        return method.sigma_r
    spent = partial(gaussian_delta, epsilon=method.representation_epsilon)
    return 2 * method.representation_clip / float(brentq(lambda shift: spent(shift) - method.delta, 1e-3, 20))


@pytest.fixture(autouse=True)
def _seeded_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a statistical bound holds always or never."""
    normals = partial(release.long_tailed_normals, entropy=random.Random(5).randbytes)
    monkeypatch.setattr(release, "long_tailed_normals", normals)


@every_noise
@pytest.mark.parametrize("representation", ["nat", "pca", "filters"])
def test_every_representation_leaves_with_its_noise(
    noise: dict[str, Any], representation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In training and in scoring, of each guest: just so much noise around its clipped row."""
    federation = small_federation(rows=300, guests=2, keep=200)
    method = FedOnce(representation=representation, **noise, **TINY)  # type: ignore[arg-type]
    left = overhear(monkeypatch)
    result = fit(method, federation)
    split = split_rows(federation)
    assert len(left) == 4
    for guest, own in zip(federation.guests, (left[::2], left[1::2]), strict=True):
        rows = split.parties[guest.name]
        plain = noiseless(result.models[guest.name], guest.table, clip=noise.get("representation_clip"))
        for shown, positions in zip(own, (rows.aligned[split.labelled], rows.test), strict=True):
            assert_noise(shown - plain[positions], sigma_of(method))


@every_noise
def test_a_prediction_is_noised_as_was_agreed(
    noise: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the models of a result and by saved ones, and anew each time."""
    federation = small_federation(rows=300, guests=1, keep=100)
    method = FedOnce(**noise, **TINY)
    result = fit(method, federation, out=tmp_path)
    assert method.representation_noise == result.models["shop1"].release
    assert result.models["bank"].release is None
    left = overhear(monkeypatch)
    rows = {party.name: party.table for party in federation.parties}
    ids = [predict(rows).ids.tolist() for predict in (result.predict, partial(predict_from, tmp_path))]
    assert ids == [rows["shop1"].ids.tolist()] * 2
    plain = noiseless(result.models["shop1"], rows["shop1"], clip=noise.get("representation_clip"))
    first, second = (shown - plain for shown in left)
    assert_noise(first, sigma_of(method))
    assert_noise(second, sigma_of(method))
    assert_noise(first - second, sigma_of(method) * math.sqrt(2))  # they are independent


def test_a_saved_model_that_does_not_say_its_noise_is_refused(tmp_path: Path) -> None:
    fit(FedOnce(sigma_r=1.0, **TINY), small_federation(), out=tmp_path)
    path = tmp_path / "shop1" / "model.json"
    about = json.loads(path.read_text())
    assert about.pop("release") == {"sigma": 1.0, "clip": None}
    path.write_text(json.dumps(about))
    with pytest.raises(RunFolderError, match="saved by an earlier version, which knew of no noise"):
        PartyModel.load(tmp_path / "shop1")


def failing(*given: Any, **named: Any) -> Any:
    raise RuntimeError("the power is gone")


@pytest.mark.parametrize(("module", "moment", "sent"), [(fedonce, "train", 2), (seat, "score", 4)])
def test_a_run_that_goes_on_does_not_release_a_row_a_second_time(
    module: Any, moment: str, sent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first life sent is what the second one finds; only what had not left is sent."""
    federation = small_federation(rows=200, guests=2)
    method = FedOnce(representation="filters", representation_epsilon=4.0, **TINY)
    left = overhear(monkeypatch)
    used: list[dict[str, Tensor]] = []
    gather = Host.gather_in_time

    def gathered(me: Host, rows: int) -> dict[str, Tensor]:
        used.append(gather(me, rows))
        return used[-1]

    monkeypatch.setattr(Host, "gather_in_time", gathered)
    with monkeypatch.context() as patch:
        patch.setattr(module, moment, failing)
        with pytest.raises(PartyError, match="the power is gone"):
            fit(method, federation, out=tmp_path)
    assert len(left) == sent
    fit(method, federation, out=tmp_path)
    assert [len(part) for part in left] == [40, 40, 60, 60]
    assert len(used) == 2
    for came in used:
        assert [part.tolist() for part in came.values()] == [part.tolist() for part in left[:2]]


def test_a_run_killed_between_drawing_and_sending_sends_what_was_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draw is on the disk before anything leaves, so it is not drawn twice."""
    method, federation = FedOnce(representation="filters", representation_epsilon=4.0, **TINY), small_federation()
    with monkeypatch.context() as patch:
        patch.setattr(Meter, "allow", failing_for("representations"))
        with pytest.raises(PartyError, match="the power is gone"):
            fit(method, federation, out=tmp_path)
    (drawn,) = (tmp_path / "shop1" / "released").iterdir()
    left = overhear(monkeypatch)
    fit(method, federation, out=tmp_path)
    assert torch.equal(left[0], load_file(drawn)["tensor.1"])
    kept = sorted((tmp_path / "shop1" / "released").iterdir())
    assert [load_file(path)["tensor.1"].shape[0] for path in kept] == [40, 30]


def failing_for(kind: str) -> Any:
    def allow(meter: Meter, ledger: Ledger, receiver: str, sent: str, *, wire: int) -> None:
        if sent == kind:
            raise RuntimeError("the power is gone")

    return allow


def test_a_host_that_names_a_row_more_often_gets_one_draw_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the guest's code alone: its agreement with such a host is refused, and if it were not, nothing is drawn."""
    method = FedOnce(representation="filters", representation_epsilon=1.0, **TINY)
    federation = small_federation(rows=200)
    propose = Agreement.propose

    def often(honest: Agreement, links: Mapping[str, Link]) -> dict[str, int]:
        labelled = torch.cat([honest.labelled, honest.labelled[:1].expand(5000)])
        return propose(replace(honest, labelled=labelled), links)

    monkeypatch.setattr(Agreement, "propose", often)
    with pytest.raises(AgreementError, match="shop1: the host's agreement names labelled rows twice"):
        fit(method, federation)
    left = overhear(monkeypatch)
    monkeypatch.setattr(agreement, "_rising", lambda positions, rows, use: positions)
    with pytest.raises(ProtocolError, match="'representations' from 'shop1' is"):
        fit(method, federation)
    assert len(left[0]) == 5040
    assert len(left[0].unique(dim=0)) == 40


def test_the_guests_of_one_person_compose() -> None:
    """Three Gaussians of one noise are one with a noise smaller by the root of three."""
    method = FedOnce(representation="filters", representation_epsilon=2.0, **TINY)
    result = fit(method, small_federation(guests=3))
    noise = Release.private(2.0, 1e-5, clip=1.0).sigma / 2
    together = pld_epsilon([Mechanism(noise / math.sqrt(3), 1.0, 1)], 1e-5)
    assert result.privacy is not None
    assert result.privacy.epsilon == pytest.approx(together, rel=1e-3)
    assert result.privacy.protects == "columns"
    assert result.to_json()["epsilon"] == result.privacy.epsilon > 3
    (said,) = result.statements
    assert "with epsilon 2.000 for one release by one guest" in said
    assert f"and {at_most(result.privacy.epsilon)} for one by each of the 3 guests together" in said
    assert f"epsilon {at_most(gaussian_epsilon([Mechanism(noise, 1.0, 6)], 1e-5))} after the second" in said
    assert "The encoders are not trained: this covers all that a guest gives the host" in said


@pytest.mark.parametrize("representation", ["nat", "pca"])
def test_where_the_encoder_has_learned_from_the_rows_the_run_states_no_epsilon(representation: str) -> None:
    method = FedOnce(representation=representation, representation_epsilon=2.0, **TINY)  # type: ignore[arg-type]
    result = fit(method, small_federation())
    assert (result.privacy, result.to_json()["epsilon"]) == (None, None)
    (said,) = result.statements
    assert "That these were learned from the same rows is not covered" in said
    assert "together" not in said  # there is one guest


@pytest.mark.parametrize("representation", ["filters", "codebook"])
def test_two_budgets_are_stated_and_added_up(representation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[Mechanism] = []
    train = fedonce_privacy.train_privately

    def watched(*given: Any, **named: Any) -> None:
        trained.append(named["mechanism"])
        train(*given, **named)

    monkeypatch.setattr(fedonce_privacy, "train_privately", watched)
    method = FedOnce(representation=representation, epsilon=3.0, representation_epsilon=2.0, **TINY)  # type: ignore[arg-type]
    result = fit(method, small_federation(guests=2))
    released, weights, total = result.statements
    noise = Release.private(2.0, 1e-5, clip=1.0).sigma / 2
    spent = rdp_epsilon([*trained, *[Mechanism(noise, 1.0, 1)] * 2], 1e-5)
    assert result.privacy == Spent(pytest.approx(spent, rel=1e-6), 1e-5)  # type: ignore[arg-type]
    assert spent > max(pld_epsilon(trained, 1e-5), gaussian_epsilon([Mechanism(noise, 1.0, 2)], 1e-5))
    assert "epsilon 2.000 for one release by one guest" in released
    assert ("has a price of its own" in released) == (representation == "codebook")
    assert "The weights of all models together are differentially private, epsilon 3.000" in weights
    tighter = pld_epsilon([*trained, *[Mechanism(noise, 1.0, 1)] * 2], 1e-5)
    assert f"together: epsilon {at_most(spent)} at delta 1e-05 by Rényi accounting, {at_most(tighter)} by" in total


def test_what_both_cost_is_never_less_than_the_trainings_alone() -> None:
    """Simple division adds the trainings up; composed with what is released they can come to less than that."""
    method = FedOnce(representation="codebook", epsilon=4.0, division="simple", representation_epsilon=0.1, **TINY)
    result = fit(method, small_federation(guests=3))
    total = float(result.statements[-1].partition("together: epsilon ")[2].split()[0])
    assert result.privacy is not None
    assert total < 3.9 < result.privacy.epsilon <= 4.0


def test_the_papers_batch_assignment_gets_no_epsilon_from_noise_either() -> None:
    method = FedOnce(representation="heuristic-nat", epsilon=3.0, representation_epsilon=2.0, **TINY)
    result = fit(method, small_federation())
    assert result.privacy is None
    assert len(result.statements) == 2
    assert "no epsilon is stated for the run as a whole" in result.statements[0]


def test_plain_noise_says_that_it_guarantees_nothing() -> None:
    result = fit(FedOnce(sigma_r=0.25, **TINY), small_federation())
    assert result.privacy is None
    (said,) = result.statements
    assert "Gaussian noise of standard deviation 0.25" in said
    assert "no epsilon is stated for it" in said


def test_a_released_row_may_be_narrowed_on_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    left = overhear(monkeypatch)
    fit(FedOnce(representation_epsilon=8.0, **TINY), small_federation(), wire="int8")
    assert len(left) == 2
    assert min(float(part.std()) for part in left) > 0.5


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"sigma_r": 0.0}, "sigma_r of fedonce is 0.0: give a positive number"),
        ({"sigma_r": -1.0}, "sigma_r of fedonce is -1.0: give a positive number"),
        ({"sigma_r": math.nan}, "sigma_r of fedonce is nan: give a positive number"),
        ({"representation_epsilon": 0.0}, "representation_epsilon of fedonce is 0.0: give a positive number"),
        ({"representation_epsilon": math.inf}, "representation_epsilon of fedonce is inf: give a positive number"),
        ({"representation_epsilon": 1.0, "representation_clip": 0.0}, "representation_clip of fedonce is 0.0"),
        ({"representation_epsilon": 1.0, "sigma_r": 1.0}, "leave it or sigma_r out"),
        ({"representation_epsilon": 1.0, "more_epochs": 1}, "no noise on what more_epochs send"),
        ({"sigma_r": 1.0, "more_epochs": 1}, "no noise on what more_epochs send"),
        ({"representation_epsilon": 1.0, "delta": 1.0}, "delta is 1.0: give a number between 0 and 1"),
        ({"representation_epsilon": 1000.0}, "needs noise with longer tails: give a smaller one"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        FedOnce(**settings)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_fields_can_be_set_from_text() -> None:
    assert make_method("fedonce", {"sigma_r": "0.5"}) == FedOnce(sigma_r=0.5)
    assert make_method("fedonce", {"representation_epsilon": "8"}) == FedOnce(representation_epsilon=8.0)


def test_end_to_end_training_refuses_a_guest_with_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SplitNN, "representation_noise", Release(1.0), raising=False)
    with pytest.raises(VesicaError, match="end-to-end training sends rows as they are and has no noise for them"):
        fit(SplitNN(epochs=1), small_federation())


def test_a_guest_that_is_late_has_released_its_rows_all_the_same() -> None:
    method = FedOnce(representation="filters", representation_epsilon=2.0, **TINY)
    all_there, one_late = (
        fit(method, small_federation(guests=2), wait=wait, absent=absent)
        for wait, absent in ((None, ()), (60.0, ("shop2",)))
    )
    assert one_late.missing == ("shop2",)
    assert one_late.privacy == all_there.privacy
