"""Which unaligned rows the host of few-shot lets through, and how often it is right about them.

From finished runs of few-shot, as `narrower.py` tells them again: the host judges the rows by the representations of
the guests that one-shot has trained. Whether it is right is looked up in the data set, which no party of a run could.
A guest labels the rows that are let through by itself, with a classifier that a run does not keep: not looked at here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from narrower import arguments, asked_for, finished, told_again
from torch import Tensor

from vesica.data import Federation, split_rows
from vesica.errors import VesicaError
from vesica.experiment import fit
from vesica.experiment.recipes import Case, circumstances
from vesica.methods import FewShot
from vesica.methods.one_shot import Led
from vesica.protocol import Host
from vesica.protocol.party import Party
from vesica.training.estimation import gate


def figures_of(case: Case, federation: Federation, runs: Path, *, device: str) -> Iterator[dict[str, Any]]:
    """A line a guest, of its unaligned rows: by its part alone, and with the others estimated."""
    assert isinstance(case.method, FewShot)
    judged = dict[str, tuple[Tensor, Tensor, float]]()

    class Judging(FewShot):
        def infer(self, me: Host, led: Led, unaligned: dict[str, Tensor]) -> dict[str, Tensor]:
            judges, threshold = self.judges(me, led)
            for name, part in unaligned.items():
                local, joint = judges[name].judge(part)
                judged[name] = local.cpu(), joint.cpu(), threshold
            return {name: torch.zeros(len(part), device=part.device) for name, part in unaligned.items()}

        def learn_again(self, me: Party, *_: Any) -> None:
            """The first training is what is judged."""

    method = told_again(replace(case.method, finetune_iterations=0), runs / case.folder, Judging)
    fit(method, federation, seed=case.seed, device=device)
    for number, name in enumerate((guest.name for guest in federation.guests), start=1):
        local, joint, threshold = judged[name]
        true = true_classes(federation, name)
        chances, right = gate(local, joint, threshold=threshold), (local.argmax(dim=1) == true).float()
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
    asked = arguments(__doc__, recipe="table1")
    try:
        cases = [case for case in asked_for(asked) if isinstance(case.method, FewShot)]
        for case in finished(cases, asked.runs):
            federation = case.federation(asked.data_dir)
            where = circumstances("joined", device=asked.device, sha256=federation.sha256)
            for figures in figures_of(case, federation, asked.runs, device=asked.device):
                print(json.dumps({"figures": figures} | where), flush=True)
    except VesicaError as error:
        print(f"joined.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
