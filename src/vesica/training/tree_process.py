"""A process of vertical trees, the server's (`serve`) or one party's (`train`), which ends when its parent does."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from queue import SimpleQueue
from typing import Any, BinaryIO

import numpy as np

from vesica.training.boosting import Boosting, Share, boost

_SERVER_TIMEOUT = 86_400  # seconds; the parent ends it long before
GROWN = b"\n"  # what a process says after every tree, before its answer, if it is to wait then for one of these words
GO_ON, NO_MORE = b"+", b"-"


def pack(share: Share, about: dict[str, Any]) -> bytes:
    """What a process is given: a length, then arrays, never a pickle."""
    file = io.BytesIO()
    arrays: dict[str, Any] = {name: values for name, values in vars(share).items() if values is not None}
    np.savez(file, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), **arrays)
    return len(file.getvalue()).to_bytes(8) + file.getvalue()


def unpack(stream: BinaryIO) -> tuple[Share, dict[str, Any]]:
    with np.load(io.BytesIO(stream.read(int.from_bytes(stream.read(8)))), allow_pickle=False) as arrays:
        labels = arrays.get("labels")
        share = Share(arrays["columns"], labels, arrays["train"], arrays["validation"])
        about: dict[str, Any] = json.loads(arrays["about"].tobytes())
        return share, about


def serve(parties: int, answer: BinaryIO) -> None:
    """Run the federated server on a free port, and say which."""
    from xgboost.federated import FederatedTracker

    tracker = FederatedTracker(n_workers=parties, port=0, secure=False, timeout=_SERVER_TIMEOUT)
    tracker.start()
    answer.write(f"{tracker.worker_args()['dmlc_tracker_port']}\n".encode())
    answer.flush()
    tracker.wait_for()


def train(answer: BinaryIO) -> None:
    from xgboost.collective import CommunicatorContext

    share, about = unpack(sys.stdin.buffer)
    words = listen()

    def go_on() -> bool:
        answer.write(GROWN)
        answer.flush()
        return words.get() == GO_ON

    with CommunicatorContext(dmlc_communicator="federated", **about["federation"]):
        trees = boost(
            share, Boosting(**about["boosting"]), vertical=True, go_on=go_on if about["tree_by_tree"] else None
        )
    answer.write(trees)
    answer.flush()


def listen() -> SimpleQueue[bytes]:
    """The words of the parent, which keeps our standard input open; when it is gone, so are we."""
    words: SimpleQueue[bytes] = SimpleQueue()

    def wait() -> None:
        while word := sys.stdin.buffer.read(1):
            words.put(word)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
    return words


def main(role: str, parties: int) -> None:
    sys.modules["sklearn"] = None  # type: ignore[assignment]  # optional to XGBoost, and most of its import time
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever XGBoost prints is no answer
    if role == "serve":
        listen()
        serve(parties, answer)
    else:
        train(answer)
    answer.close()
    sys.stderr.flush()
    os._exit(0)  # the thread that waits for the parent holds standard input


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
