"""By hand: kill -9 of the host or a guest over NVFlare, again and again, then the same command: the same models.

    python tests/engines/nvflare/kill_sweep.py [KILLS]

Each round starts a server and two clients, kills one of them at a random moment, starts it again with the same command,
and compares every party's model and ledger with those of a run that nobody killed.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from engines.nvflare.organisations import Processes, command, prepare_all

PARTIES = ("bank", "shop", "clinic")
METHODS = {
    "split-nn": ("--set", "epochs=60"),
    "one-shot": ("--set", "guest_steps=3000", "--set", "host_epochs=3"),
}
LIMIT = 240


def run(parties: Path, method: str, label: str, *, victim: str | None, at: float) -> list[str]:
    """A run from start to end, in which `victim` is killed once, a while after the parties have met."""
    arguments = (method, *METHODS[method], "--seed", 1, "--run", label, "--liveness", 60)
    with Processes() as processes:
        started = {name: processes.start(*command("start", parties / name, *arguments)) for name in PARTIES}
        if victim is not None:
            wait_until_met(parties, label, started["bank"])
            time.sleep(at)
            alive = started[victim].poll() is None
            processes.kill(started[victim])
            started[victim] = processes.start(*command("start", parties / victim, *arguments))
            if not alive:
                return ["too late: it had ended"]
        for process in started.values():
            process.wait(timeout=LIMIT)
        return [f"{name}: exit {process.returncode}" for name, process in started.items() if process.returncode]


def wait_until_met(parties: Path, label: str, bank: subprocess.Popen[str]) -> None:
    """Until something of every guest is in the host's journal."""
    journal = parties / "bank" / "runs" / label / "bank" / "journal"
    end = time.monotonic() + LIMIT
    while sum(path.stat().st_size for path in journal.glob("segment-*")) < 6000:
        assert bank.poll() is None, "the host ended too early"
        assert time.monotonic() < end, "they never met"
        time.sleep(0.02)


def kept(parties: Path, label: str) -> dict[str, tuple[bytes, bytes]]:
    """Every party's model and ledger."""
    folders = {name: parties / name / "runs" / label / name for name in PARTIES}
    return {n: ((f / "model.safetensors").read_bytes(), (f / "ledger.jsonl").read_bytes()) for n, f in folders.items()}


def main(kills: int) -> int:
    draw, wrong = random.Random(0), 0
    with tempfile.TemporaryDirectory() as scratch:
        parties = prepare_all(Path(scratch))
        for method in METHODS:
            assert run(parties, method, f"{method}-whole", victim=None, at=0) == []
            whole = kept(parties, f"{method}-whole")
            for number in range(kills):
                victim, at, label = PARTIES[number % 3], draw.uniform(0, 4), f"{method}-{number}"
                faults = run(parties, method, label, victim=victim, at=at)
                if not faults and kept(parties, label) != whole:
                    faults = ["another model or ledger"]
                wrong += bool(faults)
                print(f"{method}: '{victim}' killed {at:.2f} s after they met: {faults or 'bit-identical'}", flush=True)
    print(f"{2 * kills} kills, {wrong} that did not end as the run that nobody killed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 6))
