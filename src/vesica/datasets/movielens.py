"""MovieLens-1M: ratings of films, with what is known of the people and the films (GroupLens)."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from vesica.data.table import Array, Table, Text
from vesica.datasets.columns import categories, row_ids
from vesica.datasets.dataset import DataSet
from vesica.datasets.files import File, Files
from vesica.datasets.parse import numbers, strings
from vesica.datasets.source import Source


def load(data_dir: Path | None) -> DataSet:
    """The rating (1 to 5) from two views: who rated what, and what is known of both."""
    files = Files("movielens-1m", SOURCE, data_dir)
    file = files.read("ratings.dat")
    tabbed = replace(file, content=file.content.replace(b"::", b"\t"))
    user, movie, rating, seconds = numbers(tabbed, 4, dtype=np.int64).T
    people, films = files.read("users.dat"), files.read("movies.dat")
    users, movies = _people(people), _films(films)
    by_user, by_movie = _rows(people, users["user_id"], user), _rows(films, movies["movie_id"], movie)
    years = seconds.astype("datetime64[s]").astype("datetime64[Y]").astype(np.int64) + 1970
    ids = row_ids(len(user))
    side = {name: users[name][by_user] for name in ("gender", "age", "occupation")}
    side |= {"rating_year": categories(years)}
    side |= {name: movies[name][by_movie] for name in ("movie_year", "genre")}
    views = {
        "ids": Table(ids, {"user_id": users["user_id"][by_user], "movie_id": movies["movie_id"][by_movie]}),
        "side": Table(ids, side),
    }
    return DataSet("movielens-1m", "regression", "rmse", views, rating.astype(np.float64), None, files.sha256)


def _people(file: File) -> dict[str, Text]:
    columns = strings(file, 5, delimiter="::")
    return {
        name: Text.of(column) for name, column in zip(("user_id", "gender", "age", "occupation"), columns, strict=False)
    }


def _films(file: File) -> dict[str, Text]:
    movie, title, genres = strings(file, 3, delimiter="::")
    years = (re.search(r"\((\d{4})\)\s*$", text) for text in title)
    return {
        "movie_id": Text.of(movie),
        "movie_year": Text.of([year and year[1] for year in years]),
        "genre": Text.of([names.split("|")[0] for names in genres]),
    }


def _rows(file: File, ids: Text, wanted: Array) -> Array:
    """The row of each wanted id in a file with one row an id, where an id's code is its row."""
    try:
        known = np.array(ids.values, dtype=np.int64)
    except ValueError as error:
        raise file.wrong("has an id that is not a number") from error
    order = np.argsort(known)
    rows = order[np.searchsorted(known, wanted, sorter=order).clip(max=len(known) - 1)]
    unknown = wanted[known[rows] != wanted]
    if len(unknown) or len(known) != len(ids):
        problem = f"lacks the id {unknown[0]} of ratings.dat" if len(unknown) else "has an id twice"
        raise file.wrong(problem)
    return np.asarray(rows)


SOURCE = Source(
    load,
    folder="movielens_1m",
    about="MovieLens-1M: 1,000,209 ratings, ids | side information, regression of the rating",
    files=("ratings.dat", "users.dat", "movies.dat"),
    where="grouplens.org/datasets/movielens/1m",
)
