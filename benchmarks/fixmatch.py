"""What semi-supervised learning costs guests: a step of FixMatch, beside its paper's step in plain eager PyTorch.

On a GPU one guest, as in an organisation of its own, and two side by side, as in a simulation, each with a half of
CIFAR-10, with a wide residual network and with the quick one, also as a share of the matrix units' rate; on a CPU one
guest with a quadrant of Fashion-MNIST and the small network. The images are random: the cost does not depend on
what they show.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import Measurement, seconds_of
from vesica.nn.augmentations import ImageViews
from vesica.nn.models import EncoderSpec
from vesica.nn.objectives import FixedThreshold, FixMatch
from vesica.schema import ImageSchema
from vesica.training.labeller import labelling
from vesica.training.meeting import Work
from vesica.training.resume import Resume, Stateful
from vesica.training.semi_supervised import LOOK_EVERY, Losses, Seeing, semi_supervised

BATCH, MU, CLASSES, ROWS = 32, 7, 10, 20_000
POSITIONS = 6  # of a hundred steps; the first two warm up
BLOCK, BLOCKS = 20, 4  # of the peer, before ours and again after it
PEER = "plain eager PyTorch"
GUESTS = {"cuda": (1, 2), "cpu": (1,)}
ENCODERS = {"cuda": ("wrn", "quick-wide"), "cpu": ("cnn",)}
WHOSE = {1: "a guest's", 2: "both guests'"}
LIMITS = {"cuda": 1 / 7, "cpu": 1 / 1.3}
SIDE = 8192  # of the matrices whose product gives the rate to compare with


def measure() -> list[Measurement]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images = torch.randint(256, (ROWS, *shape_of(device)), dtype=torch.uint8, device=device)
    return [
        measured
        for encoder in ENCODERS[device.type]
        for guests in GUESTS[device.type]
        for measured in of_guests(images, encoder, guests)
    ]


def of_guests(images: Tensor, encoder: str, guests: int) -> list[Measurement]:
    device = images.device
    steps = [plain_step(images, encoder) for _ in range(guests)]
    peer = blocks_of(steps, device)
    ours = seconds_of_guests(images, encoder, guests)
    plain = median(peer + blocks_of(steps, device))
    seen = guests * BATCH * (1 + MU)
    where = f"FixMatch on {device.type}, {encoder}, {WHOSE[guests]}"
    measurements = [
        Measurement(f"{where} step", ours, PEER, plain, 2 * BLOCKS, LIMITS[device.type]),
        Measurement(f"{where} images", seen / ours, PEER, seen / plain, 2 * BLOCKS, unit="a second"),
    ]
    if device.type == "cuda":
        rate, most = guests * operations(images, encoder) / ours / 1e12, matrix_rate(device)
        measurements.append(Measurement(f"{where} step", rate, "bfloat16 product", most, 2 * BLOCKS, unit="TFLOP/s"))
    return measurements


def shape_of(device: torch.device) -> tuple[int, int, int]:
    return (3, 32, 16) if device.type == "cuda" else (1, 14, 14)


def network(images: Tensor, encoder: str) -> nn.Sequential:
    channels, height, width = images.shape[1:]
    schema = ImageSchema(channels, height, width, (0.5,) * channels, (0.25,) * channels)
    spec = EncoderSpec.choose(encoder, schema, dim=None)
    return nn.Sequential(spec.build(), nn.Linear(spec.dim, CLASSES)).to(images.device)


class Clock:
    """Notes how long each hundred steps took."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.seconds: list[float] = []

    def steps(self, total: int, parts: Mapping[str, Stateful]) -> Iterator[int]:
        for position in range(total):
            began = perf_counter()
            yield position
            wait_for(self._device)
            self.seconds.append(perf_counter() - began)


def seconds_of_guests(images: Tensor, encoder: str, guests: int) -> float:
    """Seconds a step of Vesica's, of all guests."""
    clock = Clock(images.device)
    train(images, encoder, guests, watch=clock)
    return median(clock.seconds[2:]) / LOOK_EVERY


def train(images: Tensor, encoder: str, guests: int, *, watch: Resume) -> None:
    """Some hundreds of steps of guests side by side; the first one's are watched, a hundred at a time."""
    rows = torch.arange(ROWS, device=images.device)

    def learn(others: Sequence[Work]) -> None:
        def meet(own: Work, together: Callable[[Sequence[Work]], None]) -> None:
            """When the last guest has come all are trained."""
            came = [*others, own]
            if len(came) < guests:
                learn(came)
            else:
                together(came)

        semi_supervised(
            network(images, encoder),
            images,
            labelled=rows[:500],
            labels=rows[:500] % CLASSES,
            unlabelled=rows[500:],
            classes=CLASSES,
            views=ImageViews(),
            steps=POSITIONS * LOOK_EVERY,
            batch_size=BATCH,
            mu=MU,
            resume=None if others else watch,
            meet=meet,
        )

    learn([])


def operations(images: Tensor, encoder: str) -> int:
    """Floating-point operations of a guest's step of Vesica's."""
    model = network(images, encoder)
    labels = torch.arange(BATCH, device=images.device) % CLASSES
    with labelling(model) as labeller, FlopCounterMode(display=False) as counter:
        see = Seeing(ImageViews(), labelled="weak")
        losses = Losses(model, labeller, FixMatch(FixedThreshold()))
        supervised, unsupervised = losses(*see(images[:BATCH], labels, images[BATCH : (1 + MU) * BATCH]))
        (supervised + unsupervised).backward()
    found: int = counter.get_total_flops()
    return found


def plain_step(images: Tensor, encoder: str) -> Callable[[], None]:
    """A step as its paper's pseudo-code has it: one pass of all views, the optimiser, then the average, one by one.

    Ours leaves the weak views out of the backward pass, which is part of what it gains.
    """
    model, average, views = network(images, encoder), network(images, encoder), ImageViews()
    for module in (model, average):  # torch's own dropout
        for name, part in list(module.named_modules()):
            if isinstance(part, nn.Dropout):
                parent, _, last = name.rpartition(".")
                setattr(module.get_submodule(parent), last, nn.Dropout(part.p))
    objective = FixMatch(FixedThreshold())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, nesterov=True, weight_decay=5e-4)
    labels = torch.arange(500, device=images.device) % CLASSES
    if images.is_cuda:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def step() -> None:
        some = torch.randint(500, (BATCH,), device=images.device)
        others = images[torch.randint(500, ROWS, (MU * BATCH,), device=images.device)]
        with torch.autocast("cuda", torch.bfloat16, enabled=images.is_cuda):
            weak, strong = views.both(others)
            batch = torch.cat([views.weak(images[some]), weak, strong])
            if images.is_cuda:
                batch = batch.contiguous(memory_format=torch.channels_last)
            of_rows, of_weak, of_strong = model(batch).split([BATCH, MU * BATCH, MU * BATCH])
            loss = functional.cross_entropy(of_rows, labels[some]) + objective(of_weak, of_strong)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            for mean, value in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(value, 0.001)

    return step


def matrix_rate(device: torch.device) -> float:
    """TFLOP/s of a large product of random matrices in bfloat16."""
    one, two = (torch.randn(SIDE, SIDE, dtype=torch.bfloat16, device=device) for _ in range(2))
    seconds = median(sync_seconds(lambda: one @ two, device) for _ in range(20))
    return 2 * SIDE**3 / seconds / 1e12


def blocks_of(steps: Sequence[Callable[[], object]], device: torch.device) -> list[float]:
    """Seconds that the steps take together, of several blocks, after one that warms up; the device is waited for after
    each block only."""

    def block() -> None:
        for _ in range(BLOCK):
            for step in steps:
                step()

    return [sync_seconds(block, device) / BLOCK for _ in range(BLOCKS + 1)][1:]


def sync_seconds(step: Callable[[], object], device: torch.device) -> float:
    wait_for(device)
    return seconds_of(lambda: (step(), wait_for(device)))


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
