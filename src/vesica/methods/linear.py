"""A linear model over all columns in one place: Linear-Combine of FedOnce, LR of FedHSSL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vesica.nn.models import LinearModel
from vesica.protocol import Guest, Host
from vesica.protocol.pooling import gather_columns, give_columns
from vesica.training.supervised import train


@dataclass(frozen=True)
class Linear:
    """Logistic regression, or ridge regression. The columns themselves cross, so it runs in simulation only."""

    simulation_only: ClassVar[bool] = True

    epochs: int = 200
    patience: int = 20
    batch_size: int = 128
    learning_rate: float = 1e-2
    weight_decay: float = 1e-4

    def guest(self, me: Guest) -> None:
        give_columns(me)

    def host(self, me: Host) -> None:
        pool = gather_columns(me)
        model = LinearModel({party: spec.schema for party, spec in pool.specs.items()}, me.task.outputs).to(me.device)
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
