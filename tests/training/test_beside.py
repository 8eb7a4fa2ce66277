"""Several trainings in turn, each with its own random numbers."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from vesica.training.beside import Beside, side_by_side
from vesica.training.recording import recorded

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA on this machine")),
]


class Walk:
    """A training that goes where its random numbers lead it; its steps are long enough to be under way together."""

    def __init__(self, steps: int, *, seed: int, device: str) -> None:
        self.place = torch.zeros(64, device=device)
        self._busy = torch.randn(256, 256, device=device)
        self._steps = steps
        self._device = torch.device(device)
        torch.manual_seed(seed)
        self.beside = Beside(self._walk(), self._device)

    def _walk(self) -> Iterator[None]:
        advance = recorded(self._step, self._device)
        for _ in range(self._steps):
            advance()
            yield

    def _step(self) -> None:
        for _ in range(20):
            self._busy.copy_((self._busy @ self._busy).sin())
        self.place += torch.randn(64, device=self._device)

    def after(self) -> Tensor:
        """What is drawn next, when the training is over."""
        self.beside.draws.go_on()
        return torch.rand(3, device=self._device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lengths", [(40, 40), (2, 50, 30)])
def test_each_comes_to_what_it_would_come_to_alone(lengths: tuple[int, ...], device: str) -> None:
    together = [Walk(steps, seed=seed, device=device) for seed, steps in enumerate(lengths)]
    torch.manual_seed(99)
    side_by_side([walk.beside for walk in together])
    others = torch.rand(3, device=device)  # of whoever is neither
    torch.manual_seed(99)
    assert torch.equal(others, torch.rand(3, device=device))
    for seed, (steps, walk) in enumerate(zip(lengths, together, strict=True)):
        alone = Walk(steps, seed=seed, device=device)
        side_by_side([alone.beside])
        assert torch.equal(walk.place, alone.place)
        assert torch.equal(walk.after(), alone.after())
    assert len({tuple(walk.place.tolist()) for walk in together}) == len(lengths)


@pytest.mark.parametrize("device", DEVICES)
def test_a_failure_of_one_is_passed_on_and_leaves_the_random_numbers_in_place(device: str) -> None:
    def failing() -> Iterator[None]:
        yield
        torch.rand(5, device=device)
        raise ValueError("out of luck")

    torch.manual_seed(99)
    expected = torch.rand(3, device=device)
    torch.manual_seed(99)
    with pytest.raises(ValueError, match="out of luck"):
        side_by_side([Beside(failing(), torch.device(device))])
    assert torch.equal(expected, torch.rand(3, device=device))
