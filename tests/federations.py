"""Small federations for tests: a few rows, a pattern that can be learned."""

from __future__ import annotations

import numpy as np

from vesica.data import Federation, Overlap, PartyData, Table, TestRows
from vesica.methods import METHODS, Method

REFUSE_REGRESSION = ("one-shot", "few-shot", "fedcvt")
_CHEAP = {
    "epochs": 2,
    "guest_steps": 20,
    "guest_epochs": 3,
    "host_epochs": 2,
    "pretrain_epochs": 2,
    "finetune_epochs": 2,
    "rounds": 3,
    "subsample": 0.8,
}


def quick(name: str) -> Method:
    """A method by name, with settings that take a moment."""
    fields = METHODS[name].__dataclass_fields__
    method: Method = METHODS[name](**{field: value for field, value in _CHEAP.items() if field in fields})
    return method


def ids(rows: int) -> np.ndarray:
    return np.array([f"p{i:04d}" for i in range(rows)], dtype=object)


def photo_federation(*, rows: int = 100, keep: int = 40, size: int = 8) -> Federation:
    """A bank with labels only and a guest with images: bright above, or bright below."""
    random = np.random.default_rng(7)
    label = random.integers(0, 2, rows)
    image = random.integers(0, 120, (rows, size, size, 1))
    image[label == 0, : size // 2] += 120
    image[label == 1, size // 2 :] += 120
    return Federation(
        PartyData("bank", Table(ids(rows))),
        label,
        (PartyData("camera", Table(ids(rows), image=image.astype(np.uint8)), dim=16),),
        task="classification",
        metric="accuracy",
        test=TestRows(0.3),
        overlap=Overlap(keep),
        name="photos",
    )


def small_federation(
    *, rows: int = 100, guests: int = 1, host_features: bool = True, task: str = "classification", keep: int = 40
) -> Federation:
    """Numeric columns at every party, all of which bear on the label."""
    random = np.random.default_rng(7)
    parts = [random.normal(size=(rows, 3)) for _ in range(guests + 1)]
    total = sum(part.sum(axis=1) for part in parts)
    label = total if task == "regression" else (total > 0).astype(np.int64)
    tables = [Table(ids(rows), {f"x{i}": part[:, i] for i in range(3)}) for part in parts]
    host = tables[0] if host_features else Table(ids(rows))
    return Federation(
        PartyData("bank", host),
        label,
        tuple(PartyData(f"shop{i}", table) for i, table in enumerate(tables[1:], start=1)),
        task=task,
        metric="rmse" if task == "regression" else "auc",
        test=TestRows(0.3),
        overlap=Overlap(keep),
        name="small",
    )
