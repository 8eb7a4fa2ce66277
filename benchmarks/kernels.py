"""`python -m benchmarks.kernels [ENCODER ...] [--json FILE]`: where a guest's step of FixMatch spends its GPU time.

Every kernel of the steps is counted and timed, and summed by what it is for.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.__main__ import machine
from benchmarks.fixmatch import ENCODERS, POSITIONS, ROWS, shape_of, train, wait_for
from vesica.experiment.recipes import commit
from vesica.training.resume import Stateful
from vesica.training.semi_supervised import LOOK_EVERY

PURPOSES = {  # what a kernel's name has in it, the first that fits
    "wgrad": "gradients of weights",
    "dgrad": "gradients of images",
    "fprop": "convolutions",
    "convolve": "convolutions",
    "batch_norm": "batch norm and activations",
    "multi_tensor": "optimiser and average",
    "grid_sampler": "views",
    "gather": "views",
}
REST = "everything else"

Kernel = tuple[str, float]  # its name and microseconds


class Profiled:
    """Notes every kernel of the last hundred steps."""

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []

    def steps(self, total: int, parts: Mapping[str, Stateful]) -> Iterator[int]:
        yield from range(total - 1)
        wait_for(torch.device("cuda"))
        with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as found:
            yield total - 1
            wait_for(torch.device("cuda"))
        self.kernels = [(event.name, event.device_time_total) for event in found.events()]


def purpose_of(name: str) -> str:
    return next((purpose for part, purpose in PURPOSES.items() if part in name), REST)


def summed(kernels: Iterable[Kernel], steps: int) -> dict[str, dict[str, float]]:
    """Kernels and microseconds a step for each purpose, the longest first."""
    sums: dict[str, dict[str, float]] = {}
    for name, taken in kernels:
        found = sums.setdefault(purpose_of(name), {"kernels": 0.0, "microseconds": 0.0})
        found["kernels"] += 1 / steps
        found["microseconds"] += taken / steps
    return dict(sorted(sums.items(), key=lambda item: -item[1]["microseconds"]))


def measure(encoder: str) -> dict[str, Any]:
    device = torch.device("cuda")
    images = torch.randint(256, (ROWS, *shape_of(device)), dtype=torch.uint8, device=device)
    watch = Profiled()
    assert POSITIONS > 3  # warm by then
    train(images, encoder, 1, watch=watch)
    return {"encoder": encoder, "commit": commit(), "a step": summed(watch.kernels, LOOK_EVERY)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("encoders", nargs="*", default=ENCODERS["cuda"])
    parser.add_argument("--json", type=Path, help="add the figures to this file")
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        print("kernels are those of a GPU, and torch finds none here: run it on a machine with one", file=sys.stderr)
        return 2
    for encoder in asked.encoders:
        found = measure(encoder)
        print(json.dumps(found, indent=2), flush=True)
        if asked.json:
            before = json.loads(asked.json.read_text()) if asked.json.exists() else []
            asked.json.write_text(json.dumps([*before, {**found, "machine": machine()}], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
