"""FedOnce with differential privacy: who spends what, what a guest's targets look at, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from federations import photo_federation, small_federation
from vesica.errors import InputError
from vesica.experiment import fit
from vesica.methods import FedOnce, fedonce_privacy
from vesica.methods.fedonce_privacy import GuestTargets
from vesica.nn.models import CNN0, CNN1, MLP
from vesica.nn.models.filters import EdgeFilters, TurnedColumns
from vesica.nn.objectives import distance
from vesica.privacy import Mechanism, clipped_sum, pld_epsilon, rdp_epsilon
from vesica.privacy.spent import at_most

TINY: dict[str, Any] = {"guest_epochs": 2, "host_epochs": 3, "batch_size": 16, "epsilon": 4.0}


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Every private training of a run: its model, its targets, its rows and its mechanism."""
    found: list[dict[str, Any]] = []
    train = fedonce_privacy.train_privately

    def watched(*given: Any, **named: Any) -> None:
        found.append({"model": given[0], "targets": given[2], **named})
        train(*given, **named)

    monkeypatch.setattr(fedonce_privacy, "train_privately", watched)
    return found


@pytest.mark.parametrize("representation", ["filters", "fixed", "codebook"])
def test_all_parties_together_spend_epsilon(representation: str, trainings: list[dict[str, Any]]) -> None:
    result = fit(FedOnce(representation=representation, **TINY), small_federation(guests=2))  # type: ignore[arg-type]
    mechanisms: list[Mechanism] = [training["mechanism"] for training in trainings]
    assert len(mechanisms) == (1 if representation == "filters" else 3)
    assert rdp_epsilon(mechanisms, 1e-5) <= 4
    said = result.to_json()
    assert said["epsilon"] == pytest.approx(4, abs=1e-3)
    assert said["delta"] == 1e-5
    by_renyi, by_loss = rdp_epsilon(mechanisms, 1e-5), pld_epsilon(mechanisms, 1e-5)
    assert result.statements[0] == (
        f"The weights of all models together are differentially private, epsilon {at_most(by_renyi)} at delta 1e-05 by "
        f"Rényi accounting (moments division), {at_most(by_loss)} by privacy loss distributions; neighbours differ in "
        "one person's whole record, there or not. Not covered: the representations that the guests gave the host, what "
        "the agreement says (the classes, which rows are labelled and which validate), predictions, how columns and "
        "labels are prepared (scales, medians, which categories have a code, which columns have gaps), how many rows "
        "there are, and the choice of settings."
    )


def test_every_party_clips_and_goes_as_fast_as_it_is_told(trainings: list[dict[str, Any]]) -> None:
    fit(FedOnce(representation="fixed", clip=0.7, private_learning_rate=0.3, **TINY), small_federation())
    assert {(training["clip"], training["learning_rate"]) for training in trainings} == {(0.7, 0.3)}


def moved(encoder: nn.Module, own: Tensor, *, targets: tuple[Tensor, Tensor], left_out: int, clip: float) -> float:
    """By how far the clipped sum of all rows is from that of all but one, as their targets are with and without it."""
    others = torch.arange(len(own)) != left_out
    sums = [
        torch.cat([each.flatten() for each in clipped_sum(encoder, rows, of_rows, loss=distance, clip=clip).values()])
        for rows, of_rows in zip((own, own[others]), targets, strict=True)
    ]
    return float((sums[0] - sums[1]).norm())


@pytest.mark.parametrize("representation", ["fixed", "codebook"])
@given(seed=st.integers(0, 2**16), rows=st.integers(2, 40), clip=st.sampled_from([1e-2, 1.0, 1e2]), data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_private_guests_target_depends_on_its_row_alone(
    representation: str, seed: int, rows: int, clip: float, data: st.DataObject
) -> None:
    """Without one row of a batch the others keep theirs, in it and later, and the sum moves by the clip at most."""
    left_out = data.draw(st.integers(0, rows - 1))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder, own = MLP(5, (8,), 3).double(), torch.randn(rows, 5, dtype=torch.float64)
        targets = GuestTargets(representation, encoder, own, dim=3)
    targets.points = targets.points.double()
    everyone, others = torch.arange(rows), torch.arange(rows)[torch.arange(rows) != left_out]
    before, with_it = targets(others), targets(everyone)
    assert torch.equal(with_it[others], before)
    assert torch.equal(targets(others), before)
    assert targets.public == (representation == "codebook")
    assert moved(encoder, own, targets=(with_it, before), left_out=left_out, clip=clip) <= clip * (1 + 1e-9)


def test_no_seed_gives_the_points_of_fixed_away() -> None:
    """They go by a row's place, so that who knew them could tell that one row is gone."""
    own, drawn = torch.zeros(50, 5), []
    for representation in ("fixed", "fixed", "codebook", "codebook"):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            drawn.append(GuestTargets(representation, nn.Identity(), own, dim=3).points)
    assert not torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[2], drawn[3])
    assert drawn[0].norm(dim=1).tolist() == pytest.approx([1.0] * 50)
    assert drawn[0].mean(dim=0).norm() < 0.5  # all round


@pytest.mark.parametrize("representation", ["fixed", "codebook"])
def test_these_are_the_targets_that_a_guest_trains_towards(
    representation: Any, trainings: list[dict[str, Any]]
) -> None:
    fit(FedOnce(representation=representation, **TINY), small_federation())
    encoder, targets = trainings[0]["model"].eval(), trainings[0]["targets"]
    one_by_one, together = torch.cat([targets(torch.tensor([row])) for row in range(40)]), targets(torch.arange(40))
    assert torch.equal(one_by_one, together)
    assert together.shape == encoder(torch.zeros(40, 3)).shape
    assert len(together.unique(dim=0)) > 2  # not one for all


def test_a_target_is_a_rows_own_point_or_the_nearest_of_a_codebook() -> None:
    encoder, own = MLP(5, (8,), 3), torch.randn(30, 5)
    fixed, codebook = (GuestTargets(name, encoder, own, dim=3) for name in ("fixed", "codebook"))
    batch = torch.tensor([7, 3, 20])
    assert torch.equal(fixed(batch), fixed.points[batch])
    assert len(codebook.points) == 256
    nearest = torch.cdist(encoder(own[batch]).detach(), codebook.points).argmin(dim=1)
    assert torch.equal(codebook(batch), codebook.points[nearest])


def test_the_papers_assignment_lets_one_row_move_all_others() -> None:
    """Rows on an arc, each halfway between two points, and the first row's own point is the last: without the row
    everyone falls back to the point on its other side, and every gradient turns round."""
    rows, step, clip = 20, 0.02, 1e-3
    encoder = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        encoder.weight.copy_(torch.eye(2))

    def on_circle(places: Tensor) -> Tensor:
        return torch.stack([torch.cos(step * places), torch.sin(step * places)], dim=1)

    own = on_circle(torch.arange(rows) - 0.5)
    targets = GuestTargets("heuristic-nat", encoder, own, dim=2)
    start = on_circle((torch.arange(rows) - 1) % rows)
    targets.points = start.clone()
    without = targets(torch.arange(1, rows))
    targets.points = start.clone()
    with_it = targets(torch.arange(rows))
    assert (with_it[1:] != without).any(dim=1).all()
    assert moved(encoder, own, targets=(with_it, without), left_out=0, clip=clip) > 1.8 * rows * clip
    assert not torch.equal(targets.points, start)  # and it lasts
    assert not targets.public


def test_a_guest_trains_on_its_aligned_rows_and_the_host_on_the_labelled_ones(trainings: list[dict[str, Any]]) -> None:
    """These are the numbers that everyone knows, so that nobody need say how much it spends."""
    fit(FedOnce(representation="fixed", **TINY), replace(small_federation(rows=200), labelled=24))
    assert [training["rows"] for training in trainings] == [40, 24]
    assert [training["mechanism"].sampling for training in trainings] == [16 / 40, 16 / 24]
    assert [training["mechanism"].steps for training in trainings] == [5, 5]


def test_one_noise_with_moments_and_each_its_own_with_simple_division(trainings: list[dict[str, Any]]) -> None:
    def noises(division: str) -> list[float]:
        trainings.clear()
        method = FedOnce(representation="fixed", division=division, **TINY)  # type: ignore[arg-type]
        fit(method, small_federation())
        return [training["mechanism"].noise for training in trainings]

    moments, simple = noises("moments"), noises("simple")
    assert len(set(moments)) == 1
    assert len(set(simple)) == 2
    assert min(simple) > max(moments)


def test_no_message_is_added_and_equal_parties_need_not_ask() -> None:
    result = fit(FedOnce(representation="codebook", **TINY), small_federation(guests=3, host_features=False))
    assert [entry.kind for entry in result.ledger.messages] == ["representations"] * 3


def test_filters_are_the_encoder_as_it_was_drawn() -> None:
    private, plain = (
        fit(FedOnce(representation="filters", host_epochs=1, batch_size=16, epsilon=epsilon), small_federation())
        for epsilon in (4.0, None)
    )
    one, two = (result.models["shop1"].encoder.state_dict() for result in (private, plain))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_with_filters_and_epsilon_the_hosts_own_branch_is_not_trained_either() -> None:
    private, plain = (
        fit(FedOnce(representation="filters", host_epochs=1, batch_size=16, epsilon=epsilon), small_federation())
        for epsilon in (4.0, None)
    )
    assert isinstance(private.models["bank"].encoder, TurnedColumns)
    assert isinstance(plain.models["bank"].encoder, MLP)


@pytest.mark.parametrize(
    ("size", "representation", "kind"), [(8, "fixed", CNN0), (14, "fixed", CNN1), (8, "filters", EdgeFilters)]
)
def test_a_private_party_with_images_takes_few_weights_or_none(size: int, representation: Any, kind: type) -> None:
    result = fit(FedOnce(representation=representation, **TINY), photo_federation(size=size))
    assert type(result.models["camera"].encoder) is kind


def test_for_the_papers_batch_assignment_no_epsilon_is_stated() -> None:
    result = fit(FedOnce(representation="heuristic-nat", **TINY), small_federation())
    assert (result.to_json()["epsilon"], result.to_json()["delta"]) == (None, None)
    assert "the guarantee is heuristic and no epsilon is stated" in result.statements[0]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epsilon": 1.0}, "no privacy guarantee for the representation 'nat'"),
        ({"epsilon": 1.0, "representation": "pca"}, "no privacy guarantee for the representation 'pca'"),
        ({"epsilon": 1.0, "representation": "simsiam"}, "no privacy guarantee for the representation 'simsiam'"),
        ({"epsilon": 1.0, "representation": "byol"}, "no privacy guarantee for the representation 'byol'"),
        ({"epsilon": 1.0, "representation": "moco"}, "no privacy guarantee for the representation 'moco'"),
        ({"epsilon": 1.0, "representation": "scarf"}, "no privacy guarantee for the representation 'scarf'"),
        ({"representation": "codebook"}, "'codebook' of fedonce is for training with epsilon"),
        ({"epsilon": 1.0, "representation": "fixed", "more_epochs": 2}, "no more_epochs"),
        ({"epsilon": 1.0, "representation": "fixed", "party_dropout": 0.3}, "no party_dropout"),
    ],
)
def test_what_has_no_guarantee_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        FedOnce(**settings)


def test_an_epsilon_whose_noise_is_too_short_is_refused() -> None:
    with pytest.raises(InputError, match="needs longer tails at delta 1e-05: give a smaller epsilon"):
        fit(FedOnce(representation="fixed", **(TINY | {"epsilon": 5000.0})), small_federation())


@pytest.mark.parametrize(
    ("delta", "private", "said"),
    [
        (1 / 40, {"epsilon": 4.0}, True),
        (1 / 41, {"epsilon": 4.0}, False),
        (1 / 40, {"representation_epsilon": 4.0}, True),
        (1 / 40, {"epsilon": 4.0, "representation_epsilon": 4.0}, True),
        (1 / 40, {"epsilon": 4.0, "representation": "heuristic-nat"}, False),  # of which nothing is claimed
        (1 / 40, {"sigma_r": 1.0}, False),
    ],
)
def test_a_delta_of_one_over_the_rows_is_said_to_mean_little(delta: float, private: dict[str, Any], said: bool) -> None:
    few = {name: value for name, value in TINY.items() if name != "epsilon"}
    method = FedOnce(**{"representation": "filters", "delta": delta, **few, **private})
    statements = [each for each in fit(method, small_federation()).statements if "too large for any epsilon" in each]
    assert statements == [each for each in statements if "A delta of 0.025 is not below 1 / 40" in each]
    assert len(statements) == said


def test_without_a_positive_epsilon_nothing_is_trained() -> None:
    with pytest.raises(InputError, match="epsilon is 0"):
        fit(FedOnce(representation="fixed", **(TINY | {"epsilon": 0.0})), small_federation())


def test_two_budgets_together_are_never_below_the_one_of_the_weights() -> None:
    alone, both = (
        fit(FedOnce(representation="filters", **TINY, **more), small_federation())  # type: ignore[arg-type]
        for more in ({}, {"representation_epsilon": 0.5})
    )
    assert alone.privacy is not None
    assert both.privacy is not None
    assert both.privacy.epsilon > alone.privacy.epsilon


def test_filters_are_refused_where_they_would_have_to_learn() -> None:
    with pytest.raises(InputError, match="filters are not trained"):
        FedOnce(representation="filters", more_epochs=2)


@pytest.mark.parametrize("clip", [0.0, -1.0, 1e-44, 1e39, 1e300, float("nan")])
def test_a_clip_that_float32_cannot_scale_by_is_refused(clip: float) -> None:
    with pytest.raises(InputError) as refusal:
        FedOnce(representation="filters", epsilon=2.0, clip=clip)
    assert str(refusal.value) == f"clip of fedonce is {clip}: give a number from 1e-12 to 1e+12"
