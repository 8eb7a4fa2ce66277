"""Kills one party of a run by post at a chosen moment, again and again, and gives the same commands on.

Usage: kill_sweep.py FOLDER EVERY [unseeded]: prints a JSON line a moment; EVERY is 1 for every moment, 2 for every
second. Every command is a process of its own, killed with SIGKILL from within, so that nothing of it is left but what
it had written. Unseeded, with labels that are made private,
no two runs draw the same: then the messages must be those of a run that nobody killed, and none have two contents.
"""

import hashlib
import json
import mmap
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

import vesica.engines.post.desk as desk
import vesica.protocol.journal as journal
import vesica.training.semi_supervised as semi_supervised
from engines.post.organisations import METHODS, Town, is_finished
from federations import small_federation
from vesica.engines.post.desk import WaitingForFile
from vesica.engines.post.envelope import Envelope
from vesica.experiment import fit
from vesica.experiment.member import Plan
from warming import import_what_is_needed_by

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
    desk.write_atomically = dying(desk.write_atomically, "after-file", moments, before=False)
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


def train(town: Town, moments: Mapping[str, Moments], contents: set[tuple[str, str]] | None = None) -> int:
    """All commands until the run has ended; how many of them were killed. What is carried is noted in `contents`."""
    killed = 0
    while not all(map(is_finished, town.desks.values())):
        for party, folder in town.desks.items():
            if not is_finished(folder):
                code = in_a_process(command(town, party, moments.get(party, Moments())))
                assert code in (FINISHED, WAITING, -signal.SIGKILL), code
                killed += code == -signal.SIGKILL
            if contents is not None:
                contents |= posted(town)
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


def posted(town: Town) -> set[tuple[str, str]]:
    """The messages in all outboxes, opened: name and digest."""
    readers = {party: folder.identity() for party, folder in town.desks.items()}
    envelopes = [Envelope.read(path) for path in town.root.glob("desks/*/outbox/*/*.post")]
    return {
        (each.header.file_name, hashlib.sha256(each.open(readers[each.header.receiver])).hexdigest())
        for each in envelopes
    }


def ledgers(town: Town) -> dict[str, list[list[object]]]:
    """Every message each party counts, but for its bytes: numbers in a header may take more or fewer digits."""
    keys = ("phase", "round", "from", "to", "kind", "payload")
    files = {party: folder.run("first") / party / "ledger.jsonl" for party, folder in town.desks.items()}
    lines = {party: map(json.loads, path.read_text().splitlines()) for party, path in files.items()}
    return {party: [[line[key] for key in keys] for line in each] for party, each in lines.items()}


def every(what: str, calls: int) -> Sequence[int]:
    """Every moment, or three that are spread over local training, the one after a checkpoint first."""
    return (calls * 3 // 4, calls // 2, calls // 4) if what == "inside-training" else range(1, calls + 1)


def main(root: Path, step: int, *, seeded: bool) -> None:
    semi_supervised.LOOK_EVERY = 10  # so that even a short training has two checkpoints
    import_what_is_needed_by(lambda: fit(METHODS["one-shot"], small_federation(rows=60)))
    method = METHODS["one-shot"] if seeded else replace(METHODS["one-shot"], label_epsilon=3.0)
    town = Town(root / "begin", Plan(method, seed=3 if seeded else None))
    town.use_arrays()
    whole = town.moved(root / "whole")
    counted = {party: Moments() for party in town.desks}
    train(whole, counted)
    expected = outcome(whole) if seeded else ledgers(whole)
    for victim, what in product(town.desks, WHAT):
        for moment in every(what, counted[victim].counter[what])[::step]:
            again = town.moved(root / f"{victim}-{what}-{moment}")
            contents: set[tuple[str, str]] = set()
            killed = train(again, {victim: Moments({what: moment})}, contents)
            line = {"victim": victim, "what": what, "moment": moment, "killed": killed}
            line["once"] = len({name for name, _ in contents}) == len(contents) == 8
            line["same"] = (outcome(again) if seeded else ledgers(again)) == expected
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), seeded=sys.argv[3:] != ["unseeded"])
