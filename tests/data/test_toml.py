"""federation.toml: what it says is what one gets, and what it cannot say is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from vesica.data import Federation, Overlap, split_rows
from vesica.data.federation import read_new_rows
from vesica.errors import InputError

WHOLE = """
task = "classification"
metric = "f1"
[host]
name = "bank"
table = "bank.csv"
id = "customer"
label = "default"
labels = "all"
dim = 8
scale = "minmax"
columns = { branch = "categorical" }
[[guest]]
name = "shop"
table = "tables/shop.parquet"
id = "key"
encoder = "mlp"
[[guest]]
name = "camera"
table = "camera.npz"
id = "id"
[test]
fraction = 0.25
seed = 3
[overlap]
keep = 10
share = "draw"
draw = 2
[labelled]
keep = 6
"""
LEAST = """
[host]
name = "bank"
table = "bank.csv"
id = "customer"
label = "default"
[[guest]]
name = "shop"
table = "tables/shop.parquet"
id = "key"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = range(40)
    (tmp_path / "tables").mkdir()
    bank = {"customer": list(rows), "branch": [i % 3 for i in rows], "default": [i % 2 for i in rows]}
    pl.DataFrame(bank).write_csv(tmp_path / "bank.csv")
    pl.DataFrame({"key": [str(i) for i in rows], "spent": [i / 2 for i in rows]}).write_parquet(
        tmp_path / "tables" / "shop.parquet"
    )
    np.savez(tmp_path / "camera.npz", id=np.arange(40), image=np.zeros((40, 6, 6), np.uint8))
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "federation.toml"
    path.write_text(text)
    return path


def test_everything_that_can_be_said_reaches_the_federation(folder: Path) -> None:
    made = Federation.from_toml(write(folder, WHOLE))
    assert [party.name for party in made.parties] == ["bank", "shop", "camera"]
    assert (made.task, made.metric, made.labels, made.labelled) == ("classification", "f1", "all", 6)
    assert (made.host.dim, made.host.scale, made.host.kinds) == (8, "minmax", {"branch": "categorical"})
    assert [guest.encoder for guest in made.guests] == ["mlp", None]
    assert (made.test.fraction, made.test.seed) == (0.25, 3)
    assert made.overlap == Overlap(10, "draw", 2, seed=3)
    assert list(made.host.table.columns) == ["branch"]
    assert made.guests[1].table.image is not None
    assert made.name == "federation"


def test_little_need_be_said(folder: Path) -> None:
    made = Federation.from_toml(write(folder, LEAST))
    assert (made.task, made.metric, made.labels, made.labelled) == ("classification", "auc", "aligned", None)
    assert (made.test.fraction, made.overlap) == (0.2, Overlap())
    split = split_rows(made)
    assert len(split.aligned_ids) + len(split.test_ids) == 40


def test_test_rows_are_read_from_a_table_beside_the_file(folder: Path) -> None:
    (folder / "test_ids.csv").write_text("customer\n3\n5\n")
    made = Federation.from_toml(write(folder, LEAST + '[test]\nrows = "test_ids.csv"\n'))
    assert split_rows(made).test_ids.tolist() == ["3", "5"]


def test_the_same_federation_whatever_the_working_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(folder, LEAST)
    monkeypatch.chdir("/")
    assert len(Federation.from_toml(path).host.table) == 40


def test_an_overlap_seed_of_its_own_leaves_the_test_rows_alone(folder: Path) -> None:
    first, second = (
        split_rows(Federation.from_toml(write(folder, f"{LEAST}[overlap]\nkeep = 10\nseed = {seed}\n")))
        for seed in (0, 1)
    )
    assert first.test_ids.tolist() == second.test_ids.tolist()
    assert first.aligned_ids.tolist() != second.aligned_ids.tolist()


REFUSED = {
    "empty": ("", r"\[host\] has no 'name'"),
    "not TOML": ("task = = 3", "cannot be read as TOML"),
    "unknown key": (LEAST.replace("label =", "lable ="), r"\[host\] has an unknown key 'lable'; did you mean 'label'"),
    "unknown key at the top": ("taks = 'regression'\n" + LEAST, "unknown key 'taks'; did you mean 'task'"),
    "unknown key of a guest": (LEAST + "label = 'x'", r"\[guest\] has an unknown key 'label'"),
    "unknown key of the overlap": (LEAST + "[overlap]\nkep = 3", r"\[overlap\] has an unknown key 'kep'; .* 'keep'"),
    "unknown section": (LEAST + "[overlaps]\nkeep = 3", "unknown key 'overlaps'; did you mean 'overlap'"),
    "number as a text": (LEAST + "[overlap]\nkeep = '3'", "keep is '3' and should be a whole number"),
    "truth as a number": (LEAST + "[labelled]\nkeep = true", "keep is True and should be a whole number"),
    "fraction as a text": (LEAST + "[test]\nfraction = 'half'", "fraction is 'half' and should be a number"),
    "one guest without a list": (LEAST.replace("[[guest]]", "[guest]"), r"should be a list of tables.*\[\[guest\]\]"),
    "guests that are no tables": ("guest = [1]\n" + LEAST.partition("[[guest]]")[0], r"written \[\[guest\]\]"),
    "no guest": (LEAST.partition("[[guest]]")[0], "there are 0 guests"),
    "no label": (LEAST.replace('label = "default"', ""), r"\[host\] has no 'label'"),
    "no id": (LEAST.replace('id = "key"', ""), r"\[guest\] has no 'id'"),
    "no table": (LEAST.replace('table = "bank.csv"', ""), r"\[host\] has no 'table'"),
    "no such table": (LEAST.replace("bank.csv", "bnak.csv"), "there is no file .*bnak.csv"),
    "kind that is no text": (LEAST + "columns = { spent = 3 }", r"\[guest\] columns sets 'spent' to 3"),
    "negative seed": (LEAST + "[test]\nseed = -1", r"\[test\] seed is -1"),
    "no such test rows": (LEAST + "[test]\nrows = 'none.csv'", "there is no file .*none.csv"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_in_one_line(folder: Path, case: str) -> None:
    text, telling = REFUSED[case]
    with pytest.raises(InputError, match=telling) as refusal:
        Federation.from_toml(write(folder, text))
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_not_there_or_no_text_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file .*none\.toml"):
        Federation.from_toml(folder / "none.toml")
    with pytest.raises(InputError, match="cannot be read as TOML"):
        Federation.from_toml(folder)
    (folder / "latin.toml").write_bytes(b'task = "\xe9"')
    with pytest.raises(InputError, match=r"latin.toml cannot be read as TOML"):
        Federation.from_toml(folder / "latin.toml")


def test_new_rows_need_no_label_and_one_that_is_there_is_left_out(folder: Path) -> None:
    tables = read_new_rows(write(folder, LEAST))
    assert {name: list(table.columns) for name, table in tables.items()} == {"bank": ["branch"], "shop": ["spent"]}
    unlabelled = read_new_rows(write(folder, LEAST.replace('label = "default"', "")))
    assert list(unlabelled["bank"].columns) == ["branch", "default"]


def test_new_rows_of_a_host_with_labels_only_need_no_host(folder: Path) -> None:
    guests = LEAST[LEAST.index("[[guest]]") :]
    assert list(read_new_rows(write(folder, guests))) == ["shop"]


def test_new_rows_of_two_parties_of_one_name_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="two parties are called 'bank'"):
        read_new_rows(write(folder, LEAST.replace('"shop"', '"bank"')))


BY_RULES = """
[host]
name = "bank"
table = "people.csv"
id = ["name", "born"]
label = "default"
[[guest]]
name = "shop"
table = "tables/visits.parquet"
id = ["who", "year"]
[test]
rows = "test_ids.csv"
[ids]
trim = true
case = "lower"
pad = 3
"""


def test_ids_of_several_columns_meet_by_the_rules_whatever_the_files(folder: Path) -> None:
    (folder / "people.csv").write_text("name,born,x,default\n Ann,1980,1,0\nBo,1990,2,1\nBO,1991,3,0\nEve,70,4,1\n")
    visits = {"who": ["bo ", "ann", "bo", "eve"], "year": [1990, 1980, 1991, 71], "y": [1.0, 2.0, 3.0, 4.0]}
    pl.DataFrame(visits).write_parquet(folder / "tables" / "visits.parquet")
    (folder / "test_ids.csv").write_text("name,born\nann ,1980\n")
    made = Federation.from_toml(write(folder, BY_RULES))
    assert made.host.table.ids.tolist() == ['["ann", "1980"]', '["0bo", "1990"]', '["0bo", "1991"]', '["eve", "070"]']
    assert made.guests[0].table.ids.tolist()[:2] == ['["0bo", "1990"]', '["ann", "1980"]']
    assert (list(made.host.table.columns), list(made.guests[0].table.columns)) == (["x"], ["y"])
    split = split_rows(made)
    assert split.test_ids.tolist() == ['["ann", "1980"]']
    assert sorted(split.aligned_ids.tolist()) == ['["0bo", "1990"]', '["0bo", "1991"]']


def test_an_array_of_ids_is_read_by_the_rules_too(folder: Path) -> None:
    np.savez(folder / "camera.npz", id=np.array([7, 12]), image=np.zeros((2, 6, 6), np.uint8))
    text = LEAST + '[[guest]]\nname = "camera"\ntable = "camera.npz"\nid = "id"\n[ids]\npad = 3\n'
    made = Federation.from_toml(write(folder, text))
    assert made.guests[1].table.ids.tolist() == ["007", "012"]
    assert made.host.table.ids.tolist()[:2] == ["000", "001"]


def test_ids_that_the_rules_make_equal_are_refused(folder: Path) -> None:
    (folder / "bank.csv").write_text("customer,branch,default\nA,1,0\na,2,1\n")
    with pytest.raises(InputError, match=r"bank\.csv repeats ids in column 'customer' on 1 row\(s\), for example 'a'"):
        Federation.from_toml(write(folder, LEAST + '[ids]\ncase = "lower"\n'))


REFUSED_IDS = {
    "unknown rule": ("[ids]\ntrimm = true", r"\[ids\] has an unknown key 'trimm'; did you mean 'trim'"),
    "rule of another type": ("[ids]\ntrim = 'yes'", r"\[ids\] trim is 'yes' and should be true or false"),
    "unknown case": ("[ids]\ncase = 'lowr'", r"\[ids\] case 'lowr' is not known; did you mean 'lower'"),
    "too wide": ("[ids]\npad = 5000", r"\[ids\] a width of 5000 cannot be padded to"),
    "no column": ("[[guest]]\nid = []", r"\[guest\] id is \[\] and should be a column, or a list"),
    "a column twice": ("[[guest]]\nid = ['a', 'a']", "should be a column, or a list of different columns"),
    "a number as a column": ("[[guest]]\nid = ['a', 1]", "should be a column, or a list of different columns"),
}


@pytest.mark.parametrize("case", REFUSED_IDS)
def test_rules_for_ids_that_cannot_be_meant_are_refused_in_one_line(folder: Path, case: str) -> None:
    text, telling = REFUSED_IDS[case]
    with pytest.raises(InputError, match=telling) as refusal:
        Federation.from_toml(write(folder, LEAST + text))
    assert "\n" not in str(refusal.value)
