"""`vesica audit`: what each party of a run could learn, measured on its kept messages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vesica.cli.options import DataDir, Device
from vesica.cli.places import refuse_unwritable

if TYPE_CHECKING:
    from vesica.attacks.completion import Style
    from vesica.experiment.audit import Audit


def audit(
    folder: Annotated[Path, typer.Argument(help="a finished run folder, made with --keep-messages")],
    known: Annotated[int, typer.Option(min=3, help="rows that an attacker knows from elsewhere")] = 80,
    attack: Annotated[
        list[str] | None, typer.Option(help="gradients, completion, columns or membership [default: all]")
    ] = None,
    completion: Annotated[
        list[str] | None,
        typer.Option(help="style of model completion: frozen, plain or mixmatch [default: the first two]"),
    ] = None,
    shadows: Annotated[
        int, typer.Option(min=0, help="membership by so many shadow federations, trained here; 0: by the loss alone")
    ] = 0,
    sweep: Annotated[
        str | None, typer.Option(help="FIELD=VALUE,VALUE: audit the run once for each strength of a defence")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="with --sweep: the folder of its runs")] = None,
    data_dir: DataDir = None,
    seed: Annotated[int, typer.Option(help="of the attacks")] = 0,
    device: Device = "cpu",
    json_file: Annotated[str | None, typer.Option("--json", help="write it as JSON to this file, - for stdout")] = None,
    report: Annotated[Path | None, typer.Option(help="write it to this HTML file")] = None,
) -> None:
    """Say what each party of a run received and could infer, and what is proven."""
    from vesica.cli.commands import data_folder, deliver
    from vesica.cli.display import announce, watch
    from vesica.errors import InputError
    from vesica.experiment.again import remake_federation, remake_method
    from vesica.experiment.audit import ATTACKS, STYLES, Shadows, by_shadows, check_choice
    from vesica.experiment.audit import audit as run_audit
    from vesica.report.audit_page import write_audit, write_sweep

    refuse_unwritable(json_file, report=report)
    styles: Any = tuple(completion or STYLES)
    check_choice(attack or (), styles)
    if shadows == 1 or (shadows and sweep is not None):
        raise InputError("--shadows takes 2 federations or more, and no --sweep: audit each run of a sweep by itself")
    if sweep is not None:
        lines = run_sweep(
            folder,
            sweep,
            out,
            data_folder(data_dir),
            known=known,
            attacks=attack or ATTACKS,
            styles=styles,
            seed=seed,
            device=device,
            kept=json_file,
        )
        if report is not None:
            write_sweep(report, lines, field=lines[0]["field"])
        if json_file == "-":
            deliver(lines, json_file, one=False)
        else:
            show_sweep(lines)
        return
    if out is not None:
        raise InputError("--out goes with --sweep: an audit of one run writes --json and --report")
    chosen: dict[str, Any] = {"attacks": attack or ATTACKS, "styles": styles, "seed": seed, "device": device}
    found = run_audit(folder, known=known, begin=announce, **chosen)
    if shadows:
        with watch() as progress:
            federation = remake_federation(folder, data_dir=data_folder(data_dir))
            trained = Shadows(remake_method(folder), federation, shadows)
            found = found.with_more(by_shadows(folder, trained, seed=seed, progress=progress, begin=announce))
    elif "membership" in chosen["attacks"]:
        found = found.with_more(["Membership inference with shadow federations was not asked for (--shadows)."])
    if report is not None:
        write_audit(report, found.to_json())
    deliver([found.to_json()], json_file, one=True)
    if json_file != "-":
        show(found)


def run_sweep(
    folder: Path,
    text: str,
    out: Path | None,
    data_dir: Path | None,
    *,
    known: int,
    attacks: Collection[str],
    styles: Sequence[Style],
    seed: int,
    device: str,
    kept: str | None,
) -> list[dict[str, Any]]:
    """A line each value, written to the file to be kept as they come: a kill loses none."""
    from vesica.cli.commands import deliver
    from vesica.cli.display import announce, watch
    from vesica.errors import InputError
    from vesica.experiment.audit import sweep

    field, equals, values = (part.strip() for part in text.partition("="))
    if not equals or out is None:
        raise InputError("write --sweep FIELD=VALUE,VALUE and give its runs a folder with --out")
    wanted = [value.strip() for value in values.split(",") if value.strip()]
    options: dict[str, Any] = {"data_dir": data_dir, "known": known, "attacks": attacks, "styles": styles}
    options |= {"seed": seed, "device": device}
    lines: list[dict[str, Any]] = []
    with watch() as progress:
        for value, found in sweep(folder, field, wanted, out=out, progress=progress, begin=announce, **options):
            lines.append({"field": field, "value": value, **found.to_json()})
            deliver(lines, None if kept == "-" else kept, one=False)
    return lines


def show_sweep(lines: list[dict[str, Any]]) -> None:
    from vesica.cli.display import print_listing

    heads = (lines[0]["field"], "run", "attacker", "attack", "measure", "found", "knowing nothing")
    rows = [
        (line["value"], metric_of(line["run"]), f["attacker"], f["attack"], f["measure"], *figures_of(f))
        for line in lines
        for f in line["findings"]
    ]
    print_listing(heads, rows)


def metric_of(run: dict[str, Any]) -> str:
    metric = run["config"]["metric"]
    return f"{metric} {run['metrics'][metric]:.3f}"


def figures_of(finding: dict[str, Any]) -> tuple[str, str]:
    return f"{finding['value']:.3f}", f"{finding['nothing']:.3f}"


def show(found: Audit) -> None:
    """In words, the worst first."""
    from vesica.cli.display import say

    for heading, lines in (
        ("Proven:", found.guarantees or ["Nothing: no mechanism of this run carries a guarantee."]),
        ("Measured, what was learned most first:", [finding.sentence for finding in found.findings]),
        ("Not tried:", found.not_tried),
    ):
        if lines:
            say(heading)
            for line in lines:
                say(f"- {line}")
