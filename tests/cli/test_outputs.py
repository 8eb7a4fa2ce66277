"""What commands write and say: for the owner alone, whole, before anything is said, and never raw."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from vesica.cli import main
from vesica.cli.display import announce, print_listing, say

RUN = ("run", "split-nn", "--federation", "federation.toml", "--set", "epochs=1")
PREDICT = ("--federation", "federation.toml", "--out", "predictions.csv")
NASTY = "in\nvesica: all is well\x1b[2J\u202e[red]x:smile:\udcff.csv"
SHOWN = r"in\nvesica: all is well\x1b[2J\u202e[red]x:smile:\udcff.csv"


def open_to_others(root: Path) -> list[str]:
    """What others could read: not closed itself, and in no folder that is."""
    found = []
    for path in root.rglob("*"):
        inside = [path, *(parent for parent in path.parents if parent != root and root in parent.parents)]
        if all(part.stat().st_mode & 0o077 for part in inside):
            found.append(str(path.relative_to(root)))
    return sorted(found)


def test_nothing_that_a_command_writes_can_be_read_by_others(folder: Path, vesica: Any, trained: Path) -> None:
    before = {path.name for path in folder.iterdir()}
    assert vesica(*RUN, "--out", "run", "--json", "result.json", "--report", "new/report.html").code == 0
    assert vesica("predict", trained, *PREDICT).code == 0
    assert vesica("align", "bank.csv:customer", "shop.parquet:key", "--out", "common").code == 0
    assert {"run", "result.json", "new", "predictions.csv", "common"} <= {path.name for path in folder.iterdir()}
    assert set(open_to_others(folder)) == before


def test_files_are_written_before_anything_is_said(folder: Path, vesica: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that fails at the first word loses nothing."""

    for command, written in [
        ((*RUN, "--json", "-", "--report", "report.html"), ["report.html"]),
        (("align", "bank.csv:customer", "shop.parquet:key", "--out", "common"), ["common/bank.csv", "common/shop.csv"]),
    ]:
        with monkeypatch.context() as patch:
            reader, writer = os.pipe()
            os.close(reader)
            patch.setattr(sys, "argv", ["vesica", *command])
            with open(writer, "w") as terminal:
                patch.setattr(sys, "stdout", terminal)
                with pytest.raises(SystemExit) as end:
                    main()
                with open(os.devnull, "w") as nothing:
                    os.dup2(nothing.fileno(), writer)  # for what is left to flush
        assert end.value.code
        for path in written:
            assert (folder / path).stat().st_size > 0


def test_a_full_disk_is_one_sentence_wherever_it_strikes(
    folder: Path, vesica: Any, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fill)
    for command, path in [
        ((*RUN, "--out", "run"), "run"),
        ((*RUN, "--json", "result.json"), "result.json"),
        ((*RUN, "--report", "report.html"), "report.html"),
        (("predict", trained, *PREDICT), "predictions.csv"),
        (("align", "bank.csv:customer", "shop.parquet:key", "--out", "common"), "common/bank.csv"),
    ]:
        answer = vesica(*command)
        sentence = f"{path} cannot be written (No space left on device): make room for it, then give the same command"
        assert (answer.code, answer.err) == (2, f"vesica: {sentence} again\n")
        assert not (folder / path).is_file()
    assert list((folder / "run").iterdir()) == []


def test_a_full_disk_in_the_midst_of_training_is_one_sentence(
    folder: Path, vesica: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vesica.protocol import resumable

    def fill(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(resumable, "save_file", fill)
    answer = vesica(*RUN, "--out", "run")
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert "step-training.safetensors cannot be written (No space left on device): make room" in answer.err


def test_a_system_that_refuses_anything_else_is_one_sentence_too(
    folder: Path, vesica: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object, **named: object) -> None:
        raise PermissionError(13, "Permission denied", "bank.csv")

    monkeypatch.setattr("vesica.data.Federation.from_toml", refuse)
    answer = vesica(*RUN)
    sentence = "bank.csv cannot be used (Permission denied): mend that, or give another place"
    assert (answer.code, answer.err) == (2, f"vesica: {sentence}, then give the same command again\n")


@pytest.mark.parametrize("tell", [say, announce])
def test_a_name_cannot_forge_a_line_or_move_the_cursor(tell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    tell(NASTY)
    written = capsys.readouterr()
    assert written.out + written.err == SHOWN + "\n"


def test_a_name_in_a_table_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_listing(("name",), [(NASTY,)])
    assert capsys.readouterr().out.splitlines()[1].strip() == SHOWN


def test_a_file_that_is_not_there_is_named_on_one_line(folder: Path, vesica: Any) -> None:
    answer = vesica("report", NASTY)
    assert answer.code == 2
    assert answer.err.startswith(f"vesica: {SHOWN} cannot be read")
    assert answer.err.count("\n") == 1


def test_names_in_an_inbox_are_shown_escaped(folder: Path, vesica: Any) -> None:
    vesica("post", "init", "--as", "bank", "--desk", "desk")
    (folder / "desk" / "inbox" / NASTY).write_text("no message")
    answer = vesica("post", "status", "desk")
    assert answer.code == 0
    assert f"inbox: desk/inbox/{SHOWN} is no message" in answer.out
    assert len(answer.out.splitlines()) == 2


def test_a_terminal_that_lacks_letters_gets_escapes(vesica: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))
    monkeypatch.setattr(sys, "argv", ["vesica", "methods"])
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(
        "vesica.methods.METHODS", {"zoë": type("Zoë", (), {"__doc__": "ë", "__dataclass_fields__": {}})}
    )
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert rb"zo\xeb" in written.getvalue()


def test_a_title_that_is_no_text_is_written(folder: Path, trained: Path, vesica: Any) -> None:
    answer = vesica("report", trained, "--title", os.fsdecode(b"caf\xe9"))
    assert answer.code == 0
    assert "caf\\udce9" in (folder / "report.html").read_text()


@pytest.mark.parametrize("command", ["run", "align"])
def test_a_table_whose_name_is_not_utf8_is_refused_in_a_sentence(command: str, folder: Path, vesica: Any) -> None:
    odd = Path(os.fsdecode(b"caf\xe9"))
    odd.mkdir()
    for path in folder.glob("*.*"):
        path.rename(odd / path.name)
    run = ("run", "split-nn", "--federation", odd / "federation.toml")
    answer = vesica(*run if command == "run" else ("align", odd / "bank.csv:customer", "--out", "common"))
    sentence = "the path caf\\udce9/bank.csv is not UTF-8, as the reader of tables needs it; rename it"
    assert (answer.code, answer.err) == (2, f"vesica: {sentence}\n")


def test_outputs_may_have_any_name(folder: Path, vesica: Any, trained: Path) -> None:
    odd = os.fsdecode(b"caf\xe9")
    assert vesica(*RUN, "--json", f"{odd}.json", "--report", f"{odd}.html").code == 0
    assert vesica("predict", trained, *PREDICT[:-1], f"{odd}.csv").code == 0
    assert vesica("align", "bank.csv:customer", "shop.parquet:key", "--out", f"{odd}-common").code == 0
    assert vesica("report", f"{odd}.json", "--out", f"{odd}-again.html").code == 0
    assert Path(odd + ".csv").stat().st_size > 0
