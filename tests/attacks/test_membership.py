"""Whether a model was trained on a row."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import betabinom, binomtest, norm
from torch import Tensor, nn
from torch.nn import functional

from vesica.attacks.membership import Rate, bound, confidence, likelihood_ratio, true_positive_rate
from vesica.errors import InputError


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def shadow_scores(step: float, *, rows: int = 4000, models: int = 8, seed: int = 0) -> tuple[Tensor, ...]:
    """Target, its members, shadows and theirs: rows are easy or hard, and training on one adds `step`."""
    easy = 3 * random(rows, seed=seed)
    trained = random(models + 1, rows, seed=seed + 1) > 0
    scores = easy + step * trained + random(models + 1, rows, seed=seed + 2)
    return scores[0], trained[0], scores[1:], trained[1:]


def rate_of(scores: Tensor, members: Tensor) -> Rate:
    rate = true_positive_rate(scores, members)
    assert rate is not None
    return rate


def is_chance(rate: Rate) -> bool:
    """Whether members pass as often as others do, as far as so many rows can tell."""
    return rate.low <= 0.01 <= rate.high


def test_a_confidence_is_the_logit_of_the_probability() -> None:
    logits, labels = random(50, 4), torch.arange(50) % 4
    chance = logits.softmax(dim=1).gather(1, labels[:, None]).squeeze(1)
    torch.testing.assert_close(confidence(logits, labels), (chance / (1 - chance)).log())
    torch.testing.assert_close(confidence(logits.log_softmax(dim=1), labels), confidence(logits, labels))


def test_a_confidence_is_finite_where_a_probability_is_rounded_to_one() -> None:
    logits = torch.tensor([[500.0, 0.0], [0.0, 500.0]])
    assert confidence(logits, torch.tensor([0, 0])).tolist() == [500, -500]


def test_rows_learned_by_heart_are_caught_and_others_are_not() -> None:
    rows, labels, members = random(600, 2000).float(), torch.arange(600) % 2, torch.arange(600) < 300
    torch.manual_seed(0)
    model = nn.Linear(2000, 2)
    before = rate_of(confidence(model(rows), labels), members)
    optimiser = torch.optim.Adam(model.parameters())
    for _ in range(30):
        optimiser.zero_grad()
        functional.cross_entropy(model(rows[:300]), labels[:300]).backward()
        optimiser.step()
    assert rate_of(confidence(model(rows), labels), members).low > 0.1
    assert is_chance(before)


def test_shadow_models_tell_easy_rows_from_trained_ones() -> None:
    target, members, shadows, trained = shadow_scores(2.0)
    ratio = rate_of(likelihood_ratio(target, shadows, trained=trained), members)
    best = norm.sf(norm.isf(0.01) - 2)  # who knows every row's own distribution
    assert 0.4 * best < ratio.low
    assert ratio.value < best
    assert ratio.low > 3 * rate_of(target, members).high


@pytest.mark.parametrize("seed", range(3))
def test_shadow_models_say_nothing_about_a_target_that_did_not_learn(seed: int) -> None:
    _, members, shadows, trained = shadow_scores(2.0, seed=10 * seed)
    target = shadow_scores(0.0, seed=10 * seed)[0]
    assert is_chance(rate_of(likelihood_ratio(target, shadows, trained=trained), members))


def test_the_likelihood_ratio_is_that_of_two_normal_distributions() -> None:
    shadows = torch.tensor([[4.0, 9.0], [6.0, 13.0], [1.0, 0.0], [3.0, 2.0]], dtype=torch.float64)
    trained = torch.tensor([[True] * 2] * 2 + [[False] * 2] * 2)
    target = torch.tensor([4.5, 3.0], dtype=torch.float64)
    # Inside: means 5 and 11, squares 2 and 8 of one degree of freedom each; outside: means 2 and 1, 2 and 2.
    expected = [
        norm.logpdf(value, inside, math.sqrt(5)) - norm.logpdf(value, outside, math.sqrt(2))
        for value, inside, outside in [(4.5, 5, 2), (3.0, 11, 1)]
    ]
    torch.testing.assert_close(likelihood_ratio(target, shadows, trained=trained).tolist(), expected)


def test_without_a_model_trained_on_any_row_the_attack_is_offline() -> None:
    shadows = torch.tensor([[1.0, 0.0], [3.0, 2.0]], dtype=torch.float64)
    scores = likelihood_ratio(torch.tensor([4.0, 1.0]), shadows, trained=torch.zeros(2, 2, dtype=torch.bool))
    torch.testing.assert_close(scores, torch.tensor([2.0, 0.0], dtype=torch.float64) / math.sqrt(2))
    target, members, shadows, trained = shadow_scores(2.0)
    outside = torch.where(trained, shadows - 2, shadows)  # the same models, had they not been trained on the row
    rate = rate_of(likelihood_ratio(target, outside, trained=torch.zeros_like(trained)), members)
    assert rate.low > 0.15


def test_a_row_with_models_on_one_side_only_is_given_the_usual_step() -> None:
    target, members, shadows, trained = shadow_scores(2.0, models=3)
    one_sided = trained.all(dim=0) | ~trained.any(dim=0)
    assert one_sided.sum() > 800
    scores = likelihood_ratio(target, shadows, trained=trained)
    for side in (trained.all(dim=0), ~trained.any(dim=0)):
        assert scores[side & members].mean() > scores[side & ~members].mean() + 1
    assert rate_of(scores[one_sided], members[one_sided]).low > 0.05


def test_shadow_models_that_cannot_tell_are_refused() -> None:
    some = torch.zeros(3)
    with pytest.raises(InputError, match="train more"):
        likelihood_ratio(some, torch.zeros(2, 3), trained=torch.tensor([[True] * 3, [False] * 3]))
    with pytest.raises(InputError, match="random half"):
        likelihood_ratio(some, torch.zeros(2, 3), trained=torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(InputError, match="the same rows"):
        likelihood_ratio(some, torch.zeros(2, 4), trained=torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(InputError, match="finite"):
        likelihood_ratio(some, torch.full((2, 3), math.inf), trained=torch.zeros(2, 3, dtype=torch.bool))


def test_models_that_all_say_the_same_give_finite_scores() -> None:
    scores = likelihood_ratio(torch.tensor([1.0]), torch.zeros(3, 1), trained=torch.zeros(3, 1, dtype=torch.bool))
    assert scores.isfinite().all()


@pytest.mark.parametrize(("outsiders", "at"), [(199, 0.01), (39, 0.1), (50, 0.1)])
def test_members_like_all_others_pass_as_often_as_agreed_or_less(outsiders: int, at: float) -> None:
    members = torch.arange(outsiders + 1) < 1
    scores = torch.rand(1500, outsiders + 1, generator=torch.Generator().manual_seed(0))
    passed = sum(rate.value for row in scores if (rate := true_positive_rate(row, members, at=at)))
    expected = math.floor(at * (outsiders + 1)) / (outsiders + 1)
    low, high = binomtest(int(passed), len(scores)).proportion_ci(0.99)
    assert low < expected < high


def test_equal_scores_do_not_pass() -> None:
    members = torch.arange(400) < 200
    none = true_positive_rate(torch.ones(400), members, at=0.1)
    assert none is not None
    assert (none.value, none.low) == (0, 0)
    scores = torch.where(members, 1.0, torch.arange(400) % 2)  # half of the others have the members' score
    assert true_positive_rate(scores, members, at=0.1) == none
    all_members = true_positive_rate(scores, members, at=0.6)
    assert all_members is not None
    assert (all_members.value, all_members.high) == (1, 1)


def test_too_few_non_members_give_no_rate() -> None:
    scores = torch.arange(1100.0)
    assert true_positive_rate(scores, scores >= 998, at=0.001) is None
    enough = true_positive_rate(scores, scores >= 999, at=0.001)
    assert enough is not None
    assert enough.value == 1
    assert true_positive_rate(scores, torch.zeros(1100, dtype=torch.bool)) is None


def test_a_score_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="no NaN"):
        true_positive_rate(torch.tensor([1.0, math.nan]), torch.tensor([True, False]))


@pytest.mark.parametrize(("members", "rank", "outsiders", "at"), [(7960, 14, 1474, 0.01), (300, 9, 900, 0.01)])
def test_the_interval_lies_above_where_less_than_one_draw_of_forty_would(
    members: int, rank: int, outsiders: int, at: float
) -> None:
    """Of members that score like others: the threshold is drawn as well as they are."""
    told = [h for h in range(members // 20) if Rate.of(h, members, rank=rank, outsiders=outsiders, at=at).low > at]
    drawn = betabinom(members, rank, outsiders - rank + 1)
    assert drawn.sf(told[0] - 1) <= 0.025 < drawn.sf(told[0] - 2)


def test_the_interval_holds_a_rate_that_is_a_multiple_of_others() -> None:
    """As is the most that a guarantee allows: one in forty draws may lie above it, and one below."""
    random = np.random.default_rng(0)
    others = random.beta(9, 892, size=1000)
    hits = random.binomial(500, 5 * others)
    of_hits = {h: Rate.of(h, 500, rank=9, outsiders=900, at=0.01) for h in set(hits)}  # most come up many times
    rates = [of_hits[h] for h in hits]
    for missed in (sum(rate.low > 0.05 for rate in rates), sum(rate.high < 0.05 for rate in rates)):
        assert 10 < missed < 38  # of 1,000; counts are whole numbers, so a little less than 25 is meant


def test_with_ever_more_others_the_interval_is_that_of_a_share() -> None:
    rate, share = Rate.of(30, 400, rank=10**6, outsiders=10**8, at=0.01), binomtest(30, 400).proportion_ci(0.95)
    assert (rate.value, rate.low, rate.high) == pytest.approx((30 / 400, share.low, share.high), rel=5e-3)


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="0 of 0"):
        Rate.of(0, 0, rank=1, outsiders=100, at=0.01)


def test_the_bound_is_met_by_randomised_response_and_by_no_privacy() -> None:
    assert bound(0, 0, at=0.01) == pytest.approx(0.01)
    assert bound(math.log(2), 0, at=0.01) == pytest.approx(0.02)
    assert bound(math.log(2), 1e-3, at=0.01) == pytest.approx(0.021)
    assert bound(math.log(2), 1e-3, at=0.8) == pytest.approx(1 - 0.5 * 0.199)
    kept = math.e / (1 + math.e)
    assert bound(1, 0, at=1 - kept) == pytest.approx(kept)
    assert bound(math.inf, 0, at=0) == bound(2000, 0, at=0.01) == bound(0, 0, at=1) == 1
    assert bound(5, 1e-5, at=0) == 1e-5
    with pytest.raises(InputError, match="epsilon from 0 on"):
        bound(-1, 0, at=0.1)


def test_outputs_that_are_no_logits_are_refused() -> None:
    with pytest.raises(InputError, match="two or more classes"):
        confidence(torch.zeros(3, 1), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(InputError, match="finite"):
        confidence(torch.tensor([[0.0, -math.inf]]), torch.tensor([0]))
