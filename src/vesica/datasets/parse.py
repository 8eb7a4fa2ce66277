"""Numbers, strings and arrays out of the file formats that public data sets come in."""

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from vesica.data.npz_files import FAULTS, arrays_in
from vesica.data.table import Array
from vesica.datasets.columns import columns_of
from vesica.datasets.files import File
from vesica.errors import InputError


def numbers(
    file: File, width: int, *, delimiter: str | None = None, skip: int = 0, dtype: DTypeLike = np.float64
) -> Array:
    """The numbers of a text file, of shape (rows, width)."""
    lines = file.lines[skip:]
    if not lines:
        raise file.wrong("has no rows")
    try:
        matrix = np.loadtxt(lines, delimiter=delimiter, dtype=dtype, ndmin=2, comments=None)
    except ValueError as error:
        raise file.wrong(f"cannot be read as numbers ({_reason(error)})") from error
    if matrix.shape[1] != width:
        raise file.wrong(f"has {matrix.shape[1]} columns where {width} are expected")
    file.expect_rows(len(matrix))
    return matrix


def header(file: File) -> tuple[str, ...]:
    """The names in the first line of a CSV."""
    return tuple(name.strip().strip('"') for name in file.content.split(b"\n", 1)[0].decode("latin-1").split(","))


def named_numbers(file: File, names: Sequence[str]) -> dict[str, Array]:
    """The columns of a CSV of numbers that must have exactly these names."""
    found = header(file)
    if len(found) != len(names):
        raise file.wrong(f"has {len(found)} columns where {len(names)} are expected")
    for got, expected in zip(found, names, strict=True):
        if got != expected:
            raise file.wrong(f"has a column {got!r} where {expected!r} is expected")
    return columns_of(numbers(file, len(names), delimiter=",", skip=1), names)


def strings(file: File, width: int, *, delimiter: str, skip: int = 0) -> list[tuple[str, ...]]:
    """The columns of a text file without quoting, each as its strings."""
    rows = [line.split(delimiter) for line in file.lines[skip:]]
    if not rows:
        raise file.wrong("has no rows")
    for number, row in enumerate(rows, skip + 1):
        if len(row) != width:
            raise file.wrong(f"has {len(row)} fields in line {number} where {width} are expected")
    file.expect_rows(len(rows))
    return list(zip(*rows, strict=True))


def libsvm(file: File, width: int) -> tuple[Array, Array]:
    """The features (rows, width) and the labels of a file in LIBSVM's format."""
    from sklearn.datasets import load_svmlight_file

    try:
        features, label = load_svmlight_file(
            io.BytesIO(file.content), n_features=width, dtype=np.float32, zero_based=False
        )
    except ValueError as error:
        raise file.wrong(f"cannot be read as LIBSVM rows of {width} features ({_reason(error)})") from error
    if not len(label):
        raise file.wrong("has no rows")
    file.expect_rows(len(label))
    return features.toarray(), label


def arrays(file: File, *names: str) -> list[Array]:
    """The named arrays of an NPZ file."""
    try:
        return list(arrays_in(io.BytesIO(file.content), names, where="it").values())
    except (*FAULTS, InputError) as error:
        raise file.wrong(f"cannot be read as NPZ ({_reason(error)})") from error


def classes(file: File, label: Array, known: Sequence[float]) -> Array:
    """The position of each label among the known ones, which are sorted."""
    foreign = label[~np.isin(label, known)]
    if len(foreign):
        raise file.wrong(f"has a label {foreign[0]:g} where only {', '.join(f'{k:g}' for k in known)} are known")
    return np.searchsorted(np.asarray(known), label)


def _reason(error: Exception) -> str:
    """The first clause of a library's message: what follows is advice on that library."""
    return str(error).strip("'\"").split("\n")[0].split(";")[0].rstrip(".")
