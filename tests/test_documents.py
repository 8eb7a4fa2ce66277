"""The documents are true: commands run, tables are computed, links lead somewhere."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vesica.cli import main
from vesica.experiment.tables import read_lines, refresh
from vesica.methods import METHODS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = [path for path in ROOT.rglob("*.md") if ".venv" not in path.parts]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_every_command_of_the_readme_runs_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first as it is installed, in a process of its own; the others in this one, which has imported torch."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    commands = [line for block in blocks("sh") for line in block.splitlines() if line]
    assert len(commands) >= 7
    assert {shlex.split(command)[0] for command in commands} == {"vesica"}
    first, *others = (shlex.split(command)[1:] for command in commands)
    run = subprocess.run([str(Path(sys.executable).parent / "vesica"), *first], capture_output=True, text=True)
    assert run.returncode == 0, f"{first}\n{run.stderr}"
    for arguments in others:
        monkeypatch.setattr(sys, "argv", ["vesica", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code, f"{arguments}\n{capsys.readouterr().err}"
    assert (tmp_path / "runs" / "predictions.csv").read_text().startswith("id,prediction,probability_0,probability_1\n")


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (program,) = blocks("python")
    names: dict[str, object] = {}
    exec(program, names)
    assert names["result"].metrics["auc"] > 0.5  # type: ignore[attr-defined]


def test_the_toml_of_the_readme_is_the_examples() -> None:
    (shown,) = blocks("toml")
    example = (ROOT / "examples" / "credit" / "federation.toml").read_text()
    assert all(line in example for line in shown.splitlines())


def test_the_demo_ends_with_a_table_and_a_report() -> None:
    if not (ROOT / ".venv" / ".up-to-date").exists():
        pytest.skip("make demo would set up first: run the tests with make test")
    run = subprocess.run(["make", "demo"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for method in ("local-only", "pooled", "split-nn", "one-shot", "few-shot"):
        assert method in run.stdout
    assert "split-nn" in (ROOT / "report.html").read_text()


@pytest.mark.parametrize("document", sorted((ROOT / "experiments").glob("*/README.md")), ids=lambda p: p.parent.name)
def test_every_table_is_computed_from_the_results_beside_it(document: Path) -> None:
    assert document.read_text() == refresh(document), "run `make tables`"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_method_has_its_page_and_its_line_in_the_readme() -> None:
    for name in METHODS:
        assert (ROOT / "docs" / "methods" / f"{name}.md").exists()
        assert f"[`{name}`](docs/methods/{name}.md)" in README


def lines(name: str) -> list[dict]:
    return read_lines(ROOT / "experiments" / "foundation" / "results" / name)


def test_split_nn_reaches_98_percent_on_mnist_quadrants() -> None:
    scores = [line["metrics"]["accuracy"] for line in lines("mnist.jsonl")]
    assert len(scores) >= 3
    assert min(scores) >= 0.98


def test_split_nn_is_within_a_hundredth_of_pooled_on_credit() -> None:
    def mean(method: str) -> float:
        scores = [line["metrics"]["auc"] for line in lines("credit.jsonl") if line["method"] == method]
        assert len(scores) >= 3
        return sum(scores) / len(scores)

    assert abs(mean("split-nn") - mean("pooled")) < 0.01


def test_the_figures_of_the_fuzzing_are_those_that_were_kept() -> None:
    kept = json.loads((ROOT / "benchmarks" / "results-fuzz.json").read_text())
    said = (ROOT / "SECURITY.md").read_text()
    row = (
        "| {mutations:,} | {refused:,} refused, {accepted:,} sound, {faults:,} faults; "
        "memory grew by {peak_memory_growth_mib} MiB |"
    )
    for name, layer in (("frames", "message decoder"), ("envelopes", "post files")):
        assert f"| {layer} | mutations that know the format {row.format(**kept[name])}" in said
        assert kept[name]["faults"] == 0
