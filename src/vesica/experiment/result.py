"""What a run gives: its metrics, its ledger, its models, and how it came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vesica import __version__
from vesica.data.reading import table_from
from vesica.data.table import Table
from vesica.experiment.models import PartyModel
from vesica.experiment.predict import predict
from vesica.experiment.predictions import Predictions
from vesica.privacy import Spent
from vesica.protocol import Ledger


@dataclass(frozen=True)
class Result:
    """One run of one method. Metrics are fractions, of the test rows."""

    method: str
    title: str  # what tables call it: the method, and a part of it that makes another row of a paper's table
    data: str
    seed: int
    parties: tuple[str, ...]
    rows: Mapping[str, Any]
    metrics: Mapping[str, float | None]
    ledger: Ledger  # the host's: of training, the agreement listed apart
    scoring: Ledger  # the host's: of the test rows' prediction
    wire: str
    seconds: float | None  # None: a milestone, whose time is part of the whole run's
    config: Mapping[str, Any]
    config_hash: str
    curve: tuple[Mapping[str, float], ...]
    models: Mapping[str, PartyModel]
    statements: tuple[str, ...] = ()  # what the messages give away, in plain words
    privacy: Spent | None = None  # what they cost, where a mechanism guarantees it
    missing: tuple[str, ...] = ()  # the guests that were late in training, and left out
    milestones: tuple[Result, ...] = ()  # what earlier methods reached that this one goes on from; no models

    def to_json(self) -> dict[str, Any]:
        ledger = self.ledger
        return {
            "method": self.method,
            "title": self.title,
            "data": self.data,
            "seed": self.seed,
            "parties": list(self.parties),
            "missing": list(self.missing),
            "rows": dict(self.rows),
            "metrics": dict(self.metrics),
            "rounds": ledger.rounds,
            "messages": len(ledger.messages),
            "bytes": {"payload": ledger.payload, "wire": ledger.wire, "up": ledger.up, "down": ledger.down},
            "wire": self.wire,
            **spent_in_json(self.privacy),
            "seconds": None if self.seconds is None else round(self.seconds, 3),
            "config": dict(self.config),
            "config_hash": self.config_hash,
            "version": __version__,
            "statements": list(self.statements),
        }

    def predict(self, tables: Mapping[str, Table | Any], *, id: str = "id", without: Sequence[str] = ()) -> Predictions:
        """Predict new rows, from a table a party: a Table, or what `Federation.from_tables` takes, by `id`."""
        made = {party: t if isinstance(t, Table) else table_from(t, id=id) for party, t in tables.items()}
        return predict(self.models, made, without=without)


def spent_in_json(spent: Spent | None) -> dict[str, Any]:
    """By the names that every result has."""
    return {name: getattr(spent, name, None) for name in ("epsilon", "delta", "protects")}
