"""What private alignment costs a party: CPU seconds, time and memory, beside a plain loop over Python objects."""

import hashlib
import json
import os
import resource
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from benchmarks import Measurement

IDS, MANY = 100_000, 1_000_000
SHARED = 0.5  # of each party's ids
PEER = "a plain loop"
MOST_SECONDS = 15.0  # of CPU, a party
WARMING = 20_000  # ids: enough for processes to be worth starting
LOOK_EVERY = 0.1  # seconds


def measure() -> list[Measurement]:
    """Each run in a process of its own; both parties are in it, and a party has half of what it takes."""
    ours, plain, many = in_fresh_process("ours", IDS), in_fresh_process("plain", IDS), in_fresh_process("ours", MANY)
    about = f"alignment of {IDS:,} x {IDS:,}"
    return [
        Measurement(f"{about}, a party", ours["cpu"], PEER, plain["cpu"], 1, limit=1, unit="CPU s"),
        Measurement(f"{about}, a party", ours["cpu"], "what is allowed", MOST_SECONDS, 1, limit=1, unit="CPU s"),
        Measurement(f"{about}, both", ours["seconds"], PEER, plain["seconds"], 1),
        Measurement(f"{about}, an id", ours["bytes"], PEER, plain["bytes"], 1, unit="bytes"),
        Measurement(f"of {MANY:,} x {MANY:,}, an id", many["bytes"], PEER, plain["bytes"], 1, limit=1, unit="bytes"),
        Measurement(
            f"of {MANY:,} x {MANY:,}, an id", many["cpu"] / MANY, f"of {IDS:,}", ours["cpu"] / IDS, 1, limit=1.25
        ),
    ]


def in_fresh_process(who: str, ids: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.alignment", who, str(ids)]
    return dict(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def main(who: str, ids: int) -> dict[str, float]:
    """CPU seconds a party, seconds of both, and by how many bytes an id they raise the peaks of memory."""
    run = {"ours": ours, "plain": plain}[who]
    with watched() as before:
        run(range(WARMING), range(WARMING))  # imports are no one's, those of the processes neither
    cpu, began = cpu_seconds(), perf_counter()
    with watched() as peaks:
        found = run(range(ids), range(int(ids * (1 - SHARED)), ids + int(ids * (1 - SHARED))))
    assert found == int(ids * SHARED)
    seconds, taken = perf_counter() - began, cpu_seconds() - cpu
    rise = sum(peaks.values()) - sum(before.values())
    return {"cpu": taken / 2, "seconds": seconds, "bytes": rise / (2 * (ids - WARMING))}


def ours(host: range, guest: range) -> int:
    from vesica.alignment.programs import Alignment
    from vesica.experiment.alignment import align

    return align({"host": [host], "guest": [guest]}, Alignment(), workers=os.cpu_count() or 1).size


def plain(host: range, guest: range) -> int:
    """The textbook's two parties: an id at a time, in one process, over Python objects; the same curve and hash."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    from vesica.alignment.curve import hash_to_curve

    run, keys = secrets.token_bytes(16), [X25519PrivateKey.generate() for _ in range(2)]

    def point_of(each: int) -> bytes:
        return hash_to_curve(hashlib.sha256(str(each).encode()).digest(), run=run)

    def blind(point: bytes, key: X25519PrivateKey) -> bytes:
        return key.exchange(X25519PublicKey.from_public_bytes(point))

    once = [[blind(point_of(each), key) for each in ids] for ids, key in zip((host, guest), keys, strict=True)]
    first, second = (
        {blind(point, key): row for row, point in enumerate(own)} for own, key in zip(once, keys[::-1], strict=True)
    )
    return len([(first[point], second[point]) for point in sorted(first.keys() & second.keys())])


def cpu_seconds() -> float:
    """Of this process and those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@contextmanager
def watched() -> Iterator[dict[str, int]]:
    """The peak of this process and of each that it starts; of these as they were when last looked at."""
    peaks, ended = dict[str, int](), threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_EVERY):
            peaks.update({process: peak for process in started() if (peak := peak_bytes(process))})

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()
        peaks["self"] = peak_bytes("self")


def started() -> list[str]:
    """By any thread of this process."""
    return [process for path in Path("/proc/self/task").glob("*/children") for process in path.read_text().split()]


def peak_bytes(process: str) -> int:
    """Of one process; see guests.py. 0 where it has ended."""
    try:
        words = Path(f"/proc/{process}/status").read_text().partition("VmHWM:")[2].split()
    except OSError:
        return 0
    return int(words[0]) * 2**10 if words else 0


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
