"""What NVFlare costs: start to first message, and a round trip of 1 MB; by hand, a run with 20 clients on one machine.

python -m benchmarks.nvflare 20 [FILE]

FILE keeps its figures beside those of `python -m benchmarks --json FILE`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import Measurement
from vesica.engines.nvflare.kits import Kit
from vesica.engines.nvflare.line import Line
from vesica.engines.nvflare.mailbox import Mailbox
from vesica.engines.nvflare.note import State
from vesica.engines.nvflare.process import run_beside
from vesica.experiment.nvflare import prepare
from vesica.protocol.journal import Journal

MEGABYTE = 1_000_000
TRIPS = 50
REPEATS = 3
FEW = 2  # clients of a run that one with many is set beside
LIMIT = 600  # seconds that any of it may take
METHOD = ("one-shot", "--set", "guest_steps=20", "--set", "host_epochs=3")


def measure() -> list[Measurement]:
    with tempfile.TemporaryDirectory() as scratch:
        parties = make_parties(Path(scratch), 1)
        trips = [round_trips(parties) for _ in range(REPEATS)]
        turns = [(first_message(parties, f"run-{number}"), seconds_of_imports()) for number in range(REPEATS)]
    start, imports = (median(turn[which] for turn in turns) for which in (0, 1))
    mailbox, call = (median(trip[way] for trip in trips) for way in ("mailbox", "call"))
    return [
        Measurement("NVFlare: 1 MB there and back, journals", mailbox, "NVFlare's call", call, TRIPS),
        Measurement("NVFlare: start to first message", start, "the imports", imports, REPEATS),
    ]


def make_parties(folder: Path, guests: int, *, rows: int = 200) -> Path:
    """Prepared folders of a bank and its guests, with small tables in them."""
    random, ids = np.random.default_rng(0), [f"c{number}" for number in range(rows)]
    text = 'metric = "auc"\n[host]\nname = "bank"\ntable = "bank.csv"\nid = "id"\nlabel = "label"\n'
    text += "".join(f'[[guest]]\nname = "g{n}"\ntable = "g{n}.csv"\nid = "id"\n' for n in range(1, guests + 1))
    (folder / "federation.toml").write_text(text)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    for kit in prepare(folder / "federation.toml", folder / "parties", address="localhost", port=port):
        values = random.normal(size=(rows, 4)).tolist()
        heads = "id,a,b,c,d" + (",label" if kit.is_host else "")
        lines = [
            ",".join(map(str, (id, *v, int(sum(v) > 0))[: heads.count(",") + 1]))
            for id, v in zip(ids, values, strict=True)
        ]
        (kit.folder / f"{kit.name}.csv").write_text("\n".join([heads, *lines]))
        (kit.folder / "common.csv").write_text("\n".join(["id", *ids]))
    return folder / "parties"


class Processes:
    """Each in a group of its own, none of which outlives the measurement."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []
        self.log = tempfile.TemporaryFile()  # noqa: SIM115

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *reason: object) -> None:
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        self.log.close()

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        words, environment = [sys.executable, *map(str, arguments)], {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True, env=environment
        )
        self.started.append(process)
        return process

    def take_part(self, folder: Path, *arguments: object) -> subprocess.Popen[str]:
        return self.start("-c", "from vesica.cli import main; main()", "nvflare", "start", folder, *METHOD, *arguments)


def first_message(parties: Path, label: str) -> float:
    """From the parties' commands until the host's first message is in the guest's journal."""
    began = time.perf_counter()
    with Processes() as processes:
        for name in ("bank", "g1"):
            processes.take_part(parties / name, "--run", label)
        journal = parties / "g1" / "runs" / label / "g1" / "journal"
        while time.perf_counter() - began < LIMIT:
            if sum(path.stat().st_size for path in journal.glob("segment-*")) > 0:
                return time.perf_counter() - began
            time.sleep(0.01)
    raise TimeoutError("there was no first message")


def seconds_of_imports() -> float:
    """Two processes at once, as above."""
    began = time.perf_counter()
    with Processes() as processes:
        words = "import vesica.experiment.nvflare, vesica.engines.nvflare.process, vesica.cli.program"
        for process in [processes.start("-c", words) for _ in range(2)]:
            process.wait(LIMIT)
    return time.perf_counter() - began


def round_trips(parties: Path) -> dict[str, float]:
    """Seconds of one, by the way it goes."""
    with Processes() as processes:
        guest, host = (processes.start("-m", "benchmarks.nvflare", parties / name) for name in ("g1", "bank"))
        said = host.communicate(timeout=LIMIT)[0]
        guest.wait(LIMIT)
    trips: dict[str, float] = json.loads(said.splitlines()[-1])
    return trips


def travel(kit: Kit) -> None:
    """One party of the round trips: bare calls first, then frames through mailboxes and journals."""
    peer = "g1" if kit.is_host else "bank"

    def program(line: Line) -> None:
        done = threading.Event()

        def echo(caller: str, note: bytes) -> bytes:
            if note == b"done":
                done.set()
            return note

        line.open(echo)
        seconds = {}
        if kit.is_host:
            while line.call(peer, b"?", 5.0) is None:
                time.sleep(0.1)
            seconds["call"] = median(timed(lambda number: line.call(peer, bytes(MEGABYTE), 60.0)))
            line.call(peer, b"done", 5.0)
        else:
            done.wait()
        with tempfile.TemporaryDirectory() as scratch:
            seconds["mailbox"] = through_mailbox(line, kit, peer, Path(scratch))
        if kit.is_host:
            print(json.dumps(seconds), flush=True)

    run_beside(kit, program, arrive=120)


def through_mailbox(line: Line, kit: Kit, peer: str, scratch: Path) -> float:
    journal = Journal(scratch, [peer])
    box = Mailbox(kit.name, kit.host, [peer], line.call, liveness=120)
    line.open(box.answer)
    box.resume(journal)
    frame = memoryview(bytes(MEGABYTE))

    def send(number: int) -> None:
        journal.record_sent(peer, number, frame, payload=0)
        box.deliver(kit.name, peer, number, frame)

    def receive(number: int) -> None:
        journal.record_received(peer, number, box.collect(kit.name, peer, number, "megabyte"))

    def trip(number: int) -> None:
        for step in (send, receive) if kit.is_host else (receive, send):
            step(number + 1)

    seconds = median(timed(trip))
    box.settle()
    box.close(State.FINISHED)
    return seconds


def timed(trip: object) -> list[float]:
    assert callable(trip)
    seconds = []
    for number in range(TRIPS):
        began = time.perf_counter()
        trip(number)
        seconds.append(time.perf_counter() - began)
    return seconds


def measure_many(clients: int) -> list[Measurement]:
    """A whole run with so many clients on this machine, beside one with few: what a client adds."""
    few, many = run_many(FEW), run_many(clients)
    name, peer = f"NVFlare: a run with {clients} clients", f"a run with {FEW}"
    return [
        Measurement(f"{name}, a client", many[0] / clients, peer, few[0] / FEW, 1),
        Measurement(f"{name}, memory a client", many[1] / clients, peer, few[1] / FEW, 1, unit="GB"),
    ]


def keep(measurements: Sequence[Measurement], path: Path) -> None:
    """Rows of other benchmarks that are there stay."""
    from benchmarks.__main__ import machine, replaced

    figures = {"machine": machine(), "measurements": [each.to_json() for each in measurements]}
    if path.exists():
        figures = replaced(json.loads(path.read_text()), figures)
    path.write_text(json.dumps(figures, indent=2) + "\n")


def run_many(clients: int) -> tuple[float, float]:
    """A whole run with so many clients on this machine: how many seconds, and gigabytes at most."""
    with tempfile.TemporaryDirectory() as scratch, Processes() as processes:
        names = ["bank", *(f"g{number}" for number in range(1, clients + 1))]
        parties, began = make_parties(Path(scratch), clients), time.perf_counter()
        started = [processes.take_part(parties / name, "--seed", 0) for name in names]
        most = 0.0
        while any(process.poll() is None for process in started) and time.perf_counter() - began < LIMIT:
            most = max(most, memory(started))
            time.sleep(1)
        codes = [process.poll() for process in started]
        seconds = time.perf_counter() - began
        if set(codes) != {0}:
            raise RuntimeError(f"{codes.count(0)} of {len(codes)} parties ended well after {seconds:.0f} s")
        return seconds, most


def memory(processes: Sequence[subprocess.Popen[str]]) -> float:
    """Gigabytes, what is shared counted once."""
    total = 0
    for process in processes:
        path = Path(f"/proc/{process.pid}/smaps_rollup")
        try:
            total += next(int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith("Pss:"))
        except (OSError, StopIteration):
            continue  # it has ended
    return total / 1e6


if __name__ == "__main__":
    argument = sys.argv[1]
    if argument.isdigit():
        from benchmarks.__main__ import line as row_of

        rows = measure_many(int(argument))
        print(*map(row_of, rows), sep="\n")
        for path in sys.argv[2:]:
            keep(rows, Path(path))
    else:
        travel(Kit.open(Path(argument)))
        os._exit(0)
