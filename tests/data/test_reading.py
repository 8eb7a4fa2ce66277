"""Reading tables: the same ids and columns from every source, and one clear sentence for what is refused."""

import gzip
import subprocess
import sys
import uuid
import zlib
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from vesica.alignment.key_files import read_keys
from vesica.data import csv_files
from vesica.data.ids import Key, Rules, text_of
from vesica.data.reading import read_table, table_from, table_from_arrays
from vesica.data.table import Table, Text
from vesica.errors import InputError


def csv(folder: Path, text: str | bytes) -> Path:
    path = folder / "table.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def strings(column: Any) -> list[str | None]:
    assert isinstance(column, Text)
    return [None if code < 0 else column.values[code] for code in column.codes]


def assert_one_sentence(error: InputError) -> None:
    message = str(error)
    assert "\n" not in message
    assert ". " not in message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (7.0, "7"),
        (np.float32(7), "7"),
        (-0.0, "0"),
        (7.5, "7.5"),
        (Decimal("7.00"), "7"),
        ("007", "007"),
        (date(2020, 1, 2), "2020-01-02"),
        (datetime(2020, 1, 2), "2020-01-02"),
        (datetime(2020, 1, 2, 3, 4), "2020-01-02T03:04:00"),
        (datetime(2020, 1, 2, tzinfo=UTC), "2020-01-02T00:00:00+00:00"),
        ("é".encode(), "é"),
        (b"\xff\x00", "ff00"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    ],
)
def test_an_id_has_one_text(value: object, text: str) -> None:
    assert text_of(value) == text


def test_the_same_ids_match_across_file_types_and_frames(tmp_path: Path) -> None:
    numbers = [3, 1, 20]
    csv(tmp_path, "key,x\n3,1\n1,2\n20,3\n")
    pl.DataFrame({"key": numbers, "x": [1, 2, 3]}).write_parquet(tmp_path / "t.PARQUET")
    np.savez(tmp_path / "t.npz", key=np.array(numbers, dtype=np.int16), x=[1, 2, 3])
    tables = [read_table(tmp_path / name, id="key") for name in ("table.csv", "t.PARQUET", "t.npz")]
    frame = pd.DataFrame({"key": [3.0, 1.0, 20.0], "x": [1, 2, 3]})
    tables += [table_from(frame, id="key"), table_from(frame.set_index("key"), id="key")]
    tables += [table_from(pl.DataFrame({"key": [3.0, 1.0, 20.0], "x": [1, 2, 3]}), id="key")]
    tables += [table_from({"key": ["3", "1", "20"], "x": [1, 2, 3]}, id="key")]
    for table in tables:
        assert table.ids.dtype.kind == "U"
        assert table.ids.tolist() == ["3", "1", "20"]
        assert list(table.columns) == ["x"]
        assert table.columns["x"].dtype == np.int64  # type: ignore[union-attr]
        assert table.columns["x"].tolist() == [1, 2, 3]  # type: ignore[union-attr]


def test_ids_of_a_csv_file_stay_text(tmp_path: Path) -> None:
    table = read_table(csv(tmp_path, "id,x\n007,1\n7,2\n2020-01-01,3\n"), id="id")
    assert table.ids.tolist() == ["007", "7", "2020-01-01"]


def test_a_csv_file_gives_each_column_its_type(tmp_path: Path) -> None:
    path = csv(
        tmp_path,
        "id,whole,real,flag,gap,maybe,day,moment,name,time\n"
        "a,1,1.5,true,1,true,2020-01-01,2020-01-01T10:00:00,x,00:01:00\n"
        "b,2,NA,false,?,NA,NA,N/A,null,00:00:30\n"
        'c,3,nan,true,3,false,2020-01-03,,"",\n',
    )
    columns = read_table(path, id="id").columns
    kinds = {name: str(c.dtype) for name, c in columns.items() if not isinstance(c, Text)}
    assert kinds == {
        "whole": "int64",
        "real": "float64",
        "flag": "bool",
        "gap": "float64",
        "maybe": "float64",
        "day": "datetime64[us]",
        "moment": "datetime64[us]",
        "time": "float64",
    }
    np.testing.assert_array_equal(columns["gap"], [1, np.nan, 3])  # type: ignore[arg-type]
    np.testing.assert_array_equal(columns["maybe"], [1, np.nan, 0])  # type: ignore[arg-type]
    np.testing.assert_array_equal(columns["real"], [1.5, np.nan, np.nan])  # type: ignore[arg-type]
    np.testing.assert_array_equal(columns["time"], [60, 30, np.nan])  # type: ignore[arg-type]
    np.testing.assert_array_equal(
        columns["day"],  # type: ignore[arg-type]
        np.array(["2020-01-01", "NaT", "2020-01-03"], dtype="datetime64[us]"),
    )
    assert strings(columns["name"]) == ["x", None, None]
    assert columns["name"].values == ("x",)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("early", "late", "expected"),
    [
        ("1", "2.5", 2.5),
        ("1", "NA", np.nan),
        ("1", "", np.nan),
        ("1.5", "?", np.nan),
        ("", "2.5", 2.5),
        ("NA", "2", 2),
    ],
)
def test_late_values_do_not_turn_a_numeric_column_into_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: str, late: str, expected: float
) -> None:
    monkeypatch.setattr(csv_files, "SAMPLE", 20)
    rows = [f"{row},{early},t" for row in range(50)]
    table = read_table(csv(tmp_path, "\n".join(["id,x,y", *rows, f"last,{late},t"])), id="id")
    assert not isinstance(table.columns["x"], Text)
    np.testing.assert_equal(float(table.columns["x"][-1]), expected)
    assert len(table) == 51


def test_missing_markers_in_text_are_missing_in_long_files_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "SAMPLE", 2)
    table = read_table(csv(tmp_path, 'id,s\na,x\nb,NA\nc,?\nd,""\ne,x\nf,y\n'), id="id")
    assert strings(table.columns["s"]) == ["x", None, None, None, "x", "y"]
    assert table.columns["s"].values == ("x", "y")  # type: ignore[union-attr]


def test_a_date_contradicted_late_becomes_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "SAMPLE", 2)
    table = read_table(csv(tmp_path, "id,d\na,2020-01-01\nb,2020-01-02\nc,soon\n"), id="id")
    assert strings(table.columns["d"]) == ["2020-01-01", "2020-01-02", "soon"]


def test_blank_lines_are_no_rows(tmp_path: Path) -> None:
    assert read_table(csv(tmp_path, "id,x\na,1\n\nb,2\n\n"), id="id").ids.tolist() == ["a", "b"]


def test_a_missing_last_value_is_no_short_row(tmp_path: Path) -> None:
    table = read_table(csv(tmp_path, 'id,s,x\na,"p,q",1\nb,r,\n'), id="id")
    np.testing.assert_array_equal(table.columns["x"], [1, np.nan])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,x\na,1\na,2\na,3\n", ["table.csv", "2 row", "'a'"]),
        ("id,x\na,1\n,2\nNA,3\n", ["table.csv", "2 row", "row 2"]),
        ("idd,x\na,1\n", ["table.csv", "'id'", "did you mean 'idd'"]),
        ("", ["table.csv", "empty"]),
        ("id,x\n", ["table.csv", "no rows"]),
        ("id,x\na,1,2\n", ["table.csv", "more fields"]),
        ("id,x,y\na,1\nb,1,2\n", ["table.csv", "fewer fields"]),
        ("id,x,x\na,1,2\n", ["table.csv", "more than one column 'x'"]),
        (b"id,x\na,caf\xe9\n", ["table.csv", "CSV"]),
        (bytes(range(256)) * 20, ["table.csv", "CSV"]),
        ("<!DOCTYPE html>\n<html></html>\n", ["table.csv", "'id'"]),
    ],
)
def test_a_csv_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str | bytes, words: list[str]) -> None:
    with pytest.raises(InputError) as refusal:
        read_table(csv(tmp_path, text), id="id")
    assert_one_sentence(refusal.value)
    assert all(word in str(refusal.value) for word in words), str(refusal.value)


@pytest.mark.parametrize("name", ["t.parquet", "t.npz"])
def test_a_binary_file_that_is_no_table_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"not a table at all" * 10)
    with pytest.raises(InputError, match=name) as refusal:
        read_table(tmp_path / name, id="id")
    assert_one_sentence(refusal.value)


def test_a_path_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, words in [
        ("folder.csv", "is a directory"),
        ("none.csv", "there is no file"),
        ("table.xlsx", r"\.csv, \.parquet or \.npz"),
    ]:
        with pytest.raises(InputError, match=words):
            read_table(tmp_path / name, id="id")


def test_an_npz_file_holds_images_and_columns(tmp_path: Path) -> None:
    image = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    np.savez(tmp_path / "t.npz", id=["a", "b"], image=image, label=[0, 1])
    table = read_table(tmp_path / "t.npz", id="id")
    assert table.image is not None
    assert table.image.shape == (2, 3, 4, 1)
    np.testing.assert_array_equal(table.image[..., 0], image)
    assert list(table.columns) == ["label"]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"id": [1, 2], "x": np.zeros((2, 2))}, ["'x'", "(2, 2)"]),
        ({"id": [1, 2], "x": [1, 2, 3]}, ["'x'", "2 ids", "3 rows"]),
        ({"id": [1, 2], "image": np.zeros((2, 3, 3))}, ["image", "float64", "uint8"]),
        ({"id": [1, 2], "image": np.zeros((2, 9), np.uint8)}, ["image", "(2, 9)"]),
        ({"id": [1, 2], "image": np.zeros((3, 2, 2), np.uint8)}, ["image", "3 rows"]),
        ({"id": np.zeros((2, 2))}, ["'id'", "(2, 2)"]),
        ({"id": [1, 1]}, ["1 row", "'1'"]),
        ({"id": [1.0, np.nan]}, ["1 row", "row 2"]),
        ({"id": ["a", ""]}, ["row 2"]),
        ({"key": [1, 2]}, ["'id'", "key"]),
        ({"id": [1], "x": np.zeros(1, complex)}, ["'x'", "complex"]),
        ({"id": np.zeros(0)}, ["no rows"]),
    ],
)
def test_arrays_that_are_no_table_are_refused(tmp_path: Path, arrays: dict[str, Any], words: list[str]) -> None:
    np.savez(tmp_path / "t.npz", **arrays)
    for make in (lambda: read_table(tmp_path / "t.npz", id="id"), lambda: table_from(arrays, id="id")):
        with pytest.raises(InputError) as refusal:
            make()
        assert_one_sentence(refusal.value)
        assert all(word in str(refusal.value) for word in words), str(refusal.value)


def test_a_pickled_array_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", id=np.array([1, "a"], dtype=object))
    with pytest.raises(InputError, match="NPZ"):
        read_table(tmp_path / "t.npz", id="id")


def mixed(make: Callable[[dict[str, list[Any]]], Any]) -> Table:
    values: dict[str, list[Any]] = {
        "id": [1, 2, 3],
        "flag": [True, False, True],
        "maybe": [True, None, False],
        "gap": [1, None, 3],
        "name": ["x", None, "y"],
        "day": [datetime(2020, 1, 1), None, datetime(2020, 1, 2, 6)],
        "zoned": [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC), None],
    }
    return table_from(make(values), id="id")


@pytest.mark.parametrize("make", [dict, pl.DataFrame, pd.DataFrame, lambda v: pd.DataFrame(v, dtype=object)])
def test_columns_in_memory_have_the_same_types_from_every_source(make: Any) -> None:
    columns = mixed(make).columns
    assert columns["flag"].dtype == bool  # type: ignore[union-attr]
    np.testing.assert_array_equal(columns["maybe"], [1, np.nan, 0])  # type: ignore[arg-type]
    np.testing.assert_array_equal(columns["gap"], [1, np.nan, 3])  # type: ignore[arg-type]
    assert strings(columns["name"]) == ["x", None, "y"]
    for name, texts in [
        ("day", ["2020-01-01", "NaT", "2020-01-02T06"]),
        ("zoned", ["2020-01-01", "2020-01-02", "NaT"]),
    ]:
        assert columns[name].dtype == np.dtype("datetime64[us]")  # type: ignore[union-attr]
        np.testing.assert_array_equal(columns[name], np.array(texts, dtype="datetime64[us]"))  # type: ignore[arg-type]


def test_pandas_extension_columns_are_understood() -> None:
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, 2], dtype="Int64"),
            "gap": pd.array([1, None], dtype="Int64"),
            "flag": pd.array([True, None], dtype="boolean"),
            "level": pd.Categorical([3, None]),
            7: [0.5, 1.5],
        },
        index=pd.Index(["a", "b"], name="who"),
    )
    columns = table_from(frame, id="who").columns
    assert columns["whole"].dtype == np.int64  # type: ignore[union-attr]
    np.testing.assert_array_equal(columns["gap"], [1, np.nan])  # type: ignore[arg-type]
    np.testing.assert_array_equal(columns["flag"], [1, np.nan])  # type: ignore[arg-type]
    assert strings(columns["level"]) == ["3", None]
    assert columns["7"].tolist() == [0.5, 1.5]  # type: ignore[union-attr]


@pytest.mark.parametrize("make", [dict, pl.DataFrame, pd.DataFrame])
def test_a_nested_column_is_refused_by_name(make: Any) -> None:
    with pytest.raises(InputError, match="'deep'"):
        table_from(make({"id": [1, 2], "deep": [[1], [2, 3]]}), id="id")


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame])
def test_frames_with_bad_ids_are_refused(make: Any) -> None:
    for ids, words in [([1, 2, 2], "1 row.*'2'"), ([1, None, 2], "row 2"), ([], "no rows")]:
        with pytest.raises(InputError, match=words):
            table_from(make({"id": ids, "x": [0.0] * len(ids)}), id="id")
    with pytest.raises(InputError, match="did you mean 'customer'"):
        table_from(make({"customer": [1]}), id="custmer")


def test_a_polars_frame_is_left_as_it_was() -> None:
    frame = pl.DataFrame({"id": [1, 2], "x": [0.5, 1.5]})
    table_from(frame, id="id")
    assert frame.columns == ["id", "x"]


def test_a_masked_value_is_missing() -> None:
    masked = np.ma.MaskedArray([1.0, 9.0], mask=[False, True])
    column = table_from_arrays([1, 2], {"x": masked}).columns["x"]
    np.testing.assert_array_equal(column, [1, np.nan])  # type: ignore[arg-type]


def test_integers_beyond_64_bits_become_floats() -> None:
    for values in ([2**63, 1], np.array([2**63, 1], dtype=np.uint64)):
        assert table_from_arrays([1, 2], {"x": values}).columns["x"].tolist() == [2.0**63, 1.0]  # type: ignore[union-attr]
    frame = pl.DataFrame({"id": [1, 2], "x": pl.Series([2**63, 1], dtype=pl.UInt64)})
    assert table_from(frame, id="id").columns["x"].tolist() == [2.0**63, 1.0]  # type: ignore[union-attr]


def test_a_matrix_becomes_numbered_columns() -> None:
    table = table_from_arrays(np.array([5, 6]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert table.ids.tolist() == ["5", "6"]
    assert {name: column.tolist() for name, column in table.columns.items()} == {  # type: ignore[union-attr]
        "column_0": [1, 3],
        "column_1": [2, 4],
    }


def test_what_is_no_table_is_refused() -> None:
    for source in (np.zeros((2, 2)), [1, 2], pl.LazyFrame({"id": [1]}), pd.Series([1])):
        with pytest.raises(InputError):
            table_from(source, id="id")


def test_arrays_need_neither_polars_nor_pandas(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", id=[1, 2], x=["a", "b"])
    program = (
        "import sys; sys.modules['polars'] = sys.modules['pandas'] = None; from pathlib import Path;"
        "from vesica.data.reading import read_table; print(len(read_table(Path(sys.argv[1]), id='id')))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "t.npz")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "2\n"


MARKS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "?", " NA ", '"  "']


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("rules", [Rules(), Rules(trim=True, pad=4)])
@pytest.mark.parametrize("rows", [3, 1500])
def test_a_csv_row_with_a_mark_for_a_missing_id_is_refused(mark: str, rules: Rules, rows: int, tmp_path: Path) -> None:
    """Whether the types of the columns were guessed from all rows or from the first."""
    lines = [f"a{row},{row}" for row in range(rows)]
    text = "\n".join(["id,x", *lines, f"{mark},7\n"])
    telling = rf"has no id in column 'id' on 1 row\(s\), the first of them row {rows + 1}; give these rows an id"
    with pytest.raises(InputError, match=telling):
        read_table(csv(tmp_path, text), id=Key(("id",), rules))


@pytest.mark.parametrize("text", ["id\na\nNA\nb\n", "id,x\na,1\nNA,NA\nb,2\n"])
def test_a_line_of_marks_alone_is_a_row_and_no_blank_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"on 1 row\(s\), the first of them row 2"):
        read_table(csv(tmp_path, text), id="id")


def test_blank_lines_of_a_file_of_ids_alone_are_no_rows(tmp_path: Path) -> None:
    assert read_table(csv(tmp_path, "id\na\n\nb\n\n"), id="id").ids.tolist() == ["a", "b"]


def test_in_other_files_a_mark_is_a_text_like_any_other(tmp_path: Path) -> None:
    pl.DataFrame({"id": ["NA", "null"], "x": [1, 2]}).write_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", id="id").ids.tolist() == ["NA", "null"]


def test_a_key_of_several_columns_lacks_none_and_repeats_as_a_whole(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,b,x\n1,2,5\n1,3,6\n12,,7\n")
    with pytest.raises(InputError, match=r"has no id in column 'a, b' on 1 row\(s\), the first of them row 3"):
        read_table(path, id=Key(("a", "b")))
    path = csv(tmp_path, "a,b,x\n1,2,5\n1,3,6\n1,2,7\n")
    with pytest.raises(InputError, match=r"""repeats ids in column 'a, b' .* for example '\["1", "2"\]'"""):
        read_table(path, id=Key(("a", "b")))
    with pytest.raises(InputError, match="has no column 'c' to take the ids from"):
        read_table(path, id=Key(("a", "c")))
    np.savez(tmp_path / "t.npz", a=np.arange(2), b=np.arange(3), x=np.arange(2))
    with pytest.raises(InputError, match="has 2 ids but 3 rows in 'b'"):
        read_table(tmp_path / "t.npz", id=Key(("a", "b")))


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, lambda content: b"\x28\xb5\x2f\xfd" + content])
def test_a_packed_csv_is_refused_and_not_unpacked(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(pack(b"id,x\n1,2\n"))
    for read in (lambda: read_table(path, id="id"), lambda: read_keys(path, ["id"])):
        with pytest.raises(InputError, match=r"t\.csv is packed, not a CSV table: unpack it first"):
            read()


def test_a_parquet_reader_that_panics_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*arguments: object, **more: object) -> None:
        raise pl.exceptions.PanicException("called `Option::unwrap()` on a `None` value")

    path = tmp_path / "t.parquet"
    pl.DataFrame({"id": [1]}).write_parquet(path)
    monkeypatch.setattr(pl, "read_parquet", panic)
    for read in (lambda: read_table(path, id="id"), lambda: read_keys(path, ["id"])):
        with pytest.raises(InputError, match=r"t\.parquet cannot be read as a Parquet table \(called"):
            read()
