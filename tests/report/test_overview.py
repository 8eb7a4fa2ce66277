"""The picture of the overview: a panel a data set, a point a method, nothing written over anything else."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from vesica.errors import InputError
from vesica.experiment.overview import entries
from vesica.experiment.tables import read_lines
from vesica.methods import METHODS
from vesica.report.overview import OTHERS, family_of, main, picture
from vesica.report.plots import ALONE

ROOT = Path(__file__).parents[2]
DATA = ("credit", "phishing", "mnist", "fashion-mnist-halves")


def line(method: str, *, data: str = "credit", seed: int = 0, sent: int = 10_000, **more: Any) -> dict[str, Any]:
    return {
        "method": method,
        "title": method,
        "data": data,
        "seed": seed,
        "rows": {"aligned": 1000},
        "metrics": {"auc": 0.7},
        "rounds": 3,
        "messages": 6,
        "bytes": {"wire": sent},
        "seconds": 1.0,
        "config": {"metric": "auc"},
        "config_hash": "0",
        **more,
    }


def everything(*, data: tuple[str, ...] = DATA) -> list[dict[str, Any]]:
    """Every method on every data set, most of them close together."""
    return [
        line(name, data=one, sent=0 if name in ALONE else 10_000 * (1 + i % 3), metrics={"auc": 0.7 + i % 4 / 100})
        for one in data
        for i, name in enumerate(METHODS)
    ]


def drawn(*lines: dict[str, Any], aligned: int = 1000) -> str:
    return picture(entries(lines), aligned=aligned)


def words(drawing: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]


def place(drawing: str, label: str) -> tuple[float, float]:
    """Where a label stands that is to the right of its point, or of its line."""
    found = re.search(rf'x="([\d.]+)" y="([\d.]+)"[^>]*>{label}<', drawing)
    assert found
    return float(found[1]), float(found[2])


def test_every_data_set_has_a_panel_that_names_its_metric_and_every_method() -> None:
    said = words(drawn(*everything()))
    for data in DATA:
        assert said.count(f"{data}: AUC (higher is better)") == 1
    for name in METHODS:
        assert said.count(name) == len(DATA) + (name == "trees")  # a family has that name, too
    assert "Metric against bytes, 1,000 aligned rows" in said


def test_a_point_is_further_right_for_more_bytes_and_higher_for_a_better_metric() -> None:
    few = line("one-shot", sent=1_000, metrics={"auc": 0.8})
    many = line("split-nn", sent=1_000_000, metrics={"auc": 0.7})
    drawing = drawn(few, many)
    (left, up), (right, down) = place(drawing, "one-shot"), place(drawing, "split-nn")
    assert left < right
    assert up < down  # an SVG counts from the top


def test_a_point_is_the_mean_of_its_seeds() -> None:
    seeds = [line("one-shot", seed=i, metrics={"auc": auc}) for i, auc in enumerate((0.5, 0.9))]
    beside = [line("split-nn", sent=1_000_000, metrics={"auc": 0.7}), line("local-only", sent=0)]
    drawing = drawn(*seeds, *beside)
    assert place(drawing, "one-shot")[1] == pytest.approx(place(drawing, "split-nn")[1])


def test_a_method_that_sends_nothing_is_a_line_across_the_panel_with_its_name_beside() -> None:
    assert "stroke-dasharray" not in drawn(line("one-shot"))
    drawing = drawn(line("one-shot"), line("local-only", sent=0, metrics={"auc": 0.6}))
    lines = re.findall(r'd="M ([\d.]+) ([\d.]+) *\n?L ([\d.]+) ([\d.]+) *\n?"[^>]*stroke-dasharray', drawing)
    left, height, right, _ = max([[float(n) for n in found] for found in lines], key=lambda found: found[2] - found[0])
    x, y = place(drawing, "local-only")
    assert right - left > 300
    assert x > right
    assert 2 < y - height < 6  # the baseline is a little below the middle
    assert "reference: the host alone, sends nothing" in words(drawing)


def test_only_the_asked_number_of_aligned_rows_is_drawn_and_one_that_was_not_run_is_refused() -> None:
    lines = line("one-shot"), line("split-nn", rows={"aligned": 250})
    assert "split-nn" not in words(drawn(*lines))
    assert "split-nn" in words(drawn(*lines, aligned=250))
    with pytest.raises(InputError, match="no result has 500 aligned rows: give --aligned a number that was run"):
        drawn(*lines, aligned=500)


def test_labels_do_not_overlap() -> None:
    drawing = drawn(*everything(data=("credit",)))
    places = re.findall(r'x="([\d.]+)" y="([\d.]+)"[^>]*>([\w-]+)<', drawing)
    boxes = [(float(x), float(y), 5.0 * len(name)) for x, y, name in places if name in METHODS]
    assert len(boxes) >= len(METHODS)
    for i, (x, y, width) in enumerate(boxes):
        for across, up, other in boxes[:i]:
            assert abs(y - up) > 10 or x + width < across or across + other < x


def test_every_method_that_talks_belongs_to_a_family_and_families_differ_without_colour() -> None:
    families = {family_of(name) for name in METHODS if name not in ALONE}
    assert OTHERS not in families
    assert len({(family.marker, family.filled) for family in families | {OTHERS}}) == len(families) + 1
    assert "others" in words(drawn(line("somebody's own")))


def test_the_picture_needs_nothing_else_and_is_the_same_every_time() -> None:
    drawing = drawn(*everything())
    assert drawing == drawn(*everything())
    assert set(re.findall(r"https?://[^\"' ]+", drawing)) == {"http://www.w3.org/2000/svg"}
    assert set(re.findall(r"var\((--[\w-]+)\)", drawing)) <= set(re.findall(r"(--[\w-]+):", drawing))
    assert "#0101" not in drawing


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-m", "vesica.report.overview", *map(str, arguments)]
    return subprocess.run(asked, capture_output=True, text=True, check=False)


def test_the_command_reads_results_and_writes_the_picture(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text(json.dumps(line("one-shot")) + "\n")
    (tmp_path / "two.jsonl").write_text(json.dumps(line("fedonce", data="mnist")) + "\n")
    asked = command(tmp_path / "one.jsonl", tmp_path / "two.jsonl", "--out", tmp_path / "all.svg")
    assert (asked.returncode, asked.stderr) == (0, "")
    said = words((tmp_path / "all.svg").read_text())
    assert {"one-shot", "fedonce", "credit: AUC (higher is better)", "mnist: AUC (higher is better)"} <= set(said)


def test_the_command_refuses_what_it_cannot_read_or_write_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(out: Path) -> str:
        monkeypatch.setattr(sys, "argv", ["overview", str(tmp_path / "none.jsonl"), "--out", str(out)])
        assert main() == 2
        return capsys.readouterr().err

    said = refused(tmp_path / "all.svg")
    assert said.count("\n") == 1
    assert f"vesica: {tmp_path / 'none.jsonl'} is no file of results" in said
    said = refused(tmp_path / "nowhere" / "all.svg")
    assert f"there is no directory {tmp_path / 'nowhere'} to write all.svg to: make it first" in said
    assert list(tmp_path.iterdir()) == []


def test_the_picture_in_the_documents_is_of_the_results_beside_the_recipes() -> None:
    files = [ROOT / "experiments" / "overview" / "results" / f"{data}.jsonl" for data in DATA]
    if not any(file.exists() for file in files):
        pytest.skip("the overview has not been run yet")
    lines = [one for file in files if file.exists() for one in read_lines(file)]
    now = (ROOT / "docs" / "overview.svg").read_text()
    assert words(now) == words(drawn(*lines)), "draw it again with python -m vesica.report.overview"
