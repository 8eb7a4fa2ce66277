"""`vesica post init | trust | align | run | status`: messages as files, carried by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vesica.cli.commands import hand_out, parse_settings
from vesica.cli.options import (
    Desk,
    Device,
    HostsJson,
    HostsReport,
    KeepMessages,
    KnownFederation,
    MaxBytes,
    MaxRounds,
    MethodName,
    OneDesk,
    SecretSeed,
    Settings,
    StopAtBytes,
    Wire,
)
from vesica.cli.places import refuse_unwritable
from vesica.cli.post_align import align, to_carry
from vesica.errors import printable

if TYPE_CHECKING:
    from vesica.engines.post.folder import DeskFolder
    from vesica.experiment.post import Correspondence

WAITING = 3  # exit code

app = typer.Typer(
    no_args_is_help=True,
    help="Train between organisations without a network: every message is a signed, encrypted file that you carry.",
)


@app.command()
def init(
    name: Annotated[str, typer.Option("--as", help="as the federation.toml calls this party")], desk: Desk
) -> None:
    """Make a desk: this party's keys, which stay there, and its card, which is for its partners."""
    from vesica.engines.post.folder import DeskFolder

    folder = DeskFolder(desk)
    card = folder.create(name).card
    secret = f"{folder.identity_file} holds your secret keys and stays where it is."
    give = f"{folder.card(name)} is your card: give it to every partner, and tell its fingerprint by telephone:"
    tell([secret, give, f"    {card.fingerprint}", f"Then take theirs: vesica post trust {desk} CARD ..."])


@app.command()
def trust(desk: OneDesk, cards: Annotated[list[Path], typer.Argument(help="your partners' cards")]) -> None:
    """Take partners' cards; compare their fingerprints with what the partners say on the telephone."""
    from vesica.engines.post.folder import DeskFolder

    for path in cards:
        card = DeskFolder(desk).trust(path)
        tell([f"'{card.name}' is trusted from now on: compare by telephone", f"    {card.fingerprint}"])


@app.command()
def run(
    federation: KnownFederation,
    method: MethodName,
    desk: Desk,
    common: Annotated[
        Path, typer.Option(help="CSV: the ids that all parties have, the column called as in your table")
    ],
    label: Annotated[str, typer.Option("--run", help="the run's name: new for a new run, the same at every party")],
    name: Annotated[str | None, typer.Option("--as", help="who you are [default: whose desk it is]")] = None,
    settings: Settings = None,
    wire: Wire = "float32",
    seed: SecretSeed = None,
    device: Device = "cpu",
    max_rounds: MaxRounds = None,
    max_bytes: MaxBytes = None,
    stop_at_bytes: StopAtBytes = None,
    wait: Annotated[
        float | None,
        typer.Option(
            help="seconds, from the first command that asks for a file: later the guest is left out, or it ends"
        ),
    ] = None,
    keep_messages: KeepMessages = False,
    json_file: HostsJson = None,
    report: HostsReport = None,
) -> None:
    """Work until a file is needed that is not there, and say which; the same command again goes on.

    Exit code 0: this party's part of the run is finished. 3: it waits for a file. 2: bad input, or a bad file.
    """
    from vesica.cli.display import watch
    from vesica.engines.post.desk import WaitingForFile
    from vesica.engines.post.folder import DeskFolder
    from vesica.experiment.folder import stated_in
    from vesica.experiment.member import Plan
    from vesica.experiment.post import Correspondence
    from vesica.methods import make_method
    from vesica.protocol import Budget

    refuse_unwritable(json_file, report=report)
    chosen = make_method(method, parse_settings(settings or []))
    folder = DeskFolder(desk)
    check_owner(folder, name)
    budget = Budget(max_rounds, max_bytes)
    plan = Plan(chosen, wire=wire, budget=budget, wait=wait, stop_at_bytes=stop_at_bytes, seed=seed)  # type: ignore[arg-type]
    aside = json_file == "-"  # what is said then goes to standard error
    with watch() as progress:
        letters = Correspondence.open(
            plan,
            federation,
            folder=folder,
            common=common,
            label=label,
            device=device,
            keep_messages=keep_messages,
            progress=progress,
        )
        check_outputs(letters, json_file=json_file, report=report)
        if letters.is_finished:
            tell([f"'{label}' is finished: {letters.member.out}; another run needs another --run"], aside=aside)
            tell(to_carry(folder.leaving(label)), aside=aside)
            raise typer.Exit
        if seed is not None:
            tell(
                ["--seed is for tests: whoever knows it can redraw the host's numbers and read labels off."], aside=True
            )
        try:
            result = letters.go_on()
        except WaitingForFile as waiting:
            tell([*letters.desk.refused(), *to_carry(letters.desk.to_carry()), str(waiting)], aside=aside)
            raise typer.Exit(WAITING) from None
    ended = f"'{label}' is finished: {letters.member.out}"
    said = [*letters.desk.refused(), *to_carry(letters.desk.to_carry()), ended]
    if result is not None:
        hand_out(result, json_file=json_file, report=report, say_first=lambda: tell(said, aside=aside))
    else:
        tell([*said, *stated_in(letters.member.out)])


app.command()(align)


@app.command()
def status(desk: OneDesk) -> None:
    """Say who this party is, whom it trusts, what its runs wait for, and what is to be carried where."""
    from vesica.engines.post.folder import DeskFolder

    folder = DeskFolder(desk)
    card = folder.identity().card
    tell([f"'{card.name}': {card.fingerprint}"])
    tell([f"trusts '{partner.name}': {partner.fingerprint}" for partner in folder.partners()])
    for label in folder.labels():
        tell([f"run '{label}': {folder.state(label)}", *to_carry(folder.leaving(label))])
    tell(f"inbox: {say_what_it_is(path)}" for path in folder.arrived())


def say_what_it_is(path: Path) -> str:
    """By its own word: who signed it is checked by the run that it is of."""
    from vesica.engines.post.envelope import Envelope, PostError

    try:
        return f"{path} is {Envelope.read(path).header.file_name}"
    except (PostError, OSError) as fault:
        return str(fault)


def check_owner(folder: DeskFolder, name: str | None) -> None:
    from vesica.errors import InputError

    owner = folder.identity().name
    if name not in (None, owner):
        raise InputError(f"{folder.path} is the desk of '{owner}' and not of '{name}': correct --as or --desk")


def check_outputs(letters: Correspondence, *, json_file: str | None, report: Path | None) -> None:
    from vesica.errors import InputError

    me, host = letters.member.me, letters.member.host
    if me != host and (json_file is not None or report is not None):
        raise InputError(f"'{me}' is a guest and the result is for '{host}' alone: leave --json and --report out")


def tell(sentences: Iterable[str], *, aside: bool = False) -> None:
    for sentence in sentences:
        typer.echo(printable(sentence), err=aside)
