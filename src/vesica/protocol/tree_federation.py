"""Vertical trees in simulation: a server and a process a party, watched until they end, and what crossed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import IO, Any

from vesica.errors import PartyError
from vesica.protocol.byte_limit import TreeLimit
from vesica.protocol.gate import Call, Count, Gate
from vesica.training.boosting import Boosting, Share
from vesica.training.tree_process import GO_ON, GROWN, NO_MORE, pack

_BREATH = 0.02  # seconds between two looks at the processes


@dataclass
class Sapling:
    """What a party brings to the training of vertical trees, and what it takes home."""

    party: str
    share: Share
    boosting: Boosting
    timeout: float  # seconds without a byte after which nothing is hoped for
    check: Callable[[], None]  # leaves if the run has ended elsewhere
    limit: TreeLimit | None = None
    trees: bytes = b""
    first: int = 0  # the number of its first column among everyone's
    calls: dict[str, list[Call]] = field(default_factory=dict)  # by guest: a guest's own, or the host's of all
    crossed: int = 0  # all bytes of the sockets these went through
    widths: dict[str, int] = field(default_factory=dict)  # the host's: how many columns each guest has


class TreeProcess:
    """A process whose standard input stays open as long as it may live."""

    def __init__(self, name: str, role: str, parties: int) -> None:
        self.name = name
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (see close)
        self.answer: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vesica.training.tree_process", role, str(parties)],
            stdin=subprocess.PIPE,
            stdout=self.answer,
            stderr=self.errors,
            env={**os.environ, "no_grpc_proxy": "127.0.0.1"},
        )

    def give(self, message: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: `ended` says why
            self.process.stdin.write(message)
            self.process.stdin.flush()

    def read(self) -> bytes:
        """Its answer, as far as it has come."""
        return _contents(self.answer).lstrip(GROWN)

    def grown(self) -> int:
        """How many trees it has told of before its answer."""
        said = _contents(self.answer)
        return len(said) - len(said.lstrip(GROWN))

    def ended(self) -> bool:
        """Whether it has ended well; one that ended badly ends the run."""
        code = self.process.poll()
        if code:
            said = _contents(self.errors).decode(errors="replace").strip().splitlines()
            how = f"was killed by signal {-code}" if code < 0 else f"failed ({said[-1] if said else code})"
            raise PartyError(
                f"{self.name} {how} before training was over: all were ended and nothing was kept; run it again"
            )
        return code == 0

    def close(self) -> None:
        self.process.kill()
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        self.process.wait()
        self.answer.close()
        self.errors.close()


def grow_together(saplings: Sequence[Sapling]) -> None:
    """Train the trees of all parties, the host first; each takes home its own copy of them and its own counts."""
    host, *guests = saplings
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(contextlib.closing(TreeProcess("the server of the trees", "serve", len(saplings))))
        workers = [
            stack.enter_context(contextlib.closing(TreeProcess(f"the tree process of '{one.party}'", "train", 0)))
            for one in saplings
        ]
        port = wait_for_port(server, host)
        gates = [stack.enter_context(contextlib.closing(Gate(port))) for _ in guests]
        doors = [port, *(gate.port for gate in gates)]
        for rank, (sapling, worker) in enumerate(zip(saplings, workers, strict=True)):
            worker.give(pack(sapling.share, instructions(sapling, rank, doors)))
        watch([server, *workers], gates, host=host)
        for sapling, worker in zip(saplings, workers, strict=True):
            sapling.trees = worker.read()
    settle(host, guests, counts_of(gates, host.limit))


def wait_for_port(server: TreeProcess, host: Sapling) -> int:
    until = time.monotonic() + host.timeout
    while not (said := server.read()).endswith(b"\n"):
        server.ended()
        give_up_after(until, host)
    return int(said)


def instructions(sapling: Sapling, rank: int, doors: Sequence[int]) -> dict[str, Any]:
    """What a party's process is told; the parties share the processors of one machine."""
    threads = max(1, (os.cpu_count() or 1) // len(doors))
    boosting = replace(sapling.boosting, parameters={**sapling.boosting.parameters, "nthread": threads})
    federation = {
        "federated_server_address": f"127.0.0.1:{doors[rank]}",
        "federated_world_size": len(doors),
        "federated_rank": rank,
    }
    return {"federation": federation, "boosting": asdict(boosting), "tree_by_tree": sapling.limit is not None}


def watch(processes: Sequence[TreeProcess], gates: Sequence[Gate], *, host: Sapling) -> None:
    """Wait until all parties' processes have ended well; the first, the server, ends when it is closed."""
    crossed, until = -1, 0.0
    while not all([process.ended() for process in processes][1:]):
        if host.limit is not None:
            keep_pace(processes[1:], gates, host.limit)
        if (now := sum(gate.total for gate in gates)) != crossed:
            crossed, until = now, time.monotonic() + host.timeout
        give_up_after(until, host)


def keep_pace(workers: Sequence[TreeProcess], gates: Sequence[Gate], limit: TreeLimit) -> None:
    """Once everyone has grown the next tree, and waits, say whether it was the last."""
    if not limit.beyond and min(worker.grown() for worker in workers) > limit.trees:
        word = GO_ON if limit.take([gate.count() for gate in gates]) else NO_MORE
        for worker in workers:
            worker.give(word)


def counts_of(gates: Sequence[Gate], limit: TreeLimit | None) -> list[Count]:
    """What crossed, but for a tree that was dropped."""
    return limit.counts if limit is not None and limit.beyond else [gate.count() for gate in gates]


def give_up_after(until: float, host: Sapling) -> None:
    host.check()
    if time.monotonic() > until:
        raise PartyError(
            f"no byte crossed between the tree processes for {host.timeout:g} s: all were ended and nothing was kept; "
            "raise timeout, or find out what holds one up"
        )
    time.sleep(_BREATH)


def settle(host: Sapling, guests: Sequence[Sapling], counts: Sequence[Count]) -> None:
    """Everyone's counts, and where its columns begin; the host's are its guests' too, in one process."""
    first = host.share.columns.shape[1]
    for guest, count in zip(guests, counts, strict=True):
        guest.first, guest.calls, guest.crossed = first, {guest.party: count.calls}, count.total
        host.widths[guest.party] = guest.share.columns.shape[1]
        first += host.widths[guest.party]
        host.calls[guest.party] = count.calls
        host.crossed += count.total


def _contents(file: IO[bytes]) -> bytes:
    """All of it, without a move of the place where its process writes."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)
