"""Training that ends at a number of bytes: where it ends, what is kept, and what stays as it was."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from federations import quick, small_federation
from vesica.errors import BudgetError, InputError, RunFolderError
from vesica.experiment import Result, fit
from vesica.experiment.recipes import Case, Recipe, reproduce
from vesica.methods import METHODS, FedBCD, FedCVT, FedOnce, FewShot, Method, SplitNN
from vesica.protocol import Budget, Message, end_to_end
from vesica.protocol.message import encode

BATCHES = (16, 16, 4)  # of the 36 training rows
SPLIT = SplitNN(epochs=4, batch_size=16, hidden=(4,))
ENOUGH = 10**9
SLACK = 100  # bytes: the longest words of verdicts are reckoned with
WIRES = ("float32", "float16", "int8")


class Sizes:
    """What each part of split-nn's conversation takes, all guests together, read off a run that is never stopped."""

    def __init__(self, guests: int = 1, wire: str = "float32") -> None:
        result = fit(SPLIT, small_federation(guests=guests), wire=wire, stop_at_bytes=ENOUGH)
        each = [entry.wire for entry in result.ledger.messages]
        rounds = [sum(each[i : i + guests]) for i in range(0, len(each), guests)]
        up, down = rounds[::2], rounds[1::2]
        self.batches = tuple(up[i] + down[i] for i in range(3))
        self.verdict = guests * len(encode(Message("verdict", {}, {"better": False, "stop": False})))  # the longest
        self.scoring = up[3] + self.verdict

    def first(self, number: int) -> int:
        """Of so many batches."""
        return sum(self.batches[i % 3] for i in range(number))


def script(result: Result) -> str:
    """What the host sent to its first guest: a g for gradients, a v for a verdict."""
    return "".join(entry.kind[0] for entry in result.ledger.messages if entry.receiver == "shop1")


def weights_of(result: Result) -> list[torch.Tensor]:
    encoders = [model.encoder for model in result.models.values() if model.encoder is not None]
    head = result.models["bank"].head
    assert head is not None
    return [values for module in (*encoders, head) for values in module.state_dict().values()]


def same_weights(one: Result, two: Result) -> bool:
    return all(map(torch.equal, weights_of(one), weights_of(two)))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("guests", [1, 3])
def test_it_ends_at_or_under_the_limit_where_one_more_batch_would_pass_it(guests: int, wire: str) -> None:
    sizes, federation = Sizes(guests, wire), small_federation(guests=guests)
    whole = 4 * (sizes.first(3) + sizes.scoring)
    stopped = set()
    for limit in range(sizes.first(1) + sizes.scoring, whole, whole // 17):
        result = fit(SPLIT, federation, wire=wire, stop_at_bytes=limit)  # type: ignore[arg-type]
        trained = script(result).count("g")
        assert result.ledger.wire <= limit
        # A verdict of two true words is two bytes shorter than one of two false ones.
        assert result.ledger.wire + sizes.batches[trained % 3] + 2 * guests * script(result).count("v") > limit
        assert script(result).endswith("v")
        stopped.add(trained)
    assert {number % 3 for number in stopped} == {0, 1, 2}
    assert max(stopped) > 9


def test_one_byte_decides_whether_a_batch_still_fits() -> None:
    sizes, federation = Sizes(), small_federation()
    for number in (2, 3):
        limit = sizes.first(number) + sizes.scoring
        assert script(fit(SPLIT, federation, stop_at_bytes=limit)) == "g" * number + "v"
        assert script(fit(SPLIT, federation, stop_at_bytes=limit - 1)) == "g" * (number - 1) + "v"


def test_the_scoring_at_an_epochs_end_gives_way_to_a_batch() -> None:
    sizes, federation = Sizes(), small_federation()
    both = sizes.first(4) + 2 * sizes.scoring
    assert script(fit(SPLIT, federation, stop_at_bytes=both)) == "gggvgv"
    assert script(fit(SPLIT, federation, stop_at_bytes=both - 1)) == "ggggv"


def test_the_last_epoch_is_scored_though_another_batch_would_fit() -> None:
    sizes = Sizes()
    limit = 4 * (sizes.first(3) + sizes.scoring) + sizes.first(1)
    assert script(fit(SPLIT, small_federation(), stop_at_bytes=limit)) == "gggv" * 4


@pytest.mark.parametrize("guests", [1, 3])
def test_a_limit_that_is_never_reached_changes_nothing_but_a_word(guests: int) -> None:
    federation = small_federation(guests=guests)
    free, limited = fit(SPLIT, federation), fit(SPLIT, federation, stop_at_bytes=ENOUGH)
    assert same_weights(free, limited)
    assert free.metrics == limited.metrics
    assert [point["value"] for point in free.curve] == [point["value"] for point in limited.curve]
    plain, told = ([(m.round, m.sender, m.kind, m.payload) for m in run.ledger.messages] for run in (free, limited))
    assert plain == told
    assert "stop_at_bytes" not in free.config
    assert free.title == "split-nn"


def test_a_run_that_is_stopped_begins_as_one_that_is_not() -> None:
    sizes, federation = Sizes(), small_federation()
    limit = sizes.first(7) + 3 * sizes.scoring
    whole, stopped = fit(SPLIT, federation), fit(SPLIT, federation, stop_at_bytes=limit)
    assert script(stopped) == "gggvgggvgv"
    epochs = [point["value"] for point in stopped.curve[:2]]
    assert epochs == [point["value"] for point in whole.curve[:2]]


def test_what_was_best_before_is_kept_by_every_party(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, federation = Sizes(2), small_federation(guests=2)
    worse = count()
    monkeypatch.setattr(end_to_end, "standing", lambda *given: (-float(next(worse)), 0.0))
    limits = sizes.first(3) + sizes.scoring, sizes.first(5) + 2 * sizes.scoring
    once, longer = (fit(SPLIT, federation, stop_at_bytes=limit) for limit in limits)
    assert (script(once), script(longer)) == ("gggv", "gggvggv")
    assert same_weights(once, longer)


def test_the_last_look_is_kept_where_it_is_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, federation = Sizes(2), small_federation(guests=2)
    better = count()
    monkeypatch.setattr(end_to_end, "standing", lambda *given: (float(next(better)), 0.0))
    limits = sizes.first(3) + sizes.scoring, sizes.first(5) + 2 * sizes.scoring
    once, longer = (fit(SPLIT, federation, stop_at_bytes=limit) for limit in limits)
    assert not same_weights(once, longer)


@pytest.mark.parametrize("host_features", [True, False])
def test_where_no_look_fits_every_party_keeps_its_last_state_and_that_is_said(host_features: bool) -> None:
    sizes, federation = Sizes(2), small_federation(guests=2, host_features=host_features)
    unseen = fit(SPLIT, federation, stop_at_bytes=sizes.first(1) + sizes.scoring - 1)
    seen = fit(SPLIT, federation, stop_at_bytes=sizes.first(1) + sizes.scoring)
    assert (script(unseen), unseen.curve) == ("gv", ())
    assert (script(seen), len(seen.curve)) == ("gv", 1)
    assert same_weights(unseen, seen)
    assert len([m for m in unseen.ledger.messages if m.kind == "representations"]) == 2
    assert any("no room to score the validation rows" in statement for statement in unseen.statements)
    assert seen.statements == ()


def test_where_not_even_one_batch_fits_the_run_is_refused() -> None:
    sizes = Sizes()
    least = sizes.first(1) + sizes.verdict
    assert script(fit(SPLIT, small_federation(), stop_at_bytes=least)) == "gv"
    with pytest.raises(InputError, match=rf"not even one batch fits into --stop-at-bytes {least - 1:,}: .*{least:,};"):
        fit(SPLIT, small_federation(), stop_at_bytes=least - 1)


OTHERS: dict[str, Method] = {
    "fedbcd": FedBCD(epochs=4, batch_size=16),
    "fedbcd, sequential": FedBCD(epochs=4, batch_size=16, order="sequential"),
    "fedcvt": FedCVT(epochs=4, batch_size=16, unaligned_batch_size=8),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_else_a_batch_sends_is_reckoned_with(name: str) -> None:
    """A guest that goes before another sends its part of a batch twice; those of FedCVT add rows of their own."""
    federation = small_federation(guests=3)
    free, limited = fit(OTHERS[name], federation), fit(OTHERS[name], federation, stop_at_bytes=ENOUGH)
    assert same_weights(free, limited)
    messages = limited.ledger.messages
    words = [number for number, message in enumerate(messages) if message.kind == "gradients"]
    one_batch = sum(message.wire for message in messages[words[0] : words[3]])  # to the next one's gradients
    ends = set()
    for limit in range(limited.ledger.wire // 3, limited.ledger.wire, limited.ledger.wire // 14):
        stopped = fit(OTHERS[name], federation, stop_at_bytes=limit)
        assert stopped.ledger.wire <= limit < stopped.ledger.wire + one_batch + SLACK
        assert stopped.ledger.messages[-1].kind == "verdict"
        ends.add(len(stopped.ledger.messages))
    assert len(ends) > 4


def test_rows_that_a_guest_does_not_have_are_not_reckoned_with_once_that_is_seen() -> None:
    method, federation = FedCVT(epochs=9, batch_size=16, unaligned_batch_size=60), small_federation(guests=2)
    whole = fit(method, federation, stop_at_bytes=ENOUGH)
    assert whole.rows["unaligned"]["shop1"] < 30
    gradients = [message.wire for message in whole.ledger.messages if message.kind == "gradients"]
    limit = whole.ledger.wire - 1
    stopped = fit(method, federation, stop_at_bytes=limit).ledger.wire
    assert limit - 5 * max(gradients) < stopped <= limit  # a batch is four messages


SHOTS: dict[str, Any] = {"guest_steps": 3, "host_epochs": 2, "batch_size": 16}
GO_ON = {
    "few-shot": FewShot(**SHOTS, finetune_iterations=9),
    "few-shot with private labels": FewShot(**SHOTS, finetune_iterations=9, label_epsilon=1.0),
    "fedonce": FedOnce(guest_epochs=3, host_epochs=2, batch_size=16, more_epochs=3),
}


@pytest.mark.parametrize("name", GO_ON)
def test_what_has_passed_before_counts_and_what_follows_has_room(name: str) -> None:
    sizes, federation = Sizes(2), small_federation(guests=2)
    before = fit(GO_ON[name], federation, stop_at_bytes=ENOUGH).milestones[-1].ledger.wire
    after = 2 * (40 * 32 * 4 + 200) if "private" in name else 0  # once more, the labelled rows
    limit = before + sizes.first(5) + 2 * sizes.scoring + after
    result = fit(GO_ON[name], federation, stop_at_bytes=limit)
    assert result.ledger.wire <= limit < result.ledger.wire + sizes.first(1)
    assert result.milestones[-1].ledger.wire == before
    sent = [m for m in result.ledger.messages[len(result.milestones[-1].ledger.messages) :] if m.receiver == "shop1"]
    assert "".join(message.kind[0] for message in sent) == "gggvggv"


@pytest.mark.parametrize("name", GO_ON)
def test_going_on_without_a_look_would_be_for_nothing_and_is_refused(name: str) -> None:
    sizes, federation = Sizes(2), small_federation(guests=2)
    before = fit(GO_ON[name], federation, stop_at_bytes=ENOUGH).milestones[-1].ledger.wire
    with pytest.raises(InputError, match="not even one batch fits"):
        fit(GO_ON[name], federation, stop_at_bytes=before + sizes.first(1) + sizes.scoring - 1)


@pytest.mark.parametrize("name", [name for name in METHODS if not getattr(quick(name), "stops_at_bytes", False)])
def test_a_method_that_does_not_train_end_to_end_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"^{name} with these settings cannot be stopped at a number of bytes"):
        fit(quick(name), small_federation(), stop_at_bytes=ENOUGH)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_no_bytes_is_refused(limit: int) -> None:
    with pytest.raises(InputError, match=f"--stop-at-bytes is {limit}: give a number of bytes above 0"):
        fit(SPLIT, small_federation(), stop_at_bytes=limit)


def test_a_run_folder_belongs_to_one_limit(tmp_path: Path) -> None:
    federation, out = small_federation(), tmp_path / "run"
    with pytest.raises(BudgetError):
        fit(SPLIT, federation, stop_at_bytes=20_000, budget=Budget(bytes=9_000), out=out)
    for other in (20_001, None):
        with pytest.raises(RunFolderError, match="holds another run: config is"):
            fit(SPLIT, federation, stop_at_bytes=other, out=out)
    assert fit(SPLIT, federation, stop_at_bytes=20_000, out=out).ledger.wire <= 20_000


def test_a_case_of_a_recipe_can_be_stopped_and_says_so() -> None:
    cases = [Case(SplitNN(epochs=9), "credit", overlap=50, stop_at_bytes=limit) for limit in (None, 30_000)]
    assert cases[1].title == "split-nn on credit, 50 aligned, seed 0, stop_at_bytes=30000, epochs=9"
    whole, stopped = (run.line for run in reproduce(Recipe("a test", lambda seeds: cases), "fig5"))
    assert stopped["bytes"]["wire"] <= 30_000 < whole["bytes"]["wire"]
    assert stopped["title"] == "split-nn, at most 30,000 bytes"
    assert stopped["config"]["stop_at_bytes"] == 30_000
    assert stopped["config_hash"] != whole["config_hash"]
