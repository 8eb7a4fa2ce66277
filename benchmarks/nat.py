"""What a guest of FedOnce costs: an epoch of noise as targets, beside the loop of the paper's authors."""

from collections.abc import Callable
from functools import partial
from time import process_time

import numpy as np
import torch
from PIL import Image, ImageOps
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks import Measurement, time_in_turn
from vesica.nn.augmentations import weak
from vesica.nn.models import CNN0, MLP
from vesica.schema import ImageSchema
from vesica.training.unsupervised import noise_as_targets

REPEATS = 3
EPOCHS = 3  # in one repeat
EVERY_THIRD, EVERY = 3, 1  # the epochs that assign: the paper's f of images and of phishing
LEARNING_RATE, WEIGHT_DECAY = 1e-3, 1e-5
PEER = "the authors' loop, rewritten"
View = Callable[[Tensor], Tensor]


def measure() -> list[Measurement]:
    """In CPU seconds and with one thread; 4,800 images stand for the 48,000 of MNIST, at a tenth of an epoch's cost."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [of_images(), of_a_table()]
    finally:
        torch.set_num_threads(threads)


def of_images() -> Measurement:
    """Both crop each image anew, at most one pixel off, and flip every second one: ours a batch at a time."""
    images = torch.randint(256, (4800, 1, 14, 14), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    network = CNN0(ImageSchema(1, 14, 14, (0.5,), (0.5,)), 16)
    ours = partial(our_epochs, network, images, 16, 128, view=weak)
    theirs = partial(their_epochs, their_network(), Rows(images, 16, crop_and_flip), 128)
    return compare("4,800 images, CNN0, d 16", ours, theirs, limit=1 / 2)


def of_a_table() -> Measurement:
    rows = torch.rand(7959, 17, generator=torch.Generator().manual_seed(0))
    network, same = (MLP(17, (30, 30), 3, activation=nn.Tanh()) for _ in range(2))
    ours = partial(our_epochs, network, rows, 3, 100, frequency=EVERY)
    theirs = partial(their_epochs, same, Rows(rows, 3), 100, frequency=EVERY)
    return compare("7,959 x 17, FC(30x30), d 3", ours, theirs, limit=1 / 5)


def compare(name: str, ours: Callable[[], object], theirs: Callable[[], object], *, limit: float) -> Measurement:
    seconds = time_in_turn({"ours": ours, PEER: theirs}, REPEATS, clock=process_time)
    cost, peer_cost = seconds["ours"] / EPOCHS, seconds[PEER] / EPOCHS
    return Measurement(f"NAT epoch: {name}", cost, PEER, peer_cost, REPEATS, limit=limit, unit="CPU s")


def our_epochs(
    encoder: nn.Module, rows: Tensor, dim: int, batch: int, view: View | None = None, frequency: int = EVERY_THIRD
) -> None:
    noise_as_targets(
        encoder,
        rows,
        dim=dim,
        view=view,
        epochs=EPOCHS,
        frequency=frequency,
        batch_size=batch,
        learning_rate=LEARNING_RATE,
        weight_decay=WEIGHT_DECAY,
    )


class Rows(Dataset[tuple[int, Tensor, Tensor]]):
    """One row at a time, transformed, with its target."""

    def __init__(self, rows: Tensor, dim: int, transform: View | None = None) -> None:
        self.rows = rows
        self.transform = transform
        points = np.random.default_rng(0).normal(size=(len(rows), dim)).astype(np.float32)
        self.targets = torch.from_numpy(points / np.linalg.norm(points, axis=1, keepdims=True))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> tuple[int, Tensor, Tensor]:
        given = self.rows[row]
        return row, given if self.transform is None else self.transform(given), self.targets[row]


def crop_and_flip(levels: Tensor) -> Tensor:
    """A grey image through Pillow, as the authors' transforms have it: pad by one, crop, flip, standardise."""
    _, height, width = levels.shape
    padded = ImageOps.expand(Image.fromarray(levels[0].numpy()), border=1, fill=0)
    top, left = (int(torch.randint(3, (1,))) for _ in range(2))
    image = padded.crop((left, top, left + width, top + height))
    if torch.rand(1) < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    values = torch.from_numpy(np.array(image)).view(height, width, 1).permute(2, 0, 1).contiguous().float().div(255)
    mean, deviation = torch.tensor([0.5]), torch.tensor([0.5])
    return values.sub(mean.view(-1, 1, 1)).div(deviation.view(-1, 1, 1))


def their_network() -> nn.Module:
    """CNN0 as plain layers, for images that are standardised already."""
    features = (nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25))
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 16))


def their_epochs(network: nn.Module, data: Rows, batch: int, frequency: int = EVERY_THIRD) -> float:
    """The loop as the authors' code runs it, in our words; they add up the loss to print it."""
    total = 0.0
    loader = DataLoader(data, batch_size=batch, shuffle=True, drop_last=True)
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    network.train()
    for epoch in range(EPOCHS):
        for places, some, targets in loader:
            outputs = network(some)
            if (epoch + 1) % frequency == 0:
                made, wanted = outputs.detach().numpy(), targets.numpy()
                costs = [np.square(made - each).sum(axis=1) for each in wanted]  # a target at a time
                _, order = linear_sum_assignment(np.stack(costs, axis=1).astype(np.float64))
                targets = targets[torch.from_numpy(order)]
                data.targets[places] = targets
            loss = (outputs - targets).square().sum(dim=1).mean()
            optimiser.zero_grad()
            total += loss.item()
            loss.backward()
            optimiser.step()
    return total
