"""The paths a newcomer takes: list, run, predict, report."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from federations import quick
from vesica.datasets.scenario import SCENARIOS
from vesica.methods import METHODS, config_of

RUN = ("run", "split-nn", "--federation", "federation.toml", "--set", "epochs=2")
ROBUST = ("--set", "guest_epochs=1", "--set", "host_epochs=1", "--set", "party_dropout=0.3")
KEYS = [
    "method",
    "title",
    "data",
    "seed",
    "parties",
    "missing",
    "rows",
    "metrics",
    "rounds",
    "messages",
    "bytes",
    "wire",
    "epsilon",
    "delta",
    "protects",
    "seconds",
    "config",
    "config_hash",
    "version",
    "statements",
]


def edit(folder: Path, *changes: tuple[str, str]) -> None:
    """Change federation.toml."""
    path = folder / "federation.toml"
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def relabel(folder: Path, label: Any) -> None:
    pl.read_csv(folder / "bank.csv").with_columns(default=pl.Series(label)).write_csv(folder / "bank.csv")


def run_json(vesica: Any, *arguments: object) -> dict[str, Any]:
    answer = vesica(*arguments, "--json", "-")
    assert (answer.code, answer.err) == (0, "")
    result: dict[str, Any] = json.loads(answer.out)
    return result


def without_time(result: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "seconds"}


@pytest.mark.parametrize(("command", "names"), [("methods", METHODS), ("datasets", SCENARIOS)])
def test_a_listing_names_everything_there_is(vesica: Any, command: str, names: Mapping[str, object]) -> None:
    answer = vesica(command)
    assert answer.code == 0
    assert {line.split(" ")[0] for line in answer.out.splitlines()} >= set(names)


def test_methods_shows_fields_with_their_defaults(vesica: Any) -> None:
    assert "learning_rate=0.001" in vesica("methods").out


def test_a_run_prints_a_table_and_nothing_on_standard_error(folder: Path, vesica: Any) -> None:
    answer = vesica(*RUN)
    assert (answer.code, answer.err) == (0, "")
    assert "split-nn" in answer.out
    assert "auc" in answer.out


def test_the_json_has_the_stable_names(folder: Path, vesica: Any) -> None:
    result = run_json(vesica, *RUN, "--seed", 3, "--wire", "float16")
    assert list(result) == KEYS
    assert list(result["rows"]) == ["aligned", "labelled", "validation", "unaligned", "test"]
    assert list(result["metrics"]) == ["accuracy", "auc", "f1", "rmse"]
    assert list(result["bytes"]) == ["payload", "wire", "up", "down"]
    assert result["rows"] == {
        "aligned": 96,
        "labelled": 96,
        "validation": 9,
        "unaligned": {"bank": 0, "shop": 0, "camera": 0},
        "test": 24,
    }
    assert result["parties"] == ["bank", "shop", "camera"]
    assert (result["method"], result["data"], result["seed"], result["wire"]) == (
        "split-nn",
        "federation",
        3,
        "float16",
    )
    assert (result["epsilon"], result["delta"], result["metrics"]["rmse"]) == (None, None, None)
    assert result["config"]["method"]["epochs"] == 2
    # Three batches an epoch, up and down, then validation up and the verdict down.
    assert result["rounds"] == 2 * (3 * 2 + 2)
    assert result["messages"] == 2 * result["rounds"]
    assert result["bytes"]["up"] + result["bytes"]["down"] == result["bytes"]["wire"] > result["bytes"]["payload"]


def test_the_same_command_gives_the_same_result_and_another_seed_another(folder: Path, vesica: Any) -> None:
    first, second, other = (run_json(vesica, *RUN, "--seed", seed) for seed in (1, 1, 2))
    assert without_time(first) == without_time(second)
    assert first["metrics"] != other["metrics"]
    assert first["config_hash"] == other["config_hash"]


def test_a_run_with_label_privacy_says_what_was_spent_and_what_is_not_covered(folder: Path, vesica: Any) -> None:
    settings = ("guest_steps=3", "host_epochs=1", "label_epsilon=0.5")
    private = ("run", "few-shot", "--federation", "federation.toml", *(x for s in settings for x in ("--set", s)))
    answer = vesica(*private, "--json", "result.json")
    assert answer.code == 0, answer.err
    spent = "Privacy spent by a run of one-shot, few-shot: epsilon = 0.500, delta = 0, for one label; its statements"
    assert spent in answer.out
    assert "(epsilon = 0.5, kept with probability 0.622)" in answer.out
    assert "Not covered: the features" in answer.out
    result = json.loads(Path("result.json").read_text())
    assert (result["epsilon"], result["delta"]) == (0.5, 0.0)


def test_an_absent_guest_is_named_by_the_run_its_json_and_its_report(folder: Path, vesica: Any) -> None:
    late = ("--wait", 3600, "--absent", "camera", "--json", "result.json", "--report", "report.html")
    answer = vesica("run", "fedonce", "--federation", "federation.toml", *ROBUST, *late)
    assert answer.code == 0, answer.err
    sentence = "did not answer within 3600 s and was left out"
    assert f"'camera' {sentence}" in answer.out.replace("\n", " ")
    assert json.loads((folder / "result.json").read_text())["missing"] == ["camera"]
    assert sentence in (folder / "report.html").read_text()


def test_a_robust_model_predicts_without_a_guest_and_says_so(folder: Path, vesica: Any) -> None:
    assert vesica("run", "fedonce", "--federation", "federation.toml", *ROBUST, "--out", "run").code == 0
    text = (folder / "federation.toml").read_text()
    (folder / "new.toml").write_text(text[: text.rindex("[[guest]]")])  # the camera is not there
    asked = ("predict", "run", "--federation", "new.toml", "--out", "p.csv")
    assert vesica(*asked).code == 2
    answer = vesica(*asked, "--without", "camera")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("120 rows to p.csv; 2 messages")
    assert "'camera' was not asked: the model filled in for it." in answer.out


def test_a_run_leaves_a_folder_json_and_a_report(folder: Path, vesica: Any) -> None:
    answer = vesica(*RUN, "--out", "run", "--json", "result.json", "--report", "pages/report.html")
    assert (answer.code, answer.err) == (0, "")
    written = json.loads((folder / "result.json").read_text())
    assert written == json.loads((folder / "run/result.json").read_text())
    assert list(written) == KEYS
    assert {path.name for path in (folder / "run").iterdir()} == {"bank", "shop", "camera", "run.json", "result.json"}
    page = (folder / "pages/report.html").read_text()
    assert "split-nn" in page
    assert "camera" in page
    again = vesica("report", "run", "result.json", "--out", "again.html")
    assert (again.code, again.out) == (0, "2 runs to again.html\n")
    assert "split-nn" in (folder / "again.html").read_text()


def test_predict_writes_a_row_an_id_with_a_probability_a_class(folder: Path, trained: Path, vesica: Any) -> None:
    relabel(folder, [None] * 120)
    with np.load(folder / "camera.npz") as camera:
        fewer = {name: values[:50] for name, values in camera.items()}
    np.savez(folder / "camera.npz", **fewer)
    answer = vesica("predict", trained, "--federation", "federation.toml", "--out", "predictions.csv")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("50 rows to predictions.csv; 4 messages")
    written = pl.read_csv(folder / "predictions.csv")
    assert written.columns == ["id", "prediction", "probability_0", "probability_1"]
    assert sorted(written["id"]) == list(range(50))
    assert np.allclose(written["probability_0"] + written["probability_1"], 1)
    assert ((written["probability_1"] > 0.5) == (written["prediction"] == 1)).all()


def test_a_regression_runs_and_predicts_values(folder: Path, vesica: Any) -> None:
    edit(folder, ('"classification"', '"regression"'))
    relabel(folder, np.linspace(1000, 2000, 120))
    result = run_json(vesica, *RUN, "--out", "run")
    assert [name for name, value in result["metrics"].items() if value is not None] == ["rmse"]
    assert vesica("predict", "run", "--federation", "federation.toml", "--out", "p.csv").code == 0
    written = pl.read_csv(folder / "p.csv")
    assert written.columns == ["id", "prediction"]
    assert written["prediction"].is_between(500, 2500).all()


def test_several_classes_run_and_predict_by_their_names(folder: Path, vesica: Any) -> None:
    relabel(folder, ["low", "mid", "high"] * 40)
    result = run_json(vesica, *RUN, "--out", "run")
    assert all(0 <= result["metrics"][name] <= 1 for name in ("accuracy", "auc", "f1"))
    assert vesica("predict", "run", "--federation", "federation.toml", "--out", "p.csv").code == 0
    written = pl.read_csv(folder / "p.csv")
    assert written.columns[2:] == ["probability_high", "probability_low", "probability_mid"]
    assert set(written["prediction"]) <= {"low", "mid", "high"}


def test_a_host_with_labels_only_trains_and_need_not_bring_anything_to_predict(folder: Path, vesica: Any) -> None:
    pl.read_csv(folder / "bank.csv").select("customer", "default").write_csv(folder / "bank.csv")
    result = run_json(vesica, *RUN, "--out", "run")
    assert result["config"]["encoders"]["bank"] is None
    text = (folder / "federation.toml").read_text()
    (folder / "new.toml").write_text(text[text.index("[[guest]]") :])
    assert vesica("predict", "run", "--federation", "new.toml", "--out", "p.csv").code == 0
    assert len(pl.read_csv(folder / "p.csv")) == 120
    alone = vesica("run", "local-only", "--federation", "federation.toml")
    assert alone.code == 2
    assert alone.err.startswith("vesica: bank: has labels only")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_on_mixed_tables(folder: Path, vesica: Any, method: str) -> None:
    lengths = ("epochs", "steps", "rounds")
    fields = config_of(quick(method)).items()
    settings = [part for name, value in fields if name.endswith(lengths) for part in ("--set", f"{name}={value}")]
    result = run_json(vesica, "run", method, "--federation", "federation.toml", *settings)
    assert 0 <= result["metrics"]["accuracy"] <= 1
    assert result["rounds"] == 0 or result["bytes"]["wire"] > 0


def test_a_public_data_set_runs_with_a_small_overlap(vesica: Any) -> None:
    result = run_json(
        vesica, "run", "split-nn", "--data", "credit", "--overlap", 60, "--labelled", 40, "--set", "epochs=1"
    )
    assert result["data"] == "credit"
    assert (result["rows"]["aligned"], result["rows"]["labelled"], result["rows"]["test"]) == (60, 40, 6000)
    assert result["rows"]["unaligned"] == {"host": 11970, "guest-1": 11970}


def test_a_recipe_gives_a_line_a_run_and_keeps_finished_ones(folder: Path, vesica: Any) -> None:
    (folder / "experiments/paper").mkdir(parents=True)
    (folder / "experiments/paper/recipes.py").write_text(
        "from vesica import SplitNN\n"
        "from vesica.experiment.recipes import Case, Recipe\n"
        "def cases(seeds):\n"
        "    return [Case(SplitNN(epochs=1), 'credit', seed=seed, overlap=40) for seed in range(seeds)]\n"
        "RECIPES = {'table1': Recipe('a little table', cases)}\n"
    )
    command = ("reproduce", "paper", "table1", "--seeds", 2, "--out", "runs", "--json")
    first = vesica(*command, "lines.jsonl")
    assert first.code == 0
    lines = [json.loads(line) for line in (folder / "lines.jsonl").read_text().splitlines()]
    assert [list(line) for line in lines] == [[*KEYS, "curve", "table", "device", "commit", "data_sha256"]] * 2
    assert [line["seed"] for line in lines] == [0, 1]
    again = vesica(*command, "-")
    assert [json.loads(line) for line in again.out.splitlines()] == lines
    some = vesica(*command, "-", "--only", "seed 1")
    assert [json.loads(line) for line in some.out.splitlines()] == lines[1:]


def test_a_process_of_its_own_writes_pure_json_and_no_progress(folder: Path) -> None:
    start = [sys.executable, "-c", "from vesica.cli import main; main()", *RUN, "--json", "-", "--out", "run"]
    ended = subprocess.run(start, capture_output=True, text=True, cwd=folder, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(json.loads(ended.stdout)) == KEYS
    assert (folder / "run/bank/model.safetensors").exists()


def test_a_run_folder_can_be_moved(folder: Path, trained: Path, vesica: Any) -> None:
    predict = ("--federation", "federation.toml", "--out")
    assert vesica("predict", trained, *predict, "here.csv").code == 0
    shutil.copytree(trained, folder / "elsewhere")
    assert vesica("predict", "elsewhere", *predict, "there.csv").code == 0
    assert (folder / "here.csv").read_bytes() == (folder / "there.csv").read_bytes()


def test_the_version_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import vesica
    from vesica.cli import main

    monkeypatch.setattr("sys.argv", ["vesica", "--version"])
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code or 0, capsys.readouterr().out.strip()) == (0, vesica.__version__)


def test_an_interruption_is_one_sentence_and_exit_code_130(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "vesica"), "run", "local-only", "--data", "credit"]
    endless = ["--set", "epochs=1000000", "--set", "patience=1000000", "--out", str(tmp_path / "run")]
    run = subprocess.Popen([*command, *endless], stderr=subprocess.PIPE)
    while run.poll() is None and not (tmp_path / "run" / "host" / "journal" / "step-training.safetensors").exists():
        time.sleep(0.1)  # until it is in training
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=60)
    assert run.returncode == 130
    assert error.decode().strip() == "vesica: interrupted; a run that has a folder goes on with the same command"
