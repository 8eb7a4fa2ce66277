"""The command line, called in this process, and a small federation of three kinds of files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from vesica import SplitNN, fit
from vesica.cli import main
from vesica.data import Federation

ROWS = 120
FEDERATION = """task = "classification"
[host]
name = "bank"
table = "bank.csv"
id = "customer"
label = "default"
[[guest]]
name = "shop"
table = "shop.parquet"
id = "key"
dim = 4
[[guest]]
name = "camera"
table = "camera.npz"
id = "id"
dim = 4
"""


@dataclass(frozen=True)
class Answer:
    """What a command leaves: its exit code, and what it wrote."""

    code: int
    out: str
    err: str


@pytest.fixture
def vesica(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    monkeypatch.delenv("VESICA_DATA", raising=False)

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["vesica", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        written = capsys.readouterr()
        return Answer(int(end.value.code or 0), written.out, written.err)

    return call


def write_federation(folder: Path, *, rows: int = ROWS) -> None:
    """federation.toml and its tables: a CSV host, a Parquet guest and a guest with images."""
    random = np.random.default_rng(0)
    age, spent = random.normal(40, 10, rows).round(1), random.normal(size=rows)
    label = (age / 10 + spent > 4).astype(int)
    bank = {"customer": range(rows), "age": age, "city": random.choice(["Ulm", "Bonn"], rows), "default": label}
    pl.DataFrame(bank).write_csv(folder / "bank.csv")
    keys = random.permutation(rows)
    pl.DataFrame({"key": keys, "spent": spent[keys]}).write_parquet(folder / "shop.parquet")
    image = random.integers(0, 255, (rows, 8, 8), dtype=np.uint8)
    np.savez(folder / "camera.npz", id=np.arange(rows).astype(str), image=image)
    (folder / "federation.toml").write_text(FEDERATION)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a federation in it."""
    write_federation(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run folder of that federation; copy it before changing it."""
    place = tmp_path_factory.mktemp("trained")
    write_federation(place)
    fit(SplitNN(epochs=1), Federation.from_toml(place / "federation.toml"), out=place / "run")
    return place / "run"
