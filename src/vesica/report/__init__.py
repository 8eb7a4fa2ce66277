"""One HTML file that shows runs: scores, costs, and every message that left a party."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vesica.data.text_files import parse_json
from vesica.errors import InputError, RunFolderError
from vesica.report.conversation import PHASES
from vesica.report.document import write_page
from vesica.report.page import render
from vesica.report.plots import ReportedRun

__all__ = ["ReportedRun", "read_results", "read_run", "write_report"]

ENTRY = {"phase": str, "round": int, "from": str, "to": str, "kind": str, "payload": int, "wire": int}
SHAPES = {"metrics": dict, "bytes": dict, "rows": dict, "config": dict, "parties": list, "statements": list}
POINT = {"round": int | float, "bytes": int | float, "value": int | float}


def write_report(path: Path, runs: Sequence[ReportedRun], *, title: str = "Vesica report") -> None:
    """Write the page; a reader never sees half of it."""
    if not runs:
        raise InputError(f"there is no run to report in {path}; give at least one")
    write_page(path, render(runs, title))


def read_run(folder: Path) -> ReportedRun:
    """A finished run folder: its result, and the host's ledger and curve."""
    result = _result(_json(_text(folder / "result.json"), folder / "result.json"), folder / "result.json")
    host = _host(folder / "run.json")
    ledger = _lines(folder / host / "ledger.jsonl", ENTRY)
    if not ledger and result.get("messages"):
        raise RunFolderError(
            f"{folder / host / 'ledger.jsonl'} has no message, but the result counts {result['messages']}; "
            "the folder is not complete"
        )
    return ReportedRun(result, ledger, _lines(folder / host / "curve.jsonl", POINT))


def read_results(path: Path) -> list[ReportedRun]:
    """Results without ledgers: one JSON object a line (.jsonl), or one object or a list of them (.json)."""
    text = _text(path)
    if path.suffix == ".jsonl":
        found = [value for _, value in _numbered(text, path)]
    else:
        whole = _json(text, path)
        found = whole if isinstance(whole, list) else [whole]
    if not found:
        raise InputError(f"{path} has no result; give a file that 'vesica run --json' wrote")
    return [ReportedRun(_result(value, path), ()) for value in found]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path} cannot be read ({reason}); give a run or a result of Vesica") from error


def _json(text: str, where: object) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise InputError(f"{where} is not JSON ({error}); write it again with 'vesica run'") from error


def _numbered(text: str, path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield f"{path}, line {number},", _json(line, f"{path}, line {number},")


def _lines(path: Path, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The objects of a .jsonl file, each with these fields; none where there is no file."""
    found = list(_numbered(_text(path), path)) if path.exists() else []
    for where, value in found:
        wrong = [n for n, kind in fields.items() if not (isinstance(value, dict) and isinstance(value.get(n), kind))]
        if wrong or value.get("phase", "training") not in PHASES:
            name = wrong[0] if wrong else "phase"
            raise RunFolderError(f"{where} has no usable '{name}'; the run folder is damaged")
    return [value for _, value in found]


def _host(path: Path) -> str:
    described = _json(_text(path), path)
    parties = described.get("parties") if isinstance(described, dict) else None
    if not (isinstance(parties, list) and parties and all(isinstance(name, str) for name in parties)):
        raise RunFolderError(f"{path} does not name its parties; give the folder of a run")
    host: str = parties[0]
    if host in ("", ".", "..") or "/" in host or "\\" in host:
        raise RunFolderError(f"{path} names a host '{host}', which is no folder name; the run folder is damaged")
    return host


def _result(value: object, where: Path) -> Mapping[str, Any]:
    """A result whose parts have the shape that the page relies on; anything may be missing but the method."""
    if not isinstance(value, dict) or not isinstance(value.get("method"), str):
        raise InputError(f"{where} has a result without a method; give what 'vesica run --json' wrote")
    for name, kind in SHAPES.items():
        if not isinstance(value.get(name) or kind(), kind):
            raise InputError(f"{where} has a result with a wrong '{name}'; give what 'vesica run --json' wrote")
    return value
