"""`vesica nvflare prepare | align | start`: training between organisations over NVFlare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vesica.cli.nvflare_align import align
from vesica.cli.nvflare_process import ending_the_process, where_the_server_is
from vesica.cli.options import (
    Arrive,
    Device,
    HostsJson,
    HostsReport,
    KeepMessages,
    Liveness,
    MaxBytes,
    MaxRounds,
    MethodName,
    PreparedFolder,
    SecretSeed,
    Settings,
    StopAtBytes,
    Wire,
)
from vesica.cli.places import refuse_unwritable

if TYPE_CHECKING:
    from vesica.engines.nvflare.kits import Kit
    from vesica.engines.nvflare.line import Line
    from vesica.experiment.result import Result

app = typer.Typer(
    no_args_is_help=True,
    help="Train between organisations over NVFlare: a server at the host's, a client at each guest's, mutual TLS.",
)


@app.command()
def prepare(
    federation: Annotated[Path, typer.Argument(help="federation.toml; of each party its name is enough")],
    out: Annotated[Path, typer.Option(help="a new folder: in it one for each party")],
    address: Annotated[str, typer.Option(help="where the guests reach the host's machine; localhost: here alone")],
    port: Annotated[int, typer.Option(min=1, max=65535, help="of the server")] = 8002,
) -> None:
    """Make what each organisation needs: certificates, keys, where the server is. Run it once, for all."""
    from vesica.cli.display import say
    from vesica.engines.nvflare import need_nvflare

    need_nvflare()
    from vesica.experiment.nvflare import prepare as prepare_all

    kits = prepare_all(federation, out, address=address, port=port)
    for kit in kits:
        say(f"{kit.folder}: for '{kit.name}' alone{', who runs the server' if kit.is_host else ''}")
    say("Next: give each party its folder over a channel that you both trust, and keep no copy: it has a private key.")
    say("Its README.md says what to do there: vesica nvflare align FOLDER, then vesica nvflare start FOLDER METHOD")


app.command()(align)


@app.command()
def start(
    folder: PreparedFolder,
    method: MethodName,
    settings: Settings = None,
    wire: Wire = "float32",
    run: Annotated[str | None, typer.Option(help="this run's folder under runs/ [default: the method]")] = None,
    seed: SecretSeed = None,
    device: Device = "cpu",
    max_rounds: MaxRounds = None,
    max_bytes: MaxBytes = None,
    stop_at_bytes: StopAtBytes = None,
    wait: Annotated[
        float | None, typer.Option(help="seconds a guest may take: later it is left out, or the run stops")
    ] = None,
    liveness: Liveness = 300.0,
    arrive: Arrive = 300.0,
    keep_messages: KeepMessages = False,
    json_file: HostsJson = None,
    report: HostsReport = None,
) -> None:
    """Take part in a run, in the foreground, to its end; the same command again goes on where it was stopped.

    Every party gives the same method and settings. Exit code 0: finished. 2: bad input, or another party is missing.
    """
    from dataclasses import replace

    from vesica.cli.commands import parse_settings
    from vesica.cli.display import announce, watch
    from vesica.engines.nvflare import need_nvflare
    from vesica.errors import InputError
    from vesica.experiment.member import Plan
    from vesica.methods import make_method
    from vesica.protocol import Budget

    need_nvflare()
    from vesica.engines.nvflare.process import run_beside
    from vesica.experiment.nvflare import Site, attend

    refuse_unwritable(json_file, report=report)
    budget = Budget(max_rounds, max_bytes)
    chosen = make_method(method, parse_settings(settings or []))
    plan = Plan(chosen, wire=wire, budget=budget, wait=wait, stop_at_bytes=stop_at_bytes, seed=seed)  # type: ignore[arg-type]
    site = Site.open(folder)
    if not site.kit.is_host and (json_file or report):
        raise InputError(f"the result is the host's: leave --json and --report to '{site.kit.host}'")
    member = replace(site.member(plan, run or method), device=device, keep_messages=keep_messages)
    if (member.out / "result.json").exists():
        announce(f"{member.me}: this run is finished: {member.out}; another one needs another --run")
        if site.kit.is_host:
            wait_for_guests(site.kit, member.out, seconds=arrive)
        else:
            tell_the_host(site.kit, member.out, seconds=arrive)
        raise typer.Exit
    announce(where_the_server_is(site.kit))

    def program(line: Line) -> None:
        attend(
            line,
            replace(member, progress=progress),
            finish=lambda result: show(result, member.out, json_file=json_file, report=report),
            liveness=liveness,
            arrive=arrive,
            tell=lambda sentence: announce(f"{member.me}: {sentence}"),
        )

    with ending_the_process(), watch() as progress:
        run_beside(site.kit, program, arrive=arrive)


def wait_for_guests(kit: Kit, folder: Path, *, seconds: float) -> None:
    """Guests that were killed at the very end need their host once more."""
    from vesica.cli.display import announce
    from vesica.engines.nvflare.process import run_beside
    from vesica.engines.nvflare.run_file import recall_waiting
    from vesica.errors import InputError
    from vesica.experiment.nvflare import see_off

    _, waiting = recall_waiting(folder)
    if waiting:
        names = ", ".join(f"'{name}'" for name in sorted(waiting))
        announce(f"{kit.name}: {names} had not ended; staying up to {seconds:g} s in case it is started again")
        with ending_the_process():
            away = run_beside(kit, lambda line: see_off(line, folder, seconds=seconds), arrive=seconds)
            if away:
                names = ", ".join(f"'{name}'" for name in sorted(away))
                raise InputError(
                    f"{names} did not come within {seconds:g} s: when it is started again, give this command again too"
                )


def tell_the_host(kit: Kit, folder: Path, *, seconds: float) -> None:
    """A guest that was killed when it had finished could not say so, and its host may wait for it."""
    from vesica.cli.display import announce
    from vesica.engines.nvflare.farewell import report_end
    from vesica.engines.nvflare.process import run_beside
    from vesica.engines.nvflare.run_file import keep_waiting, recall_waiting

    run, waiting = recall_waiting(folder)
    if waiting:
        announce(f"{kit.name}: '{kit.host}' may not know that; trying to tell it for up to {seconds:g} s")
        keep_waiting(folder, run, ())  # tried once: a host that knows it has left for good
        with ending_the_process():
            run_beside(kit, lambda line: report_end(line.call, kit.host, run, seconds=seconds), arrive=seconds)


def show(result: Result | None, folder: Path, *, json_file: str | None, report: Path | None) -> None:
    """The end: the host's result, or what a guest can say."""
    from vesica.cli.commands import hand_out
    from vesica.cli.display import announce, say
    from vesica.experiment.folder import stated_in

    if result is not None:
        hand_out(result, json_file=json_file, report=report)
    else:
        for statement in stated_in(folder):
            say(statement)
    announce(f"finished: {folder}")
