"""What the wire format costs: encoding and decoding 10 MB of float32, beside a plain copy of them."""

from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter

import numpy as np
import torch

from vesica.protocol.message import WIRES, Message, decode, encode

ROWS, WIDTH = 20_000, 125  # 10 MB of float32
REPEATS = 50


def measure(repeats: int = REPEATS) -> list[tuple[str, float, float]]:
    """(what, median seconds, seconds over those of a plain copy), all measured in turn in one run."""
    values = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
    target = np.empty_like(values)
    steps: dict[str, Callable[[], object]] = {"copy": lambda: np.copyto(target, values)}
    message = Message("representations", {"values": torch.from_numpy(values)})
    for wire in WIRES:
        frame = encode(message, wire=wire)
        steps[f"encode {wire}"] = lambda wire=wire: encode(message, wire=wire)  # type: ignore[misc]
        steps[f"decode {wire}"] = lambda frame=frame: decode(frame)  # type: ignore[misc]
    read_only = bytes(encode(message))
    steps["decode float32, read-only"] = lambda: decode(read_only)
    steps["encode and decode float32"] = lambda: decode(encode(message))
    seconds = time_in_turn(steps, repeats)
    return [(name, taken, taken / seconds["copy"]) for name, taken in seconds.items()]


def time_in_turn(steps: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The median seconds of each step; in turn, so that a slow moment of the machine meets them all."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats + 1):
        for name, step in steps.items():
            start = perf_counter()
            step()
            taken[name].append(perf_counter() - start)
    return {name: median(times[1:]) for name, times in taken.items()}  # the first one warms up


if __name__ == "__main__":
    for name, taken, ratio in measure():
        print(f"{name:<28}{1000 * taken:9.3f} ms {ratio:7.2f} x a copy")
