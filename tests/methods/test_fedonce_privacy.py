"""FedOnce with differential privacy: who spends what, and what is refused."""

from typing import Any

import pytest
import torch

from federations import photo_federation, small_federation
from vesica.errors import InputError
from vesica.experiment import fit
from vesica.methods import FedOnce, fedonce_privacy
from vesica.models import CNN0, CNN1, MLP
from vesica.models.filters import EdgeFilters, TurnedColumns
from vesica.privacy import Mechanism, rdp_epsilon

TINY: dict[str, Any] = {"guest_epochs": 2, "host_epochs": 3, "batch_size": 16, "epsilon": 4.0}


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Every private training of a run: its rows and its mechanism."""
    found: list[dict[str, Any]] = []
    train = fedonce_privacy.train_privately

    def watched(*given: Any, **named: Any) -> None:
        found.append(named)
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
    assert "Not covered: the representations that the guests gave the host" in result.statements[0]


def test_a_guest_trains_on_its_aligned_rows_and_the_host_on_the_labelled_ones(trainings: list[dict[str, Any]]) -> None:
    """These are the numbers that everyone knows, so that nobody need say how much it spends."""
    fit(FedOnce(representation="fixed", **TINY), small_federation(rows=200))
    assert {training["rows"] for training in trainings} == {40}
    assert {training["mechanism"].sampling for training in trainings} == {16 / 40}
    assert [training["mechanism"].steps for training in trainings] == [5, 8]


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
        ({"representation": "codebook"}, "'codebook' of fedonce is for training with epsilon"),
        ({"epsilon": 1.0, "representation": "fixed", "more_epochs": 2}, "no more_epochs"),
        ({"epsilon": 1.0, "representation": "fixed", "party_dropout": 0.3}, "no party_dropout"),
    ],
)
def test_what_has_no_guarantee_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        FedOnce(**settings)


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
