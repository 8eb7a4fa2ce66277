"""Bad input: one sentence that names what, where and what to do, exit code 2, never a traceback."""

from __future__ import annotations

import gzip
import json
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from vesica.experiment.folder import FORMAT

Edit = Callable[[Path], Any]
RUN = "run split-nn --federation federation.toml --set epochs=1"
LONG = "x" * 300
PETABYTE = b"(1125899906842624,)"
TWO_LINES = b'customer,"de\nfault"\n1,0\n2,1\n'
PREDICT = "predict run --federation federation.toml --out predictions.csv"


@dataclass(frozen=True)
class Case:
    """A command that is refused, what is done to the folder before it, and the words that tell what is wrong."""

    command: str
    words: tuple[str, ...]
    edit: Edit = lambda folder: None


def toml(old: str, new: str) -> Edit:
    def edit(folder: Path) -> None:
        path = folder / "federation.toml"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return edit


def add(text: str) -> Edit:
    return lambda folder: write("federation.toml", (folder / "federation.toml").read_bytes() + text.encode())(folder)


def write(name: str, content: bytes) -> Edit:
    return lambda folder: (folder / name).write_bytes(content)


def bank(**columns: Callable[[pl.DataFrame], Any]) -> Edit:
    """The host's table with some columns computed anew."""

    def edit(folder: Path) -> None:
        frame = pl.read_csv(folder / "bank.csv")
        made = [pl.Series(name, compute(frame)) for name, compute in columns.items()]
        frame.with_columns(made).write_csv(folder / "bank.csv")

    return edit


def camera(**arrays: Any) -> Edit:
    """The images, with some arrays put in their place."""

    def edit(folder: Path) -> None:
        with np.load(folder / "camera.npz") as archive:
            kept = dict(archive)
        np.savez(folder / "camera.npz", **{**kept, **arrays})

    return edit


def saved(party: str, field: str, value: object) -> Edit:
    """A field of a party's saved model set to a value; `a.0.b` is b of the first a."""

    def edit(folder: Path) -> None:
        path = folder / "run" / party / "model.json"
        model = json.loads(path.read_text())
        *way, last = (int(part) if part.isdigit() else part for part in field.split("."))
        place = model
        for part in way:
            place = place[part]
        place[last] = value
        path.write_text(json.dumps(model))

    return edit


def replaced(name: str, by: str) -> Edit:
    return lambda folder: shutil.copytree(folder / by, folder / name, dirs_exist_ok=True)


def npz(old: bytes, new: bytes) -> Edit:
    """The images, with something else in the headers of the arrays, which stay as long."""

    def edit(folder: Path) -> None:
        with zipfile.ZipFile(folder / "camera.npz") as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(folder / "camera.npz", "w") as archive:
            for name, content in members.items():
                shorter = content.replace(b" " * (len(new) - len(old)) + b"\n", b"\n", 1)
                archive.writestr(name, shorter.replace(old, new, 1) if old in content else content)

    return edit


def zipped(at: int, value: int) -> Edit:
    """The images, with a field of the archive's directory set to a value."""

    def edit(folder: Path) -> None:
        content = bytearray((folder / "camera.npz").read_bytes())
        place = content.index(b"PK\x01\x02") + at
        content[place : place + 2] = value.to_bytes(2, "little")
        (folder / "camera.npz").write_bytes(content)

    return edit


def kind(column: str, kind: str) -> Edit:
    """A host that says of what kind a column is."""
    return toml('"bank.csv"', f'"bank.csv"\ncolumns = {{ {column} = "{kind}" }}')


def guests(count: int) -> Edit:
    """So many guests and no more."""

    def edit(folder: Path) -> None:
        path = folder / "federation.toml"
        path.write_text("[[guest]]".join(path.read_text().split("[[guest]]")[: count + 1]))

    return edit


def torn(content: bytes) -> Edit:
    return both(unfinished(), write("run/run.json", content))


def both(*edits: Edit) -> Edit:
    return lambda folder: [edit(folder) for edit in edits]


def unfinished(**changes: object) -> Edit:
    """A run folder that another run began."""

    def edit(folder: Path) -> None:
        (folder / "run").mkdir()
        (folder / "run" / "run.json").write_text(json.dumps({"format": FORMAT, "method": "pooled", **changes}))

    return edit


def three_people(folder: Path) -> None:
    """A shop that knows three customers only."""
    pl.read_parquet(folder / "shop.parquet").sort("key").head(3).write_parquet(folder / "shop.parquet")


def without_city(folder: Path) -> None:
    pl.read_csv(folder / "bank.csv").drop("city").write_csv(folder / "bank.csv")


WRONG_FIELDS: list[tuple[str, str, Any, str]] = [
    ("bank", "name", 5, "name is 5 and should be a text"),
    ("bank", "preparation", [], "preparation is [] and should be an object"),
    ("bank", "preparation", None, "an encoder without a preparation"),
    ("bank", "preparation.quantities.0.divisor", "x", "quantities[0].divisor is 'x' and should be a finite number"),
    ("bank", "preparation.quantities.0.median", float("nan"), "median is nan and should be a finite number"),
    ("bank", "preparation.quantities.0.indicator", 1, "indicator is 1 and should be true or false"),
    ("bank", "preparation.quantities.0.kind", "numerc", "kind is 'numerc' and should be one of boolean, date, numeric"),
    ("bank", "preparation.quantities.0.knots", [0.5], "column 'age' has 1 knots and 85 scores"),
    ("bank", "preparation.quantities", [], "its encoder is for other columns than its preparation gives"),
    ("bank", "preparation.categories.0.known.1", 7, "categories[0].known[1] is 7 and should be a text"),
    ("bank", "preparation.ignored", {"age": 1}, "ignored['age'] is 1 and should be a text"),
    ("bank", "encoder.dim", True, "encoder.dim is True and should be a whole number"),
    ("bank", "encoder.dim", 10**9, "its encoder needs"),
    ("bank", "encoder.copies", 10**9, "claims 1,000,000,000 copies"),
    ("bank", "encoder.copies", 0, "claims 0 copies"),
    ("bank", "encoder.schema.kind", "tabel", "encoder.schema.kind is 'tabel' and should be one of image, table"),
    ("bank", "encoder.layers", 3, "encoder has an unknown field 'layers'"),
    ("bank", "head.hidden", [10**9], "its head needs"),
    ("bank", "head.dims", None, "head.dims is None and should be a list"),
    ("bank", "head.outputs", -2, "head.outputs is -2"),
    ("bank", "task.classes", "01", "task.classes is '01' and should be a list"),
    ("bank", "task.classes", ["0"], "its head has 2 outputs and its task needs 1"),
    ("bank", "task.metric", None, "task.metric is None and should be one of accuracy"),
    ("bank", "wire", "float8", "wire is 'float8' and should be one of"),
    ("shop", "release", {"sigma": "1", "clip": None}, "release.sigma is '1' and should be a finite number"),
    ("camera", "encoder.schema.mean", 0.5, "schema.mean is 0.5 and should be a list"),
    ("camera", "encoder.schema.height", 10**12, "its encoder is for other columns"),
]
LABEL_ONLY = toml('"bank.csv"', '"bank.csv"\ncolumns = { age = "ignore", city = "ignore" }')

FILES = {
    "no such federation": Case("run split-nn --federation none.toml", ("there is no file none.toml",)),
    "a directory as federation": Case("run split-nn --federation .", ("cannot be read as TOML",)),
    "empty TOML": Case(RUN, ("[host] has no 'name'",), write("federation.toml", b"")),
    "not TOML": Case(RUN, ("federation.toml cannot be read as TOML", "line 1"), write("federation.toml", b"a,b\n1,2")),
    "TOML that is no text": Case(RUN, ("cannot be read as TOML",), write("federation.toml", b"\xff\xfe\x00")),
    "TOML nested 5,000 deep": Case(RUN, ("as TOML: line 17 has brackets 9 deep",), add("x = " + "[" * 5000)),
    "a TOML key of 40 kilobytes": Case(RUN, ("as TOML: line 17 has a key with more than",), add("x" + ".x" * 20_000)),
    "a TOML number of 10,000 digits": Case(RUN, ("as TOML: Exceeds the limit",), add("x = " + "9" * 10_000)),
    "a TOML number of 40,000 bits": Case(RUN, ("as TOML: it has a whole number",), add("x = 0x" + "9" * 10_000)),
    "a TOML of more than a megabyte": Case(RUN, ("as TOML: it is larger than",), add("#" * 2**20)),
    "a TOML key of two lines": Case(RUN, (r"unknown key 'a\nb'",), add('"a\\nb" = 1')),
    "no such table": Case(RUN, ("there is no file bnak.csv",), toml("bank.csv", "bnak.csv")),
    "a table with too long a name": Case(
        RUN, (".csv cannot be read (File name too long)",), toml('"bank.csv"', f'"{LONG}.csv"')
    ),
    "a table of no known kind": Case(RUN, ("bank.docx is not a table",), toml("bank.csv", "bank.docx")),
    "an empty CSV": Case(RUN, ("bank.csv is empty",), write("bank.csv", b"")),
    "a CSV without rows": Case(RUN, ("bank.csv", "no rows"), write("bank.csv", b"customer,default\n")),
    "a quote that is never closed": Case(
        RUN, ("bank.csv has no row that can be read", "quote"), write("bank.csv", b'customer,default\n"1,0\n2,1\n3,0\n')
    ),
    "a header that is not UTF-8": Case(
        RUN, ("bank.csv has a column", "not UTF-8"), write("bank.csv", b"customer,default,j\xe1b\n1,0,2\n2,1,3\n")
    ),
    "a CSV that is no table": Case(RUN, ("bank.csv",), write("bank.csv", b"\x00\xff\x13\x37" * 99)),
    "a Parquet that is none": Case(RUN, ("shop.parquet cannot be read as a Parquet",), write("shop.parquet", b"PAR1")),
    "an NPZ that is none": Case(RUN, ("camera.npz cannot be read as an NPZ",), write("camera.npz", b"PK\x03\x04")),
    "an NPZ that claims a petabyte": Case(
        RUN, ("camera.npz cannot be read as an NPZ", "claims the shape (1125899906842624,)"), npz(b"(120,)", PETABYTE)
    ),
    "an NPZ packed in an unknown way": Case(RUN, ("camera.npz cannot be read as an NPZ", "method 77"), zipped(10, 77)),
    "an NPZ of an unknown version": Case(RUN, ("camera.npz cannot be read", "zip file version"), zipped(6, 99)),
    "an NPZ that is encrypted": Case(RUN, ("camera.npz cannot be read as an NPZ", "is encrypted"), zipped(8, 1)),
    "an NPZ of objects": Case(RUN, ("camera.npz cannot be read", "Python objects"), camera(z=np.array([{}] * 120))),
    "a CSV that is packed": Case(RUN, ("bank.csv is packed", "unpack it"), write("bank.csv", gzip.compress(b"a\n"))),
    "a CSV with a name of two lines": Case(
        RUN, (r"there are: customer, de\nfault",), both(toml('"customer"', '"x"'), write("bank.csv", TWO_LINES))
    ),
    "no such test rows": Case(RUN, ("there is no file ids.csv",), add('[test]\nrows = "ids.csv"\n')),
}
IDS = {
    "no such id column": Case(
        RUN, ("bank.csv has no column 'custmer'", "did you mean 'customer'?"), toml('"customer"', '"custmer"')
    ),
    "a duplicated id": Case(RUN, ("bank.csv repeats ids", "'7'"), bank(customer=lambda b: b["customer"].replace(8, 7))),
    "an empty id": Case(
        RUN,
        ("bank.csv has no id", "row 9"),
        bank(customer=lambda b: b["customer"].replace_strict({8: None}, default=pl.first())),
    ),
    "no overlap": Case(
        RUN,
        (
            "no id is common",
            "'bank' has 120 ids such as '00000', '00001'",
            "'shop' has 120 ids such as '",
            "padding",
            "case",
            "type",
        ),
        bank(customer=lambda b: b["customer"].cast(pl.String).str.zfill(5)),
    ),
    "fewer overlapping rows than classes": Case(
        RUN, ("2 overlapping rows", "3 classes"), both(bank(default=lambda b: b["customer"] % 3), three_people)
    ),
}
LABELS = {
    "no such label column": Case(
        RUN, ("'bank' has no label column 'defalt'", "did you mean 'default'?"), toml('"default"', '"defalt"')
    ),
    "a constant label": Case(RUN, ("label of 'bank' is '1' in every row",), bank(default=lambda b: [1] * 120)),
    "an empty label": Case(RUN, ("label of 'bank' is empty in all 120 rows",), bank(default=lambda b: [None] * 120)),
    "classes for a regression": Case(
        RUN,
        ("label of 'bank' is no number", "regression"),
        both(toml('"classification"', '"regression"'), bank(default=lambda b: ["good", "bad"] * 60)),
    ),
    "quantities for a classification": Case(
        RUN, ("label of 'bank' has 120 distinct values", "regression"), bank(default=lambda b: b["customer"] / 7)
    ),
    "an infinite label": Case(
        RUN,
        ("label of 'bank' has 60 infinite values",),
        both(toml('"classification"', '"regression"'), bank(default=lambda b: [1.5, float("inf")] * 60)),
    ),
}
COLUMNS = {
    "a column all missing": Case(RUN, ("bank: column 'age' has no value",), bank(age=lambda b: [None] * 120)),
    "infinities": Case(
        RUN,
        ("bank: column 'age' has ", "infinite value(s)"),
        bank(age=lambda b: [1.5, float("inf")] * 60),
    ),
    "two columns of one name": Case(RUN, ("more than one column 'x'",), write("bank.csv", b"customer,x,x\n1,2,3\n")),
    "a column of an unknown kind": Case(
        RUN, ("column 'age' is set to the unknown kind 'numerc'", "'numeric'"), kind("age", "numerc")
    ),
    "a kind for a column that is not there": Case(
        RUN, ("bank: there is no column 'aeg'", "'age'"), kind("aeg", "numeric")
    ),
    "words where numbers are said to be": Case(
        RUN, ("bank: column 'city' has the value", "not a number"), kind("city", "numeric")
    ),
    "images of fractions": Case(
        RUN, ("'image' of shape (120, 8, 8) and type float64",), camera(image=np.zeros((120, 8, 8)))
    ),
    "images of one dimension": Case(RUN, ("'image' of shape (120,)",), camera(image=np.zeros(120, np.uint8))),
    "fewer images than ids": Case(RUN, ("120 ids but 7 rows in 'image'",), camera(image=np.zeros((7, 8, 8), np.uint8))),
    "images and columns at one party": Case(
        RUN, ("camera: the table has an image and the column(s) z",), camera(z=np.arange(120))
    ),
    "images too small for the encoder": Case(RUN, ("cnn", "4"), camera(image=np.zeros((120, 4, 4), np.uint8))),
}
SETTINGS = {
    "an unknown key": Case(
        RUN, ("[host] has an unknown key 'lable'", "did you mean 'label'?"), toml("label =", "lable =")
    ),
    "a key of the wrong type": Case(RUN, ("dim is '4' and should be a whole number",), toml("dim = 4", 'dim = "4"')),
    "no guest": Case(RUN, ("there are 0 guests",), guests(0)),
    "two parties of one name": Case(RUN, ("two parties are called 'bank'",), toml('"shop"', '"bank"')),
    "a name with a slash": Case(RUN, ("cannot be called 'sh/op'",), toml('"shop"', '"sh/op"')),
    "dim 0": Case(RUN, ("shop: ", "dim", "not 0"), toml("dim = 4", "dim = 0")),
    "an unknown encoder": Case(RUN, ("shop: ", "no encoder 'mpl'", "'mlp'"), toml("dim = 4", 'encoder = "mpl"')),
    "an image encoder for a table": Case(RUN, ("shop: ", "'cnn' is for images"), toml("dim = 4", 'encoder = "cnn"')),
    "an unknown task": Case(RUN, ("'clustering'", "classification"), toml('"classification"', '"clustering"')),
    "an unknown metric": Case(RUN, ("metric is 'auk'", "'auc'"), toml("[host]", 'metric = "auk"\n[host]')),
    "an unknown share": Case(RUN, ("share is 'al'",), add('[overlap]\nshare = "al"\n')),
    "a negative overlap in the file": Case(RUN, ("[overlap] keep is -3",), add("[overlap]\nkeep = -3\n")),
    "an impossible overlap in the file": Case(RUN, ("keep is 97", "only 96"), add("[overlap]\nkeep = 97\n")),
    "an impossible draw": Case(RUN, ("draw is 99",), add('[overlap]\nkeep = 9\nshare = "draw"\ndraw = 99\n')),
    "a test fraction of 1": Case(RUN, ("fraction is 1.0",), add("[test]\nfraction = 1\n")),
    "a negative seed": Case(RUN, ("[test] seed is -1",), add("[test]\nseed = -1\n")),
}
OPTIONS = {
    "an unknown method": Case("run splitnn --data credit", ("no method 'splitnn'", "did you mean 'split-nn'?")),
    "an unknown data set": Case("run split-nn --data credt", ("no data set 'credt'", "did you mean 'credit'?")),
    "a data set without its directory": Case(
        "run split-nn --data mnist", ("mnist: give a data directory", "train-images")
    ),
    "a data set that is not there": Case(
        "run split-nn --data mnist --data-dir .", ("mnist: cannot find", "train-images")
    ),
    "an unknown field": Case(f"{RUN} --set epoch=3", ("no field 'epoch'", "did you mean 'epochs'?")),
    "a field without a value": Case(f"{RUN} --set lr", ("--set lr has no '='", "field=value")),
    "a field that is no number": Case(f"{RUN} --set epochs=minus", ("'epochs'", "'minus'", "a whole number")),
    "a negative field": Case(f"{RUN} --set learning_rate=-1", ("'learning_rate'", "is -1.0", "0 or more")),
    "an infinite field": Case(f"{RUN} --set learning_rate=inf", ("'learning_rate'", "is inf")),
    "an empty batch": Case(f"{RUN} --set batch_size=0", ("'batch_size'", "is 0", "1 or more")),
    "a layer of no width": Case(f"{RUN} --set hidden=8,0", ("'hidden'", "(8, 0)", "1 or more")),
    "an unknown join": Case(f"{RUN} --set join=conkat", ("no join 'conkat'", "did you mean 'concat'?")),
    "an unknown wire": Case(f"{RUN} --wire float8", ("no wire 'float8'", "did you mean 'float")),
    "an unknown engine": Case(f"{RUN} --engine balloon", ("no engine 'balloon'", "in-process")),
    "an unknown device": Case(f"{RUN} --device tpu", ("no device 'tpu'", "cpu")),
    "data and a federation": Case(f"{RUN} --data credit", ("either --data", "or --federation")),
    "neither data nor a federation": Case("run split-nn", ("either --data", "or --federation")),
    "overlap with a federation": Case(f"{RUN} --overlap 5", ("--overlap goes with --data",)),
    "parties with a federation": Case(f"{RUN} --parties 5", ("--parties goes with --data",)),
    "a host that is no part": Case("run split-nn --data credit --host 3", ("host is 3 and 'credit' has 2 parts",)),
    "labels with a federation": Case(f"{RUN} --labels all", ("--labels goes with --data",)),
    "a negative overlap": Case("run split-nn --data credit --overlap -5", ("keep is -5",)),
    "no overlap asked": Case("run split-nn --data credit --overlap 0", ("keep is 0",)),
    "an impossible overlap": Case("run split-nn --data credit --overlap 30000", ("keep is 30000", "only 24000")),
    "more labels than overlap": Case(
        "run split-nn --data credit --overlap 50 --labelled 60", ("keep is 60", "only 50")
    ),
    "a share without its draw": Case("run split-nn --data credit --share draw", ("go together",)),
    "a negative run seed": Case("run split-nn --data credit --seed -1", ("seed is -1",)),
    "a deadline for a method that needs all": Case(f"{RUN} --wait 5", ("split-nn", "leaves no guest out", "fedonce")),
    "a deadline with more rounds": Case(
        "run fedonce --data credit --set more_epochs=1 --wait 5", ("fedonce", "leaves no guest out", "more_epochs")
    ),
    "a deadline in the past": Case("run fedonce --data credit --wait -1", ("--wait is -1", "above 0")),
    "an absent guest for ever": Case("run fedonce --data credit --absent guest-1", ("--absent without --wait",)),
    "an absent guest nobody knows": Case(
        "run fedonce --data credit --wait 5 --absent guest-7", ("'guest-7'", "did you mean 'guest-1'?")
    ),
    "a certain party dropout": Case("run fedonce --data credit --set party_dropout=1", ("party_dropout", "below 1")),
    "a fill nobody knows": Case("run fedonce --data credit --set fill=zeros", ("'zeros'", "did you mean 'zero'?")),
    "messages kept nowhere": Case(f"{RUN} --keep-messages", ("--keep-messages", "--out")),
    "too few rounds": Case(f"{RUN} --max-rounds 1", ("round 2", "1 rounds", "nothing was sent")),
    "too few bytes": Case(f"{RUN} --max-bytes 1000", ("the budget is 1,000", "nothing was sent")),
    "bytes to stop at for a method of one message": Case(
        "run fedonce --data credit --stop-at-bytes 9000", ("fedonce", "cannot be stopped", "more_epochs")
    ),
    "no bytes to stop at": Case(f"{RUN} --stop-at-bytes 0", ("--stop-at-bytes is 0", "above 0")),
    "bytes to stop at before the first batch": Case(
        f"{RUN} --stop-at-bytes 900", ("bank: not even one batch fits into --stop-at-bytes 900", "batch_size")
    ),
    "a negative budget": Case(f"{RUN} --max-bytes -1", ("-1 bytes is negative",)),
    "nothing to learn alone": Case(
        "run local-only --federation federation.toml", ("bank: has labels only",), LABEL_ONLY
    ),
}
PLACES = {
    "JSON into no directory": Case(f"{RUN} --json none/result.json --out run", ("no directory none", "result.json")),
    "JSON into a directory": Case(f"{RUN} --json . --out run", ("is a directory",)),
    "a report into a directory": Case(f"{RUN} --report . --out run", ("is a directory",)),
    "a run folder that is a file": Case(f"{RUN} --out bank.csv", ("bank.csv is a file",)),
    "a run folder inside a file": Case(f"{RUN} --out bank.csv/run", ("bank.csv/run cannot be made",)),
    "a report inside a file": Case(f"{RUN} --report bank.csv/more/r.html", ("bank.csv is a file", "another place")),
    "a report with too long a name": Case(f"{RUN} --report {LONG} --out run", ("cannot be used (File name too long)",)),
    "JSON below too long a name": Case(
        f"{RUN} --json {LONG}/r.json --out run", ("cannot be used (File name too long)",)
    ),
    "a run folder with too long a name": Case(f"{RUN} --out {LONG}", ("cannot be used (File name too long)",)),
    "a folder of an older version": Case(
        f"{RUN} --out run", ("was begun by another version of Vesica",), unfinished(format=1)
    ),
    "a folder of something else": Case(f"{RUN} --out .", ("no run folder", "run.json")),
    "a folder of another run": Case(f"{RUN} --out run", ("holds another run", "'pooled' there"), unfinished()),
    "a torn run folder": Case(f"{RUN} --out run", ("run.json is torn",), torn(b'{"for')),
    "a run folder that says nothing": Case(f"{RUN} --out run", ("run.json is torn",), torn(b"[]")),
    "a run folder nested without end": Case(f"{RUN} --out run", ("run.json is torn", "deep"), torn(b"[" * 10**5)),
    "a run folder with an endless number": Case(f"{RUN} --out run", ("run.json is torn",), torn(b"9" * 10**4)),
    "a finished run folder": Case(f"{RUN} --out run", ("holds a finished run of split-nn",)),
    "predictions into no directory": Case(
        "predict run --federation federation.toml --out none/p.csv", ("no directory none",)
    ),
    "a report of no run": Case("report . --out report.html", ("result.json cannot be read",)),
    "a report of no file": Case("report none.jsonl --out report.html", ("none.jsonl cannot be read",)),
    "a report of no result": Case("report a.json --out report.html", ("a.json is not JSON",), write("a.json", b"{")),
    "a report of nested JSON": Case("report a.json --out r.html", ("a.json is not",), write("a.json", b"[" * 10**5)),
    "a report of other JSON": Case("report a.json --out r.html", ("without a method",), write("a.json", b"[1]")),
}
PREDICTIONS = {
    "no run folder": Case("predict none --federation federation.toml --out p.csv", ("none is no run folder",)),
    "a folder that is not finished": Case(
        PREDICT, ("has not finished", "same command"), lambda f: (f / "run/result.json").unlink()
    ),
    "a torn run": Case(PREDICT, ("run.json is torn",), write("run/run.json", b"{")),
    "a run without parties": Case(PREDICT, ("does not name its parties",), write("run/run.json", b"{}")),
    "a missing model": Case(PREDICT, ("model in run/shop cannot be read",), lambda f: shutil.rmtree(f / "run/shop")),
    "corrupt weights": Case(
        PREDICT, ("model in run/shop cannot be read",), write("run/shop/model.safetensors", b"\x00" * 64)
    ),
    "another's weights": Case(
        PREDICT,
        ("model in run/shop cannot be read",),
        lambda f: shutil.copy(f / "run/bank/model.safetensors", f / "run/shop/model.safetensors"),
    ),
    "a corrupt model": Case(
        PREDICT, ("model in run/bank cannot be read",), write("run/bank/model.json", b'{"name": 1}')
    ),
    **{
        f"a model with {field} set to {value!r}": Case(
            PREDICT, (f"model in run/{party} cannot be read", words), saved(party, field, value)
        )
        for party, field, value, words in WRONG_FIELDS
    },
    "a model nested without end": Case(
        PREDICT, ("model in run/bank cannot be read", "deep"), write("run/bank/model.json", b"[" * 10**5)
    ),
    "a model with an endless number": Case(
        PREDICT, ("model in run/bank cannot be read", "limit"), write("run/bank/model.json", b"9" * 10**4)
    ),
    "another's model": Case(
        PREDICT,
        ("the model in run/shop is that of 'bank'",),
        replaced("run/shop", "run/bank"),
    ),
    "a head that reads from a stranger": Case(
        PREDICT,
        ("model in run/bank reads from ship", "run.json does not name"),
        saved("bank", "head.parties.1", "ship"),
    ),
    "a guest in the host's place": Case(
        PREDICT, ("run/shop is no host's",), write("run/run.json", b'{"parties": ["shop", "bank", "camera"]}')
    ),
    "a missing column": Case(PREDICT, ("bank: ", "no column 'city'"), without_city),
    "a column of another type": Case(
        PREDICT, ("bank: column 'age' has the value 'old'",), bank(age=lambda b: ["old"] * 120)
    ),
    "new infinities": Case(PREDICT, ("bank: column 'age' has 120 infinite",), bank(age=lambda b: [float("inf")] * 120)),
    "images of another shape": Case(
        PREDICT, ("camera: ", "(8, 9, 1)", "(8, 8, 1) is expected"), camera(image=np.zeros((120, 8, 9), np.uint8))
    ),
    "no images": Case(
        PREDICT, ("camera: ", "no image"), both(toml("camera.npz", "shop.parquet"), toml('id = "id"', 'id = "key"'))
    ),
    "no common new row": Case(PREDICT, ("no id is common",), bank(customer=lambda b: b["customer"] + 1000)),
    "a missing guest": Case(PREDICT, ("rows of 'camera' are needed",), guests(1)),
    "a guest nobody knows": Case(PREDICT, ("'shopp' was no party", "did you mean 'shop'?"), toml('"shop"', '"shopp"')),
    "without a guest nobody knows": Case(f"{PREDICT} --without shopp", ("no party 'shopp'", "did you mean 'shop'?")),
    "without a guest that is needed": Case(
        f"{PREDICT} --without shop", ("cannot predict without 'shop'", "party_dropout")
    ),
    "no new federation": Case("predict run --federation none.toml --out p.csv", ("there is no file none.toml",)),
}
RECIPES = {
    "an unknown paper": Case("reproduce one_shoot table1", ("no paper 'one_shoot'", "did you mean 'one_shot'?")),
    "an unknown recipe": Case("reproduce one_shot tabel1", ("no recipe 'tabel1'", "did you mean 'table1'?")),
}
EXPERIMENT = b"RECIPES = {'table1': None}\n"
CASES = {**FILES, **IDS, **LABELS, **COLUMNS, **SETTINGS, **OPTIONS, **PLACES, **PREDICTIONS, **RECIPES}
NEED_A_RUN = {*PREDICTIONS, "a finished run folder", "predictions into no directory"}


def assert_one_sentence(code: int, out: str, err: str, *, words: tuple[str, ...]) -> None:
    assert code == 2, err
    assert out == ""
    assert err.startswith("vesica: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "Traceback" not in err
    for word in words:
        assert word in err


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_one_sentence_and_exit_code_2(folder: Path, trained: Path, vesica: Any, name: str) -> None:
    case = CASES[name]
    if name in NEED_A_RUN:
        shutil.copytree(trained, folder / "run")
    if name in RECIPES:
        (folder / "experiments/one_shot").mkdir(parents=True)
        (folder / "experiments/one_shot/recipes.py").write_bytes(EXPERIMENT)
    case.edit(folder)
    answer = vesica(*shlex.split(case.command))
    assert_one_sentence(answer.code, answer.out, answer.err, words=case.words)


def test_an_xgboost_without_vertical_learning_is_one_sentence(
    folder: Path, vesica: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    xgboost = pytest.importorskip("xgboost")
    monkeypatch.setattr(xgboost, "__version__", "3.4.0")
    answer = vesica(*shlex.split("run vertical-trees --federation federation.toml"))
    assert_one_sentence(answer.code, answer.out, answer.err, words=("XGBoost 3.4.0", "pip install 'xgboost>=3.2,<3.4'"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_is_refused_where_there_is_none(folder: Path, vesica: Any) -> None:
    answer = vesica(*shlex.split(f"{RUN} --device cuda"))
    assert_one_sentence(answer.code, answer.out, answer.err, words=("device is 'cuda'", "use cpu"))


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in PLACES
        if name.endswith(("directory", "report inside a file", "too long a name")) and "predict" not in name
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_training(folder: Path, vesica: Any, name: str) -> None:
    assert vesica(*shlex.split(PLACES[name].command)).code == 2
    assert not (folder / "run").exists()


def test_a_refused_run_leaves_its_folder_for_the_next_one(folder: Path, vesica: Any) -> None:
    assert vesica(*shlex.split(f"{RUN} --out run --max-bytes 1000")).code == 2
    again = vesica(*shlex.split(f"{RUN} --out run"))
    assert again.code == 0, again.err


def test_a_missing_argument_is_a_usage_error(vesica: Any) -> None:
    answer = vesica("predict")
    assert answer.code == 2
    assert "Missing argument" in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("name", ["no such federation", "no overlap", "an unknown method"])
def test_a_process_of_its_own_says_the_same(folder: Path, name: str) -> None:
    case = CASES[name]
    case.edit(folder)
    start = [sys.executable, "-c", "from vesica.cli import main; main()", *shlex.split(case.command)]
    ended = subprocess.run(start, capture_output=True, text=True, cwd=folder, check=False)
    assert_one_sentence(ended.returncode, ended.stdout, ended.stderr, words=case.words)
