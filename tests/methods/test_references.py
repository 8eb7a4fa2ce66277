"""The references: what they send, and what they learn."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from federations import small_federation
from vesica.data import Federation, PartyData, Table
from vesica.experiment import fit
from vesica.methods import Linear, LocalOnly, Pooled, SplitNN, local_only
from vesica.training.supervised import train


@pytest.mark.parametrize("method", [Pooled(epochs=2), Linear(epochs=2)])
def test_pooling_is_one_round_of_every_guests_columns(method: object) -> None:
    result = fit(method, small_federation(guests=3))
    script = [(entry.round, entry.sender, entry.receiver, entry.kind) for entry in result.ledger.messages]
    assert script == [(1, f"shop{i}", "bank", "columns") for i in (1, 2, 3)]
    assert result.ledger.payload == 3 * 40 * 3 * 4  # guests x labelled rows x columns x float32
    assert {entry.kind for entry in result.scoring.messages} == {"request", "columns"}


def test_local_only_sends_nothing_and_asks_for_nothing() -> None:
    result = fit(LocalOnly(epochs=2), small_federation(guests=2))
    assert result.ledger.messages == []
    assert [entry.kind for entry in result.scoring.messages] == ["request", "request"]


def test_all_columns_know_more_than_the_hosts() -> None:
    federation = small_federation(rows=500, keep=300)
    alone, together = fit(LocalOnly(epochs=40), federation), fit(Pooled(epochs=40), federation)
    assert (together.metrics["auc"] or 0) > 0.95 > 0.9 > (alone.metrics["auc"] or 1)


@pytest.mark.parametrize(("labels", "trained_on"), [("aligned", 18), ("all", 18 + 25)])
def test_local_only_learns_from_every_row_with_a_label(
    labels: str, trained_on: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With labels = "all" the host's unaligned rows are labelled too; the validation rows never count."""
    seen = []

    def watched(*args: object, rows: torch.Tensor, **named: object) -> None:
        seen.append(len(rows))
        train(*args, rows=rows, **named)

    monkeypatch.setattr(local_only, "train", watched)
    fit(LocalOnly(epochs=1), replace(small_federation(keep=20), labels=labels))
    assert seen == [trained_on]


def test_linear_agrees_with_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    from vesica.data import split_rows

    federation = small_federation(rows=500, keep=300)
    result = fit(Linear(weight_decay=0.0), federation)
    split = split_rows(federation)
    columns = np.hstack([np.column_stack(list(party.table.columns.values())) for party in federation.parties])
    rows = split.parties["bank"]
    model = LogisticRegression(C=1e6).fit(columns[rows.aligned], split.label[rows.aligned])
    theirs = roc_auc_score(split.label[rows.test], model.predict_proba(columns[rows.test])[:, 1])
    assert result.metrics["auc"] == pytest.approx(theirs, abs=0.02)


def test_pooled_images_keep_the_encoders_the_parties_were_set_to_use() -> None:
    random = np.random.default_rng(0)
    names = np.array([f"p{i:03d}" for i in range(60)], dtype=object)
    label = random.integers(0, 2, 60)
    image = (random.integers(0, 100, (60, 16, 16, 1)) + 100 * label[:, None, None, None]).astype(np.uint8)
    federation = Federation(
        PartyData("bank", Table(names, {"x": random.normal(size=60)})),
        label,
        (PartyData("shop", Table(names, image=image), encoder="cnn1", dim=5),),
        task="classification",
        metric="auc",
    )
    pooled = fit(Pooled(epochs=1), federation).models["bank"].head
    split = fit(SplitNN(epochs=1), federation).models["shop"].encoder
    ours, theirs = (sum(p.numel() for p in module.parameters()) for module in (pooled.encoders[1], split))
    assert ours == theirs
    assert isinstance(pooled.encoders[1](torch.zeros(1, 1, 16, 16)), torch.Tensor)
