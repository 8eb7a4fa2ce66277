"""One pre-training of FedHSSL and its parts, fine-tuned with several counts of labelled rows."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from federations import small_federation
from vesica.data import split_rows
from vesica.errors import AgreementError, InputError
from vesica.experiment import Result, fit
from vesica.methods import METHODS, FedHSSL, FedLocalSSL
from vesica.protocol import Budget, Rows
from vesica.protocol.end_to_end import EndToEnd
from vesica.protocol.party import Party

FAST: dict[str, Any] = {
    "pretrain_epochs": 2,
    "batch_size": 16,
    "width": 8,
    "finetune_epochs": 3,
    "finetune_patience": 0,
    "finetune_batch_size": 8,
}
COUNTS, LABELLED = (10, 20), 30
FEDERATION = replace(small_federation(), labelled=LABELLED)


def costs(run: Result) -> tuple[int, int, int, int]:
    return run.ledger.rounds, len(run.ledger.messages), run.ledger.payload, run.ledger.wire


@pytest.mark.parametrize("name", ["fedhssl", "fedgssl", "fedcssl", "fedlocalssl"])
def test_each_count_is_a_result_that_says_its_rows_and_costs_what_it_would_alone(name: str) -> None:
    method = METHODS[name](**FAST)
    result = fit(replace(method, label_counts=COUNTS), FEDERATION)
    runs = (*result.milestones, result)
    assert [run.rows["labelled"] for run in runs] == [*COUNTS, LABELLED]
    assert [run.rows["validation"] for run in runs] == [1, 2, 3]
    assert {(run.method, run.title) for run in runs} == {(name, name)}
    assert [run.config["labelled"] for run in runs] == [*COUNTS, LABELLED]
    assert len({run.config_hash for run in runs}) == 3  # or a report would take them for seeds of one
    for run, count in zip(runs, (*COUNTS, LABELLED), strict=True):
        alone = fit(method, replace(FEDERATION, labelled=count))
        assert costs(run) == costs(alone)
        assert [entry.kind for entry in run.ledger.messages] == [entry.kind for entry in alone.ledger.messages]
        assert [point["bytes"] for point in run.curve] == [point["bytes"] for point in alone.curve]
    assert len({run.metrics["auc"] for run in runs}) > 1


Seen = list[tuple[str, Rows, dict[str, Tensor]]]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """With what every fine-tuning began: who, which rows, which encoder."""
    found: Seen = []

    def watch(name: str) -> None:
        whole = getattr(EndToEnd, name)

        def watched(self: EndToEnd, me: Party, *others: Any, **named: Any) -> None:
            assert me.encoder is not None
            state = {name: value.clone() for name, value in me.encoder.state_dict().items()}
            found.append((me.name, me.rows, state))
            whole(self, me, *others, **named)

        monkeypatch.setattr(EndToEnd, name, watched)

    watch("follow")
    watch("lead")
    return found


def test_every_count_goes_on_from_the_same_encoder(seen: Seen) -> None:
    result = fit(FedHSSL(**FAST, label_counts=COUNTS), FEDERATION)
    for party in result.parties:
        first, *others = [state for name, _, state in seen if name == party]
        assert len(others) == 2
        assert all(torch.equal(first[name], other[name]) for other in others for name in first)
        trained = result.models[party].encoder
        assert trained is not None
        assert any(not torch.equal(first[name], value) for name, value in trained.state_dict().items())


@pytest.mark.parametrize("labelled", [LABELLED, None])
def test_every_party_takes_the_rows_that_a_run_with_so_many_labels_takes(seen: Seen, labelled: int | None) -> None:
    federation = replace(FEDERATION, labelled=labelled)
    result = fit(FedLocalSSL(**FAST, label_counts=COUNTS), federation)
    for party in result.parties:
        of_party = [rows for name, rows, _ in seen if name == party]
        for rows, count in zip(of_party, (*COUNTS, labelled), strict=True):
            split = split_rows(replace(federation, labelled=count))
            aligned = split.parties[party].aligned
            assert rows.labelled.tolist() == aligned[split.labelled].tolist()
            assert rows.validation.tolist() == aligned[split.validation].tolist()
            assert rows.aligned.tolist() == aligned.tolist()
        smallest, larger, _ = (set(rows.labelled.tolist()) for rows in of_party)
        assert smallest < larger


def test_the_scores_are_those_of_the_models_that_were_fine_tuned_with_so_many_labels() -> None:
    """With no epoch of fine-tuning for any of them, and one head of the same random numbers, all are the same."""
    settings = FAST | {"finetune_epochs": 0}
    seeds = iter([3, 3, 3])
    with pytest.MonkeyPatch.context() as patch:
        lead = FedLocalSSL.lead
        patch.setattr(FedLocalSSL, "lead", lambda *a, **n: (torch.manual_seed(next(seeds)), lead(*a, **n))[1])
        result = fit(FedLocalSSL(**settings, label_counts=COUNTS), FEDERATION)
    assert len({run.metrics["auc"] for run in (*result.milestones, result)}) == 1
    trained = fit(FedLocalSSL(**FAST, label_counts=COUNTS), FEDERATION)
    assert all(run.metrics != result.metrics for run in trained.milestones)


def test_every_message_of_the_run_is_in_its_folder_once(tmp_path: Path) -> None:
    result = fit(FedHSSL(**FAST, label_counts=COUNTS), FEDERATION, out=tmp_path / "run")
    for party in result.parties:
        lines = [json.loads(line) for line in (tmp_path / "run" / party / "ledger.jsonl").read_text().splitlines()]
        kinds = [line["kind"] for line in lines if line["phase"] == "training"]
        batches = 1 + 3 + 4  # of 9, 18 and 27 rows, 8 at a time, a lone last one with those before it
        assert kinds.count("gradients") == batches * 3
        assert kinds.count("weights") == 2 * 2
        assert [line["phase"] for line in lines].count("scoring") == 2 * 3


def test_the_result_says_that_one_pre_training_serves_them_all() -> None:
    result = fit(FedLocalSSL(**FAST, label_counts=COUNTS), FEDERATION)
    for run in (*result.milestones, result):
        (said,) = run.statements
        assert said.startswith("Fine-tuned 3 times from one pre-training, with 10, 20 and 30 labelled rows")


@pytest.mark.parametrize("counts", [(20, 10), (10, 10)])
def test_counts_that_do_not_rise_are_refused(counts: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"label_counts of fedhssl is .*: give counts that rise"):
        FedHSSL(label_counts=counts)


@pytest.mark.parametrize("count", [30, 31, 500])
def test_a_count_that_is_not_fewer_is_refused(count: int) -> None:
    with pytest.raises(InputError, match=f"label_counts has {count} and 30 rows are labelled: give smaller counts"):
        fit(FedHSSL(**FAST, label_counts=(10, count)), FEDERATION)


@pytest.mark.parametrize("limit", [{"budget": Budget(bytes=10**9)}, {"stop_at_bytes": 10**9}])
def test_a_limit_for_one_of_several_results_is_refused(limit: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="label_counts gives several results of one run"):
        fit(FedHSSL(**FAST, label_counts=COUNTS), FEDERATION, **limit)


def test_a_guest_that_is_not_told_the_rows_of_each_count_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    fitting = import_module("vesica.experiment.fit")  # not the function
    monkeypatch.setattr(fitting, "sort_out", lambda method, federation, limited: (split_rows(federation), []))
    with pytest.raises(AgreementError, match="shop1: the host's agreement does not say which rows each of label_cou"):
        fit(FedLocalSSL(**FAST, label_counts=(5,)), FEDERATION)
