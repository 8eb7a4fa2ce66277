"""Kills one party of a run by post at a chosen moment, again and again, and gives the same commands on.

Usage: kill_sweep.py FOLDER: prints a JSON line a moment. Every command is a process of its own, killed with SIGKILL
from within, so that nothing of it is left but what it had written.
"""

import hashlib
import json
import mmap
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

import vesica.engines.post.desk as desk
import vesica.learning.semi_supervised as semi_supervised
import vesica.protocol.journal as journal
from engines.post.organisations import METHODS, Town, is_finished
from federations import small_federation
from vesica.engines.post.desk import WaitingForFile
from vesica.experiment import fit
from vesica.experiment.member import Plan

FINISHED, WAITING = 0, 3
WHAT = ("after-record", "half-file", "after-file", "inside-training")


class Counter:
    """Counts across processes how often each thing has happened."""

    def __init__(self) -> None:
        self.shared = mmap.mmap(-1, 8 * len(WHAT))

    def __getitem__(self, what: str) -> int:
        return struct.unpack_from("<q", self.shared, 8 * WHAT.index(what))[0]

    def add(self, what: str) -> int:
        struct.pack_into("<q", self.shared, 8 * WHAT.index(what), self[what] + 1)
        return self[what]


@dataclass(frozen=True)
class Moments:
    """How often each thing has happened at a party, and at which time it is killed by it."""

    fatal: Mapping[str, int] = field(default_factory=dict)
    counter: Counter = field(default_factory=Counter)


def dying(function: Callable, what: str, moments: Moments, *, before: bool, suffix: str = "") -> Callable:
    """The function, but the process dies just before or just after a call: that of a certain number.

    With a suffix, only calls count whose first argument, a path, ends so.
    """

    def wrapped(*args: object, **named: object) -> object:
        now = str(args[0]).endswith(suffix) and moments.counter.add(what) == moments.fatal.get(what)
        if before and now:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*args, **named)
        if not before and now:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return wrapped


def arm(moments: Moments) -> None:
    """After a record is before the file of a message that is sent."""
    journal.Journal._append = dying(journal.Journal._append, "after-record", moments, before=False)
    Path.replace = dying(Path.replace, "half-file", moments, before=True, suffix=".post.partial")
    desk.write_whole = dying(desk.write_whole, "after-file", moments, before=False)
    for optimiser in (torch.optim.Adam, torch.optim.SGD):
        optimiser.step = dying(optimiser.step, "inside-training", moments, before=True)


def in_a_process(work: Callable[[], int]) -> int:
    """Its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def command(town: Town, party: str, moments: Moments) -> Callable[[], int]:
    def give() -> int:
        arm(moments)
        try:
            town.act(party)
        except WaitingForFile:
            return WAITING
        return FINISHED

    return give


def train(town: Town, moments: Mapping[str, Moments]) -> int:
    """All commands until the run has ended; how many of them were killed."""
    killed = 0
    while not all(map(is_finished, town.desks.values())):
        for party, folder in town.desks.items():
            if not is_finished(folder):
                code = in_a_process(command(town, party, moments.get(party, Moments())))
                assert code in (FINISHED, WAITING, -signal.SIGKILL), code
                killed += code == -signal.SIGKILL
            town.carry_all()
    return killed


def outcome(town: Town) -> dict[str, str]:
    """Every file that a finished run leaves, by its digest; the seconds it took may differ."""
    found = {}
    for party, folder in town.desks.items():
        for path in sorted(folder.run("first").rglob("*")):
            if path.is_file():
                content = path.read_bytes()
                if path.name == "result.json":
                    content = json.dumps({**json.loads(content), "seconds": 0}).encode()
                found[f"{party}/{path.relative_to(folder.path)}"] = hashlib.sha256(content).hexdigest()
    return found


def every(what: str, calls: int) -> Sequence[int]:
    """Every moment, or three that are spread over local training."""
    return (calls // 4, calls // 2, calls * 3 // 4) if what == "inside-training" else range(1, calls + 1)


def main(root: Path) -> None:
    semi_supervised.LOOK_EVERY = 10  # so that even a short training has two checkpoints
    fit(METHODS["one-shot"], small_federation(rows=60))  # what torch imports on first use is imported once, here
    town = Town(root / "begin", Plan(METHODS["one-shot"], seed=3))
    town.use_arrays()
    whole = town.moved(root / "whole")
    counted = {party: Moments() for party in town.desks}
    train(whole, counted)
    expected = outcome(whole)
    for victim, what in product(town.desks, WHAT):
        for moment in every(what, counted[victim].counter[what]):
            again = town.moved(root / f"{victim}-{what}-{moment}")
            killed = train(again, {victim: Moments({what: moment})})
            line = {"victim": victim, "what": what, "moment": moment, "killed": killed}
            print(json.dumps({**line, "same": outcome(again) == expected}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
