"""Kills a run at a chosen moment, again and again, and takes it up each time. Run by test_resume.py.

Usage: kill_sweep.py: for each line `WHAT EVERY GUESTS METHOD FOLDER` of its input it prints a JSON line a moment, then
an empty line, so that torch is imported once for many sweeps. EVERY is 1 for every moment, 2 for every second. Every
run is a process of its own, killed with SIGKILL from within, so that nothing of it is left but what it had written.
"""

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

import vesica.protocol.journal as journal
import vesica.protocol.resumable as resumable
import vesica.training.private_training as private_training
import vesica.training.self_supervised as self_supervised
import vesica.training.semi_supervised as semi_supervised
from federations import small_federation
from vesica.experiment import fit
from vesica.methods import VFLHLP, FedBCD, FedCVT, FedHSSL, FedOnce, FewShot, OneShot, SplitNN, label_release
from warming import import_what_is_needed_by

SHOTS = {"guest_steps": 20, "host_epochs": 2, "batch_size": 8, "mu": 2}
SSL = {"pretrain_epochs": 2, "batch_size": 32, "width": 4, "finetune_epochs": 2, "finetune_batch_size": 32}
METHODS = {
    "split-nn": SplitNN(epochs=3, patience=2, batch_size=16, hidden=(4,)),
    "one-shot": OneShot(**SHOTS),
    "few-shot": FewShot(**SHOTS),
    "few-shot-finetuned": FewShot(  # two epochs
        **SHOTS | {"batch_size": 32}, finetune_iterations=4, warm_up="simsiam", warm_up_steps=2
    ),
    "few-shot-private": FewShot(**SHOTS | {"batch_size": 32}, finetune_iterations=2, label_epsilon=1.0),
    "fedonce-absent": FedOnce(guest_epochs=3, host_epochs=2, batch_size=16, party_dropout=0.3),
}
METHODS["split-nn-private"] = SplitNN(epochs=3, patience=2, batch_size=16, hidden=(4,), marvell=2.0, label_epsilon=1.0)
METHODS["fedbcd-sequential"] = FedBCD(epochs=2, batch_size=16, hidden=(4,), local_steps=2, order="sequential")
METHODS["fedcvt"] = FedCVT(epochs=3, batch_size=32, unaligned_batch_size=8, joint_threshold=0.0, local_threshold=0.0)
METHODS["fedhssl"] = FedHSSL(**SSL, iso_representations=0.1, iso_gradients=0.1)
METHODS["fedhssl-moco"] = FedHSSL(**SSL, ssl="moco", exchange="epoch", finetune_with="local")
METHODS["fedhssl-late"] = FedHSSL(**SSL | {"pretrain_epochs": 3}, exchange="late")
METHODS["fedhssl-counts"] = FedHSSL(**SSL, label_counts=(10, 20))
METHODS["vflhlp"] = VFLHLP(host_epochs=3, host_patience=1, guest_steps=15, epochs=2, batch_size=16)
METHODS["fedonce-heuristic"] = FedOnce(
    representation="heuristic-nat", epsilon=8.0, guest_epochs=6, host_epochs=2, batch_size=16
)
METHODS["split-nn-stopped"] = METHODS["split-nn"]
METHODS["fedonce-stopped"] = FedOnce(guest_epochs=2, host_epochs=2, batch_size=16, more_epochs=3)
OPTIONS = {
    "fedonce-absent": {"wait": 3600.0, "absent": ("shop1",)},
    # An epoch, scored; another, for whose scoring there is no room; a batch of the third.
    "split-nn-stopped": {"stop_at_bytes": 52_600},
    "fedonce-stopped": {"stop_at_bytes": 25_000},
}


def every_third_moved(labels: torch.Tensor, classes: int, *, epsilon: float) -> torch.Tensor:
    """In place of the operating system's noise, which no two runs share."""
    return (labels + (torch.arange(len(labels)) % 3 == 0)) % classes


def from_the_seed(count: int) -> bytes:
    """In place of the operating system's, likewise: the party's own random numbers, which a checkpoint keeps."""
    return torch.randint(256, (count,), dtype=torch.uint8).numpy().tobytes()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def counting(function: Callable, moment: int, *, before: bool) -> Callable:
    """The function, but the process dies just before or just after its call number `moment`."""
    calls = 0

    def wrapped(*args: object, **named: object) -> object:
        nonlocal calls
        calls += 1
        if before and calls == moment:
            die()
        result = function(*args, **named)
        if not before and calls == moment:
            die()
        return result

    return wrapped


def half_a_record(moment: int) -> None:
    """Die in the middle of writing record number `moment`."""
    whole, calls = os.writev, 0

    def half(file: int, buffers: list[memoryview]) -> int:
        nonlocal calls
        calls += 1
        if calls == moment:
            os.write(file, b"".join(bytes(buffer) for buffer in buffers)[:-3])
            die()
        return whole(file, buffers)

    journal.os.writev = half


def arm(what: str, moment: int) -> None:
    if what == "after-message":
        journal.Journal._append = counting(journal.Journal._append, moment, before=False)
    elif what == "half-message":
        half_a_record(moment)
    elif what == "inside-training":
        torch.optim.Adam.step = counting(torch.optim.Adam.step, moment, before=True)
    elif what == "before-checkpoint":
        resumable.save_atomically = counting(resumable.save_atomically, moment, before=True)
    elif what == "after-checkpoint":
        resumable.save_atomically = counting(resumable.save_atomically, moment, before=False)
    else:
        raise SystemExit(f"no such moment: {what}")


def in_a_process(work: Callable[[], None]) -> int:
    """Its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def outcome(folder: Path) -> dict[str, str]:
    """Every file that a finished run leaves, by its digest; the seconds it took may differ."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            if path.name == "result.json":
                content = json.dumps({**json.loads(content), "seconds": 0}).encode()
            found[str(path.relative_to(folder))] = hashlib.sha256(content).hexdigest()
    return found


def make_repeatable() -> None:
    """And short enough, yet with several checkpoints."""
    label_release.randomise = every_third_moved
    private_training.poisson_sample = partial(private_training.poisson_sample, entropy=from_the_seed)
    private_training.private_gradient = partial(private_training.private_gradient, entropy=from_the_seed)
    private_training.STEPS_A_POSITION = 3
    semi_supervised.LOOK_EVERY = 10  # so that even a short training has two checkpoints
    self_supervised.CHECKPOINT_EVERY = 10


def sweep(root: Path, what: str, every: int, guests: int, name: str) -> None:
    method, options = METHODS[name], OPTIONS.get(name, {})
    federation = small_federation(guests=guests, rows=60)

    def run(out: Path) -> Callable[[], None]:
        def whole() -> None:
            result = fit(method, federation, out=out, **options)
            (out / "milestones.json").write_text(json.dumps([run.to_json() for run in result.milestones]))

        return whole

    import_what_is_needed_by(lambda: fit(method, federation, **options))
    assert in_a_process(run(root / "whole")) == 0
    expected = outcome(root / "whole")
    for moment in range(1, 10_000, every):
        out = root / f"{what}-{moment}"

        def killed(out: Path = out, moment: int = moment) -> None:
            arm(what, moment)
            run(out)()

        ended = in_a_process(killed)
        if ended == 0:  # there is no such moment any more
            return
        resumed = in_a_process(run(out))
        same = resumed == 0 and outcome(out) == expected
        print(json.dumps({"moment": moment, "killed": ended, "resumed": resumed, "same": same}), flush=True)


if __name__ == "__main__":
    make_repeatable()
    for line in sys.stdin:
        what, every, guests, name, folder = line.rstrip("\n").split(" ", maxsplit=4)
        sweep(Path(folder), what, int(every), int(guests), name)
        print(flush=True)
