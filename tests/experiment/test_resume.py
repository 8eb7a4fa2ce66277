"""A run may be killed at any moment; the same command goes on and ends bit-identical."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SWEEP = Path(__file__).with_name("kill_sweep.py")


def sweep(folder: Path, what: str, guests: int, method: str) -> list[dict[str, object]]:
    run = subprocess.run(
        [sys.executable, str(SWEEP), str(folder), what, str(guests), method],
        capture_output=True,
        text=True,
        # Every moment is a fork, which the locks of MKL's own allocator do not survive for sure.
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_DISABLE_FAST_MM": "1"},
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.parametrize(
    ("method", "what", "guests", "at_least"),
    [
        ("split-nn", "after-message", 1, 40),
        ("split-nn", "after-message", 2, 80),
        ("split-nn", "half-message", 1, 40),
        ("split-nn", "inside-training", 1, 12),
        ("split-nn", "before-checkpoint", 2, 6),
        ("split-nn", "after-checkpoint", 2, 6),
        ("split-nn-private", "before-checkpoint", 1, 5),
        ("split-nn-private", "after-checkpoint", 2, 6),
        ("few-shot", "after-message", 1, 20),
        ("few-shot-finetuned", "before-checkpoint", 1, 22),
        ("few-shot-private", "after-checkpoint", 1, 20),
        ("fedonce-absent", "after-message", 2, 14),
        ("fedonce-absent", "before-checkpoint", 2, 6),
        ("fedonce-absent", "after-checkpoint", 2, 6),
        pytest.param("split-nn-stopped", "after-message", 2, 60, marks=pytest.mark.slow),
        ("split-nn-stopped", "before-checkpoint", 2, 6),
        ("split-nn-stopped", "after-checkpoint", 2, 6),
        ("fedonce-stopped", "after-checkpoint", 1, 6),
        ("fedonce-heuristic", "before-checkpoint", 1, 6),
        ("fedonce-heuristic", "after-checkpoint", 1, 6),
        pytest.param("vflhlp", "after-message", 1, 10, marks=pytest.mark.slow),
        ("vflhlp", "before-checkpoint", 2, 9),
        ("vflhlp", "after-checkpoint", 2, 9),
        pytest.param("fedbcd-sequential", "after-message", 2, 30, marks=pytest.mark.slow),
        ("fedbcd-sequential", "before-checkpoint", 2, 6),
        pytest.param("fedcvt", "after-message", 1, 20, marks=pytest.mark.slow),
        ("fedcvt", "inside-training", 1, 8),
        ("fedcvt", "before-checkpoint", 2, 9),
        ("fedcvt", "after-checkpoint", 2, 9),
        pytest.param("fedhssl", "after-message", 1, 40, marks=pytest.mark.slow),
        ("fedhssl", "before-checkpoint", 2, 12),
        ("fedhssl", "after-checkpoint", 2, 12),
        ("fedhssl-moco", "after-checkpoint", 1, 8),
        ("fedhssl-late", "after-checkpoint", 1, 10),
        pytest.param("fedhssl-counts", "after-message", 1, 60, marks=pytest.mark.slow),
        ("fedhssl-counts", "before-checkpoint", 1, 16),
        ("fedhssl-counts", "after-checkpoint", 1, 16),
    ],
)
def test_a_killed_run_goes_on_and_ends_bit_identical(
    tmp_path: Path, method: str, what: str, guests: int, at_least: int
) -> None:
    moments = sweep(tmp_path, what, guests, method)
    assert len(moments) >= at_least
    assert all(moment["killed"] == -signal.SIGKILL for moment in moments)
    assert [moment for moment in moments if not moment["same"]] == []
