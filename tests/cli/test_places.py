"""Where a command may write to."""

import os
from pathlib import Path

import pytest

from vesica.cli.places import refuse_below_a_file, refuse_unwritable
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


def test_a_link_to_a_folder_that_is_not_there_is_refused_before_the_run(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("gone/result.json")
    with pytest.raises(InputError, match=r"link cannot be used \(No such file or directory\): give another place"):
        refuse_unwritable(link)
    (tmp_path / "gone").mkdir()
    refuse_unwritable(link, report=link)
    assert not list((tmp_path / "gone").iterdir())


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="this system has no folder that not even root writes to")
@pytest.mark.parametrize("existing", [True, False])
def test_a_folder_that_takes_no_new_file_is_refused_before_the_run(existing: bool) -> None:
    """Also where the file itself could be written to: another one takes its place."""
    path = Path("/proc/self") / ("comm" if existing else "result.json")
    for places in ({"file": path}, {"file": None, "report": path}):
        with pytest.raises(InputError, match=rf"{path} cannot be used \(.*\): give another place"):
            refuse_unwritable(**places)


def test_a_device_and_a_pipe_are_written_to_directly(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        refuse_unwritable(path, report=path)
    refuse_unwritable(None, report=tmp_path / "new" / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
