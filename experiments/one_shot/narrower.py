"""Narrower values on the wire, from the same trained guests: finished runs of one-shot, or what those of few-shot had
reached as one-shot, are told again in them.

Every message of a run is sent and counted anew; the guests' training, in which nothing crosses, is not done again. So
this is what narrower representations cost the host. What the guests would have learned from narrower gradients is not
in it: that is what the recipe `wires` has.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from torch import nn

from vesica.errors import InputError, VesicaError
from vesica.experiment import fit
from vesica.experiment.models import PartyModel
from vesica.experiment.recipes import Case, choose_cases, circumstances, find_recipe, line_of
from vesica.methods import FewShot, OneShot
from vesica.methods.one_shot import Labelled
from vesica.protocol.message import Wire
from vesica.protocol.party import Party

WIRES: tuple[Wire, ...] = ("float32", "float16", "int8")


def told_again(method: OneShot, folder: Path, kind: type[OneShot] = OneShot) -> OneShot:
    """One-shot, or another `kind` of it, by guests that take their encoders from a run folder and do not train them.

    A run of few-shot has reached one-shot's on its way.
    """
    way = "one-shot" if isinstance(method, FewShot) else "."

    class ToldAgain(kind):
        def learn(self, me: Party, known: Labelled, **_: Any) -> nn.Sequential:
            trained = PartyModel.load(folder / me.name / way).encoder
            assert me.encoder is not None
            assert trained is not None
            me.encoder.load_state_dict(trained.state_dict())
            return nn.Sequential(me.encoder)

    return ToldAgain(**{field.name: getattr(method, field.name) for field in fields(kind)})


def lines_of(case: Case, runs: Path, *, data_dir: Path | None, device: str) -> Iterator[dict[str, Any]]:
    """A line a wire; of runs whose host has labels only, since one with features would train its own part anew."""
    assert isinstance(case.method, OneShot)
    folder = runs / case.folder
    federation = case.federation(data_dir)
    for wire in WIRES:
        method = told_again(case.method, folder)
        result = fit(method, federation, seed=case.seed, device=device, wire=wire)
        told = replace(result, method="one-shot", title="one-shot, told again", seconds=None)  # no guest was trained
        yield line_of(told) | circumstances("narrower", device=device, sha256=federation.sha256)


def finished(cases: Sequence[Case], runs: Path) -> list[Case]:
    """Those of one-shot and few-shot that have been run; the others are named."""
    possible = [case for case in cases if isinstance(case.method, OneShot)]
    found = [case for case in possible if (runs / case.folder / "result.json").exists()]
    if not found:
        raise InputError(f"{runs} has no finished run of one-shot or few-shot: run the recipe with --out {runs} first")
    for case in possible:
        if case not in found:
            print(f"left out, since it has not been run: {case.title}", file=sys.stderr)
    return found


def arguments(description: str | None, *, recipe: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("runs", type=Path, help="what --out was when the recipe was run")
    parser.add_argument("--recipe", default=recipe)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", help="the cases whose title has this text")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("VESICA_DATA"))
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


def asked_for(asked: argparse.Namespace) -> list[Case]:
    recipe = find_recipe("one_shot", asked.recipe, experiments=Path(__file__).parents[1])
    return list(choose_cases(recipe, seeds=asked.seeds, only=asked.only))


def main() -> int:
    asked = arguments(__doc__, recipe="one-shot-cifar")
    try:
        for case in finished(asked_for(asked), asked.runs):
            for line in lines_of(case, asked.runs, data_dir=asked.data_dir, device=asked.device):
                print(json.dumps(line), flush=True)
    except VesicaError as error:
        print(f"narrower.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
