"""SplitNN, the vanilla vertical federated learning. Vepakomma et al., 2018, as Wu et al., TBD 2022, 2.3, use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vesica.methods.label_claims import protected
from vesica.methods.label_defences import LabelDefences
from vesica.nn.models import Head
from vesica.protocol import Guest, Host
from vesica.protocol.end_to_end import Augment, EndToEnd


@dataclass(frozen=True)
class SplitNN(LabelDefences):
    """Encoders at the parties, a head at the host; representations go up and gradients down for every batch.

    After each epoch the host scores the validation rows and tells the guests whether to keep it and whether to stop.
    """

    stops_at_bytes: ClassVar[bool] = True

    epochs: int = 100
    patience: int = 20
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    hidden: tuple[int, ...] = (64,)
    join: str = "concat"
    augment: Augment = "none"  # what the encoders see in training: the rows, or weak views of them

    def guest(self, me: Guest) -> None:
        self.training().follow(me, step="training")

    def host(self, me: Host) -> None:
        me.head = Head(me.dims, me.task.outputs, hidden=self.hidden, join=self.join).to(me.device)
        training = self.training()
        with self.hiding(me):
            training.lead(me, me.labels, step="training")
        me.conversation.statements += protected(training.protect)

    def training(self) -> EndToEnd:
        return EndToEnd(
            epochs=self.epochs,
            patience=self.patience,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            augment=self.augment,
            protect=self.protection(),
        )
