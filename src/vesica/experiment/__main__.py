"""`python -m vesica.experiment PAPER TABLE`: recipes on a machine that has torch and little else."""

import argparse
import json
import sys
from pathlib import Path

from vesica.errors import VesicaError
from vesica.experiment.recipes import find_recipe, reproduce


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vesica.experiment", description=__doc__)
    parser.add_argument("paper")
    parser.add_argument("table")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="run folders, so that a killed recipe goes on")
    parser.add_argument("--json", type=Path, help="append a line a run to this file")
    asked = parser.parse_args()
    try:
        recipe = find_recipe(asked.paper, asked.table)
        for done in reproduce(
            recipe, asked.table, seeds=asked.seeds, data_dir=asked.data_dir, device=asked.device, out=asked.out
        ):
            print(json.dumps(done.line), flush=True)
            if asked.json:
                with asked.json.open("a") as file:
                    file.write(json.dumps(done.line) + "\n")
    except VesicaError as error:
        print(f"vesica: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
