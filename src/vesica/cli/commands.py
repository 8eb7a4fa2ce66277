"""`vesica run | predict | reproduce | report | align | methods | datasets`."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vesica.cli.align import align
from vesica.cli.options import (
    DataDir,
    Device,
    Json,
    KeepMessages,
    MaxBytes,
    MaxRounds,
    MethodName,
    Report,
    Settings,
    StopAtBytes,
    Wire,
)
from vesica.cli.places import refuse_unwritable

if TYPE_CHECKING:
    from vesica.experiment.result import Result

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Vertical federated learning with few overlapping rows and few messages.",
)


def tell_version(asked: bool) -> None:
    if asked:
        from vesica import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=tell_version, is_eager=True, help="the version")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    method: MethodName,
    data: Annotated[str | None, typer.Option(help="a public data set, see `vesica datasets`")] = None,
    federation: Annotated[Path | None, typer.Option(help="your own tables: a federation.toml")] = None,
    overlap: Annotated[int | None, typer.Option(help="with --data: so many rows overlap [default: all]")] = None,
    share: Annotated[str | None, typer.Option(help="with --data: disjoint, everyone or draw")] = None,
    draw: Annotated[int | None, typer.Option(help="with --share draw: unaligned rows a party")] = None,
    labelled: Annotated[int | None, typer.Option(help="with --data: so many aligned rows are labelled")] = None,
    labels: Annotated[str | None, typer.Option(help="with --data: the host's labels, aligned or all")] = None,
    host: Annotated[int | None, typer.Option(help="with --data: which part, from 1 on, the host has")] = None,
    parties: Annotated[int | None, typer.Option(help="with --data: the columns in so many parts")] = None,
    seed: int = 0,
    settings: Settings = None,
    wire: Wire = "float32",
    engine: Annotated[str, typer.Option(help="what carries the messages")] = "in-process",
    device: Device = "cpu",
    max_rounds: MaxRounds = None,
    max_bytes: MaxBytes = None,
    stop_at_bytes: StopAtBytes = None,
    wait: Annotated[
        float | None, typer.Option(help="seconds after which a guest is left out [default: wait for ever]")
    ] = None,
    absent: Annotated[
        list[str] | None, typer.Option(help="with --wait: a guest that never answers, to see what it costs")
    ] = None,
    data_dir: DataDir = None,
    out: Annotated[Path | None, typer.Option(help="a run folder: models, ledger, journal to go on from")] = None,
    keep_messages: KeepMessages = False,
    json_file: Json = None,
    report: Report = None,
) -> None:
    """Train a method on a federation and score it on the test rows."""
    from vesica.cli.display import watch
    from vesica.data import Federation
    from vesica.datasets.scenario import make_federation
    from vesica.errors import InputError
    from vesica.experiment import fit
    from vesica.methods import make_method
    from vesica.protocol import Budget

    refuse_unwritable(json_file, report=report)
    chosen = make_method(method, parse_settings(settings or []))
    if keep_messages and out is None:
        raise InputError("--keep-messages keeps them in the run folder: give --out FOLDER too")
    if (data is None) == (federation is None):
        raise InputError("give either --data NAME (see `vesica datasets`) or --federation FILE.toml")
    if federation is not None:
        with_data = {
            "overlap": overlap,
            "share": share,
            "draw": draw,
            "labelled": labelled,
            "labels": labels,
            "host": host,
            "parties": parties,
        }
        for option, value in with_data.items():
            if value is not None:
                raise InputError(f"--{option} goes with --data: in {federation}, set it under its own section")
        members = Federation.from_toml(federation)
    else:
        assert data is not None
        members = make_federation(
            data,
            data_folder(data_dir),
            overlap=overlap,
            share=share,
            draw=draw,
            labelled=labelled,
            labels=labels,
            seed=seed,
            host=host,
            parties=parties,
        )
    with watch() as progress:
        result = fit(
            chosen,
            members,
            seed=seed,
            budget=Budget(max_rounds, max_bytes),
            wire=wire,  # type: ignore[arg-type]
            device=device,
            engine=engine,
            out=out,
            keep_messages=keep_messages,
            progress=progress,
            wait=wait,
            absent=absent or [],
            stop_at_bytes=stop_at_bytes,
        )
    hand_out(result, json_file=json_file, report=report)


def hand_out(
    result: Result, *, json_file: str | None, report: Path | None, say_first: Callable[[], None] = lambda: None
) -> None:
    """A result to wherever it was asked for, and else to the terminal: files first, since talking may fail."""
    from vesica.cli.display import print_results, say
    from vesica.report import ReportedRun, write_report

    if report is not None:
        entries = result.ledger.to_json() + result.scoring.to_json()
        write_report(report, [ReportedRun(result.to_json(), entries, result.curve)])
    if json_file != "-":
        deliver([result.to_json()], json_file, one=True)
    say_first()
    if json_file == "-":
        deliver([result.to_json()], json_file, one=True)
    else:
        print_results([run.to_json() for run in (*result.milestones, result)])
        for statement in result.statements:
            say(statement)


@app.command()
def predict(
    folder: Annotated[Path, typer.Argument(help="a finished run folder")],
    federation: Annotated[Path, typer.Option(help="a federation.toml with the tables of the new rows")],
    out: Annotated[Path, typer.Option(help="CSV: id, prediction, a probability a class")],
    without: Annotated[list[str] | None, typer.Option(help="a guest that is not there")] = None,
) -> None:
    """Predict new rows with the models of a run folder."""
    from vesica.cli.display import say
    from vesica.data.federation import read_new_rows
    from vesica.experiment import predict_from

    refuse_unwritable(out)
    predictions = predict_from(folder, read_new_rows(federation), without=without or [])
    predictions.write(out)
    ledger = predictions.ledger
    say(f"{len(predictions.ids)} rows to {out}; {len(ledger.messages)} messages, {ledger.wire / 1e6:.3f} MB")
    for name in predictions.without:
        say(f"'{name}' was not asked: the model filled in for it.")


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="a folder of experiments/")],
    table: Annotated[str, typer.Argument(help="a recipe of it")],
    seeds: Annotated[int | None, typer.Option(min=1, help="how many seeds [default: the recipe's]")] = None,
    only: Annotated[str | None, typer.Option(help="the cases whose title has this text [default: all]")] = None,
    data_dir: DataDir = None,
    device: Device = "cpu",
    out: Annotated[Path | None, typer.Option(help="run folders: finished runs are kept, others go on")] = None,
    json_file: Json = None,
    report: Report = None,
) -> None:
    """Run a recipe: a table or a figure of a paper."""
    from vesica.cli.display import announce, print_results, watch
    from vesica.errors import InputError
    from vesica.experiment.recipes import find_recipe
    from vesica.experiment.recipes import reproduce as run_recipe
    from vesica.report import ReportedRun, write_report

    refuse_unwritable(json_file, report=report)
    recipe = find_recipe(paper, table)
    if report is not None and recipe.compute is not None:
        raise InputError(f"'{table}' is computed and has no runs to report on: leave --report out")
    lines, reported = [], []
    with watch() as progress:
        for done in run_recipe(
            recipe,
            table,
            seeds=seeds,
            only=only,
            data_dir=data_folder(data_dir),
            device=device,
            out=out,
            progress=progress,
            begin=lambda case: announce(case.title),
            left_out=lambda data: announce(f"{data} is left out: its files are not there"),
        ):
            lines.append(done.line)
            reported.append(ReportedRun(done.line, done.ledger, done.curve))
            if json_file != "-":
                deliver(lines, json_file, one=False)  # as they come: a kill loses none
    if report is not None:
        write_report(report, reported, title=recipe.about)
    if json_file == "-":
        deliver(lines, json_file, one=False)
    else:
        print_results(lines)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="run folders, and .json or .jsonl files of results")],
    out: Annotated[Path, typer.Option(help="the HTML file")] = Path("report.html"),
    title: str = "Vesica report",
) -> None:
    """Write one HTML file about runs; it needs no network."""
    from vesica.cli.display import say
    from vesica.report import read_results, read_run, write_report

    found = []
    for path in runs:
        found += [read_run(path)] if path.is_dir() else read_results(path)
    write_report(out, found, title=title)
    say(f"{len(found)} runs to {out}")


app.command()(align)


@app.command()
def methods() -> None:
    """List the methods and their fields."""
    from vesica.cli.display import print_listing
    from vesica.methods import METHODS

    rows = []
    for name, method in METHODS.items():
        fields = ", ".join(f"{field.name}={field.default}" for field in dataclasses.fields(method))
        rows.append((name, (inspect.getdoc(method) or "").splitlines()[0], fields))
    print_listing(("method", "what it does", "fields (--set field=value)"), rows)


@app.command()
def datasets(data_dir: DataDir = None) -> None:
    """List the public data sets, and where their files belong."""
    from vesica.cli.display import print_listing
    from vesica.datasets import DATASETS
    from vesica.datasets.scenario import SCENARIOS

    rows = []
    for name, scenario in SCENARIOS.items():
        source = DATASETS[scenario.data]
        rows.append((name, scenario.about, f"{source.folder}/" if source.folder else "bundled"))
    print_listing(("data", "what it is", "folder under --data-dir"), rows)


def data_folder(given: Path | None) -> Path | None:
    named = os.environ.get("VESICA_DATA")
    return given or (Path(named) if named else None)


def parse_settings(settings: list[str]) -> dict[str, str]:
    from vesica.errors import InputError

    values = {}
    for setting in settings:
        field, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"--set {setting} has no '=': write --set field=value")
        values[field.strip()] = value.strip()
    return values


def deliver(lines: list[dict[str, Any]], json_file: str | None, *, one: bool) -> None:
    """The results as JSON: one object, or an object a line."""
    from vesica.protocol.files import write_atomically

    text = json.dumps(lines[0], indent=1) + "\n" if one else "".join(json.dumps(line) + "\n" for line in lines)
    if json_file == "-":
        typer.echo(text, nl=False)
    elif json_file is not None:
        write_atomically(Path(json_file), text)
