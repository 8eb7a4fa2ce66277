"""CSV files as polars frames whose column types hold for the whole file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vesica.data.ids import Key
from vesica.data.text_files import is_utf8
from vesica.errors import InputError

if TYPE_CHECKING:
    import polars

MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"]
PACKED = (b"\x1f\x8b", b"x\x01", b"x\x9c", b"x\xda", b"\x28\xb5\x2f\xfd")  # gzip, zlib and zstd begin so
SAMPLE = 1_000  # rows whose values decide the types of the columns, unless later ones contradict


def csv_frame(path: Path, *, id: str | Key) -> polars.DataFrame:
    """The rows of a CSV file; the ids are strings, and strings may still be one of the MISSING."""
    import polars as pl

    keys = Key.of(id).columns
    refuse_packed(path)
    try:
        frame = parse(path, keys)
    except pl.exceptions.PolarsError as fault:
        if "more fields" in str(fault):
            raise InputError(f"{path} has rows with more fields than its header; correct them") from fault
        raise unreadable(path, "CSV", fault) from fault
    if keys[0] in frame.columns and frame[keys[0]].null_count():
        frame = without_blank_lines(frame, path)
    refuse_malformed(frame, path)
    return frame


def refuse_packed(path: Path) -> None:
    """Polars would unpack it all into memory, however much it is."""
    with path.open("rb") as file:
        if file.read(4).startswith(PACKED):
            raise InputError(f"{path} is packed, not a CSV table: unpack it first")


def without_blank_lines(frame: polars.DataFrame, path: Path) -> polars.DataFrame:
    """A line of missing values alone is blank; one where a person wrote so (NA) is a row."""
    import polars as pl

    empty = pl.all_horizontal(pl.all().is_null())
    if not frame.select(empty.any()).item():
        return frame
    written = pl.read_csv(path, infer_schema=False, glob=False)
    return frame.filter(~written.select(empty).to_series())


def parse(path: Path, keys: Sequence[str]) -> polars.DataFrame:
    """The frame, the types of its columns guessed from the first rows, or else weighed over all of them."""
    import polars as pl

    for markers in ([], MISSING):  # looking for markers costs a quarter more, and most files need none
        # A value that contradicts the guess is one fault, and leads to the next attempt.
        with suppress(pl.exceptions.ComputeError, pl.exceptions.InvalidOperationError):
            sample = pl.read_csv(
                path,
                n_rows=SAMPLE,
                infer_schema_length=SAMPLE,
                schema_overrides=dict.fromkeys(keys, pl.String),
                null_values=MISSING,
                try_parse_dates=True,
                glob=False,
            )
            if sample.height < SAMPLE:
                return sample
            frame = pl.read_csv(path, schema_overrides=dict(sample.schema), null_values=markers, glob=False)
            # A sample of missing values alone says nothing of the type of what follows.
            if all(frame[c.name].null_count() == frame.height for c in sample if c.null_count() == SAMPLE):
                return frame
    strings = pl.read_csv(path, infer_schema=False, null_values=MISSING, glob=False)
    return strings.with_columns(narrowed(column) for column in strings if column.name not in keys)


def narrowed(strings: polars.Series) -> polars.Series:
    """A column of strings as the narrowest type that loses none of its values."""
    import polars as pl

    truth = {"true": True, "false": False, None: None}
    conversions: list[Callable[[polars.Series], polars.Series]] = [
        lambda values: values.cast(pl.Int64),
        lambda values: values.cast(pl.Float64),
        lambda values: values.str.to_lowercase().replace_strict(truth, return_dtype=pl.Boolean),
        lambda values: values.str.to_date(),
        lambda values: values.str.to_datetime(time_unit="us"),
        lambda values: values.str.to_time(),
    ]
    beginning = strings.drop_nulls().head(100)
    for convert in conversions:
        with suppress(pl.exceptions.ComputeError, pl.exceptions.InvalidOperationError):
            convert(beginning)  # to give up a type on all rows takes long
            return convert(strings)
    return strings


def refuse_malformed(frame: polars.DataFrame, path: Path) -> None:
    for name in frame.columns:
        if name.endswith("_duplicated_0"):
            name = name.removesuffix("_duplicated_0")
            raise InputError(f"{path} has more than one column '{name}'; rename or remove one")
        if "\ufffd" in name:
            raise InputError(f"{path} has a column '{name}' whose name is not UTF-8; save the file as UTF-8")
    if not frame.height and lines(path) > 1:
        raise InputError(
            f"{path} has no row that can be read; if there are some, look for a quote that is never closed"
        )
    if frame.height and frame[:, -1].null_count() and commas(path) < (frame.height + 1) * (frame.width - 1):
        raise InputError(f"{path} has rows with fewer fields than its header; correct them")


def lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(bool(line.strip()) for line in file)


def commas(path: Path) -> int:
    """Polars fills a short row with nulls without a word; a file short of commas gives it away."""
    with path.open("rb") as file:
        return sum(block.count(b",") for block in iter(lambda: file.read(1 << 24), b""))


def unreadable(path: Path, kind: str, fault: Exception) -> InputError:
    reason = str(fault).partition("\n")[0].partition(". ")[0].rstrip(".")
    return InputError(f"{path} cannot be read as a {kind} table ({reason}); check that it is one")


def require_utf8_name(path: Path) -> None:
    """Polars opens no other file."""
    if not is_utf8(path):
        raise InputError(f"the path {path} is not UTF-8, as the reader of tables needs it; rename it")
