"""Tables of ids, as files."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from vesica.alignment.key_files import read_keys, write_rows
from vesica.data.reading import read_table
from vesica.errors import InputError


def test_ids_that_cannot_be_written_are_refused_in_a_sentence(tmp_path: Path) -> None:
    ids = {"id": np.array(["ann", "bob"], dtype=object)}
    write_rows(tmp_path / "common.csv", ids, rows=np.array([1]))
    assert (tmp_path / "common.csv").read_text() == "id\nbob\n"
    with pytest.raises(InputError, match=r"common\.csv cannot be written \(No such file or directory\)"):
        write_rows(tmp_path / "none" / "common.csv", ids, rows=np.array([1]))


def test_ids_in_a_packed_file_are_refused_and_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(gzip.compress(b"id\n1\n"))
    with pytest.raises(InputError, match=r"t\.csv is packed, not a CSV table: unpack it first"):
        read_keys(tmp_path / "t.csv", ["id"])


@pytest.mark.parametrize("name", [b"caf\xe9.csv", b"caf\xe9.npz", b"caf\xe9.parquet"])
def test_a_file_whose_name_is_not_utf8_is_refused_in_a_sentence(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(b"id\n1\n")
    for read in (lambda: read_keys(path, ["id"]), lambda: read_table(path, id="id")):
        with pytest.raises(InputError, match="is not UTF-8, as the reader of tables needs it; rename it"):
            read()
