"""Finding, decompressing, checking and hashing files."""

import bz2
import gzip
import hashlib
import lzma
from pathlib import Path

import numpy as np
import pytest

from vesica.datasets import files as files_module
from vesica.datasets import known
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import Files
from vesica.datasets.parse import arrays, classes, libsvm, named_numbers, numbers, strings
from vesica.datasets.source import Source
from vesica.errors import InputError

COMPRESS = {"": bytes, ".xz": lzma.compress, ".gz": gzip.compress, ".bz2": bz2.compress}


def _load(data_dir: Path | None) -> DataSet:
    raise NotImplementedError


SOURCE = Source(_load, folder="toys", about="Toys", files=("toys.csv",), where="the toy shop")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "toys").mkdir()
    return Files("toy-set", SOURCE, tmp_path)


@pytest.fixture
def written(files):
    def write(content: bytes):
        (files.folder / "toys.csv").write_bytes(content)
        return files.read("toys.csv")

    return write


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_file_is_read_plain_or_compressed_and_hashed_decompressed(files, suffix):
    (files.folder / f"toys.csv{suffix}").write_bytes(COMPRESS[suffix](b"1,2\n"))
    file = files.read("toys.csv")
    assert (file.name, file.key, file.content) == ("toys.csv", "toys/toys.csv", b"1,2\n")
    assert files.sha256 == hashlib.sha256(b"1,2\n").hexdigest()


def test_the_hash_is_over_the_files_in_the_order_they_are_read(files):
    for name in ("a", "b"):
        (files.folder / name).write_bytes(name.encode())
    files.read("b")
    files.read("a")
    assert files.sha256 == hashlib.sha256(b"ba").hexdigest()


def test_a_file_may_lie_flat_instead_of_in_its_official_place(files):
    (files.folder / "toys.csv").write_bytes(b"1")
    assert files.read("deep/down/toys.csv").path == files.folder / "toys.csv"


@pytest.mark.parametrize("suffix", [".xz", ".gz", ".bz2"])
def test_a_truncated_archive_is_one_sentence(files, suffix):
    whole = COMPRESS[suffix](bytes(range(256)) * 40)
    (files.folder / f"toys.csv{suffix}").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=rf"^toy-set: .*toys\.csv{suffix} cannot be read .*; replace it") as caught:
        files.read("toys.csv")
    assert "\n" not in str(caught.value)


def test_a_file_with_another_md5_than_the_known_one_is_refused(files, monkeypatch):
    monkeypatch.setattr(known, "MD5", {"toys/toys.csv": hashlib.md5(b"whole").hexdigest()})
    (files.folder / "toys.csv").write_bytes(b"whole")
    assert files.read("toys.csv").content == b"whole"
    (files.folder / "toys.csv").write_bytes(b"whol")
    with pytest.raises(InputError, match=r"toys\.csv is not complete, or not the official file"):
        files.read("toys.csv")


def test_a_file_with_another_number_of_rows_than_the_known_one_is_refused(written, monkeypatch):
    monkeypatch.setattr(known, "ROWS", {"toys/toys.csv": 3})
    assert numbers(written(b"1\n2\n3\n"), 1).shape == (3, 1)
    with pytest.raises(InputError, match="has 2 rows where the official file has 3"):
        numbers(written(b"1\n2\n"), 1)


def test_a_file_too_large_for_memory_is_refused(files, monkeypatch):
    monkeypatch.setattr(files_module, "LARGEST", 3)
    (files.folder / "toys.csv").write_bytes(b"1234")
    with pytest.raises(InputError, match=r"toys\.csv is larger than .* put a sample"):
        files.read("toys.csv")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "has no rows"),
        (b"\n \n", "has no rows"),
        (
            b"1,2\n3,x\n",
            "cannot be read as numbers (could not convert string 'x' to float64 at row 1, column 2)",
        ),
        (b"1,2\n3\n", "cannot be read as numbers (the number of columns changed from 2 to 1 at row 2)"),
        (b"1,2,3\n", "has 3 columns where 2 are expected"),
        (b"\xff\x00\x80", "cannot be read as numbers"),
    ],
)
def test_a_text_that_is_not_a_matrix_is_one_sentence(written, content, problem):
    with pytest.raises(InputError) as caught:
        numbers(written(content), 2, delimiter=",")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a,b,c\n1,2,3\n", "has 3 columns where 2 are expected"),
        (b"a,c\n1,2\n", "has a column 'c' where 'b' is expected"),
        (b"a,b\n", "has no rows"),
    ],
)
def test_a_csv_with_other_columns_is_refused(written, content, problem):
    with pytest.raises(InputError, match=problem):
        named_numbers(written(content), ("a", "b"))


def test_windows_line_ends_and_quoted_names_are_understood(written):
    columns = named_numbers(written(b'"a","b"\r\n1,2\r\n3,4\r\n'), ("a", "b"))
    assert {name: column.tolist() for name, column in columns.items()} == {"a": [1, 3], "b": [2, 4]}


def test_a_ragged_line_is_named(written):
    assert strings(written(b"x,y\na,b\n"), 2, delimiter=",", skip=1) == [("a",), ("b",)]
    with pytest.raises(InputError, match="has 1 fields in line 3 where 2 are expected"):
        strings(written(b"x,y\na,b\na\n"), 2, delimiter=",", skip=1)


def test_libsvm_rows_are_dense_and_wrong_ones_refused(written):
    features, label = libsvm(written(b"1 1:0.5 3:2\n-1 2:1\n"), 3)
    assert features.tolist() == [[0.5, 0, 2], [0, 1, 0]]
    assert label.tolist() == [1, -1]
    for content in (b"1 4:1\n", b"1 0:1\n", b"hello 1:1\n", b""):
        with pytest.raises(InputError, match=r"^toy-set: .*toys\.csv (cannot be read as LIBSVM|has no rows)"):
            libsvm(written(content), 3)


def test_an_npz_that_is_none_or_lacks_an_array_or_holds_objects_is_refused(files, written):
    path = files.folder / "toys.npz"
    np.savez(path, x=np.arange(2), o=np.array([{}], dtype=object))
    assert arrays(files.read("toys.npz"), "x")[0].tolist() == [0, 1]
    for name in ("y", "o"):
        with pytest.raises(InputError, match=r"toys\.npz cannot be read as NPZ"):
            arrays(files.read("toys.npz"), name)
    with pytest.raises(InputError, match="cannot be read as NPZ"):
        arrays(written(path.read_bytes()[:-40]), "x")
    with pytest.raises(InputError, match="cannot be read as NPZ"):
        arrays(written(b""), "x")


def test_labels_become_positions_and_foreign_ones_are_refused(written):
    file = written(b"1")
    assert classes(file, np.array([1, -1, 1]), (-1, 1)).tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="has a label 7 where only -1, 1 are known"):
        classes(file, np.array([1, 7]), (-1, 1))
