"""The picture of leakage against utility, from audited results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from vesica.errors import InputError
from vesica.report import leakage


def line(method: str, noise: float, *, auc: float, found: dict[str, float]) -> dict[str, Any]:
    words = {"attacker": "guest-1", "owner": "host", "secret": "labels", "needs": "nothing", "measure": "AUC"}
    return {
        "method": method,
        "data": "credit",
        "metrics": {"auc": auc},
        "config": {"method": {"iso_gradients": noise}, "metric": "auc"},
        "audit": [
            {**words, "attack": name, "value": value, "low": value - 0.01, "high": value + 0.01, "nothing": 0.5}
            for name, value in found.items()
        ],
    }


LINES = [
    line(
        method, noise, auc=0.5 if noise else 0.7, found={"completion (a)": 0.6, "completion (b)": 0.7, "direction": low}
    )
    for method in ("split-nn", "fedhssl")
    for noise, low in ((0.0, 1.0), (25.0, 0.8))
]


def test_a_line_goes_through_the_best_attack_at_every_strength() -> None:
    settings = leakage.of_methods(LINES, "iso_gradients")["fedhssl"]
    spots = leakage.spots_of(settings, "completion")
    assert [(spot.label, spot.score, spot.finding.value) for spot in spots] == [("0", 0.7, 0.7), ("25", 0.5, 0.7)]
    assert [spot.finding.value for spot in leakage.spots_of(settings, "direction")] == [1.0, 0.8]
    assert leakage.spots_of(settings, "norm") == []


def test_the_picture_names_methods_data_and_attacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "found.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    monkeypatch.setattr(sys, "argv", ["leakage", str(tmp_path / "found.jsonl"), "--out", str(tmp_path / "a.svg")])
    assert leakage.main() == 0
    drawn = (tmp_path / "a.svg").read_text()
    for words in ("split-nn", "fedhssl", "credit: AUC of the direction of the gradients", "as iso_gradients grows"):
        assert words in drawn


def test_results_without_an_audit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "found.jsonl").write_text(json.dumps({"method": "split-nn"}))
    monkeypatch.setattr(sys, "argv", ["leakage", str(tmp_path / "found.jsonl"), "--out", str(tmp_path / "a.svg")])
    assert leakage.main() == 2
    assert "has no audited run" in capsys.readouterr().err


def test_runs_that_differ_in_more_than_the_defence_are_refused() -> None:
    other = {**LINES[0], "config": {"method": {"iso_gradients": 1.0, "epochs": 9}, "metric": "auc"}}
    with pytest.raises(InputError, match="the runs of split-nn differ in more than 'iso_gradients'"):
        leakage.of_methods([*LINES, other], "iso_gradients")


def test_a_method_without_a_finding_keeps_the_others_in_their_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[dict[str, Any]] = []
    monkeypatch.setattr(leakage, "draw_lines", lambda axes, lines, **words: drawn.append(dict(lines)))
    silent = [{**each, "audit": each["audit"][:2]} if each["method"] == "split-nn" else each for each in LINES]
    leakage.picture(silent, field="iso_gradients")
    assert [list(lines) for lines in drawn] == [["split-nn", "fedhssl"]] * 2
    assert drawn[1]["split-nn"] == []
    drawn.clear()
    leakage.picture([{**each, "audit": each["audit"][:2]} for each in LINES], field="iso_gradients")
    assert len(drawn) == 1


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "found.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    monkeypatch.setattr(
        sys, "argv", ["leakage", str(tmp_path / "found.jsonl"), "--out", str(tmp_path / "no" / "a.svg")]
    )
    assert leakage.main() == 2
