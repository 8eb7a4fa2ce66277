"""`python -m vesica.experiment PAPER TABLE`: recipes on a machine that has torch and little else."""

import argparse
import json
import os
import sys
from pathlib import Path

from vesica.errors import VesicaError, printable
from vesica.experiment.recipes import find_recipe, reproduce
from vesica.protocol.files import write_atomically


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vesica.experiment", description=__doc__)
    parser.add_argument("paper")
    parser.add_argument("table")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--only", help="the cases whose title has this text")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("VESICA_DATA"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="run folders, so that a killed recipe goes on")
    parser.add_argument("--json", type=Path, help="append a line a run to this file")
    asked = parser.parse_args()
    os.umask(0o077)  # what is written is for this user alone
    if asked.json and not asked.json.parent.is_dir():
        parser.error(f"there is no directory {asked.json.parent} to write {asked.json.name} to: make it first")
    try:
        recipe = find_recipe(asked.paper, asked.table)
        for done in reproduce(
            recipe,
            asked.table,
            seeds=asked.seeds,
            only=asked.only,
            data_dir=asked.data_dir,
            device=asked.device,
            out=asked.out,
            begin=lambda case: print(case.title, file=sys.stderr, flush=True),
            left_out=lambda data: print(f"{data} is left out: its files are not there", file=sys.stderr, flush=True),
        ):
            print(json.dumps(done.line), flush=True)
            if asked.json:
                add_line(asked.json, json.dumps(done.line))
    except VesicaError as error:
        print(f"vesica: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0


def add_line(path: Path, line: str) -> None:
    """Once: a recipe that goes on yields the runs it has finished again."""
    if not path.exists() or line not in path.read_text().splitlines():
        write_atomically(path, (path.read_text() if path.exists() else "") + line + "\n")


if __name__ == "__main__":
    sys.exit(main())
