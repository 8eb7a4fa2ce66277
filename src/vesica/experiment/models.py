"""What a party keeps of a run: how its rows are prepared, its encoder and, at the host, the head."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from vesica.data.json_forms import check
from vesica.data.preparation import Preparation
from vesica.data.text_files import parse_json, shown
from vesica.errors import InputError, RunFolderError
from vesica.experiment.model_fields import MODEL
from vesica.metrics import Task
from vesica.nn.models import HEADS, AnyHead, EncoderSpec
from vesica.privacy import Release
from vesica.protocol.files import replacing, write_atomically
from vesica.protocol.message import Wire

T = TypeVar("T")
M = TypeVar("M", bound=nn.Module)

_FAULTS = (OSError, ValueError, LookupError, TypeError, RuntimeError, OverflowError)


@dataclass(frozen=True)
class PartyModel:
    """One party's part of a trained model; nobody holds another's."""

    name: str
    preparation: Preparation | None  # None: a host with labels only
    encoder_spec: EncoderSpec | None
    encoder: nn.Module | None
    head: AnyHead | None = None  # the host's
    task: Task | None = None  # the host's
    wire: Wire = "float32"  # what it was trained with, and predicts with
    release: Release | None = None  # what is done to its representations before they leave

    def save(self, folder: Path) -> None:
        """Write model.safetensors and model.json, which is for this party alone: it holds values of its table.

        With `scale = "quantile"` these are up to 256 values of each numeric column, and all of them where there are
        no more; with any scale the median of a column, and the categories that occur twice.
        """
        folder.mkdir(parents=True, exist_ok=True)
        about = {
            "name": self.name,
            "preparation": None if self.preparation is None else self.preparation.to_json(),
            "encoder": None if self.encoder_spec is None else self.encoder_spec.to_json(),
            "head": None if self.head is None else _describe(self.head),
            "task": None if self.task is None else asdict(self.task),
            "wire": self.wire,
            "release": None if self.release is None else asdict(self.release),
        }
        with replacing(folder / "model.safetensors") as partial:
            save_file(self._tensors(), partial)
        write_atomically(folder / "model.json", json.dumps(about, indent=1))

    def _tensors(self) -> dict[str, Tensor]:
        modules = {"encoder": self.encoder, "head": self.head}
        return {
            f"{part}.{name}": tensor.detach().cpu().clone()
            for part, module in modules.items()
            if module is not None
            for name, tensor in module.state_dict().items()
        }

    @classmethod
    def load(cls, folder: Path) -> PartyModel:
        try:
            return cls._read(folder)
        except (*_FAULTS, SafetensorError, InputError) as error:
            reason = " ".join(str(error).split())  # torch says it in several lines
            raise RunFolderError(
                f"the model in {folder} cannot be read ({type(error).__name__}: {reason}): "
                "give a folder that `vesica run --out` has finished"
            ) from error

    @classmethod
    def _read(cls, folder: Path) -> PartyModel:
        about = parse_json((folder / "model.json").read_text())
        if isinstance(about, dict) and "release" not in about:
            raise ValueError("it was saved by an earlier version, which knew of no noise: train it again")
        check(about, MODEL)
        tensors = load_file(folder / "model.safetensors")
        preparation = _maybe(Preparation.from_json, about["preparation"])
        spec = _maybe(EncoderSpec.from_json, about["encoder"])
        _check_together(preparation, spec, tensors)
        encoder = None if spec is None else _build(spec.build, tensors, "encoder")
        head = None if about["head"] is None else _build(partial(_rebuild, about["head"]), tensors, "head")
        task, release = _maybe(_task, about["task"]), _maybe(_release, about["release"])
        if head is not None and not head.parties:
            raise ValueError("its head reads from nobody")
        if head is not None and task is not None and head.outputs != task.outputs:
            raise ValueError(f"its head has {head.outputs} outputs and its task needs {task.outputs}")
        return cls(about["name"], preparation, spec, encoder, head, task, about["wire"], release)


def _maybe(read: Callable[[dict[str, Any]], T], values: dict[str, Any] | None) -> T | None:
    return None if values is None else read(values)


def _describe(head: AnyHead) -> dict[str, Any]:
    return {"kind": next(name for name, known in HEADS.items() if type(head) is known), **head.spec()}


def _rebuild(spec: dict[str, Any]) -> AnyHead:
    return HEADS[spec["kind"]].from_spec(spec)


def _task(values: dict[str, Any]) -> Task:
    return Task(**{**values, "classes": tuple(values["classes"])})


def _release(values: dict[str, Any]) -> Release:
    return Release(**values)


def _check_together(preparation: Preparation | None, spec: EncoderSpec | None, tensors: Mapping[str, Tensor]) -> None:
    """Refuse fields that are right each for itself, and not beside each other."""
    if (preparation is None) != (spec is None):
        raise ValueError("it has a preparation without an encoder, or an encoder without a preparation")
    if preparation is not None:
        for each in preparation.quantities:
            if len(each.knots) != len(each.scores):
                raise ValueError(
                    f"column {shown(each.column)} has {len(each.knots)} knots and {len(each.scores)} scores"
                )
        if spec is not None and preparation.schema != spec.schema:
            raise ValueError("its encoder is for other columns than its preparation gives")
    if spec is not None and not 1 <= spec.copies <= max(1, len(tensors)):
        raise ValueError(f"it claims {spec.copies:,} copies of its encoder and has {len(tensors)} tensors")


def _build(make: Callable[[], M], tensors: Mapping[str, Tensor], part: str) -> M:
    """A module with its weights. Their shapes are compared first, on a device that gives no memory to anything."""
    own = {name.removeprefix(f"{part}."): t for name, t in tensors.items() if name.startswith(f"{part}.")}
    with torch.device("meta"):
        claimed = {name: parameter.shape for name, parameter in make().named_parameters()}
    for name, shape in claimed.items():
        if name not in own or own[name].shape != shape:
            found = f"of shape {tuple(own[name].shape)}" if name in own else "missing"
            raise ValueError(f"its {part} needs {name} of shape {tuple(shape)}, which is {found}")
    module = make()
    module.load_state_dict(own)
    return module
