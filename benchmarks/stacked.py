"""What many guests of FedOnce cost when they train together, beside the same guests one after the other."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks import Measurement, time_in_turn
from benchmarks.nat import our_epochs
from vesica.nn.models import CNN0, MLP
from vesica.schema import ImageSchema
from vesica.training.lesson import Lesson, Schedule
from vesica.training.resume import Straight
from vesica.training.unsupervised import learn

REPEATS = 3
PEER = "one after the other"
LIMIT = 1 / 5  # on a GPU
ROWS = {"cuda": 2000, "cpu": 600}


def measure() -> list[Measurement]:
    """The paper's guest of gisette, the same with dropout, and three quadrants of images: three epochs each."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows, limit = ROWS[device.type], LIMIT if device.type == "cuda" else None
    quadrant = ImageSchema(1, 14, 14, (0.5,), (0.5,))
    tables = torch.rand(50, rows, 100, device=device)
    images = torch.rand(3, rows, 1, 14, 14, device=device)
    return [
        compare("50, FC(100x100x50), d 3", table_guest, tables, dim=3, batch=100, limit=limit),
        compare("50, with dropout", lambda: table_guest(dropout=0.2), tables, dim=3, batch=100),
        compare("3, CNN0, d 16", lambda: CNN0(quadrant, 16), images, dim=16, batch=128),
    ]


def table_guest(dropout: float = 0.0) -> nn.Module:
    return MLP(100, (100, 100, 50), 3, dropout=dropout, activation=nn.Tanh())


def compare(
    name: str,
    network: Callable[[], nn.Module],
    guests: Tensor,
    *,
    dim: int,
    batch: int,
    limit: float | None = None,
) -> Measurement:
    together, apart = ([network().to(guests.device) for _ in guests] for _ in range(2))
    steps = {
        "together": lambda: train_together(together, guests, dim, batch),
        "apart": lambda: train_apart(apart, guests, dim, batch),
    }
    seconds = time_in_turn(steps, REPEATS)
    return Measurement(f"guests together: {name}", seconds["together"], PEER, seconds["apart"], REPEATS, limit=limit)


def train_together(encoders: list[nn.Module], guests: Tensor, dim: int, batch: int) -> None:
    schedule = Schedule(epochs=3, frequency=3, batch_size=batch, learning_rate=1e-3, weight_decay=1e-5)
    learn(
        [
            Lesson(encoder, rows, dim=dim, view=None, schedule=schedule, resume=Straight())
            for encoder, rows in zip(encoders, guests, strict=True)
        ]
    )
    wait_for(guests.device)


def train_apart(encoders: list[nn.Module], guests: Tensor, dim: int, batch: int) -> None:
    for encoder, rows in zip(encoders, guests, strict=True):
        our_epochs(encoder, rows, dim, batch)
    wait_for(guests.device)


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
