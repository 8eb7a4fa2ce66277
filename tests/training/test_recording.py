"""A recorded step on a GPU; without one the step stays itself."""

import copy

import pytest
import torch
from torch import Tensor, nn

from vesica.nn.models import CNN0, EncoderSpec
from vesica.nn.objectives import FixedThreshold, FixMatch
from vesica.schema import ImageSchema, TableSchema
from vesica.training.lesson import Lesson, Schedule
from vesica.training.pretext import cross_tower, pretext
from vesica.training.recording import compiled, drawn_ahead, keep_layout, recorded
from vesica.training.resume import Straight
from vesica.training.semi_supervised import Losses
from vesica.training.towers import CrossTower

CUDA = torch.device("cuda")
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA on this machine")


def test_on_a_cpu_a_step_is_neither_compiled_nor_recorded() -> None:
    def step() -> None: ...

    cpu = torch.device("cpu")
    assert recorded(step, cpu) is step
    assert compiled(step, cpu) is step


@on_a_gpu
def test_a_recorded_step_runs_every_time_and_sees_tensors_change() -> None:
    rate, total = torch.zeros((), device=CUDA), torch.zeros((), device=CUDA)

    def step() -> None:
        total.add_(rate)

    advance = recorded(step, CUDA)
    for value in range(10):
        rate.fill_(value)
        advance()
    assert total.item() == sum(range(10))


@on_a_gpu
def test_a_recorded_step_draws_new_random_numbers() -> None:
    drawn, kept = torch.zeros((), device=CUDA), []
    advance = recorded(lambda: drawn.copy_(torch.rand((), device=CUDA)), CUDA)  # type: ignore[arg-type, return-value]
    for _ in range(8):
        advance()
        kept.append(drawn.item())
    assert len(set(kept)) == 8


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_a_gpu)])
def test_every_step_learns_from_what_was_drawn_next(device: str) -> None:
    """None is left out and none comes twice, though on a GPU it was drawn during the step before."""
    drawn, learned, seen = torch.zeros((), device=device), torch.zeros((), device=device), []

    def draw() -> tuple[Tensor, Tensor]:
        drawn.add_(1)
        return drawn.clone(), -drawn

    ahead = drawn_ahead(draw, torch.device(device))

    def step() -> None:
        with ahead as (one, other):
            learned.copy_(one - other)

    advance = recorded(step, torch.device(device))
    for _ in range(8):
        advance()
        seen.append(learned.item())
    assert seen == [2.0 * number for number in range(1, 9)]
    assert drawn.item() == (8 if device == "cpu" else 9)


@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.Adam])
def test_a_restored_state_is_laid_out_as_the_weights_are(optimiser: type[torch.optim.Optimizer]) -> None:
    def weights() -> nn.Parameter:
        torch.manual_seed(0)
        return nn.Parameter(torch.randn(3, 2, 4, 4).to(memory_format=torch.channels_last))

    def make(weight: nn.Parameter) -> torch.optim.Optimizer:
        settings = {"momentum": 0.9} if optimiser is torch.optim.SGD else {}
        made = optimiser([weight], lr=0.1, fused=True, **settings)  # type: ignore[call-arg]
        keep_layout(made)
        return made

    def step(weight: nn.Parameter, by: torch.optim.Optimizer) -> None:
        weight.grad = weight.detach() * torch.arange(4.0)
        by.step()

    one = weights()
    first = make(one)
    step(one, first)
    two = nn.Parameter(one.detach().clone(memory_format=torch.preserve_format))
    second = make(two)
    saved = copy.deepcopy(first.state_dict())
    saved["state"] = {
        0: {name: value.contiguous() if value.ndim else value for name, value in saved["state"][0].items()}
    }
    second.load_state_dict(saved)
    step(one, first)
    step(two, second)
    assert torch.equal(one, two)


@pytest.mark.parametrize("has", [False, True])
def test_pretraining_multiplies_in_bfloat16_where_a_cpu_is_quicker_so(
    has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vesica.training.recording._CPU_HAS_BFLOAT16", has)
    model = pretext("simsiam", nn.Linear(3, 4), dim=4, width=8, ema=0.9, device=torch.device("cpu"))
    seen = []
    model.encoder.register_forward_hook(lambda _, __, outputs: seen.append(outputs.dtype))
    model(torch.randn(5, 3), torch.randn(5, 3)).backward()
    assert set(seen) == {torch.bfloat16 if has else torch.float32}
    assert {weight.grad.dtype for weight in model.parameters() if weight.grad is not None} == {torch.float32}


def test_what_is_sent_and_remembered_stays_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vesica.training.recording._CPU_HAS_BFLOAT16", True)
    cpu, spec = torch.device("cpu"), EncoderSpec("mlp2", 4, TableSchema(3))
    encoder = spec.build()
    seen = watch(encoder)
    tower = CrossTower(
        "simsiam", cross_tower("simsiam", encoder, dim=4, width=8, device=cpu), learning_rate=0.1, device=cpu
    )
    tower.begin(1.0)
    projections = tower.project(torch.randn(5, 3))
    tower.learn(projections, [torch.randn(5, 8)])
    assert torch.bfloat16 in seen
    assert projections.dtype is torch.float32
    assert {value.dtype for value in tower.tower.state_dict().values() if value.is_floating_point()} == {torch.float32}


@pytest.mark.parametrize("images", [False, True])
def test_noise_as_targets_is_quicker_on_images_alone(images: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vesica.training.recording._CPU_HAS_BFLOAT16", True)
    rows = torch.rand(6, 1, 8, 8) if images else torch.rand(6, 3)
    encoder = CNN0(ImageSchema(1, 8, 8, (0.5,), (0.5,)), 2) if images else nn.Linear(3, 2)
    seen = watch(encoder)
    schedule = Schedule(epochs=1, frequency=1, batch_size=3, learning_rate=0.1, weight_decay=0.0)
    lesson = Lesson(encoder, rows, dim=2, view=None, schedule=schedule, resume=Straight())
    assert lesson.look(rows).dtype is torch.float32
    assert (torch.bfloat16 in seen) is images


@pytest.mark.parametrize("has", [False, True])
@pytest.mark.parametrize("images", [False, True])
def test_semi_supervised_learning_is_quicker_on_images_alone(
    images: bool, has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vesica.training.recording._CPU_HAS_BFLOAT16", has)
    rows = torch.rand(8, 1, 8, 8) if images else torch.rand(8, 3)
    model = CNN0(ImageSchema(1, 8, 8, (0.5,), (0.5,)), 2) if images else nn.Linear(3, 2)
    seen = watch(model)
    losses = Losses(model, copy.deepcopy(model), FixMatch(FixedThreshold(0.0)))
    both = losses(rows, torch.tensor([0, 1]), rows[:6])
    sum(both).backward()
    assert (torch.bfloat16 in seen) is (images and has)
    assert {loss.dtype for loss in both} == {torch.float32}
    assert {weight.grad.dtype for weight in model.parameters() if weight.grad is not None} == {torch.float32}


def watch(network: nn.Module) -> list[torch.dtype]:
    """What the layers of a network give from now on."""
    seen: list[torch.dtype] = []
    for module in network.modules():
        module.register_forward_hook(lambda _, __, outputs: seen.append(outputs.dtype))
    return seen
