"""Where a command may write to."""

from pathlib import Path

import pytest

from vesica.cli.places import refuse_below_a_file
from vesica.errors import InputError


def test_nothing_can_be_made_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(InputError, match=r"taken is a file, and .*report.html would be below it: give another place"):
        refuse_below_a_file(tmp_path / "taken" / "new" / "report.html")


@pytest.mark.parametrize("place", ["/", "taken", "new/report.html"])
def test_the_root_a_file_to_write_over_and_a_new_folder_will_do(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").touch()
    refuse_below_a_file(Path(place))
    assert sorted(tmp_path.iterdir()) == [tmp_path / "taken"]
