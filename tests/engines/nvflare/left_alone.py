"""A guest that is killed at the very end, a host that leaves meanwhile, and what their commands do after that.

    python tests/engines/nvflare/left_alone.py FOLDER

Prints a JSON line a scene: each party's exit code, what it said, and how often it trained or wrote a message down.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
import torch._dynamo  # an optimiser needs it: imported once, here, and not in every party's process

sys.path.insert(0, str(Path(__file__).parents[2]))

from engines.nvflare.kill_sweep import Run
from engines.nvflare.moments import SETTLED, Moments
from engines.nvflare.organisations import SEED, prepare_all

METHOD = ("one-shot", "--set", "guest_steps=20", "--set", "host_epochs=3", "--seed", str(SEED))
PATIENT, BRIEF = ("--liveness", "3", "--arrive", "60"), ("--arrive", "1")


class OneLife(Run):
    """Nobody is started again."""

    def look_after(self, name: str) -> None:
        life, status = os.waitpid(self.lives[name], os.WNOHANG)
        if life:
            del self.lives[name]
            self.codes[name] = os.waitstatus_to_exitcode(status)


def play(parties: Path, names: Sequence[str], options: Sequence[str], *, fatal: str | None = None) -> None:
    """The command at these parties, to its end; the guest may be killed by something."""
    lives = OneLife({name: parties / name for name in names}, [*METHOD, *options])
    moments = {name: Moments({fatal: 1} if fatal and name == "shop" else {}) for name in names}
    lives.to_its_end(moments)
    said = {name: (parties / name / "said.txt").read_text() for name in names}
    for name in names:
        (parties / name / "said.txt").unlink()
    print(json.dumps({n: {"code": lives.codes[n], "said": said[n], "did": moments[n].seen} for n in names}), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    prepared = prepare_all(Path(sys.argv[1]), guests=["shop"])
    play(prepared, ["bank", "shop"], PATIENT, fatal=SETTLED)
    play(prepared, ["shop"], BRIEF)
    play(prepared, ["bank", "shop"], PATIENT)
