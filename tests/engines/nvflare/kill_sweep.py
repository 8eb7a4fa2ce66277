"""By hand: kill -9 of the host or a guest over NVFlare at every message, and in training; then the same command again.

    python tests/engines/nvflare/kill_sweep.py FOLDER [METHOD ...]

Prints how often each thing happens in a run that nobody kills, a JSON line a kill, and a last one that sums them up.
Every party is a process of its own, with mutual TLS between them, killed with SIGKILL from within, so that nothing of
it is left but what it had written. What the parties keep must be, byte for byte, what they keep of the run that nobody
killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from nvflare.fuel.f3.streaming import stream_utils

import vesica.engines.nvflare.patience as patience
import vesica.training.semi_supervised as semi_supervised
from engines.nvflare.moments import RECORD, STEP, WHAT, Moments, arm
from engines.nvflare.organisations import prepare_all
from federations import small_federation
from vesica.cli import main as command
from vesica.engines.nvflare import process as process  # imported once, here, and not in every party's process
from vesica.experiment import fit
from vesica.methods.split_nn import SplitNN
from warming import import_what_is_needed_by

LIMIT = 180.0  # seconds that a run may take


@dataclass(frozen=True)
class Scene:
    """A method's settings, who takes part, and by what each of them is killed."""

    settings: Sequence[str]
    guests: Sequence[str]
    what: Sequence[str]

    @property
    def parties(self) -> tuple[str, ...]:
        return ("bank", *self.guests)


SCENES = {
    "one-shot": Scene(("guest_steps=40", "host_epochs=3"), ("shop", "clinic"), WHAT),
    "split-nn": Scene(("epochs=3", "batch_size=32"), ("shop",), (RECORD, STEP)),
}


@dataclass
class Run:
    """A process a party, each in its folder; who is killed is started again with the same command."""

    folders: Mapping[str, Path]
    arguments: Sequence[str]
    lives: dict[str, int] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    killed: int = 0

    def to_its_end(self, moments: Mapping[str, Moments]) -> None:
        end = time.monotonic() + LIMIT
        try:
            for name in self.folders:
                self.start(name, moments.get(name, Moments()))
            while self.lives and time.monotonic() < end:
                time.sleep(0.02)
                for name in list(self.lives):
                    self.look_after(name)
        finally:
            for name, life in self.lives.items():
                os.kill(life, signal.SIGKILL)
                self.codes[name] = os.waitstatus_to_exitcode(os.waitpid(life, 0)[1])

    def start(self, name: str, moments: Moments) -> None:
        self.lives[name] = os.fork()
        if self.lives[name] == 0:
            live(self.folders[name], self.arguments, moments)

    def look_after(self, name: str) -> None:
        life, status = os.waitpid(self.lives[name], os.WNOHANG)
        code = os.waitstatus_to_exitcode(status)
        if life and code == -signal.SIGKILL:
            self.killed += 1
            self.start(name, Moments())
        elif life:
            del self.lives[name]
            self.codes[name] = code


def live(folder: Path, arguments: Sequence[str], moments: Moments) -> None:
    """`vesica nvflare start`, to the end of this process."""
    code: Any = 1
    try:
        with (folder / "said.txt").open("ab") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        stream_utils.sid_base = time.time_ns() // 1000  # where NVFlare begins to count in each process that imports it
        arm(moments)
        sys.argv = ["vesica", "nvflare", "start", str(folder), *arguments]
        command()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code or 0)


def outcome(folders: Mapping[str, Path]) -> dict[str, str]:
    """Every file that a finished run leaves, by its digest; the seconds it took may differ. The files go."""
    found = {}
    for name, folder in folders.items():
        for path in sorted((folder / "runs").rglob("*")):
            if path.is_file():
                content = path.read_bytes()
                if path.name == "result.json":
                    content = json.dumps({**json.loads(content), "seconds": 0}).encode()
                found[f"{name}/{path.relative_to(folder)}"] = hashlib.sha256(content).hexdigest()
        shutil.rmtree(folder / "runs")
    return found


def every(what: str, calls: int) -> Sequence[int]:
    """Every moment, or three that are spread over local training."""
    return (calls // 4, calls // 2, calls * 3 // 4) if what == STEP else range(1, calls + 1)


def sweep(root: Path, method: str) -> list[dict[str, Any]]:
    """A run that nobody kills, then one for every moment at which a party can be killed in it."""
    scene, lines = SCENES[method], []
    settings = [word for setting in scene.settings for word in ("--set", setting)]
    arguments = [method, *settings, "--seed", "1", "--liveness", "60"]
    root.mkdir(parents=True)
    prepared = prepare_all(root, guests=scene.guests)
    folders = {name: prepared / name for name in scene.parties}
    counted = {name: Moments() for name in folders}
    whole = Run(folders, arguments)
    whole.to_its_end(counted)
    assert set(whole.codes.values()) == {0}, whole.codes
    expected, calls = outcome(folders), {name: counted[name].seen for name in folders}
    print(json.dumps({"method": method, "calls": calls, "files": len(expected)}), flush=True)
    for victim, what in product(folders, scene.what):
        for moment in every(what, calls[victim][what]):
            began, run = time.monotonic(), Run(folders, arguments)
            run.to_its_end({victim: Moments({what: moment})})
            line = {"method": method, "victim": victim, "what": what, "moment": moment, "killed": run.killed}
            line |= {"codes": run.codes, "seconds": round(time.monotonic() - began, 1)}
            line["same"] = outcome(folders) == expected
            lines.append(line)
            print(json.dumps(line), flush=True)
    return lines


def main(root: Path, methods: Sequence[str]) -> int:
    semi_supervised.LOOK_EVERY = 10  # so that even a short training has several checkpoints
    patience.SLOWEST_ANSWER = 4.0  # a call to a party that is killed before it answers takes so long
    torch.set_num_threads(1)
    import_what_is_needed_by(lambda: fit(SplitNN(epochs=1), small_federation(rows=60)))
    lines = [line for method in methods for line in sweep(root / method, method)]
    wrong = [line for line in lines if line["killed"] != 1 or any(line["codes"].values()) or not line["same"]]
    kills = sum(line["killed"] for line in lines)
    print(json.dumps({"runs": len(lines), "kills": kills, "same": len(lines) - len(wrong), "wrong": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:] or list(SCENES)))
