"""Aligning tables that are in one place."""

import pytest

from vesica.alignment.programs import Alignment
from vesica.data.ids import Rules
from vesica.errors import InputError
from vesica.experiment import alignment as alignment_module
from vesica.experiment.alignment import align


def test_tables_of_two_keys_are_aligned_and_what_was_left_out_is_counted() -> None:
    tables = {
        "bank": [["Ann", "Bob", "Bob", None], [1980, 1990, 1990, 2000]],
        "shop": [["cid", "bob ", "ANN"], [1970, 1990, 1980]],
    }
    found = align(tables, Alignment(Rules(trim=True, case="lower")), duplicates="first")
    pairs = list(zip(found.results["bank"].rows.tolist(), found.results["shop"].rows.tolist(), strict=True))
    assert sorted(pairs) == [(0, 2), (1, 1)]
    assert (found.size, found.ids["bank"].missing, found.ids["bank"].repeated) == (2, 1, 1)
    assert found.ledger.rounds == 4


def test_processes_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment_module, "WORTH_PROCESSES", 0)
    tables = {"bank": [list(range(3000))], "shop": [list(range(2990, 5100))]}
    found = align(tables, Alignment(), workers=2)
    assert sorted(tables["shop"][0][row] for row in found.results["shop"].rows) == list(range(2990, 3000))


def test_a_repeated_id_names_its_party() -> None:
    with pytest.raises(InputError, match=r"^'shop' has 1 row\(s\) whose id an earlier row has"):
        align({"bank": [["a"]], "shop": [["b", "b"]]}, Alignment())


def test_one_table_alone_and_no_processes_are_refused() -> None:
    with pytest.raises(InputError, match="two tables or more"):
        align({"bank": [["a"]]}, Alignment())
    with pytest.raises(InputError, match="0 processes"):
        align({"bank": [["a"]], "shop": [["a"]]}, Alignment(), workers=0)
