"""A bank and its guests on one machine, as separate processes over NVFlare with mutual TLS on loopback."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from federations import quick
from vesica.experiment.nvflare import prepare
from vesica.methods import Method
from vesica.methods.fedhssl import FedHSSL
from vesica.methods.fedonce import FedOnce
from vesica.methods.one_shot import FewShot, OneShot
from vesica.methods.split_nn import SplitNN

TESTS = Path(__file__).parents[2]
COMMON = 90
SEED = 3
LIMIT = 200  # seconds, on a machine with much else to do
KEEPS = "split-nn"  # the run in which every message is kept
METHODS: dict[str, Method] = {
    "one-shot": OneShot(guest_steps=20, host_epochs=3),
    "split-nn": SplitNN(epochs=2),
    "few-shot": FewShot(guest_steps=10, guest_patience=0, host_epochs=3, finetune_iterations=2),
    "fedonce": FedOnce(guest_epochs=2, host_epochs=2),
    "fedhssl": FedHSSL(pretrain_epochs=1, batch_size=32, width=4, finetune_epochs=1, finetune_batch_size=32),
}


def chosen(name: str) -> Method:
    """A method by its name, with settings that take a moment."""
    return METHODS.get(name) or quick(name)


def write_tables(folder: Path, guests: Sequence[str]) -> Path:
    """Each party has twenty customers that no other has; the federation.toml."""
    random = np.random.default_rng(0)
    ids = [f"cust{number:03d}" for number in range(COMMON + 20 * (1 + len(guests)))]
    values = random.normal(size=(len(ids), 2 + 2 * len(guests)))
    bought = values @ random.normal(size=values.shape[1]) > 0
    own = [(ids[r], *values[r, :2], int(bought[r])) for r in range(COMMON + 20)]
    write(folder / "bank.csv", "id,bank-a,bank-b,bought", own)
    text = 'metric = "auc"\n[host]\nname = "bank"\ntable = "bank.csv"\nid = "id"\nlabel = "bought"\n'
    for number, name in enumerate(guests, start=1):
        rows = [*range(COMMON), *range(COMMON + 20 * number, COMMON + 20 * (number + 1))]
        own = [(ids[r], *values[r, 2 * number : 2 * number + 2]) for r in rows]
        write(folder / f"{name}.csv", f"id,{name}-a,{name}-b", own)
        text += f'[[guest]]\nname = "{name}"\ntable = "{name}.csv"\nid = "id"\n'
    (folder / "federation.toml").write_text(text)
    write(folder / "common.csv", "id", [(id,) for id in ids[:COMMON]])
    return folder / "federation.toml"


def write(path: Path, heads: str, rows: Sequence[Sequence[object]]) -> None:
    path.write_text("\n".join([heads, *(",".join(map(str, row)) for row in rows)]))


def prepare_all(folder: Path, *, guests: Sequence[str] = ("shop", "clinic")) -> Path:
    """Every party's prepared folder, with its table in it."""
    federation = write_tables(folder, guests)
    for kit in prepare(federation, folder / "parties", address="localhost", port=free_port()):
        for name in (f"{kit.name}.csv", "common.csv"):
            (kit.folder / name).write_bytes((folder / name).read_bytes())
    return folder / "parties"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that is made by one of several pytest workers, and read by all."""
    root = factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.with_suffix(".made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            folder.with_suffix(".made").touch()
    return folder


class Processes:
    """Each in a group of its own; all of them end with the test, whatever happens."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *reason: object) -> None:
        for process in self.running:
            self.kill(process)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Python with these arguments."""
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # Some fork, which the locks of MKL's own allocator do not survive for sure.
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_DISABLE_FAST_MM": "1", "PYTHONPATH": str(TESTS)},
        )
        self.running.append(process)
        return process

    def kill(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def command(*arguments: object) -> list[object]:
    """The arguments for `vesica nvflare ...`."""
    return ["-c", "from vesica.cli import main; main()", "nvflare", *arguments]


def wait_for(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    for _ in range(10 * LIMIT):
        assert process.poll() is None, process.stdout and process.stdout.read()
        with contextlib.suppress(FileNotFoundError):
            if reached():
                return
        time.sleep(0.1)
    raise AssertionError("it never came to that")
