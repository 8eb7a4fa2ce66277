"""`python -m vesica.experiment PAPER TABLE`: recipes on a machine that has torch and little else."""

import argparse
import fcntl
import json
import os
import stat
import sys
from pathlib import Path

from vesica.errors import VesicaError, printable
from vesica.experiment.recipes import find_recipe, reproduce
from vesica.protocol.files import sync, writing_to


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
    """Append a line, unless the file has it: a recipe that goes on yields the runs it has finished again.

    Several recipes may write to one file at the same time. The line is in it as a whole or not at all.
    """
    with writing_to(path):
        is_new = not path.exists()
        with open(path, "ab", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a device or a pipe has no lines to look at
                file.write(line.encode() + b"\n")
                return
            fcntl.flock(file, fcntl.LOCK_EX)
            content = path.read_bytes()
            if line.encode() in content.splitlines():
                return
            gap = b"" if content.endswith(b"\n") or not content else b"\n"
            _append(file.fileno(), gap + line.encode() + b"\n", end=len(content))
        if is_new:
            sync(path.resolve().parent)


def _append(file: int, data: bytes, *, end: int) -> None:
    """Write all of it, or cut the file back to where it ended."""
    try:
        left = memoryview(data)
        while left:  # after a short write the next one says why
            left = left[os.write(file, left) :]
        os.fsync(file)
    except BaseException:
        os.ftruncate(file, end)
        raise


if __name__ == "__main__":
    sys.exit(main())
