"""What the conversation costs: a step of split-nn between two parties, beside the same step without messages."""

from functools import partial
from itertools import pairwise
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

from benchmarks import Measurement
from vesica.engines import InProcess
from vesica.experiment.fit import open_talks
from vesica.methods.split_nn import SplitNN
from vesica.metrics import Task
from vesica.nn.models import MLP, Head
from vesica.protocol import Budget, Guest, Host, Link, Rows
from vesica.training.supervised import batches

WIDTH = 256  # columns, hidden units and outputs of both encoders
DIMS = {"host": WIDTH, "guest": WIDTH}
BATCH = 256
STEPS = 40  # an epoch
EPOCHS = 4  # the first of them warms up
REPEATS = 15
LIMIT = 1.3
TASK = Task("regression", "rmse")
METHOD = SplitNN(epochs=EPOCHS, patience=EPOCHS + 1, batch_size=BATCH)


def measure() -> list[Measurement]:
    """With one thread, where only the messages differ, and with all of torch's: each party has a team of its own."""
    usual = torch.get_num_threads()
    measurements = []
    for threads in sorted({1, usual}):
        torch.set_num_threads(threads)
        measurements.append(compare(threads))
    return measurements


def compare(threads: int) -> Measurement:
    random = torch.Generator().manual_seed(0)
    inputs = [torch.randn(STEPS * BATCH + 1, WIDTH, generator=random) for _ in DIMS]
    labels = torch.cat(inputs, dim=1).mean(dim=1)
    seconds, plain = [], []
    for _ in range(REPEATS):  # in turn, so that a slow moment of the machine meets both
        seconds.append(seconds_a_step(with_messages(inputs, labels)))
        plain.append(seconds_a_step(without_messages(inputs, labels)))
    name = f"a step of split-nn, torch threads: {threads}"
    return Measurement(name, median(seconds), "plain PyTorch", median(plain), REPEATS, limit=LIMIT)


def seconds_a_step(starts: list[float]) -> float:
    """From when each epoch started, and the last one ended."""
    epochs = [end - start for start, end in pairwise(starts)]
    return median(epochs[1:]) / STEPS


def with_messages(inputs: list[Tensor], labels: Tensor) -> list[float]:
    """Train through the engine and real messages; validation takes one row, so that an epoch is its steps."""
    starts: list[float] = []
    talks = open_talks(list(DIMS), budget=Budget(), folder=None, keep_messages=False)
    talks["host"].progress = lambda *_: starts.append(perf_counter())
    every = torch.arange(len(labels))
    rows = Rows(aligned=every, unaligned=every[:0], test=every[:0], labelled=every, validation=every[-1:])
    to_guest, to_host = Link("guest", talks["host"]), Link("host", talks["guest"])
    guest = Guest("guest", TASK, rows, inputs[1], None, talks["guest"], {"host": to_host}, encoder=encoder())
    host = Host(
        "host",
        TASK,
        rows,
        inputs[0],
        None,
        talks["host"],
        {"guest": to_guest},
        encoder=encoder(),
        labels=labels,
        dims=DIMS,
    )
    programs = {"host": partial(METHOD.host, host), "guest": partial(METHOD.guest, guest)}
    carrier = talks["host"].transport
    assert isinstance(carrier, InProcess)
    carrier.run(programs, dict.fromkeys(DIMS, 0))
    return starts


def without_messages(inputs: list[Tensor], labels: Tensor) -> list[float]:
    """The same networks, optimiser and batches in one loop."""
    encoders = [encoder() for _ in DIMS]
    head = Head(DIMS, TASK.outputs, hidden=METHOD.hidden)
    optimiser = torch.optim.Adam(
        [parameter for module in (*encoders, head) for parameter in module.parameters()],
        lr=METHOD.learning_rate,
        weight_decay=METHOD.weight_decay,
    )
    starts = [perf_counter()]
    for epoch in range(EPOCHS):
        for rows in batches(len(labels) - 1, BATCH, generator=torch.Generator().manual_seed(epoch)):
            parts = [encode(values[rows]) for encode, values in zip(encoders, inputs, strict=True)]
            optimiser.zero_grad()
            TASK.loss(head(parts), labels[rows]).backward()
            optimiser.step()
        starts.append(perf_counter())
    return starts


def encoder() -> MLP:
    return MLP(WIDTH, (WIDTH,), WIDTH)
