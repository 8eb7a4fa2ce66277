"""All tables in one place: Combine of FedOnce; what a federation would reach if nothing had to stay at home."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vesica.nn.models import PooledModel
from vesica.protocol import Guest, Host
from vesica.protocol.pooling import gather_columns, give_columns
from vesica.training.supervised import train


@dataclass(frozen=True)
class Pooled:
    """One model over all columns. The columns themselves cross, so it runs in simulation only."""

    simulation_only: ClassVar[bool] = True

    epochs: int = 100
    patience: int = 20
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    hidden: tuple[int, ...] = (64,)

    def guest(self, me: Guest) -> None:
        give_columns(me)

    def host(self, me: Host) -> None:
        pool = gather_columns(me)
        model = PooledModel(pool.specs, me.task.outputs, hidden=self.hidden).to(me.device)
        train(
            {"model": model},
            lambda rows: model(pool.take(rows)),
            pool.labels,
            rows=pool.train,
            validation=pool.validation,
            task=me.task,
            epochs=self.epochs,
            patience=self.patience,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            resume=me.resumable("training"),
        )
        me.head = model
