"""A finished run once more, from what its folder says of it: the federation and the method, to be changed a little."""

from __future__ import annotations

from pathlib import Path

from vesica.data.federation import Federation
from vesica.datasets.scenario import make_federation
from vesica.errors import InputError, RunFolderError
from vesica.experiment.fit import sort_out
from vesica.experiment.folder import read_json
from vesica.methods import Method, read_method


def remake_method(folder: Path) -> Method:
    run = read_json(folder / "run.json")
    return read_method(run["method"], run["config"]["method"])


def remake_federation(folder: Path, *, data_dir: Path | None = None) -> Federation:
    """From the same data set or federation.toml, which must still give the same rows."""
    run, source = read_json(folder / "run.json"), read_json(folder / "source.json")
    if "federation" in source:
        federation = Federation.from_toml(source["federation"])
    elif "data" in source:
        federation = make_federation(source.pop("data"), data_dir, **source)
    else:
        raise InputError(
            f"the run in {folder} was not made from a data set or a federation.toml: it cannot be run again from here"
        )
    split, _ = sort_out(remake_method(folder), federation, limited=False)
    if split.fingerprint != run["fingerprints"]["rows"]:
        raise RunFolderError(f"{folder} is of other rows than its data set or federation.toml has now: run it anew")
    return federation
