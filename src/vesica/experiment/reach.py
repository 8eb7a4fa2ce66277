"""How many bytes end-to-end training takes to be as good as one message: the ratio a paper gives for a curve."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Line = Mapping[str, Any]  # of results/*.jsonl


@dataclass(frozen=True)
class Reach:
    """What one run of FedOnce reached, and what a rival on the same data took to be as good."""

    data: str
    host: int
    value: float  # FedOnce's on the validation rows; of rmse the negative, so that more is better
    sent: int  # bytes of its one message a guest
    config_hash: str  # FedOnce's
    taken: int | None  # bytes of the rival up to the first epoch that is as good; None: it never was

    @property
    def ratio(self) -> float | None:
        return None if self.taken is None else self.taken / self.sent


def reaches(lines: Sequence[Line], *, method: str = "fedonce", rival: str = "split-nn") -> Iterator[Reach]:
    """Every run of the method beside the rival's of the same federation and seed, where both have a curve.

    Runs of another title are not asked: those that were stopped, that left guests out, that went on for more rounds.
    """
    whole = [line for line in lines if line.get("curve")]
    rivals = {_meeting(line): line["curve"] for line in whole if line["title"] == rival}
    for line in whole:
        if line["title"] != method or _meeting(line) not in rivals:
            continue
        sent, value = line["curve"][0]
        taken = next((there for there, worth in rivals[_meeting(line)] if worth >= value), None)
        host = line["config"].get("cut", {}).get("host", 1)
        yield Reach(line["data"], host, value, sent, line["config_hash"], taken)


def _meeting(line: Line) -> tuple[object, ...]:
    """Runs that a rival is compared in: the same rows, cut alike, as long representations, the same seed."""
    config = line["config"]
    dims = sorted((party, spec and spec[1]) for party, spec in config["encoders"].items())
    alike = json.dumps([config.get("cut"), dims, config["overlap"]], sort_keys=True)
    return line["data"], line["seed"], line["wire"], line["rows"]["aligned"], alike
