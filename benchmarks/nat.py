"""What a guest of FedOnce costs: an epoch of noise as targets, beside a plain loop over a data loader."""

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks import Measurement, time_in_turn
from vesica.learning.unsupervised import noise_as_targets
from vesica.models import CNN0, MLP
from vesica.schema import ImageSchema

REPEATS = 3
PEER = "plain loop"


def measure() -> list[Measurement]:
    """Both with one thread, and in every epoch of the three with an assignment in one of them, as FedOnce has it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        quadrant = ImageSchema(1, 14, 14, (0.5,), (0.5,))
        images, rows = torch.rand(4800, 1, 14, 14), torch.rand(7959, 17)
        return [
            compare("images, CNN0, d 16", lambda: CNN0(quadrant, 16), images, dim=16, batch=128),
            compare("17 columns, FC(30x30), d 3", lambda: MLP(17, (30, 30), 3), rows, dim=3, batch=100),
        ]
    finally:
        torch.set_num_threads(threads)


def compare(name: str, network: Callable[[], nn.Module], rows: Tensor, *, dim: int, batch: int) -> Measurement:
    ours, plain = network(), network()
    steps = {"ours": lambda: our_epochs(ours, rows, dim, batch), "plain": lambda: plain_epochs(plain, rows, dim, batch)}
    seconds = time_in_turn(steps, REPEATS)
    return Measurement(f"NAT, three epochs: {name}", seconds["ours"], PEER, seconds["plain"], REPEATS)


def our_epochs(encoder: nn.Module, rows: Tensor, dim: int, batch: int) -> None:
    noise_as_targets(
        encoder,
        rows,
        dim=dim,
        view=None,
        epochs=3,
        frequency=3,
        batch_size=batch,
        learning_rate=1e-3,
        weight_decay=1e-5,
    )


class Rows(Dataset[tuple[int, Tensor, Tensor]]):
    """One row at a time, with its target."""

    def __init__(self, rows: Tensor, dim: int) -> None:
        self.rows = rows
        points = np.random.default_rng(0).normal(size=(len(rows), dim)).astype(np.float32)
        self.targets = torch.from_numpy(points / np.linalg.norm(points, axis=1, keepdims=True))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> tuple[int, Tensor, Tensor]:
        return row, self.rows[row], self.targets[row]


def plain_epochs(encoder: nn.Module, rows: Tensor, dim: int, batch: int) -> None:
    """The method as one would first write it down."""
    data = Rows(rows, dim)
    optimiser = torch.optim.Adam(encoder.parameters(), lr=1e-3, weight_decay=1e-5)
    for epoch in range(3):
        for places, some, targets in DataLoader(data, batch_size=batch, shuffle=True, drop_last=True):
            outputs = encoder(some)
            if epoch == 2:
                cost = (outputs.detach()[:, None] - targets[None]).square().sum(dim=2)
                _, order = linear_sum_assignment(cost.numpy())
                targets = targets[torch.from_numpy(order)]
                data.targets[places] = targets
            loss = (outputs - targets).square().sum(dim=1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
