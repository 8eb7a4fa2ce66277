"""What it costs to predict without guests that were there in training: one fit, then ever fewer of them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from vesica.data import Federation, split_rows
from vesica.errors import VesicaError
from vesica.experiment import Result, fit
from vesica.experiment.recipes import Case, circumstances, find_recipe
from vesica.metrics import Task, score


def metrics_without(result: Result, federation: Federation, without: Sequence[str]) -> dict[str, float | None]:
    """The metrics on the test rows, some guests not asked."""
    split, host = split_rows(federation), federation.host.name
    rows = {party.name: party.table.take(split.parties[party.name].test) for party in federation.parties}
    predictions = result.predict(rows, without=without)
    assert predictions.probabilities is not None
    label = dict(zip(split.test_ids, split.label[split.parties[host].test], strict=True))
    outputs = torch.from_numpy(predictions.probabilities).clamp_min(1e-30).log()
    task = Task(federation.task, federation.metric, split.classes)
    return score(task, outputs, torch.tensor([label[one] for one in predictions.ids]))


def lines_of(case: Case, *, data_dir: Path | None, device: str) -> Iterator[dict[str, Any]]:
    """A line for every number of guests that is left out, from none to all."""
    federation = case.federation(data_dir)
    result = fit(case.method, federation, seed=case.seed, device=device, wire=case.wire)
    where = circumstances("without", device=device, sha256=federation.sha256)
    guests = [guest.name for guest in federation.guests]
    for count in range(len(guests) + 1):
        metrics = metrics_without(result, federation, guests[:count])
        yield {**result.to_json(), "without": guests[:count], "metrics": metrics, **where}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("VESICA_DATA"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="the cases whose title has this text")
    asked = parser.parse_args()
    cases = find_recipe("fedonce", "laggy", experiments=Path(__file__).parents[1]).cases(asked.seeds)
    try:
        for case in (case for case in cases if not case.absent and asked.only in case.title):
            for line in lines_of(case, data_dir=asked.data_dir, device=asked.device):
                print(json.dumps(line), flush=True)
    except VesicaError as error:
        print(f"without.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
