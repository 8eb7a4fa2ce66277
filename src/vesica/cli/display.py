"""What a person sees: live progress while a run goes, tables when it has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from vesica.errors import printable
from vesica.experiment.tables import summarise
from vesica.privacy.spent import at_most
from vesica.protocol.link import Progress as Watcher

ONE_OF = {"labels": "one label", "columns": "one person's columns", "records": "one person's record"}


@contextmanager
def watch() -> Iterator[Watcher]:
    """Progress bars on standard error, one a party and step; nothing where no one is watching."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bars = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    tasks: dict[tuple[str, str], TaskID] = {}

    def show(party: str, step: str, position: int, total: int) -> None:
        key = (party, step)
        if position == 0 or key not in tasks:
            if key in tasks:
                bars.remove_task(tasks[key])
            tasks[key] = bars.add_task(printable(f"{party}: {step}"), total=total)
        bars.update(tasks[key], completed=position)

    with bars:
        yield show


def announce(title: str) -> None:
    """What begins now, for a person who waits."""
    plain(stderr=True).print(printable(title), style="bold", soft_wrap=True)


def say(text: str) -> None:
    plain().print(printable(text), soft_wrap=True)


def plain(*, stderr: bool = False, width: int | None = None) -> Console:
    """Text stays as it is: no part of a name is taken for a style or an emoji."""
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)


def wide() -> Console:
    """Standard output; into a pipe or a file nothing is cut off for want of width."""
    console = plain()
    return console if console.is_terminal else plain(width=200)


def print_listing(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*map(printable, row))
    wide().print(table)


def print_results(lines: Sequence[Mapping[str, Any]]) -> None:
    """One row a setting; several seeds as mean and deviation; then what was spent of privacy."""
    heads, rows = summarise(lines)
    table = Table(pad_edge=False)
    for head in heads:
        table.add_column(head, justify="left" if head in ("method", "data", "wire") else "right")
    for row in rows:
        table.add_row(*map(printable, row))
    wide().print(table)
    spent: dict[tuple[float, float, str], dict[str, None]] = {}
    for line in lines:
        if line.get("epsilon") is not None:
            whose = ONE_OF.get(line.get("protects", ""), "whom it protects")  # older results do not say whom
            spent.setdefault((line["epsilon"], line["delta"], whose), {})[line["method"]] = None
    for (epsilon, delta, whose), methods in spent.items():
        say(
            f"Privacy spent by a run of {', '.join(methods)}: epsilon = {at_most(epsilon)}, delta = {delta:g}, for "
            f"{whose}; its statements say of what, and what is not covered."
        )
