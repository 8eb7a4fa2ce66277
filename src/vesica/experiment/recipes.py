"""Recipes: the tables and figures of a paper as lists of runs, kept under experiments/<paper>/recipes.py."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vesica.attacks.completion import Style
from vesica.data.federation import Federation
from vesica.data.rows import hold_out
from vesica.datasets import is_here
from vesica.datasets.scenario import SCENARIOS, make_federation
from vesica.errors import InputError, nearest
from vesica.experiment.audit import KNOWN, Shadows, audit, by_shadows
from vesica.experiment.fit import fit
from vesica.experiment.folder import read_json
from vesica.experiment.result import Result
from vesica.methods import Method, config_of, name_of
from vesica.protocol.files import write_atomically
from vesica.protocol.link import Progress, silently
from vesica.protocol.message import Wire

Figures = Mapping[str, int | float | None]  # a row of a computed table, by the heads of its columns

_BESIDE_THE_SOURCE = Path(__file__).parents[3] / "experiments"


@dataclass(frozen=True)
class Case:
    """One run of a recipe: a method on a scenario."""

    method: Method
    data: str
    seed: int = 0
    overlap: int | None = None
    share: str | None = None
    draw: int | None = None
    labelled: int | None = None
    labels: str | None = None
    wire: Wire = "float32"
    hold_out: bool = False  # to choose settings: the test rows are left out, and others drawn in their stead
    dim: int | None = None  # how long every party's representations are
    wait: float | None = None
    absent: tuple[str, ...] = ()
    host: int | None = None  # which of the parts, from 1 on, the labelled party has
    parties: int | None = None
    alpha: float | None = None  # the host's ratio of the columns that matter most
    encoder: str | None = None  # of every party with features
    stop_at_bytes: int | None = None
    audit: tuple[str, ...] = ()  # attacks by which it is measured what each party could learn,
    known: tuple[int, ...] = (KNOWN,)  # with so many rows known from elsewhere
    shadows: int = 0  # and membership with so many shadow federations

    def settings(self) -> dict[str, Any]:
        """All of them, by name, as JSON has them."""
        method = {f"method.{name}": value for name, value in config_of(self.method).items()}
        others = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "method"}
        return dict(json.loads(json.dumps(others | method)))

    def federation(self, data_dir: Path | None) -> Federation:
        if self.hold_out and self.alpha is not None:
            raise InputError("alpha ranks columns by rows that a hold-out would score: leave one of the two out")
        federation = make_federation(
            self.data,
            data_dir,
            overlap=self.overlap,
            share=self.share,
            draw=self.draw,
            labelled=self.labelled,
            labels=self.labels,
            seed=self.seed,
            dim=self.dim,
            encoder=self.encoder,
            host=self.host,
            parties=self.parties,
            alpha=self.alpha,
        )
        return hold_out(federation) if self.hold_out else federation

    @property
    def title(self) -> str:
        """What `only` looks in: all that tells this case from the others of a recipe."""
        data = f"{self.data} (hold-out)" if self.hold_out else self.data
        overlap = "all rows" if self.overlap is None else f"{self.overlap} aligned"
        title = f"{name_of(self.method)} on {data}, {overlap}, seed {self.seed}"
        others = changed_settings(self, but=("method", "data", "seed", "overlap", "hold_out", "absent"))
        absent = [f"without {guest}" for guest in self.absent]
        return ", ".join([title, *others, *absent, *changed_settings(self.method)])

    @property
    def folder(self) -> str:
        """A folder's name that no other case has, and that a setting added later does not change."""
        digest = hashlib.sha256(self.title.encode()).hexdigest()[:12]
        return f"{self.data}-{name_of(self.method)}-{self.seed}-{digest}"


def changed_settings(chosen: Method | Case, *, but: Sequence[str] = ()) -> list[str]:
    """The fields, but for some, that are not as they are by default."""
    fields = [field for field in dataclasses.fields(chosen) if field.name not in but]  # type: ignore[arg-type]
    values = [(field, getattr(chosen, field.name)) for field in fields]
    return [f"{field.name}={value}" for field, value in values if value != field.default]


def no_cases(seeds: int) -> Sequence[Case]:
    """Those of a figure that is computed."""
    return ()


@dataclass(frozen=True)
class Recipe:
    """What a table needs: its cases, given how many seeds to run; or its figures, where nothing is trained."""

    about: str
    cases: Callable[[int], Sequence[Case]] = no_cases
    seeds: int = 1
    compute: Callable[[], Iterable[Figures]] | None = None  # a row after the other


def find_recipe(paper: str, table: str, *, experiments: Path | None = None) -> Recipe:
    """The recipe of this name in experiments/<paper>/recipes.py, or in another *recipes.py beside it."""
    root = experiments or _find_experiments()
    papers = [path.parent.name for path in root.glob("*/recipes.py")]
    if paper not in papers:
        raise InputError(f"there is no paper '{paper}' in {root}{nearest(paper, papers)}")
    recipes = {name: found for file in sorted((root / paper).glob("*recipes.py")) for name, found in read_recipes(file)}
    if table not in recipes:
        raise InputError(f"'{paper}' has no recipe '{table}'{nearest(table, recipes)}")
    return recipes[table]


def read_recipes(file: Path) -> Iterable[tuple[str, Recipe]]:
    name = f"vesica_{file.stem}_{file.parent.name}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    recipes: dict[str, Recipe] = module.RECIPES
    return recipes.items()


@dataclass(frozen=True)
class Reproduced:
    """One case that has been run, or a row computed: its line for results/*.jsonl, its messages and its curve."""

    line: dict[str, Any]
    ledger: Sequence[Mapping[str, Any]]
    curve: Sequence[Mapping[str, float]]


def reproduce(
    recipe: Recipe,
    table: str,
    *,
    seeds: int | None = None,
    only: str | None = None,
    data_dir: Path | None = None,
    device: str = "cpu",
    out: Path | None = None,
    progress: Progress = silently,
    begin: Callable[[Case], None] = lambda case: None,
    left_out: Callable[[str], None] = lambda data: None,
) -> Iterator[Reproduced]:
    """Run a recipe's cases one by one; `only` those whose title has this text.

    With `out`, every case has a run folder there: finished ones are read, interrupted ones go on. Of several data sets
    those whose files are not there are `left_out`.
    """
    if recipe.compute is not None:
        if seeds is not None or only is not None or out is not None:
            raise InputError(f"'{table}' is computed and has no cases: leave --seeds, --only and --out out")
        yield from compute(recipe.compute, table)
        return
    for case in at_hand(choose_cases(recipe, seeds=seeds, only=only), data_dir, left_out=left_out):
        begin(case)
        folder = None if out is None else out / case.folder
        finished = folder / "reproduced.json" if folder else None
        if finished is not None and finished.exists():
            yield from read_finished(finished, case)
            continue
        runs = run_case(case, table, folder, data_dir=data_dir, device=device, progress=progress)
        if finished is not None:
            write_atomically(finished, json.dumps({"settings": case.settings(), "runs": [vars(run) for run in runs]}))
        yield from runs


def run_case(
    case: Case, table: str, folder: Path | None, *, data_dir: Path | None, device: str, progress: Progress
) -> list[Reproduced]:
    """What was reached on the way, and the result."""
    federation = case.federation(data_dir)
    with tempfile.TemporaryDirectory() as scratch:
        kept = folder or (Path(scratch) / "run" if case.audit else None)
        result = fit(
            case.method,
            federation,
            seed=case.seed,
            wire=case.wire,
            device=device,
            out=kept,
            keep_messages=bool(case.audit),
            progress=progress,
            wait=case.wait,
            absent=case.absent,
            stop_at_bytes=case.stop_at_bytes,
        )
        found = (
            {}
            if not case.audit or kept is None
            else {"audit": audited(case, kept, federation, device=device, progress=progress)}
        )
    where = circumstances(table, device=device, sha256=federation.sha256)
    return [
        Reproduced(line_of(run) | where | (found if run is result else {}), ledger_of(run), run.curve)
        for run in (*result.milestones, result)
    ]


def audited(
    case: Case, folder: Path, federation: Federation, *, device: str, progress: Progress
) -> list[dict[str, Any]]:
    """The findings of an audit."""
    first, *others = case.known
    styles: tuple[Style, ...] = ("frozen", "plain", "mixmatch")
    options: dict[str, Any] = {"styles": styles, "seed": case.seed, "device": device}
    found = audit(folder, known=first, attacks=case.audit, **options)
    for known in others:  # what needs none known is the same
        needing = [attack for attack in case.audit if attack in ("completion", "columns")]
        found = found.with_more(audit(folder, known=known, attacks=needing, **options).findings)
    if case.shadows:
        shadows = Shadows(case.method, federation, case.shadows)
        found = found.with_more(by_shadows(folder, shadows, seed=case.seed, progress=progress))
    return [{name: value for name, value in f.to_json().items() if name != "pictures"} for f in found.findings]


def ledger_of(run: Result) -> list[dict[str, Any]]:
    return run.ledger.to_json() + run.scoring.to_json()


def read_finished(file: Path, case: Case) -> list[Reproduced]:
    """A setting that came later does not matter; one that has another value now, by another default, does."""
    kept, now = read_json(file), case.settings()
    differ = [name for name, value in kept.get("settings", {}).items() if now.get(name) != value]
    if differ or "settings" not in kept:
        raise InputError(f"{file} is of another version ({', '.join(differ) or 'no settings'}): give another --out")
    return [Reproduced(**values) for values in kept["runs"]]


def compute(rows: Callable[[], Iterable[Figures]], table: str) -> Iterator[Reproduced]:
    for figures in rows():
        yield Reproduced({"table": table, "figures": dict(figures), "commit": commit()}, (), ())


def line_of(run: Result) -> dict[str, Any]:
    """The result with its curve: bytes after each epoch, and what it was worth on the validation rows."""
    return run.to_json() | {"curve": [[point["bytes"], round(point["value"], 6)] for point in run.curve]}


def at_hand(
    cases: Sequence[Case], data_dir: Path | None, *, left_out: Callable[[str], None] = lambda data: None
) -> Sequence[Case]:
    """The cases whose data are there; all of them where none are, so that the first says what it needs."""
    here = {data: is_here(SCENARIOS[data].data, data_dir) for data in dict.fromkeys(case.data for case in cases)}
    if not any(here.values()):
        return cases
    for data in (data for data, found in here.items() if not found):
        left_out(data)
    return [case for case in cases if here[case.data]]


def choose_cases(recipe: Recipe, *, seeds: int | None, only: str | None) -> Sequence[Case]:
    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds is {seeds}: give how many seeds to run, 1 or more")
    cases = recipe.cases(seeds or recipe.seeds)
    chosen = [case for case in cases if only is None or only in case.title]
    if cases and not chosen:
        raise InputError(f"no case has '{only}' in its title: give a part of one, such as '{cases[0].title}'")
    return chosen


def circumstances(table: str, *, device: str, sha256: str | None) -> dict[str, Any]:
    """What a line of results/*.jsonl has beside the result: where and on what it came about."""
    return {"table": table, "device": device_name(device), "commit": commit(), "data_sha256": sha256}


def device_name(device: str) -> str:
    if device.startswith("cuda"):
        return f"{torch.cuda.get_device_name(torch.device(device))}, torch {torch.__version__}"
    return f"cpu {platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}"


def commit() -> str | None:
    """The commit of the source tree; $VESICA_COMMIT names it where the tree was copied without its history."""
    if "VESICA_COMMIT" in os.environ:
        return os.environ["VESICA_COMMIT"]
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return asked.stdout.strip()


def _find_experiments() -> Path:
    here = Path.cwd() / "experiments"
    for root in (here, _BESIDE_THE_SOURCE):
        if root.is_dir():
            return root
    raise InputError(f"there is no folder {here}: recipes are run from a clone of the project")
