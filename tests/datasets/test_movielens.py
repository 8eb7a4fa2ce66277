"""MovieLens-1M in its official files, written small."""

import pytest

from vesica.datasets import known, load_dataset
from vesica.errors import InputError

RATINGS = "7::10::5::978300760\n3::20::2::1046454590\n7::20::4::978300760\n"
USERS = "3::F::1::10::48067\n7::M::56::16::70072\n"
MOVIES = "20::Am\xe9lie (2001)::Comedy|Romance\n30::Alien (1979)::Horror\n10::Seven (Se7en) (1995)::Thriller\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(known, "ROWS", {})
    folder = tmp_path / "movielens_1m"
    folder.mkdir()
    for name, text in (("ratings", RATINGS), ("users", USERS), ("movies", MOVIES)):
        (folder / f"{name}.dat").write_bytes(text.encode("latin-1"))
    return folder


def strings(column):
    return [column.values[code] for code in column.codes]


def test_ids_and_side_information_are_two_views_of_categories(folder):
    data = load_dataset("movielens-1m", folder.parent)
    columns = {f"{view}.{name}": strings(c) for view, t in data.views.items() for name, c in t.columns.items()}
    assert columns == {
        "ids.user_id": ["7", "3", "7"],
        "ids.movie_id": ["10", "20", "20"],
        "side.gender": ["M", "F", "M"],
        "side.age": ["56", "1", "56"],
        "side.occupation": ["16", "10", "16"],
        "side.rating_year": ["2000", "2003", "2000"],
        "side.movie_year": ["1995", "2001", "2001"],
        "side.genre": ["Thriller", "Comedy", "Comedy"],
    }
    assert data.label.tolist() == [5, 2, 4]
    assert (data.task, data.metric, data.test) == ("regression", "rmse", None)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("ratings.dat", RATINGS[:-11], "the number of columns changed from 4 to 3"),
        ("ratings.dat", "7::10::5\n", "has 3 columns where 4 are expected"),
        ("users.dat", USERS[:10], "has 4 fields in line 1 where 5 are expected"),
        ("users.dat", "3::F::1::10::48067\n", "lacks the id 7 of ratings.dat"),
        ("users.dat", USERS + USERS, "has an id twice"),
        ("movies.dat", MOVIES.replace("10", "ten"), "has an id that is not a number"),
    ],
)
def test_a_truncated_or_wrong_file_is_one_sentence(folder, name, text, problem):
    (folder / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as caught:
        load_dataset("movielens-1m", folder.parent)
    assert str(caught.value).startswith(f"movielens-1m: {folder / name}")
    assert problem in str(caught.value)


def test_small_files_are_not_taken_for_the_official_ones(folder, monkeypatch):
    monkeypatch.undo()
    with pytest.raises(InputError, match="has 3 rows where the official file has 1000209"):
        load_dataset("movielens-1m", folder.parent)
