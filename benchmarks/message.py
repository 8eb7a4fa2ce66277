"""What the wire format costs: encoding and decoding 10 MB of float32, beside a plain copy of them."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from benchmarks import Measurement, time_in_turn
from vesica.protocol.message import WIRES, Message, decode, encode

ROWS, WIDTH = 20_000, 125  # 10 MB of float32
REPEATS = 50
COPY = "a copy of the values"


def measure() -> list[Measurement]:
    values = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
    target = np.empty_like(values)
    message = Message("representations", {"values": torch.from_numpy(values)})
    steps: dict[str, Callable[[], object]] = {
        COPY: lambda: np.copyto(target, values),
        "encode and decode float32": lambda: decode(encode(message)),
        "decode float32, read-only": partial(decode, bytes(encode(message))),
    }
    for wire in WIRES:
        steps[f"encode {wire}"] = partial(encode, message, wire=wire)
        steps[f"decode {wire}"] = partial(decode, encode(message, wire=wire))
    seconds = time_in_turn(steps, REPEATS)
    copy = seconds.pop(COPY)
    return [Measurement(name, taken, COPY, copy, REPEATS) for name, taken in seconds.items()]
