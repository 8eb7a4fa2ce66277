"""What a defence costs and brings: the same run with several strengths of it, each audited."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vesica.attacks.completion import Style
from vesica.errors import InputError, RunFolderError
from vesica.experiment.again import remake_federation, remake_method
from vesica.experiment.audit.audit import ATTACKS, KNOWN, STYLES, Audit, audit
from vesica.experiment.fit import fit
from vesica.experiment.folder import read_json
from vesica.methods import Method, change, config_of
from vesica.protocol.link import Progress, silently


def sweep(
    folder: Path,
    field: str,
    values: Sequence[str],
    *,
    out: Path,
    data_dir: Path | None = None,
    known: int = KNOWN,
    attacks: Collection[str] = ATTACKS,
    styles: Sequence[Style] = STYLES,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress = silently,
    begin: Callable[[str], None] = lambda step: None,
) -> Iterator[tuple[str, Audit]]:
    """The run of a folder once for each value of one of its method's fields; `out` has their folders.

    Runs that are there already are not repeated.
    """
    if not values:
        raise InputError(f"there is no value to give {field}: write --sweep {field}=VALUE,VALUE")
    run, method = read_json(folder / "run.json"), remake_method(folder)
    methods = {value: change(method, {field: value}) for value in values}  # all are checked before any is run
    federation = remake_federation(folder, data_dir=data_dir)
    for value, changed in methods.items():
        there = out / f"{field}-{value}"
        begin(f"{field} = {value}")
        if (there / "result.json").exists():
            refuse_another(there, changed, run)
        else:
            fit(
                changed,
                federation,
                seed=run["seed"],
                wire=run["wire"],
                device=device,
                out=there,
                keep_messages=True,
                progress=progress,
            )
        yield value, audit(there, known=known, attacks=attacks, styles=styles, seed=seed, device=device)


def refuse_another(folder: Path, method: Method, run: Mapping[str, Any]) -> None:
    """A finished run in the way of a sweep, unless it is of the same rows, seed, wire and settings."""
    there = read_json(folder / "run.json")
    same = all(there.get(key) == run[key] for key in ("data", "seed", "wire", "parties", "version"))
    tables = [{**each["fingerprints"], "rows": None} for each in (there, run)]  # validation rows may be drawn blindly
    if not same or tables[0] != tables[1] or there["config"]["method"] != config_of(method):
        raise RunFolderError(f"{folder} holds another run: give the sweep another folder")
