"""A run may be killed at any moment; the same command goes on and ends bit-identical."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SWEEP = Path(__file__).with_name("kill_sweep.py")


def sweep(folder: Path, what: str, guests: int) -> list[dict[str, object]]:
    run = subprocess.run(
        [sys.executable, str(SWEEP), str(folder), what, str(guests)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.parametrize(
    ("what", "guests", "at_least"),
    [
        ("after-message", 1, 40),
        ("after-message", 2, 80),
        ("half-message", 1, 40),
        ("inside-training", 1, 12),
        ("before-checkpoint", 2, 6),
        ("after-checkpoint", 2, 6),
    ],
)
def test_a_killed_run_goes_on_and_ends_bit_identical(tmp_path: Path, what: str, guests: int, at_least: int) -> None:
    moments = sweep(tmp_path, what, guests)
    assert len(moments) >= at_least
    assert all(moment["killed"] == -signal.SIGKILL for moment in moments)
    assert [moment for moment in moments if not moment["same"]] == []
