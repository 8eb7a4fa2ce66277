"""Runs: the same seed gives the same bits; a run folder is this run's or is refused."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from federations import small_federation
from vesica.errors import BudgetError, InputError, RunFolderError
from vesica.experiment import Result, fit
from vesica.methods import METHODS, LocalOnly, SplitNN
from vesica.protocol import Budget

FAST = SplitNN(epochs=2, batch_size=16)


def weights(result: Result) -> dict[str, torch.Tensor]:
    found = {}
    for party, model in result.models.items():
        for part, module in (("encoder", model.encoder), ("head", model.head)):
            for name, tensor in ({} if module is None else module.state_dict()).items():
                found[f"{party} {part} {name}"] = tensor
    return found


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_bits_twice_and_another_seed_others(name: str) -> None:
    method = METHODS[name](epochs=2)
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


def test_an_interrupted_folder_goes_on_with_a_larger_budget(tmp_path: Path) -> None:
    out = unfinished(tmp_path / "run")
    resumed = fit(FAST, small_federation(), out=out)
    assert resumed.ledger.entries == fit(FAST, small_federation()).ledger.entries


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
