"""What a party brought into a run, kept beside its messages for an audit: prepared rows and, at the host, labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from vesica.errors import RunFolderError
from vesica.protocol import Host, Rows
from vesica.protocol.files import replacing
from vesica.protocol.party import Party

NAME = "rows.safetensors"
_USES = ("aligned", "unaligned", "test", "labelled", "validation")


@dataclass(frozen=True)
class Belongings:
    """A party's own; nobody else's folder has it."""

    inputs: Tensor  # (rows, ...): its whole table, prepared
    rows: Rows
    labels: Tensor | None = (
        None  # the host's, (rows,): meaningful at the aligned rows that are labelled, and the test rows
    )

    @classmethod
    def of(cls, me: Party) -> Belongings:
        return cls(me.inputs, me.rows, me.labels if isinstance(me, Host) else None)

    def save(self, folder: Path) -> None:
        tensors = {"inputs": self.inputs} | {use: getattr(self.rows, use) for use in _USES}
        if self.labels is not None:
            tensors["labels"] = self.labels
        with replacing(folder / NAME) as partial:
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, partial)

    @classmethod
    def load(cls, folder: Path) -> Belongings:
        try:
            tensors = load_file(folder / NAME)
            aligned, unaligned, test, labelled, validation = (tensors[use] for use in _USES)
            rows = Rows(aligned, unaligned, test, labelled, validation)
            return cls(tensors["inputs"], rows, tensors.get("labels"))
        except (OSError, KeyError, SafetensorError) as error:
            raise RunFolderError(
                f"{folder} does not have the rows of its party ({error}): run it with --keep-messages"
            ) from error
