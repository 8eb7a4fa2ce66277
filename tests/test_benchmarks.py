"""What is kept of figures that were measured before."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import __main__ as benchmarks
from benchmarks import fuzz, kernels

from vesica.engines.post.envelope import Envelope
from vesica.protocol.message import Message


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


def test_kernels_are_summed_by_what_they_are_for() -> None:
    found = [
        ("sm90_xmma_wgrad_implicit_gemm", 30.0),
        ("sm90_xmma_wgrad_implicit_gemm", 50.0),
        ("triton_red_fused__native_batch_norm_backward", 10.0),
        ("Memset (Device)", 2.0),
    ]
    assert kernels.summed(found, steps=2) == {
        "gradients of weights": {"kernels": 1.0, "microseconds": 40.0},
        "batch norm and activations": {"kernels": 0.5, "microseconds": 5.0},
        "everything else": {"kernels": 0.5, "microseconds": 1.0},
    }


def test_without_a_gpu_the_profile_says_so_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kernels"])
    monkeypatch.setattr(kernels.torch.cuda, "is_available", lambda: False)
    assert kernels.main() == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_fuzzing_shows_a_decoder_that_fails_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "decode", lambda frame: [][0])
    report = fuzz.mutate_frames(100, seed=0)
    assert report.faults.total() == 100
    assert not report.sound
    assert len(report.examples) == fuzz.KEPT
    assert "IndexError" in report.examples[0]


def test_fuzzing_shows_a_decoder_that_takes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that overlooks what stands before and between the values."""
    decode = fuzz.decode

    def careless(frame: bytes) -> Message:
        return decode(fuzz.framed(*fuzz.parts_of(bytes(frame))))

    monkeypatch.setattr(fuzz, "decode", careless)
    monkeypatch.setattr(fuzz, "ON_FRAMES", (fuzz.hidden_bytes,))
    report = fuzz.mutate_frames(300, seed=0)
    assert report.faults["hidden_bytes"] > 10
    assert "not the one frame of its message" in report.examples[0]


def test_fuzzing_shows_an_inbox_that_does_not_look_at_signatures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Envelope, "check", lambda self, sender: None)
    report = fuzz.mutate_files(100, tmp_path, seed=0)
    assert report.faults["signed by another"] > 0
    assert not report.sound
