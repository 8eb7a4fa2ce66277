"""A party may be killed at any moment; the same command goes on, and the models come out bit-identical."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from math import ceil
from pathlib import Path
from typing import Any

import pytest

SWEEP = Path(__file__).with_name("kill_sweep.py")


def sweep(*arguments: object) -> list[dict[str, Any]]:
    """A line for each moment at which a party was killed."""
    run = subprocess.run(
        [sys.executable, str(SWEEP), *map(str, arguments)],
        capture_output=True,
        text=True,
        # Every command is a fork, which the locks of MKL's own allocator do not survive for sure.
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_DISABLE_FAST_MM": "1"},
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_party_that_was_killed_goes_on_and_all_ends_bit_identical(tmp_path: Path, every: int) -> None:
    check_moments(sweep(tmp_path, every), every)


@pytest.mark.slow
def test_without_a_seed_every_run_ends_and_no_message_counts_twice_or_is_drawn_again(tmp_path: Path) -> None:
    check_moments(sweep(tmp_path, 1, "unseeded"), 1)


def check_moments(lines: list[dict[str, Any]], every: int) -> None:
    assert [line for line in lines if line["killed"] != 1 or not line["same"] or not line["once"]] == []
    counts = Counter((line["victim"], line["what"]) for line in lines)
    for party in ("bank", "shop"):
        assert counts[party, "after-record"] == ceil(8 / every)  # 4 messages are sent, and 4 received
        assert counts[party, "half-file"] == counts[party, "after-file"] == ceil(4 / every)
        assert counts[party, "inside-training"] == ceil(3 / every)
