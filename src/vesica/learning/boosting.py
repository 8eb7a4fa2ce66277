"""Boosting trees on all columns, or on one party's share of them; without torch, for a tree process to start fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Boosting:
    """How to boost, ready for JSON."""

    parameters: dict[str, Any]  # XGBoost's
    rounds: int
    early_stopping_rounds: int  # 0: never

    @classmethod
    def of(
        cls, outputs: int, *, parameters: dict[str, Any], rounds: int, early_stopping_rounds: int, seed: int
    ) -> Boosting:
        """The objective that fits so many outputs: 1 is regression, 2 a margin between two classes."""
        objective = {1: "reg:squarederror", 2: "binary:logistic"}.get(outputs, "multi:softprob")
        metric = {1: "rmse", 2: "logloss"}.get(outputs, "mlogloss")
        fixed = {"objective": objective, "eval_metric": metric, "tree_method": "hist", "seed": seed, "verbosity": 0}
        classes = {"num_class": outputs} if outputs > 2 else {}
        return cls({**parameters, **fixed, **classes}, rounds, early_stopping_rounds)


@dataclass(frozen=True)
class Share:
    """What one party brings: columns (rows, width), and at the host the labels (rows,)."""

    columns: Array
    labels: Array | None
    train: Array  # positions
    validation: Array


def boost(share: Share, boosting: Boosting, *, vertical: bool = False) -> bytes:
    """Train, stop where the validation rows have had no better loss for a while, and keep the best: XGBoost's JSON.

    `vertical`: the other columns are at other parties, which do the same at the same time.
    """
    import xgboost

    def matrix(rows: Array) -> Any:
        labels = None if share.labels is None else share.labels[rows]
        return xgboost.DMatrix(share.columns[rows], labels, data_split_mode=int(vertical))

    booster = xgboost.train(
        boosting.parameters,
        matrix(share.train),
        boosting.rounds,
        evals=[(matrix(share.validation), "validation")],
        early_stopping_rounds=boosting.early_stopping_rounds or None,
        verbose_eval=False,
    )
    if boosting.early_stopping_rounds and boosting.rounds:
        booster = booster[: booster.best_iteration + 1]
    return bytes(booster.save_raw("json"))
