"""Tables of ids, as files."""

from pathlib import Path

import numpy as np
import pytest

from vesica.alignment.key_files import write_rows
from vesica.errors import InputError


def test_ids_that_cannot_be_written_are_refused_in_a_sentence(tmp_path: Path) -> None:
    ids = {"id": np.array(["ann", "bob"], dtype=object)}
    write_rows(tmp_path / "common.csv", ids, rows=np.array([1]))
    assert (tmp_path / "common.csv").read_text() == "id\nbob\n"
    with pytest.raises(InputError, match=r"common\.csv cannot be written \(No such file or directory\)"):
        write_rows(tmp_path / "none" / "common.csv", ids, rows=np.array([1]))
