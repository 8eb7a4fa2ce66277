"""What differential privacy costs a party: a step of DP-SGD, beside the same step with Opacus' hooks."""

import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks import Measurement, time_in_turn
from vesica.nn.models import CNN1, MLP
from vesica.privacy.dp_sgd import private_gradient
from vesica.schema import ImageSchema

CLIP, NOISE = 1.0, 1.1
REPEATS = 10
STEPS = 40  # in one repeat, as training takes them in a row: the first ones after the other side find cold caches
PEER = "Opacus, hooks"
CROSS_ENTROPY = partial(functional.cross_entropy, reduction="none")


def measure() -> list[Measurement]:
    random = torch.Generator().manual_seed(0)
    images = torch.randint(256, (256, 1, 14, 14), dtype=torch.uint8, generator=random)
    cnn1 = CNN1(ImageSchema(1, 14, 14, (0.5,), (0.5,)), 16)
    return [
        compare("MLP 17-30-30-3, 128 rows", MLP(17, (30, 30), 3), torch.randn(128, 17, generator=random), 1 / 3),
        compare("MLP 256-256-256, 128 rows", MLP(256, (256,), 256), torch.randn(128, 256, generator=random), 1 / 3),
        compare("CNN1 on 14 x 14, 256 rows", cnn1, images, 1 / 1.3),
    ]


def compare(name: str, model: nn.Module, inputs: Tensor, limit: float) -> Measurement:
    """Everything up to the noisy gradient; what the optimiser does then is the same."""
    labels = torch.zeros(len(inputs), dtype=torch.int64)
    steps = {"ours": our_step(model, inputs, labels), PEER: opacus_step(model, inputs, labels)}
    seconds = time_in_turn({who: partial(repeat, step) for who, step in steps.items()}, REPEATS)
    ours, theirs = seconds["ours"] / STEPS, seconds[PEER] / STEPS
    return Measurement(f"DP-SGD, {name}", ours, PEER, theirs, REPEATS, limit=limit)


def repeat(step: Callable[[], object]) -> None:
    for _ in range(STEPS):
        step()


def our_step(model: nn.Module, inputs: Tensor, labels: Tensor) -> Callable[[], None]:
    return partial(
        private_gradient,
        model,
        inputs,
        labels,
        loss=CROSS_ENTROPY,
        clip=CLIP,
        noise=NOISE,
        expected_rows=len(labels),
    )


def opacus_step(model: nn.Module, inputs: Tensor, labels: Tensor) -> Callable[[], None]:
    """A copy of the network in Opacus' wrapper, and its optimiser up to where it would move the weights."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    wrapped = GradSampleModule(deepcopy(model))
    optimiser = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=0.1),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
        expected_batch_size=len(labels),
    )

    def step() -> None:
        optimiser.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, on hooks of modules whose inputs need no gradient
            functional.cross_entropy(wrapped(inputs), labels).backward()
        optimiser.pre_step()

    return step
