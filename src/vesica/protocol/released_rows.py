"""What a guest has released of each of its rows: noise is drawn once per row, whatever the host asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vesica.data.text_files import parse_json
from vesica.errors import RunFolderError, printable
from vesica.privacy import Release
from vesica.protocol.files import make_folder, writing_to
from vesica.protocol.resumable import load, save_atomically

_NUMBERED = re.compile(r"([0-9]{6}|[1-9][0-9]{6,})\.safetensors")
_REMEDY = (
    "restore it from a backup; without one its draws are gone, and starting again in a new folder is a second release "
    "of these rows, whose epsilon adds to that of the first"
)


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
        paths = [] if folder is None else _paths(folder)
        self._files = len(paths)
        for path in paths:
            self._add(*_read(path, self._draws))

    def __call__(self, rows: Tensor, represent: Callable[[Tensor], Tensor]) -> Tensor:
        """The released values of these rows of the table, (rows, dim); `represent` gives the exact ones."""
        ids = [self._ids[row] for row in rows.tolist()]
        new = {id: row for id, row in zip(ids, rows.tolist(), strict=True) if id not in self._draws}
        if not ids:
            return represent(rows)
        if new:
            exact = represent(torch.tensor(list(new.values()), dtype=torch.int64, device=rows.device))
            self._keep(list(new), self.release(exact).cpu())
        return torch.stack([self._draws[id] for id in ids]).to(rows.device)

    def _keep(self, ids: list[str], values: Tensor) -> None:
        if self._folder is not None:
            with writing_to(self._folder):
                make_folder(self._folder, mode=0o700)
            path = self._folder / _name(self._files + 1)
            if path.exists():  # its draws may have been sent
                raise RunFolderError(
                    f"{path} was written by another process meanwhile and is not replaced: "
                    "wait for that process, then give the same command again"
                )
            save_atomically(path, {"ids": _packed(ids), "values": values})
            self._files += 1
        self._add(ids, values)

    def _add(self, ids: list[str], values: Tensor) -> None:
        self._draws.update(zip(ids, values, strict=True))


def _name(number: int) -> str:
    return f"{number:06d}.safetensors"


def _paths(folder: Path) -> list[Path]:
    """The files of draws, in order: they are numbered from 1 without a gap."""
    found = {path.name for path in folder.glob("*.safetensors")}
    names = [_name(number) for number in range(1, len(found) + 1)]
    for name in sorted(found.difference(names)):
        if not _NUMBERED.fullmatch(name):
            raise RunFolderError(
                f"{folder} has a file {printable(name)}, which is no file of draws: "
                "move it elsewhere and give the same command again"
            )
    for name in names:
        if name not in found:
            raise RunFolderError(f"{folder / name} is missing: {_REMEDY}")
    return [folder / name for name in names]


def _read(path: Path, known: Mapping[str, Tensor]) -> tuple[list[str], Tensor]:
    """The ids and the values of one file. They must go together with the draws that are `known`."""
    try:
        return _checked(load(path, remedy=_REMEDY), known)
    except ValueError as error:
        raise RunFolderError(f"{path} is torn ({error}): {_REMEDY}") from error


def _checked(draws: Any, known: Mapping[str, Tensor]) -> tuple[list[str], Tensor]:
    match draws:
        case {"ids": Tensor(dtype=torch.uint8) as packed, "values": Tensor(ndim=2) as values}:
            ids = parse_json(packed.numpy().tobytes())
        case _:
            raise ValueError("it holds no ids and values")
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
        raise ValueError("its ids are no list of texts")
    if len(ids) != len(values) or any(len(draw) != values.shape[1] for draw in islice(known.values(), 1)):
        raise ValueError(f"its values are of shape {tuple(values.shape)}, which does not fit the ids or other files")
    if len(set(ids)) < len(ids) or not known.keys().isdisjoint(ids):
        raise ValueError("it has a second draw of a row")
    return ids, values


def _packed(ids: list[str]) -> Tensor:
    """As bytes: the header of a file of tensors has a limit, its tensors have none."""
    return torch.from_numpy(np.frombuffer(json.dumps(ids).encode(), np.uint8).copy())
