"""How parties that train in one process can train together, whoever knows of them."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Work = TypeVar("Work")


class Meet(Protocol):
    """Brings one's own work to where the others bring theirs; when all who can have come, everyone's is done.

    `together` is called once, by one of them, and then each goes on.
    """

    def __call__(self, work: Work, together: Callable[[Sequence[Work]], None]) -> None: ...


def alone(work: Work, together: Callable[[Sequence[Work]], None]) -> None:
    """Nobody else is there, as in a deployment, where every party has a process of its own."""
    together([work])
