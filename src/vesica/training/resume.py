"""How a training loop can be left and taken up again, whoever keeps its state."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol


class Stateful(Protocol):
    """A module, an optimiser, or anything else whose state can be taken out and put back."""

    def state_dict(self) -> Mapping[str, Any]: ...

    def load_state_dict(self, state: Any) -> Any: ...


class Resume(Protocol):
    """Counts the positions of a long step; whoever keeps checkpoints restores `parts` before the first one."""

    def steps(self, total: int, parts: Mapping[str, Stateful]) -> Iterator[int]: ...


class Straight:
    """Straight through, with no checkpoints."""

    def steps(self, total: int, parts: Mapping[str, Stateful]) -> Iterator[int]:
        yield from range(total)
