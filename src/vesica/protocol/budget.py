"""The budget: how many rounds and bytes a conversation may cost."""

from dataclasses import dataclass, field

from vesica.errors import BudgetError, InputError
from vesica.protocol.ledger import Ledger


@dataclass(frozen=True)
class Budget:
    """At most so many rounds and wire bytes in training, the agreement not counted; None is no limit."""

    rounds: int | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("rounds", self.rounds), ("bytes", self.bytes)):
            if value is not None and value < 0:
                raise InputError(f"a budget of {value} {name} is negative: give 0 or more, or leave it out")


@dataclass
class Meter:
    """What has been sent so far by every sender the meter can see, against the budget.

    In one process it sees all ledgers and is exact. Across organisations a party sees its own alone.
    """

    budget: Budget
    ledgers: list[Ledger] = field(default_factory=list)

    def allow(self, ledger: Ledger, receiver: str, kind: str, *, wire: int) -> None:
        """Refuse a message that would exceed the budget, before anything leaves."""
        if kind == "agreement":
            return
        number = ledger.round_of(receiver)
        if self.budget.rounds is not None and number > self.budget.rounds:
            raise BudgetError(
                f"sending '{kind}' to '{receiver}' would be round {number} and the budget is "
                f"{self.budget.rounds} rounds: nothing was sent; raise --max-rounds or take a method of fewer rounds"
            )
        if self.budget.bytes is None:
            return
        total = sum(seen.sent_bytes for seen in self.ledgers) + wire
        if total > self.budget.bytes:
            raise BudgetError(
                f"sending '{kind}' to '{receiver}' would bring the bytes to {total:,} and the budget is "
                f"{self.budget.bytes:,}: nothing was sent; raise --max-bytes, take a narrower wire or another method"
            )
