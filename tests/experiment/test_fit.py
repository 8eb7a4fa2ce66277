"""Runs: the same seed gives the same bits; a run folder is this run's or is refused."""

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from federations import quick, small_federation
from vesica.data import Federation, Overlap, PartyData, Table, Text
from vesica.engines import InProcess
from vesica.errors import BudgetError, InputError, RunFolderError
from vesica.experiment import Result, fit, predict_from
from vesica.methods import METHODS, LocalOnly, SplitNN
from vesica.protocol import Budget
from vesica.protocol.resumable import load, save_atomically

FAST = SplitNN(epochs=2, batch_size=16)


def weights(result: Result) -> dict[str, torch.Tensor]:
    found = {}
    for party, model in result.models.items():
        for part, module in (("encoder", model.encoder), ("head", model.head)):
            for name, tensor in ({} if module is None else module.state_dict()).items():
                found[f"{party} {part} {name}"] = tensor
    return found


def test_a_configuration_says_where_test_rows_are_whole_groups() -> None:
    plain = small_federation()
    grouped = replace(plain, test=replace(plain.test, groups=np.arange(100) // 4))
    one, two = (fit(FAST, federation) for federation in (plain, grouped))
    assert one.config["test"] == {"fraction": 0.3, "seed": 0}
    assert two.config["test"] == {"fraction": 0.3, "seed": 0, "drawn": "whole groups"}


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_bits_twice_and_another_seed_others(name: str) -> None:
    method = quick(name)
    one, two = (fit(method, small_federation(guests=2), seed=4) for _ in range(2))
    other = fit(method, small_federation(guests=2), seed=5)
    assert weights(one).keys() == weights(two).keys()
    assert all(torch.equal(a, b) for a, b in zip(weights(one).values(), weights(two).values(), strict=True))
    assert one.metrics == two.metrics
    assert one.ledger.entries == two.ledger.entries
    assert any(not torch.equal(a, b) for a, b in zip(weights(one).values(), weights(other).values(), strict=True))


def test_a_guests_start_does_not_depend_on_who_else_is_there() -> None:
    """Each party draws from its own seed alone."""
    few, many = (fit(SplitNN(epochs=0), small_federation(guests=guests)) for guests in (1, 3))
    ours = {name: tensor for name, tensor in weights(few).items() if "encoder" in name}
    assert all(torch.equal(tensor, weights(many)[name]) for name, tensor in ours.items())


@pytest.mark.parametrize("wire", ["float16", "bfloat16", "int8"])
def test_a_narrow_wire_trains_nearly_as_well(wire: str) -> None:
    federation = small_federation(rows=400, keep=250)
    full, narrow = (fit(SplitNN(epochs=15, learning_rate=0.01), federation, wire=w) for w in ("float32", wire))
    assert narrow.ledger.payload <= full.ledger.payload * (0.6 if "16" in wire else 0.35) * 1.01
    assert (narrow.metrics["auc"] or 0) > (full.metrics["auc"] or 0) - 0.05


def test_the_result_counts_what_the_ledger_says() -> None:
    result = fit(FAST, small_federation(guests=2))
    line = result.to_json()
    training = [row for row in result.ledger.to_json() if row["phase"] == "training"]
    assert line["messages"] == len(training)
    assert line["bytes"]["wire"] == sum(row["wire"] for row in training) == line["bytes"]["up"] + line["bytes"]["down"]
    assert line["rounds"] == max(row["round"] for row in training)
    assert line["rows"] == {
        "aligned": 40,
        "labelled": 40,
        "validation": 4,
        "unaligned": {"bank": 10, "shop1": 10, "shop2": 10},
        "test": 30,
    }


def test_a_folder_holds_a_sub_folder_a_party_and_nobody_anothers_model(tmp_path: Path) -> None:
    result = fit(FAST, small_federation(guests=2), out=tmp_path / "run")
    found = {str(path.relative_to(tmp_path / "run")) for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert found == {
        "run.json",
        "result.json",
        "bank/curve.jsonl",
        *(
            f"{party}/{file}"
            for party in result.parties
            for file in ("model.json", "model.safetensors", "ledger.jsonl")
        ),
    }
    assert "head" not in (tmp_path / "run" / "shop1" / "model.json").read_text().replace('"head": null', "")


def test_messages_are_kept_when_asked(tmp_path: Path) -> None:
    fit(FAST, small_federation(), out=tmp_path / "run", keep_messages=True)
    segments = list((tmp_path / "run" / "bank" / "journal").glob("segment-*"))
    assert sum(path.stat().st_size for path in segments) > 10_000


def test_a_run_with_a_folder_equals_one_without(tmp_path: Path) -> None:
    one = fit(FAST, small_federation(), out=tmp_path / "run")
    two = fit(FAST, small_federation())
    assert all(torch.equal(a, b) for a, b in zip(weights(one).values(), weights(two).values(), strict=True))


def test_a_finished_folder_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    fit(FAST, small_federation(), out=tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(RunFolderError, match="holds a finished run of split-nn: give another folder"):
        fit(FAST, small_federation(), out=tmp_path / "run")
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}


def unfinished(folder: Path) -> Path:
    """A run folder whose run has not ended: its budget stopped it."""
    with pytest.raises(BudgetError):
        fit(FAST, small_federation(), out=folder, budget=Budget(rounds=5))
    return folder


@pytest.mark.parametrize(
    ("change", "word"),
    [({"seed": 9}, "seed"), ({"wire": "float16"}, "wire"), ({"method": LocalOnly()}, "method")],
)
def test_a_folder_of_another_run_is_refused(tmp_path: Path, change: dict, word: str) -> None:
    out = unfinished(tmp_path / "run")
    settings = {"method": FAST, "seed": 0, "wire": "float32"} | change
    method = settings.pop("method")
    with pytest.raises(RunFolderError, match=f"holds another run: {word} is"):
        fit(method, small_federation(), out=out, **settings)


def test_a_folder_whose_tables_have_changed_is_refused(tmp_path: Path) -> None:
    out = unfinished(tmp_path / "run")
    with pytest.raises(RunFolderError, match="holds another run: fingerprints"):
        fit(FAST, small_federation(rows=101), out=out)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear diary")
    with pytest.raises(RunFolderError, match=r"is no run folder: it has no run.json"):
        fit(FAST, small_federation(), out=tmp_path)
    assert (tmp_path / "letter.txt").read_text() == "dear diary"


def test_a_torn_folder_is_refused(tmp_path: Path) -> None:
    out = unfinished(tmp_path / "run")
    shutil.rmtree(out / "bank" / "journal")
    with pytest.raises(RunFolderError, match="is torn"):
        fit(FAST, small_federation(), out=out)
    (out / "run.json").write_text('{"format": 1, "meth')
    with pytest.raises(RunFolderError, match=r"run.json is torn"):
        fit(FAST, small_federation(), out=out)


@pytest.mark.parametrize("parties", [["bank"], ["shop1"], ["bank", "shop1"]])
@pytest.mark.parametrize("rounds", [5, 11])  # an epoch has 8: before the first checkpoint, and after it
def test_a_run_goes_on_after_a_power_cut_took_the_unsynced_end_of_a_journal(
    tmp_path: Path, rounds: int, parties: list[str]
) -> None:
    with pytest.raises(BudgetError):
        fit(FAST, small_federation(), out=tmp_path, budget=Budget(rounds=rounds))
    for party in parties:
        last = max((tmp_path / party / "journal").glob("segment-*"))
        assert last.stat().st_size > 1000
        os.truncate(last, 28)  # to its first marker
    resumed, whole = fit(FAST, small_federation(), out=tmp_path), fit(FAST, small_federation())
    assert resumed.ledger.entries == whole.ledger.entries
    assert all(torch.equal(a, b) for a, b in zip(weights(resumed).values(), weights(whole).values(), strict=True))


def test_a_run_that_found_the_disk_full_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, writev = 12, os.writev

    def until_full(file: int, buffers: list[memoryview]) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return writev(file, buffers if left else [buffers[0]])  # the last one is half a record

    with monkeypatch.context() as patches:
        patches.setattr("vesica.protocol.journal.os.writev", until_full)
        with pytest.raises(InputError, match=r"cannot be written \(No space left on device\): make room for it"):
            fit(FAST, small_federation(), out=tmp_path)
    assert left < 0
    assert fit(FAST, small_federation(), out=tmp_path).ledger.entries == fit(FAST, small_federation()).ledger.entries


def test_an_interrupted_folder_goes_on_with_a_larger_budget(tmp_path: Path) -> None:
    out = unfinished(tmp_path / "run")
    resumed = fit(FAST, small_federation(), out=out)
    assert resumed.ledger.entries == fit(FAST, small_federation()).ledger.entries


@pytest.mark.parametrize("party", ["bank", "shop1"])
def test_the_seconds_of_an_earlier_life_count(party: str, tmp_path: Path) -> None:
    with pytest.raises(BudgetError):
        fit(FAST, small_federation(), out=tmp_path, budget=Budget(rounds=10))  # an epoch has 8
    checkpoint = tmp_path / party / "journal" / "step-training.safetensors"
    save_atomically(checkpoint, load(checkpoint) | {"seconds": 1e6})
    result = fit(FAST, small_federation(), out=tmp_path, keep_messages=True)
    assert 1e6 < (result.seconds or 0) < 1.1e6
    for name in result.parties:  # and they are passed on
        assert load(tmp_path / name / "journal" / "step-training.safetensors")["seconds"] > 1e6


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    from vesica.experiment.folder import RunFolder

    out = unfinished(tmp_path / "run")
    run = json.loads((out / "run.json").read_text())
    run.pop("format")
    held = RunFolder(out, run)
    with pytest.raises(RunFolderError, match="in use by another process"):
        RunFolder(out, run)
    held.close()


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"wire": "float8"}, "there is no wire 'float8'; did you mean"),
        ({"engine": "in-proces"}, "there is no engine 'in-proces'; did you mean 'in-process'"),
        ({"device": "cuda"}, "this machine has no CUDA"),
    ],
)
def test_impossible_settings_are_refused(setting: dict, sentence: str) -> None:
    if "device" in setting and torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(InputError, match=sentence):
        fit(FAST, small_federation(), **setting)


def test_local_only_needs_features_at_the_host() -> None:
    with pytest.raises(InputError, match="bank: has labels only"):
        fit(LocalOnly(), small_federation(host_features=False))


def test_local_only_sends_nothing() -> None:
    result = fit(LocalOnly(epochs=2), small_federation(guests=2))
    assert (result.ledger.rounds, result.ledger.messages) == (0, [])


def test_a_folder_whose_labels_have_changed_is_refused(tmp_path: Path) -> None:
    out = unfinished(tmp_path / "run")
    federation = small_federation()
    with pytest.raises(RunFolderError, match="holds another run: fingerprints"):
        fit(FAST, replace(federation, label=1 - federation.label), out=out)


def test_a_folder_whose_overlap_was_drawn_otherwise_is_refused(tmp_path: Path) -> None:
    out = unfinished(tmp_path / "run")
    with pytest.raises(RunFolderError, match="holds another run: fingerprints"):
        fit(FAST, replace(small_federation(), overlap=Overlap(40, seed=1)), out=out)


def test_a_run_that_was_killed_while_its_folder_was_made_goes_on(tmp_path: Path) -> None:
    (tmp_path / "run.json.partial").write_text('{"form')
    assert fit(FAST, small_federation(), out=tmp_path).ledger.rounds > 0


@pytest.mark.parametrize("name", METHODS)
def test_the_ledgers_hold_every_frame_that_the_transport_carried(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    carried = []
    deliver = InProcess.deliver
    monkeypatch.setattr(InProcess, "deliver", lambda *args: (carried.append(len(args[-1])), deliver(*args))[1])
    result = fit(quick(name), small_federation(guests=3))
    scorings = [run.scoring for run in (result, *result.milestones)]
    entries = result.ledger.entries + [entry for scoring in scorings for entry in scoring.entries]
    by_itself = ("parts", "totals")  # vertical trees have sockets of their own
    assert sorted(entry.wire for entry in entries if entry.kind not in by_itself) == sorted(carried)


def mixed_federation() -> Federation:
    """A category of 300 values at a guest, whose codes a narrow wire would round."""
    random = np.random.default_rng(0)
    codes = random.integers(0, 300, 1200)
    towns = Text.of([f"town {code}" for code in codes])
    names = np.array([f"p{i:04d}" for i in range(1200)], dtype=object)
    return Federation(
        PartyData("bank", Table(names, {"x": random.normal(size=1200)})),
        (codes % 2).astype(np.int64),
        (PartyData("shop", Table(names, {"town": towns})),),
        task="classification",
        metric="auc",
        name="towns",
    )


@pytest.mark.parametrize("wire", ["float16", "bfloat16", "int8"])
@pytest.mark.parametrize("name", ["pooled", "linear"])
def test_no_wire_rounds_the_codes_of_categories(name: str, wire: str) -> None:
    full, narrow = (fit(quick(name), mixed_federation(), wire=w) for w in ("float32", wire))
    assert narrow.metrics == full.metrics


def test_a_diverged_model_is_one_sentence() -> None:
    sentence = (
        r"shop1: 'representations' for 'bank' has values that are [a-z0-9+ ]+ and was not sent: lower the learning rate"
    )
    with pytest.raises(InputError, match=sentence):
        fit(SplitNN(epochs=3, learning_rate=1e30), small_federation())


@pytest.mark.parametrize(
    "field", [{"batch_size": 0}, {"epochs": -1}, {"hidden": (0,)}, {"learning_rate": float("inf")}]
)
def test_fields_that_cannot_be_are_refused_from_python_too(field: dict) -> None:
    with pytest.raises(InputError, match=f"field '{next(iter(field))}' of method 'split-nn' is"):
        fit(SplitNN(**field), small_federation())


def test_a_prediction_travels_as_the_run_did(tmp_path: Path) -> None:
    federation = small_federation(guests=2)
    result = fit(FAST, federation, wire="int8", out=tmp_path / "run")
    tables = {party.name: party.table for party in federation.parties}
    from_folder = predict_from(tmp_path / "run", tables)
    assert result.predict(tables).ledger.payload == from_folder.ledger.payload == 2 * 100 * (32 + 4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_on_the_gpu_and_predicts_anywhere(name: str) -> None:
    federation = small_federation(guests=2)
    result = fit(quick(name), federation, device="cuda")
    predictions = result.predict({party.name: party.table for party in federation.parties})
    assert len(predictions.ids) == 100
