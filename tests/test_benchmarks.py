"""What is kept of figures that were measured before."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import __main__ as benchmarks


def figures(machine: str, **costs: float) -> dict[str, Any]:
    rows = [{"name": name, "peer": "a peer", "cost": cost} for name, cost in costs.items()]
    return {"machine": {"cpu": machine}, "measurements": rows}


def costs_of(found: dict[str, Any]) -> dict[str, float]:
    return {row["name"]: row["cost"] for row in found["measurements"]}


def test_rows_that_were_not_measured_stay_and_the_others_are_new() -> None:
    found = benchmarks.replaced(figures("here", one=1, two=2), figures("here", two=3, three=4))
    assert costs_of(found) == {"one": 1, "two": 3, "three": 4}


def test_rows_of_another_machine_are_dropped_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    found = benchmarks.replaced(figures("there", one=1), figures("here", two=3))
    assert costs_of(found) == {"two": 3}
    assert "another machine" in capsys.readouterr().out


def test_a_file_of_something_else_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.json").write_text(json.dumps([1, 2]))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "message", "--json", str(tmp_path / "other.json")])
    monkeypatch.setattr(benchmarks, "measure", lambda names: pytest.fail("it was measured"))
    with pytest.raises(SystemExit) as ended:
        benchmarks.main()
    assert ended.value.code == 2
