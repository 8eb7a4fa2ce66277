"""A row is released once: whatever is asked for again is the same draw."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from vesica.errors import RunFolderError
from vesica.privacy import Release
from vesica.protocol.released_rows import ReleasedRows
from vesica.protocol.resumable import save_atomically

IDS = [f"person {number}" for number in range(6)]
TABLE = torch.arange(12.0).reshape(6, 2)


def released(folder: Path | None = None) -> ReleasedRows:
    return ReleasedRows(Release(sigma=1.0, clip=1.0), IDS, folder=folder)


def ask(draws: ReleasedRows, *rows: int) -> Tensor:
    return draws(torch.tensor(rows, dtype=torch.int64), lambda some: TABLE[some])


def test_a_row_named_5000_times_shows_one_draw() -> None:
    """Else the average of the draws would show the row almost without its noise."""
    values = ask(released(), *[3] * 5000)
    assert torch.equal(values, values[:1].expand(5000, 2))


def test_rows_have_draws_of_their_own_in_the_order_asked_for() -> None:
    draws = released()
    first = ask(draws, 4, 1, 2)
    assert len(first.unique(dim=0)) == 3
    assert torch.equal(ask(draws, 2, 4), first[[2, 0]])


def test_a_draw_outlives_the_process_in_a_folder_that_only_the_owner_can_read(tmp_path: Path) -> None:
    folder = tmp_path / "released"
    first = ask(released(folder), 0, 1)
    both = ask(released(folder), 1, 5, 0)
    assert torch.equal(both[[2, 0]], first)
    assert torch.equal(ask(released(folder), 5), both[1:2])
    assert folder.stat().st_mode & 0o077 == 0


def test_a_damaged_draw_is_refused_and_not_drawn_again(tmp_path: Path) -> None:
    ask(released(tmp_path), 0, 1)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(
        RunFolderError, match=r"is torn .*: restore it from a backup; .* is a second release of these ro"
    ):
        released(tmp_path)


def test_a_removed_draw_is_refused_and_no_other_is_replaced(tmp_path: Path) -> None:
    ask(released(tmp_path), 0)
    ask(released(tmp_path), 1)
    kept = (tmp_path / "000002.safetensors").read_bytes()
    (tmp_path / "000001.safetensors").unlink()
    with pytest.raises(RunFolderError, match=r"000001.safetensors is missing: restore .* second release of these rows"):
        ask(released(tmp_path), 2)
    assert (tmp_path / "000002.safetensors").read_bytes() == kept
    (tmp_path / "000002.safetensors").unlink()
    (tmp_path / "000001 (copy).safetensors").write_bytes(kept)
    with pytest.raises(RunFolderError, match=r"a file 000001 \(copy\).safetensors, which is no file of draws: move it"):
        released(tmp_path)


def test_a_draw_that_another_process_has_kept_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    late = released(tmp_path)
    first = ask(released(tmp_path), 0)
    with pytest.raises(RunFolderError, match=r"000001.safetensors was written by another process .* is not replaced"):
        ask(late, 0)
    assert torch.equal(ask(released(tmp_path), 0), first)


def packed(text: str) -> Tensor:
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


WRONG: dict[str, object] = {
    "no dictionary": [1, 2],
    "no ids": {"values": torch.zeros(1, 2)},
    "ids that are no JSON": {"ids": torch.zeros(3, dtype=torch.uint8), "values": torch.zeros(1, 2)},
    "ids that are no text": {"ids": packed("[[1]]"), "values": torch.zeros(1, 2)},
    "ids that are one text": {"ids": packed('"ab"'), "values": torch.zeros(2, 2)},
    "more ids than values": {"ids": packed('["a", "b"]'), "values": torch.zeros(1, 2)},
    "values of one dimension": {"ids": packed('["a"]'), "values": torch.zeros(1)},
    "values of another length": {"ids": packed('["a"]'), "values": torch.zeros(1, 3)},
    "an id twice": {"ids": packed('["a", "a"]'), "values": torch.zeros(2, 2)},
    "a row that was drawn before": {"ids": packed('["person 0"]'), "values": torch.zeros(1, 2)},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_whole_file_that_holds_no_draws_is_refused_in_one_sentence(tmp_path: Path, what: str) -> None:
    ask(released(tmp_path), 0)
    save_atomically(tmp_path / "000002.safetensors", WRONG[what])
    with pytest.raises(
        RunFolderError, match=r"^\S*000002.safetensors is torn \(.*\): restore .* adds to that of the f"
    ):
        released(tmp_path)


def test_draws_and_the_name_of_their_folder_are_on_the_disk_before_they_are_returned(
    tmp_path: Path, disk: list[tuple[str, str]]
) -> None:
    ask(released(tmp_path / "shop" / "released"), 0)
    assert disk == [
        ("synced", "shop"),
        ("synced", tmp_path.name),
        ("synced", "a new file"),
        ("replaced", "000001.safetensors"),
        ("synced", "released"),
    ]


def test_only_rows_without_a_draw_are_looked_at_again() -> None:
    draws, seen = released(), []

    def represent(rows: Tensor) -> Tensor:
        seen.append(rows.tolist())
        return TABLE[rows]

    for rows in ([0, 2, 2], [2, 0], [0, 1]):
        draws(torch.tensor(rows), represent)
    assert seen == [[0, 2], [1]]


def test_no_rows_are_no_release() -> None:
    assert ask(released()).shape == (0, 2)
