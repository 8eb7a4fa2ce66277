"""What private alignment costs a party: CPU seconds, time and memory, beside a plain loop over Python objects."""

import hashlib
import json
import os
import resource
import secrets
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from benchmarks import Measurement

IDS, MANY = 100_000, 1_000_000
SHARED = 0.5  # of each party's ids
PEER = "a plain loop"
MOST_SECONDS = 15.0  # of CPU, a party


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
    """CPU seconds a party, seconds of both, and by how many bytes an id they raise the peak of memory."""
    run = {"ours": ours, "plain": plain}[who]
    run(range(100), range(100))  # imports are no one's
    cpu, began, peak = cpu_seconds(), perf_counter(), peak_bytes()
    found = run(range(ids), range(int(ids * (1 - SHARED)), ids + int(ids * (1 - SHARED))))
    assert found == int(ids * SHARED)
    seconds, taken = perf_counter() - began, cpu_seconds() - cpu
    return {"cpu": taken / 2, "seconds": seconds, "bytes": (peak_bytes() - peak) / (2 * ids)}


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


def peak_bytes() -> int:
    """Of this process alone; see guests.py."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 2**10


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
