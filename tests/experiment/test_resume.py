"""A run may be killed at any moment; the same command goes on and ends bit-identical."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

SWEEP = Path(__file__).with_name("kill_sweep.py")


class Sweeper:
    """A process that has imported torch and forks for every run: one for all sweeps of this file."""

    def __init__(self, complaints: Path) -> None:
        self.complaints = complaints
        with complaints.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(SWEEP)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Every moment is a fork, which the locks of MKL's own allocator do not survive for sure.
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_DISABLE_FAST_MM": "1"},
            )

    def sweep(self, folder: Path, what: str, every: int, guests: int, method: str) -> list[dict[str, object]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(what, every, guests, method, folder, file=self.process.stdin, flush=True)
        moments = []
        for line in self.process.stdout:
            if line == "\n":
                return moments
            moments.append(json.loads(line))
        raise AssertionError(self.complaints.read_text())


@pytest.fixture(scope="module")
def sweeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweeper]:
    sweeper = Sweeper(tmp_path_factory.mktemp("sweeper") / "complaints.txt")
    with sweeper.process:  # closes its input, and waits for its end
        yield sweeper


def whole(method: str, what: str, guests: int, at_least: int) -> ParameterSet:
    """Every moment of a long sweep, of which the tests otherwise take a part."""
    return pytest.param(method, what, 1, guests, at_least, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("method", "what", "every", "guests", "at_least"),
    [
        ("split-nn", "after-message", 5, 1, 8),  # a batch has four: five meet each of them
        whole("split-nn", "after-message", 1, 40),
        whole("split-nn", "after-message", 2, 80),
        ("split-nn", "half-message", 5, 1, 8),
        whole("split-nn", "half-message", 1, 40),
        ("split-nn", "inside-training", 1, 1, 12),
        ("split-nn", "before-checkpoint", 1, 2, 6),
        ("split-nn", "after-checkpoint", 1, 2, 6),
        ("split-nn-private", "before-checkpoint", 1, 1, 5),
        whole("split-nn-private", "after-checkpoint", 2, 6),
        ("few-shot", "after-message", 5, 1, 4),
        whole("few-shot", "after-message", 1, 20),
        ("few-shot-finetuned", "before-checkpoint", 4, 1, 6),
        whole("few-shot-finetuned", "before-checkpoint", 1, 22),
        ("few-shot-private", "after-checkpoint", 4, 1, 5),
        whole("few-shot-private", "after-checkpoint", 1, 20),
        ("fedonce-absent", "after-message", 1, 2, 14),
        ("fedonce-absent", "before-checkpoint", 1, 2, 6),
        ("fedonce-absent", "after-checkpoint", 1, 2, 6),
        whole("split-nn-stopped", "after-message", 2, 60),
        ("split-nn-stopped", "before-checkpoint", 1, 2, 6),
        ("split-nn-stopped", "after-checkpoint", 1, 2, 6),
        ("fedonce-stopped", "after-checkpoint", 1, 1, 6),
        whole("fedonce-heuristic", "before-checkpoint", 1, 6),
        ("fedonce-heuristic", "after-checkpoint", 2, 1, 3),
        whole("fedonce-heuristic", "after-checkpoint", 1, 6),
        whole("vflhlp", "after-message", 1, 10),
        whole("vflhlp", "before-checkpoint", 2, 9),
        ("vflhlp", "after-checkpoint", 1, 2, 9),
        whole("fedbcd-sequential", "after-message", 2, 30),
        ("fedbcd-sequential", "before-checkpoint", 1, 2, 6),
        whole("fedcvt", "after-message", 1, 20),
        ("fedcvt", "inside-training", 1, 1, 8),
        ("fedcvt", "before-checkpoint", 1, 2, 9),
        whole("fedcvt", "after-checkpoint", 2, 9),
        whole("fedhssl", "after-message", 1, 40),
        whole("fedhssl", "before-checkpoint", 2, 12),
        ("fedhssl", "after-checkpoint", 1, 2, 12),
        ("fedhssl-moco", "after-checkpoint", 1, 1, 8),
        ("fedhssl-late", "after-checkpoint", 1, 1, 10),
        whole("fedhssl-counts", "after-message", 1, 60),
        whole("fedhssl-counts", "before-checkpoint", 1, 16),
        ("fedhssl-counts", "after-checkpoint", 2, 1, 8),
        whole("fedhssl-counts", "after-checkpoint", 1, 16),
    ],
)
def test_a_killed_run_goes_on_and_ends_bit_identical(
    sweeper: Sweeper, tmp_path: Path, method: str, what: str, every: int, guests: int, at_least: int
) -> None:
    moments = sweeper.sweep(tmp_path, what, every, guests, method)
    assert len(moments) >= at_least
    assert all(moment["killed"] == -signal.SIGKILL for moment in moments)
    assert [moment for moment in moments if not moment["same"]] == []
