"""Which unaligned rows the host of few-shot lets through, and how many of them are labelled rightly.

From finished runs of few-shot, as `narrower.py` tells them again: the host judges the rows by the representations of
the guests that one-shot has trained. Whether it is right is looked up in the data set, which no party of a run could.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from narrower import finished, told_again
from torch import Tensor

from vesica.data import Federation, split_rows
from vesica.errors import VesicaError
from vesica.experiment import fit
from vesica.experiment.recipes import Case, choose_cases, circumstances, find_recipe
from vesica.learning.estimation import gate
from vesica.methods import FewShot
from vesica.methods.one_shot import Led
from vesica.protocol import Host
from vesica.protocol.party import Party


def figures_of(case: Case, runs: Path, *, data_dir: Path | None, device: str) -> Iterator[dict[str, Any]]:
    """A line a guest and t, of its unaligned rows: by its part alone, and with the others estimated."""
    assert isinstance(case.method, FewShot)
    federation, judged = case.federation(data_dir), dict[str, tuple[Tensor, Tensor]]()

    class Judging(FewShot):
        def infer(self, me: Host, led: Led, unaligned: dict[str, Tensor]) -> dict[str, Tensor]:
            judges = self.judges(me, led)
            judged.update({name: judges[name].judge(part) for name, part in unaligned.items()})
            return {name: torch.zeros(len(part), device=part.device) for name, part in unaligned.items()}

        def learn_again(self, me: Party, *_: Any) -> None:
            """The first training is what is judged."""

    method = told_again(replace(case.method, finetune_iterations=0), runs / case.folder, Judging)
    fit(method, federation, seed=case.seed, device=device)
    for number, name in enumerate((guest.name for guest in federation.guests), start=1):
        local, joint = (each.cpu() for each in judged[name])
        true = true_classes(federation, name)
        for threshold in case.method.thresholds:
            chances = gate(local, joint, threshold=threshold)
            right = (local.argmax(dim=1) == true).float()
            yield {
                "aligned": case.overlap,
                "guest": number,
                "unaligned": len(true),
                "right by its own part": float(right.mean()),
                "right with the others estimated": float((joint.argmax(dim=1) == true).float().mean()),
                "t": threshold,
                "let through": round(float(chances.sum())),
                "right of these": float((right * chances).sum() / chances.sum()) if chances.any() else None,
            }


def true_classes(federation: Federation, guest: str) -> Tensor:
    """Of a guest's unaligned rows: the host's table has them too, though the run keeps the link from all parties."""
    split, hosts = split_rows(federation), federation.host.table.ids.tolist()
    of_id = dict(zip(hosts, split.label.tolist(), strict=True))
    (table,) = (each.table for each in federation.guests if each.name == guest)
    return torch.tensor([int(of_id[id]) for id in table.ids[split.parties[guest].unaligned].tolist()])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, help="what --out was when the recipe was run")
    parser.add_argument("--recipe", default="table1")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", help="the cases whose title has this text")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("VESICA_DATA"))
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    try:
        recipe = find_recipe("one_shot", asked.recipe, experiments=Path(__file__).parents[1])
        for case in finished(choose_cases(recipe, seeds=asked.seeds, only=asked.only), asked.runs):
            if isinstance(case.method, FewShot):
                where = circumstances("joined", device=asked.device, sha256=case.federation(asked.data_dir).sha256)
                for figures in figures_of(case, asked.runs, data_dir=asked.data_dir, device=asked.device):
                    print(json.dumps({"figures": figures} | where), flush=True)
    except VesicaError as error:
        print(f"joined.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
