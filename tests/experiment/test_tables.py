"""Tables from results: one row a setting, published figures beside, nothing mixed that must stay apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vesica.errors import InputError
from vesica.experiment.tables import refresh, summarise

HEAD = "table,method,data,aligned,metric,value,source\n"


def line(method: str = "one-shot", *, seed: int = 0, aligned: int = 1024, accuracy: float = 0.8, **more: Any) -> dict:
    return {
        "method": method,
        "data": "cifar10",
        "seed": seed,
        "rows": {"aligned": aligned, "labelled": aligned},
        "metrics": {"accuracy": accuracy},
        "rounds": 3,
        "messages": 6,
        "bytes": {"wire": 3_000_000},
        "wire": "float32",
        "seconds": 1.0,
        "config": {"method": {"mu": 7}},
        "config_hash": "0",
        **more,
    }


def rows(lines: list[dict]) -> list[dict[str, str]]:
    heads, cells = summarise(lines)
    return [dict(zip(heads, row, strict=True)) for row in cells]


def document(folder: Path, lines: list[dict], published: str) -> Path:
    (folder / "lines.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    (folder / "published.csv").write_text(HEAD + published)
    block = "<!-- table: lines.jsonl published: published.csv -->\nold\n<!-- end of table -->"
    (folder / "README.md").write_text(f"before\n{block}\nafter\n")
    return folder / "README.md"


def cells(text: str) -> list[dict[str, str]]:
    head, _, *body = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines() if row[:1] == "|"]
    return [dict(zip(head, row, strict=True)) for row in body]


def test_published_figures_stand_beside_ours_of_the_same_method_data_and_aligned_rows(tmp_path: Path) -> None:
    published = (
        "table1,one-shot,cifar10,1024,accuracy,0.8525,paper\n"
        "table1,one-shot,cifar10,1024,MB,3.1,paper\n"
        "table1,one-shot,cifar10,256,accuracy,0.7823,paper\n"
        "table1,few-shot + finetune,cifar10,1024,accuracy,0.8635,paper\n"
        "table1,split-nn,mnist,1024,accuracy,0.1,paper\n"
    )
    finetuned = line("few-shot", title="few-shot + finetune")
    lines = [line(), line(aligned=256), line(aligned=512), line("few-shot", title="few-shot"), finetuned]
    path = document(tmp_path, [*lines, line("split-nn")], published)
    text = refresh(path)
    assert text.startswith("before\n<!-- table: lines.jsonl published: published.csv -->\n| method |")
    assert text.endswith("<!-- end of table -->\nafter\n")
    table = cells(text)
    assert [row["published accuracy"] for row in table] == ["0.8525", "0.7823", "–", "–", "0.8635", "–"]
    assert [row["published MB"] for row in table] == ["3.1", *["–"] * 5]
    heads = list(table[0])
    assert heads.index("published accuracy") == heads.index("accuracy") + 1
    path.write_text(text)
    assert refresh(path) == text


def test_without_published_figures_there_is_no_such_column() -> None:
    assert not [head for head in rows([line()])[0] if head.startswith("published")]


def test_figures_of_rows_held_out_are_apart_and_have_nothing_published_beside(tmp_path: Path) -> None:
    lines = [line(), line(accuracy=0.9, data="cifar10 (hold-out)"), line(seed=1)]
    table = cells(refresh(document(tmp_path, lines, "table1,one-shot,cifar10,1024,accuracy,0.8525,paper\n")))
    assert [(row["data"], row["accuracy"], row["seeds"]) for row in table] == [
        ("cifar10", "0.8000", "2"),
        ("cifar10 (hold-out)", "0.9000", "1"),
    ]
    assert [row["published accuracy"] for row in table] == ["0.8525", "–"]


def test_rows_that_would_look_the_same_are_told_by_the_settings_in_which_they_differ() -> None:
    other = {"config": {"method": {"mu": 1}}, "config_hash": "1"}
    assert "settings" not in rows([line(), line(aligned=256, **other)])[0]
    assert [row["settings"] for row in rows([line(), line(**other), line(seed=1)])] == ["mu=7", "mu=1"]


def test_rows_of_the_same_kind_say_the_same_settings() -> None:
    """Also the one at other rows, which nothing else would be taken for."""
    other = {"config": {"method": {"mu": 1}}, "config_hash": "1"}
    table = rows([line(), line(**other), line(aligned=256, **other), line("split-nn")])
    assert [row["settings"] for row in table] == ["mu=7", "mu=1", "mu=1", "–"]


def test_rows_of_several_hosts_parties_and_biases_are_apart_and_show_which() -> None:
    cuts: list[dict[str, Any]] = [{}, {"host": 2}, {"parties": 50}, {"alpha": 0.2}]
    lines = [line(config={"method": {}, "cut": cut}, config_hash=str(number)) for number, cut in enumerate(cuts)]
    assert [(row["host"], row["parties"], row["alpha"]) for row in rows(lines)] == [
        ("1", "–", "–"),
        ("2", "–", "–"),
        ("1", "50", "–"),
        ("1", "–", "0.2"),
    ]
    assert not {"host", "parties", "alpha", "epsilon", "predicted without"} & set(rows(lines[:1])[0])


def test_rows_that_spent_more_or_predicted_without_guests_are_apart_and_show_it() -> None:
    spent = [line(epsilon=2.004, config_hash="1"), line(epsilon=1.1, config_hash="2")]  # rounded up, never down
    lines = [line(epsilon=None), *spent, line(without=["b", "c"]), line(without=[])]
    assert [(row["epsilon"], row["predicted without"], row["seeds"]) for row in rows(lines)] == [
        ("–", "–", "2"),
        ("2.01", "–", "1"),
        ("1.10", "–", "1"),
        ("–", "b, c", "1"),
    ]


def test_rows_that_differ_in_their_encoders_alone_say_so() -> None:
    lines = [
        line(config={"method": {}, "encoders": {"host": None, "a": ["cnn", dim]}}, config_hash=str(dim))
        for dim in (8, 16)
    ]
    assert [row["settings"] for row in rows(lines)] == ["dim=8", "dim=16"]


def test_a_published_figure_stands_where_all_that_it_asks_for_is_so(tmp_path: Path) -> None:
    lines = [
        line(
            table="table6",
            epsilon=epsilon,
            config={"method": {"epsilon": epsilon, "division": division}, "cut": {"host": host}},
            config_hash=f"{epsilon} {division} {host}",
        )
        for epsilon, division, host in (
            (2.0, "moments", 1),
            (2.0, "simple", 1),
            (4.0, "moments", 1),
            (2.0, "moments", 2),
        )
    ]
    head = "table,method,data,aligned,host,epsilon,division,metric,value,source\n"
    figures = (
        "table6,one-shot,cifar10,,1,2.0,moments,accuracy,0.8213,paper\n"
        "table6,one-shot,cifar10,,1,2.0,simple,accuracy,0.4529,paper\n"
        "table6,one-shot,cifar10,1024,2,,,accuracy,0.8257,paper\n"
        "table7,one-shot,cifar10,,,,,accuracy,0.9805,another table\n"
    )
    path = document(tmp_path, lines, "")
    (tmp_path / "published.csv").write_text(head + figures)
    assert [row["published accuracy"] for row in cells(refresh(path))] == ["0.8213", "0.4529", "–", "0.8257"]
    (tmp_path / "published.csv").write_text(head + figures.replace("table7", "table6"))
    with pytest.raises(InputError, match="two published figures are for one-shot on cifar10"):
        refresh(path)


def test_computed_figures_have_their_own_heads_and_four_digits(tmp_path: Path) -> None:
    figures = [
        {"k": 1000, "epsilon": 130.976, "less": 0.88901, "published": None},
        {"k": 1, "epsilon": 2.2283, "less": 0.0},
    ]
    lines = [{"table": "fig10", "figures": one} for one in figures]
    heads, body = summarise(lines)
    assert heads == ["k", "epsilon", "less", "published"]
    assert body == [["1,000", "131.0", "0.889", "–"], ["1", "2.228", "0.000", "–"]]


def test_a_block_of_bytes_to_reach_is_filled(tmp_path: Path) -> None:
    config = {"method": {}, "overlap": {}, "encoders": {}}
    lines = [
        line(method, title=method, curve=curve, config=config)
        for method, curve in (("fedonce", [[2e6, 0.5]]), ("split-nn", [[1e6, 0.4], [34e6, 0.6]]))
    ]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    (tmp_path / "README.md").write_text("<!-- bytes to reach: lines.jsonl -->\nold\n<!-- end of table -->\n")
    (row,) = cells(refresh(tmp_path / "README.md"))
    assert (row["data"], row["fedonce, MB"], row["split-nn to be as good"]) == ("cifar10", "2.000", "17.0 times")


def test_a_reference_that_sends_nothing_has_empty_costs() -> None:
    costs = {"rounds": None, "messages": None, "bytes": {"wire": None}, "wire": None}
    (row,) = rows([line("pooled-tree", **costs)])
    assert {row[head] for head in ("wire", "rounds", "messages", "MB")} == {"–"}


@pytest.mark.parametrize(
    ("published", "sentence"),
    [
        ("table1,one-shot,cifar10,many,accuracy,0.8,paper\n", "no file of published figures .*many"),
        ("table1,one-shot,cifar10,256,accuracy,high,paper\n", "no file of published figures .*high"),
        ("table1,one-shot\n", "no file of published figures"),
        ("table1,one-shot,cifar10,256,MB,1,paper\n" * 2, "MB of one-shot at 256 twice"),
    ],
)
def test_a_published_figure_that_cannot_be_read_is_refused(tmp_path: Path, published: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        refresh(document(tmp_path, [line()], published))
