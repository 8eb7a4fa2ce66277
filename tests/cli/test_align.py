"""`vesica align`, from files to files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from vesica.cli.align import asked_for
from vesica.data.ids import Rules

BANK = "id,born\n007,1980\n008,1990\n,2000\n010,1970\n"
SHOP = " key ,year,n\n8 ,1990,1\n7,1980,2\nNA,1,3\n99,1,4\n"


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("bank.csv").write_text(BANK)
    Path("shop.csv").write_text(SHOP)
    return tmp_path


def test_each_party_gets_its_ids_as_they_stand_in_its_file_in_one_order(
    vesica: Callable[..., Any], tables: Path
) -> None:
    answer = vesica("align", "bank.csv:id", "shop.csv: key ", "--trim", "--pad", "3", "--out", "out/common")
    assert answer.code == 0, answer.err
    assert "bank: 3 ids of 4 rows; 1 without an id, 0 repeated" in answer.out
    assert "ids in common: 2;" in answer.out
    bank, shop = (Path(f"out/common/{name}.csv").read_text().splitlines() for name in ("bank", "shop"))
    assert (bank[0], shop[0]) == ("id", " key ")
    pairs = list(zip(bank[1:], shop[1:], strict=True))
    assert sorted(pairs) == [("007", "7"), ("008", "8 ")]


def test_whoever_wrote_that_an_id_is_missing_is_counted_as_such(vesica: Callable[..., Any], tables: Path) -> None:
    Path("marks.csv").write_text('id,x\n007,1\nnull,2\n NA ,3\n"  ",4\n?,5\n,6\n008,7\n')
    for rule in ("--no-trim", "--trim"):
        answer = vesica("align", "bank.csv:id", "marks.csv:id", rule, "--pad", "3", "--cardinality")
        assert "marks: 2 ids of 7 rows; 5 without an id, 0 repeated" in answer.out
        assert "ids in common: 2;" in answer.out


def test_several_keys_and_three_kinds_of_files_meet(vesica: Callable[..., Any], tables: Path) -> None:
    pl.DataFrame({"id": [7, 8], "born": [1980, 1991]}).write_parquet("clinic.parquet")
    np.savez("lab.npz", id=np.array(["7", "8"]), born=np.array([1980, 1990]))
    files = [f"{name}:{columns}" for name, columns in FILES.items()]
    answer = vesica("align", *files, "--pad", "4", "--trim", "--out", "out")
    assert answer.code == 0, answer.err
    assert "ids in common: 1;" in answer.out
    written = {path.name: path.read_text() for path in Path("out").iterdir()}
    assert written == {
        "bank.csv": "id,born\n007,1980\n",
        "shop.csv": " key ,year\n7,1980\n",
        "clinic.csv": "id,born\n7,1980\n",
        "lab.csv": "id,born\n7,1980\n",
    }


FILES = {"bank.csv": "id,born", "shop.csv": " key ,year", "clinic.parquet": "id,born", "lab.npz": "id,born"}


def test_the_number_alone_writes_nothing(vesica: Callable[..., Any], tables: Path) -> None:
    answer = vesica("align", "bank.csv:id", "shop.csv: key ", "--trim", "--pad", "3", "--cardinality")
    assert answer.code == 0, answer.err
    assert "ids in common: 2;" in answer.out
    assert sorted(path.name for path in tables.iterdir()) == ["bank.csv", "shop.csv"]


def test_the_doctor_says_what_to_do_and_only_when_asked(vesica: Callable[..., Any], tables: Path) -> None:
    command = ("align", "bank.csv:id", "shop.csv: key ", "--cardinality")
    assert "ids in common: 0;" in vesica(*command).out
    assert "--pad" not in vesica(*command).out
    answer = vesica(*command, "--doctor").out
    assert "bank beside 'shop': 1 of theirs have white space around them: use --trim" in answer
    assert "yours have 3 digits with leading zeros, theirs have 1 to 2 without: use --pad 3" in answer


def test_options_change_the_rules_they_name_and_no_others() -> None:
    asked = {"trim": None, "case": None, "pad": None, "cardinality": False, "doctor": False}
    rules = Rules(trim=True, case="lower", pad=3)
    assert asked_for(rules, **asked).rules == rules
    assert asked_for(rules, **(asked | {"trim": False, "case": "upper"})).rules == Rules(case="upper", pad=3)
    counted = asked_for(rules, **(asked | {"pad": 0, "cardinality": True, "doctor": True}))
    assert (counted.rules.pad, counted.reveal, counted.doctor) == (0, "size", True)


def test_tables_of_the_same_name_are_numbered(vesica: Callable[..., Any], tables: Path) -> None:
    Path("more").mkdir()
    Path("more/bank.csv").write_text("id\n008\n")
    answer = vesica("align", "bank.csv:id", "more/bank.csv:id", "--out", "out")
    assert answer.code == 0, answer.err
    assert Path("out/bank-2.csv").read_text() == "id\n008\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bank.csv:id", "shop.csv"], "'shop.csv' does not name a table and its id column: write FILE:COLUMN"),
        (["bank.csv:id", "shop.csv:"], "write FILE:COLUMN"),
        (["bank.csv:id", "shop.csv:n", "--workers", "0"], "0 processes"),
        (["bank.csv:id", "square.npz:id"], "square.npz has 'id' of shape (2, 2)"),
        (["bank.csv:id"], "two tables or more"),
        (["bank.csv:id", "shop.csv:kee"], "shop.csv has no column 'kee' to take the ids from"),
        (["bank.csv:id", "nowhere.csv:id"], "there is no file nowhere.csv"),
        (["bank.csv:id", "bank.txt:id"], "bank.txt is not a table Vesica reads"),
        (["bank.csv:id,id", "shop.csv:n"], "name a column twice"),
        (["bank.csv:id", "shop.csv:n", "--case", "lowr"], "did you mean 'lower'"),
        (["bank.csv:id", "shop.csv:n", "--duplicates", "last"], "no rule 'last'"),
        (["bank.csv:id", "shop.csv:n", "--cardinality"], "give either --out FOLDER"),
        (["bank.csv:id", "double.csv:id"], "double.csv has more than one column 'id'"),
        (["bank.csv:id", "again.csv:id"], "'again' has 1 row(s) whose id an earlier row has"),
        (["bank.csv:id", "broken.parquet:id"], "broken.parquet cannot be read as a Parquet table"),
        (["bank.csv:id", "broken.npz:id"], "broken.npz cannot be read as an NPZ table"),
        (["bank.csv:id", "empty.csv:id"], "empty.csv is empty; give a file with a header and rows"),
    ],
)
def test_bad_input_is_one_sentence(vesica: Callable[..., Any], tables: Path, arguments: list[str], words: str) -> None:
    Path("bank.txt").write_text(BANK)
    Path("double.csv").write_text("id,id\n1,2\n")
    Path("again.csv").write_text("id\n1\n1\n")
    Path("empty.csv").write_text("")
    np.savez("square.npz", id=np.eye(2))
    for name in ("broken.parquet", "broken.npz"):
        Path(name).write_bytes(b"no such thing")
    answer = vesica("align", *arguments, "--out", "out")
    assert answer.code == 2
    assert words in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_table_is_never_written_over(vesica: Callable[..., Any], tables: Path) -> None:
    answer = vesica("align", "bank.csv:id", "shop.csv:n", "--out", ".")
    assert answer.code == 2
    assert "bank.csv is one of the tables: give --out another folder" in answer.err
    assert vesica("align", "bank.csv:id", "shop.csv:n", "--out", "bank.csv").code == 2
    assert Path("bank.csv").read_text() == BANK


@pytest.mark.parametrize("out", ["bank.csv/sub", "taken", "/proc/none", "circle/sub", "x" * 300])
def test_a_place_that_cannot_be_written_to_is_refused_beforehand(
    vesica: Callable[..., Any], tables: Path, out: str
) -> None:
    Path("taken/bank.csv").mkdir(parents=True)
    Path("circle").symlink_to("circle")
    answer = vesica("align", "bank.csv:id", "shop.csv:n", "--out", out)
    assert (answer.code, answer.out) == (2, "")
    assert "give" in answer.err
    assert len(answer.err.splitlines()) == 1


def test_one_of_two_is_needed_out_or_cardinality(vesica: Callable[..., Any], tables: Path) -> None:
    assert "give either --out FOLDER" in vesica("align", "bank.csv:id", "shop.csv:n").err
