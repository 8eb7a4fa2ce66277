"""Boosted trees: over all columns in one place, over the host's alone, and over each party's own (as SecureBoost)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from vesica.errors import InputError
from vesica.nn.models import Bins, EncoderSpec, TreesModel
from vesica.nn.models.trees import Library, join_columns, over_bins, require_lightgbm, require_xgboost, thresholds_of
from vesica.protocol import Guest, Host
from vesica.protocol.byte_limit import TreeLimit
from vesica.protocol.gate import PREFIX
from vesica.protocol.ledger import Ledger
from vesica.protocol.party import Party
from vesica.protocol.pooling import gather_columns, give_columns, give_raw
from vesica.protocol.tree_federation import Sapling, grow_together
from vesica.schema import Schema, TableSchema
from vesica.training.boosting import Boosting, Share, boost, boost_leafwise


@dataclass(frozen=True)
class _Boosted:
    """XGBoost's settings, by its names and with its defaults but for where it stops."""

    rounds: int = 100
    early_stopping_rounds: int = 20
    max_depth: int = 6
    eta: float = 0.3
    min_child_weight: float = 1.0
    reg_lambda: float = 1.0
    gamma: float = 0.0
    subsample: float = 1.0
    max_bin: int = 256

    def boosting(self, me: Party) -> Boosting:
        """These settings for the party's task; rows are drawn by a seed that all parties draw alike."""
        if not 0 < self.subsample <= 1:
            raise InputError(f"subsample is {self.subsample:g}: it is the part of the rows that a tree sees, up to 1")
        seed = int(torch.randint(2**31, (), generator=me.public_random("trees")))
        names = ("max_depth", "eta", "min_child_weight", "reg_lambda", "gamma", "subsample", "max_bin")
        return Boosting.of(
            me.task.outputs,
            parameters={name: getattr(self, name) for name in names},
            rounds=self.rounds,
            early_stopping_rounds=self.early_stopping_rounds,
            seed=seed,
        )


@dataclass(frozen=True)
class Trees(_Boosted):
    """Boosted trees over all columns in one place. The columns themselves cross, so it runs in simulation only."""

    simulation_only: ClassVar[bool] = True

    library: Library = "xgboost"

    def guest(self, me: Guest) -> None:
        give_columns(me)

    def host(self, me: Host) -> None:
        if self.library == "lightgbm":
            require_lightgbm()
        else:
            require_xgboost()
        pool = gather_columns(me)
        share = Share(join_columns(pool.columns), array(pool.labels), array(pool.train), array(pool.validation))
        schemas = {party: spec.schema for party, spec in pool.specs.items()}
        grow = boost_leafwise if self.library == "lightgbm" else boost
        me.head = TreesModel(schemas, me.task.outputs, library=self.library).plant(grow(share, self.boosting(me)))


@dataclass(frozen=True)
class LocalTrees(_Boosted):
    """XGBoost over the host's columns, on every row it has a label for; sends nothing."""

    def guest(self, me: Guest) -> None:
        """A guest has nothing to do."""

    def host(self, me: Host) -> None:
        require_xgboost()
        if me.encoder_spec is None:
            raise InputError("has labels only, so there is nothing it could learn alone: take a federated method")
        train = me.known[~torch.isin(me.known, me.rows.validation)]
        share = Share(join_columns([me.inputs]), array(me.labels), array(train), array(me.rows.validation))
        schemas = {me.name: give_raw(me).schema}
        me.head = TreesModel(schemas, me.task.outputs).plant(boost(share, self.boosting(me)))


@dataclass(frozen=True)
class VerticalTrees(_Boosted):
    """XGBoost's vertical federated training, a process a party: the trees of `trees`, and no column crosses.

    Cheng et al., IEEE Intelligent Systems 2021 (SecureBoost), without its encryption.
    """

    simulation_only: ClassVar[bool] = True
    stops_at_bytes: ClassVar[bool] = True

    timeout: float = 300.0  # seconds without a byte between the processes after which the run ends

    def guest(self, me: Guest) -> None:
        sapling = self.sapling(me, join_columns([me.inputs]), labels=None)
        me.conversation.meet(sapling, grow_together)
        record(me.conversation.ledger, sapling)
        columns = range(sapling.first, sapling.first + sapling.share.columns.shape[1])
        assert me.encoder_spec is not None
        me.use(EncoderSpec.choose("bins", me.encoder_spec.schema))
        assert isinstance(me.encoder, Bins)
        me.encoder.use(thresholds_of(sapling.trees, columns))

    def host(self, me: Host) -> None:
        require_federated_xgboost()
        check_budget(me)
        schemas: dict[str, Schema] = {}
        own = np.zeros((len(me.inputs), 1), dtype=np.float32)  # XGBoost wants a column of everyone
        if me.encoder_spec is not None:
            schemas[me.name], own = give_raw(me).schema, join_columns([me.inputs])
        sapling = self.sapling(me, own, labels=me.labels)
        me.conversation.meet(sapling, grow_together)
        record(me.conversation.ledger, sapling)
        me.conversation.statements += said(sapling)
        theirs = range(own.shape[1], own.shape[1] + sum(sapling.widths.values()))
        trees = over_bins(sapling.trees, theirs, drop=0 if schemas else 1)
        schemas |= {guest: TableSchema(width) for guest, width in sapling.widths.items()}
        me.head = TreesModel(schemas, me.task.outputs, reads="bins").plant(trees)

    def sapling(self, me: Party, columns: np.ndarray, *, labels: Tensor | None) -> Sapling:
        """This party's columns of the labelled aligned rows, which are in the same order at every party."""
        rows = array(me.rows.labelled)
        validates = np.isin(rows, array(me.rows.validation))
        known = None if labels is None else array(labels)[rows]
        share = Share(columns[rows], known, np.flatnonzero(~validates), np.flatnonzero(validates))
        talk = me.conversation
        limit = None if talk.stop_at_bytes is None else TreeLimit(talk.stop_at_bytes)
        return Sapling(me.name, share, self.boosting(me), self.timeout, talk.transport.check, limit)


def require_federated_xgboost() -> None:
    xgboost = require_xgboost()
    if tuple(map(int, xgboost.__version__.split(".")[:2])) >= (3, 4):
        raise InputError(
            f"XGBoost {xgboost.__version__} is installed, which cannot train on columns of several parties any more: "
            "pip install 'xgboost>=3.2,<3.4'"
        )
    if not xgboost.build_info().get("USE_FEDERATED"):
        raise InputError("this XGBoost was built without federated training: install 'xgboost', not 'xgboost-cpu'")


def check_budget(me: Host) -> None:
    """XGBoost does not say beforehand what it is about to send, so nothing could be refused in time."""
    budget = me.conversation.meter.budget
    if budget.rounds is not None or budget.bytes is not None:
        raise InputError("vertical-trees cannot be held to --max-rounds or --max-bytes: leave them out")


def record(ledger: Ledger, sapling: Sapling) -> None:
    """Every call of XGBoost as two messages: each party's part, then what the server made of all parts."""
    for calls in zip(*sapling.calls.values(), strict=True):
        for guest, call in zip(sapling.calls, calls, strict=True):
            ledger.record(guest, ledger.host, "parts", payload=call.up - PREFIX, wire=call.up)
        for guest, call in zip(sapling.calls, calls, strict=True):
            ledger.record(ledger.host, guest, "totals", payload=call.down - PREFIX, wire=call.down)


def said(sapling: Sapling) -> list[str]:
    messages = sum(call.up + call.down for calls in sapling.calls.values() for call in calls)
    return [
        f"XGBoost's own messages are in the ledger as they crossed ({messages:,} bytes); with what HTTP/2 adds, "
        f"{sapling.crossed:,} bytes crossed the sockets.",
        "Nothing is encrypted: every guest received the gradient of the loss at every training row in every "
        "round, which give the labels away.",
        "While it trains every party's process holds all trees, with the thresholds of the others' columns and the "
        "way that every row takes at them.",
        *said_of_the_end(sapling.limit),
    ]


def said_of_the_end(limit: TreeLimit | None) -> list[str]:
    if limit is None or not limit.beyond:
        return []
    return [
        f"Training was stopped after {limit.trees} rounds of boosting: with one more, which was grown to see it and "
        f"dropped with its messages, the bytes would have come to {limit.beyond:,}."
    ]


def array(tensor: Tensor) -> np.ndarray:
    return tensor.cpu().numpy()
