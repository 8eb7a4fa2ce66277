"""The host on its own: Solo of FedOnce, Local-A of VFLHLP; a reference."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from vesica.errors import InputError
from vesica.nn.models import Head
from vesica.protocol import Guest, Host
from vesica.training.supervised import train


@dataclass(frozen=True)
class LocalOnly:
    """Trains on every row the host has a label for, and sends nothing."""

    epochs: int = 100
    patience: int = 20
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    hidden: tuple[int, ...] = (64,)

    def guest(self, me: Guest) -> None:
        """A guest has nothing to do."""

    def host(self, me: Host) -> None:
        if me.encoder is None:
            raise InputError("has labels only, so there is nothing it could learn alone: take a federated method")
        encoder = me.encoder
        head = Head({me.name: me.dims[me.name]}, me.task.outputs, hidden=self.hidden).to(me.device)
        train(
            {"encoder": encoder, "head": head},
            lambda rows: head([encoder(me.inputs[rows])]),
            me.labels,
            rows=me.known[~torch.isin(me.known, me.rows.validation)],
            validation=me.rows.validation,
            task=me.task,
            epochs=self.epochs,
            patience=self.patience,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            resume=me.resumable("training"),
        )
        me.head = head
