"""What a run folder costs: the CPU time of split-nn with a journal, beside the same run without, at two lengths."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
import torch

import vesica
from benchmarks import Measurement, seconds_of

ROWS = 22_220  # of which about 16,000 are for training: 250 batches, with two messages of 8 KB each
BATCH = 64
EPOCHS = (87, 199)  # with 502 messages and a checkpoint each: about 43,680 and 100,000 messages
REPEATS = 3
LIMIT = 1.15


def measure() -> list[Measurement]:
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        data = federation()
        vesica.fit(method(1), data)  # warms up
        return [compare(data, epochs) for epochs in EPOCHS]
    finally:
        torch.set_num_threads(usual)


def compare(data: vesica.Federation, epochs: int) -> Measurement:
    """In turn, so that a slow moment of the machine meets both; by one thread, since idle ones would count too."""
    messages: list[int] = []
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(REPEATS):
        for has_journal, taken in seconds.items():
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "run" if has_journal else None
                taken.append(seconds_of(training(data, epochs, out, messages), clock=process_time))
    name = f"CPU of split-nn with --out, {messages[0]:,} messages"
    return Measurement(name, median(seconds[True]), "without a journal", median(seconds[False]), REPEATS, limit=LIMIT)


def training(data: vesica.Federation, epochs: int, out: Path | None, messages: list[int]) -> Callable[[], None]:
    def train() -> None:
        result = vesica.fit(method(epochs), data, out=out)
        messages.append(len(result.ledger.messages))

    return train


def method(epochs: int) -> vesica.SplitNN:
    return vesica.SplitNN(epochs=epochs, patience=epochs + 1, batch_size=BATCH)


def federation() -> vesica.Federation:
    """A host and a guest of five columns each."""
    random = np.random.default_rng(0)
    ids = np.arange(ROWS)
    columns = [{f"column_{i}": random.normal(size=ROWS) for i in range(5)} for _ in range(2)]
    host = {"id": ids, "label": random.integers(0, 2, size=ROWS)} | columns[0]
    return vesica.Federation.from_tables(host, {"guest": {"id": ids} | columns[1]}, id="id", label="label")
