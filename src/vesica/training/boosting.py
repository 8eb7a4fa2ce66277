"""Boosting trees on all columns, or on one party's share of them; without torch, for a tree process to start fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Boosting:
    """How to boost, ready for JSON."""

    parameters: dict[str, Any]  # XGBoost's, most of which LightGBM knows by the same names
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


def boost(
    share: Share, boosting: Boosting, *, vertical: bool = False, go_on: Callable[[], bool] | None = None
) -> bytes:
    """Train, stop where the validation rows have had no better loss for a while, and keep the best: XGBoost's JSON.

    `vertical`: the other columns are at other parties, which do the same at the same time. After every tree `go_on` is
    asked; where the answer is no, that tree is dropped and was the last.
    """
    import xgboost

    def matrix(rows: Array) -> Any:
        labels = None if share.labels is None else share.labels[rows]
        return xgboost.DMatrix(share.columns[rows], labels, data_split_mode=int(vertical))

    asked: list[bool] = []
    seen: dict[str, dict[str, list[float]]] = {}
    booster = xgboost.train(
        boosting.parameters,
        matrix(share.train),
        boosting.rounds,
        evals=[(matrix(share.validation), "validation")],
        early_stopping_rounds=boosting.early_stopping_rounds or None,
        evals_result=seen,
        verbose_eval=False,
        callbacks=[] if go_on is None else [ask_after_every_tree(go_on, asked)],
    )
    trees = booster.num_boosted_rounds() - asked.count(False)
    if boosting.early_stopping_rounds and trees:
        losses = seen["validation"][boosting.parameters["eval_metric"]][:trees]
        trees = losses.index(min(losses)) + 1
    kept = booster[:trees] if trees < booster.num_boosted_rounds() else booster
    return bytes(kept.save_raw("json"))


_XGBOOST_ALONE = ("eval_metric", "tree_method", "gamma")
_LIGHTGBM = {"reg:squarederror": "regression", "binary:logistic": "binary", "multi:softprob": "multiclass"}


def boost_leafwise(share: Share, boosting: Boosting) -> bytes:
    """The same with LightGBM, whose trees grow leaf by leaf, to 31 of them: its text."""
    import lightgbm

    assert share.labels is not None
    parameters = {
        **{name: value for name, value in boosting.parameters.items() if name not in _XGBOOST_ALONE},
        "objective": _LIGHTGBM[boosting.parameters["objective"]],
        "min_gain_to_split": boosting.parameters["gamma"],
        "bagging_freq": 1,  # without which no row is left out
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,  # which otherwise follows from a measurement of time
        "verbosity": -1,
    }
    train = lightgbm.Dataset(share.columns[share.train], share.labels[share.train])
    validation = lightgbm.Dataset(share.columns[share.validation], share.labels[share.validation], reference=train)
    patience = boosting.early_stopping_rounds
    booster = lightgbm.train(
        parameters,
        train,
        boosting.rounds,
        valid_sets=[validation],
        callbacks=[lightgbm.early_stopping(patience, verbose=False)] if patience else [],
    )
    text: str = booster.model_to_string(num_iteration=booster.best_iteration if patience else -1)
    return text.encode()


def ask_after_every_tree(go_on: Callable[[], bool], asked: list[bool]) -> Any:
    """A callback of XGBoost's, which takes the answers down."""
    from xgboost.callback import TrainingCallback

    class Asking(TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            asked.append(go_on())
            return not asked[-1]

    return Asking()
