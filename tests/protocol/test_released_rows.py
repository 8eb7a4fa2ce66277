"""A row is released once: whatever is asked for again is the same draw."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from vesica.errors import RunFolderError
from vesica.privacy import Release
from vesica.protocol.released_rows import ReleasedRows

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
    with pytest.raises(RunFolderError, match="torn"):
        released(tmp_path)


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
