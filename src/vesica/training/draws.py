"""Whose random numbers torch draws: the generators' states, taken out and put back."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

import torch
from torch import Tensor

_RANDOM_CPU, _RANDOM_CUDA = "random.cpu", "random.cuda"


def random_state() -> dict[str, Tensor]:
    states = {_RANDOM_CPU: torch.get_rng_state()}
    if torch.cuda.is_initialized():
        states[_RANDOM_CUDA] = torch.cuda.get_rng_state()
    return states


def set_random_state(states: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(states[_RANDOM_CPU])
    if _RANDOM_CUDA in states:
        torch.cuda.set_rng_state(states[_RANDOM_CUDA])


class Draws:
    """One party's random numbers, from where they stood when this was made, while others draw in between.

    What is drawn within `with draws:` comes from them.
    """

    def __init__(self) -> None:
        self._own = self._others = random_state()

    def __enter__(self) -> None:
        self._others = random_state()
        set_random_state(self._own)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._own = random_state()
        set_random_state(self._others)

    def go_on(self) -> None:
        """The others have gone: what is drawn from now on comes from here."""
        set_random_state(self._own)
