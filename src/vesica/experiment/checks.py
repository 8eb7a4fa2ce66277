"""What a run is asked for, held against what its method can do, before anything begins."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from vesica.engines import ENGINES
from vesica.errors import InputError, nearest
from vesica.methods import Method, check_fields, name_of
from vesica.protocol.message import WIRES

DEVICES = ("cpu", "cuda")
SIMULATION = "in-process"
COMMANDS = {"nvflare": "vesica nvflare start", "post": "vesica post run"}  # of engines between organisations


def check_settings(method: Method, *, wire: str, engine: str, device: str) -> None:
    check_fields(method)
    if wire not in WIRES:
        raise InputError(f"there is no wire '{wire}'{nearest(wire, WIRES)}")
    if engine not in ENGINES:
        raise InputError(f"there is no engine '{engine}'{nearest(engine, ENGINES)}")
    if engine != SIMULATION and getattr(method, "simulation_only", False):
        raise InputError(f"{name_of(method)} needs all parties in one place: it runs with --engine {SIMULATION} only")
    if device.partition(":")[0] not in DEVICES:
        raise InputError(f"there is no device '{device}'{nearest(device, DEVICES)}")
    if device != "cpu" and not torch.cuda.is_available():
        raise InputError(f"device is '{device}' and this machine has no CUDA: use cpu")


def check_in_one_place(engine: str) -> None:
    """Refuse an engine that every party starts for itself."""
    if engine != SIMULATION:
        raise InputError(f"with the engine '{engine}' every party runs its own part: use `{COMMANDS[engine]}`")


def check_waiting(method: Method, guests: Sequence[str], *, wait: float | None, absent: Sequence[str]) -> None:
    """Refuse a deadline nobody can mean, and one for a method that needs every guest."""
    if wait is None and not absent:
        return
    if not getattr(method, "stands_missing", False):
        raise InputError(
            f"{name_of(method)} with these settings leaves no guest out and takes no --wait and no --absent: "
            "take fedonce without more_epochs for that"
        )
    if wait is None:
        raise InputError("--absent without --wait would never end: give the seconds after which a guest is left out")
    check_wait(wait)
    for name in absent:
        if name not in guests:
            raise InputError(f"--absent names '{name}', who is no guest here{nearest(name, guests)}")


def check_wait(wait: float | None) -> None:
    if wait is not None and not 0 < wait < math.inf:
        raise InputError(f"--wait is {wait:g}: give a number of seconds above 0")


def check_label_counts(counts: Sequence[int], *, labelled: int, limited: bool) -> None:
    """Refuse counts of labelled rows, before all of them, that are not fewer, or that no limit could be meant for."""
    if counts and counts[-1] >= labelled:
        raise InputError(f"label_counts has {counts[-1]} and {labelled} rows are labelled: give smaller counts")
    if counts and limited:
        raise InputError(
            "label_counts gives several results of one run, and --max-rounds, --max-bytes and --stop-at-bytes hold for "
            "one: leave one of the two out"
        )


def check_stop(method: Method, stop_at_bytes: int | None) -> None:
    """Refuse a number of bytes to stop at for a method that cannot stop there."""
    if stop_at_bytes is None:
        return
    if not getattr(method, "stops_at_bytes", False):
        raise InputError(
            f"{name_of(method)} with these settings cannot be stopped at a number of bytes: leave --stop-at-bytes out, "
            "or take split-nn, fedbcd, fedcvt, vflhlp, fedhssl, vertical-trees, fedonce with more_epochs or few-shot "
            "with finetune_iterations"
        )
    if stop_at_bytes < 1:
        raise InputError(f"--stop-at-bytes is {stop_at_bytes}: give a number of bytes above 0")
