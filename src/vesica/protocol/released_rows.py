"""What a guest has released of each of its rows: noise is drawn once per row, whatever the host asks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vesica.privacy import Release
from vesica.protocol.resumable import load, save_atomically


class ReleasedRows:
    """Applies a `release` to rows, and keeps every draw under the id of its row.

    A row that is asked for again gets the draw that it had. So a second draw, whose average with the first would
    show more than one release may, cannot happen: neither when a host names a row twice, nor when a killed run goes
    on. With a `folder` each draw is on the disk before it is returned. Drawn rows stay as they are: the encoder must
    have its final weights before the first draw.
    """

    def __init__(self, release: Release, ids: Sequence[str], *, folder: Path | None = None) -> None:
        self.release = release
        self._ids = ids
        self._folder = folder
        self._draws: dict[str, Tensor] = {}
        for path in [] if folder is None else sorted(folder.glob("*.safetensors")):
            self._add(load(path))

    def __call__(self, rows: Tensor, represent: Callable[[Tensor], Tensor]) -> Tensor:
        """The released values of these rows of the table, (rows, dim); `represent` gives the exact ones."""
        ids = [self._ids[row] for row in rows.tolist()]
        new = {id: row for id, row in zip(ids, rows.tolist(), strict=True) if id not in self._draws}
        if not ids:
            return represent(rows)
        if new:
            exact = represent(torch.tensor(list(new.values()), dtype=torch.int64, device=rows.device))
            self._keep({"ids": _packed(list(new)), "values": self.release(exact).cpu()})
        return torch.stack([self._draws[id] for id in ids]).to(rows.device)

    def _keep(self, draws: dict[str, Tensor]) -> None:
        if self._folder is not None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            count = len(list(self._folder.glob("*.safetensors")))
            save_atomically(self._folder / f"{count + 1:06d}.safetensors", draws)
        self._add(draws)

    def _add(self, draws: dict[str, Tensor]) -> None:
        ids = json.loads(draws["ids"].numpy().tobytes())
        self._draws.update(zip(ids, draws["values"], strict=True))


def _packed(ids: list[str]) -> Tensor:
    """As bytes: the header of a file of tensors has a limit, its tensors have none."""
    return torch.from_numpy(np.frombuffer(json.dumps(ids).encode(), np.uint8).copy())
