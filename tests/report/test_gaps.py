"""The picture of gaps: a panel a number of aligned rows, our filled shapes joined to the hollow ones of the paper."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from vesica.errors import InputError
from vesica.experiment.published import Published, read_published
from vesica.experiment.tables import read_lines
from vesica.report import gaps
from vesica.report.gaps import picture

ROOT = Path(__file__).parents[2]
ONE_SHOT = ROOT / "experiments" / "one_shot"
SVG = "{http://www.w3.org/2000/svg}"
Place = tuple[float, float]  # in pixels from the left and from the top


def line(title: str, mb: float, accuracy: float, *, aligned: int = 256, **more: Any) -> dict[str, Any]:
    return {
        "method": title.split(" ")[0],
        "title": title,
        "data": "cifar10",
        "seed": 0,
        "rows": {"aligned": aligned, "labelled": aligned},
        "metrics": {"accuracy": accuracy},
        "bytes": {"wire": int(1e6 * mb)},
        "wire": "float32",
        "seconds": 1.0,
        "config": {"metric": "accuracy", "method": {}},
        "config_hash": title,
        "table": "table1",
        **more,
    }


def paper(*figures: tuple[str, float, float], aligned: Sequence[str] = ("256",)) -> dict[str, Published]:
    """The same figures for each number of aligned rows."""
    said = {(title, mb, value, rows) for title, mb, value in figures for rows in aligned}
    return {"table1": {(title, "cifar10", n): {"MB": str(mb), "accuracy": str(v)} for title, mb, v, n in said}}


ONCE, SPLIT = line("one-shot", 1, 0.7), line("split-nn", 100, 0.4)
BOTH = paper(("one-shot", 1, 0.8), ("split-nn", 1000, 0.3))


def words(drawing: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


def shapes(drawing: str, fill: str) -> list[Place]:
    """Where shapes with this fill stand inside the panels, by method as they are registered, in each panel."""
    groups = [group for group in ElementTree.fromstring(drawing).iter(f"{SVG}g") if group.get("clip-path")]
    found = [use for group in groups for use in group.iter(f"{SVG}use") if f"fill: var(--{fill}" in use.attrib["style"]]
    return [(float(use.attrib["x"]), float(use.attrib["y"])) for use in found]


def ours(drawing: str) -> list[Place]:
    return shapes(drawing, "series")


def theirs(drawing: str) -> list[Place]:
    return shapes(drawing, "paper")


def joins(drawing: str) -> list[list[Place]]:
    """The thin lines inside the panels, each as its two ends."""
    found = re.findall(r'd="M ([\d.]+) ([\d.]+) *\nL ([\d.]+) ([\d.]+) *\n" clip[^>]*var\(--series', drawing)
    return [[(float(a), float(b)), (float(c), float(d))] for a, b, c, d in found]


def results() -> list[dict[str, Any]]:
    return [one for name in ("one-shot-cifar", "table1") for one in read_lines(ONE_SHOT / "results" / f"{name}.jsonl")]


def committed() -> str:
    lines = results()
    tables = {one["table"] for one in lines}
    return picture(lines, {table: read_published(ONE_SHOT / "published.csv", tables=[table]) for table in tables})


def test_every_number_of_aligned_rows_has_a_panel_the_fewest_first_that_names_its_methods() -> None:
    lines = [{**one, "rows": {"aligned": n, "labelled": n}} for n in (2048, 256) for one in (ONCE, SPLIT)]
    said = words(picture(lines, paper(("one-shot", 1, 0.8), aligned=("256", "2,048"))))
    headings = [f"cifar10, {n} aligned rows: accuracy (higher is better)" for n in ("256", "2,048")]
    assert [word for word in said if "aligned rows" in word] == headings
    assert [said.count(name) for name in ("one-shot", "split-nn")] == [2, 2]
    assert {"few messages", "a batch at a time", "hollow: published, joined to ours where we have run it"} <= set(said)


def test_ours_is_filled_and_the_published_hollow_each_at_its_bytes_and_its_value() -> None:
    there = line("few-shot", 10, 0.8)
    drawing = picture([ONCE, there, SPLIT], paper(("one-shot", 10, 0.8), ("split-nn", 10, 0.7)))
    split, once, few = ours(drawing)
    assert theirs(drawing) == [(few[0], once[1]), few]
    assert split[0] - few[0] == pytest.approx(few[0] - once[0])  # ten times as many bytes, twice
    assert few[0] - once[0] > 50
    assert split[1] - few[1] == pytest.approx(4 * (once[1] - few[1]))  # an SVG counts from the top
    assert once[1] - few[1] > 20


def test_a_line_joins_ours_to_the_published_figure_of_the_same_method_and_size() -> None:
    more = [line("one-shot", 4, 0.9, aligned=1024), line("split-nn", 400, 0.5, aligned=1024)]
    told = BOTH["table1"] | paper(("split-nn", 4000, 0.4), aligned=["1,024"])["table1"]
    drawing = picture([ONCE, SPLIT, *more], {"table1": told})
    assert [list(ends) for ends in zip(ours(drawing), theirs(drawing), strict=False)] == joins(drawing)
    assert (len(ours(drawing)), len(theirs(drawing))) == (4, 3)


def test_where_nothing_is_published_of_so_many_rows_there_is_no_panel() -> None:
    drawing = picture([ONCE, SPLIT, line("one-shot", 4, 0.9, aligned=1024)], BOTH)
    assert drawing == picture([ONCE, SPLIT], BOTH)


def test_what_was_published_of_as_many_rows_and_not_run_is_hollow_and_has_a_name() -> None:
    told = paper(("one-shot", 1, 0.8), ("split-nn", 100, 0.3), ("few-shot + finetune", 10, 0.9), aligned=("256", "512"))
    figures = {"MB": "5", "accuracy": "0.5"}
    elsewhere = {
        ("few-shot", "cifar10", "256"): {"accuracy": "0.8", "rounds": "5"},
        ("local-only", "cifar10", "256"): {"accuracy": "0.3", "MB": "0"},
        ("fedbcd", "mnist", "256"): figures,
        ("fedcvt", "cifar10", "256", "host=1"): figures,
    }
    drawing = picture([ONCE], {"table1": told["table1"] | elsewhere, "again": told["table1"]})
    assert not {"local-only", "fedbcd", "fedcvt"} & set(words(drawing))
    assert [words(drawing).count(name) for name in ("one-shot", "split-nn", "few-shot + finetune", "few-shot")] == [
        1,
        1,
        1,
        0,
    ]
    once, *others = theirs(drawing)
    assert joins(drawing) == [[*ours(drawing), once]]
    few, split = sorted(others)
    assert split[0] - few[0] == pytest.approx(few[0] - once[0])
    assert few[1] < once[1] < split[1]
    assert {"few messages", "a batch at a time"} <= set(words(drawing))


def test_what_was_published_of_a_thousand_rows_or_more_is_found_too() -> None:
    told = paper(("one-shot", 1, 0.8), ("split-nn", 100, 0.3), aligned=("1,024",))
    drawing = picture([line("one-shot", 1, 0.7, aligned=1024)], told)
    assert (len(ours(drawing)), len(theirs(drawing))) == (1, 2)


def test_what_was_run_and_sent_nothing_is_not_said_to_be_published_alone() -> None:
    drawing = picture([ONCE, line("local-only", 0, 0.3)], paper(("one-shot", 1, 0.8), ("local-only", 1, 0.4)))
    assert "local-only" not in words(drawing)


def test_two_recipes_that_publish_one_title_differently_are_refused() -> None:
    other = {**BOTH, "again": paper(("split-nn", 1000, 0.4))["table1"]}
    with pytest.raises(InputError, match="two published figures are for split-nn on cifar10: give results of one"):
        picture([ONCE], other)


def test_our_own_are_filled_even_where_their_family_is_hollow_elsewhere() -> None:
    drawing = picture([ONCE, line("pooled", 5, 0.9)], paper(("one-shot", 1, 0.8)))
    assert (len(shapes(drawing, "soft")), len(theirs(drawing))) == (1, 1)


def test_colours_and_shapes_are_those_of_families() -> None:
    drawing = picture([ONCE, SPLIT, line("fedcvt", 50, 0.5)], BOTH)
    uses = re.findall(r'href="#([\w-]+)" x="[\d.]+" y="[\d.]+" style="fill: var\(--(series-\d)\)', drawing)
    split, fedcvt, once = uses[:3]
    assert split == fedcvt
    assert (split[1], once[1]) == ("series-2", "series-1")
    outline = dict(re.findall(r'<path id="([\w-]+)" d="([^"]+)"', drawing))
    assert outline[split[0]] != outline[once[0]]
    assert re.findall(r"fill: var\(--paper\); stroke: var\(--(series-\d)\)", drawing) == ["series-2", "series-1"]


def test_of_two_settings_the_one_given_last_counts_with_all_its_seeds() -> None:
    weak = [{**SPLIT, "config_hash": "weak", "seed": i, "metrics": {"accuracy": 0.5 + i / 5}} for i in range(2)]
    mean = {**SPLIT, "metrics": {"accuracy": 0.6}}
    assert picture([ONCE, SPLIT, *weak], BOTH) == picture([ONCE, mean], BOTH)
    assert picture([*weak, SPLIT, ONCE], BOTH) == picture([ONCE, SPLIT], BOTH)
    larger = {**SPLIT, "config_hash": "weak", "rows": {"aligned": 512, "labelled": 512}}
    told = paper(("split-nn", 1000, 0.3), aligned=("256", "512"))
    assert len(ours(picture([ONCE, SPLIT, larger], told))) == 3
    with pytest.raises(InputError, match="'split-nn' on cifar10 with 256 aligned rows was run twice with one seed"):
        picture([SPLIT, SPLIT], BOTH)


def test_what_a_run_reached_on_its_way_has_a_shape_too() -> None:
    way = [line(title, 20, 0.8, seconds=None) for title in ("one-shot", "few-shot")]
    told = paper(*((title, 30, 0.7) for title in ("one-shot", "few-shot", "few-shot + finetune")))
    drawing = picture([*way, line("few-shot + finetune", 60, 0.9)], told)
    assert (len(ours(drawing)), len(theirs(drawing))) == (3, 3)
    assert {"one-shot", "few-shot", "few-shot + finetune"} <= set(words(drawing))


def test_a_method_that_was_not_published_stands_alone_and_one_that_sends_nothing_has_no_place() -> None:
    told = paper(("one-shot", 1, 0.8))
    drawing = picture([ONCE, line("fedonce", 2, 0.6), line("local-only", 0, 0.3)], told)
    assert (len(ours(drawing)), len(theirs(drawing)), len(joins(drawing))) == (2, 1, 1)
    assert "fedonce" in words(drawing)
    assert "local-only" not in words(drawing)


@pytest.mark.parametrize(
    ("lines", "published"),
    [
        ([ONCE], {"table1": {("one-shot", "cifar10", "256"): {"accuracy": "0.8", "rounds": "3"}}}),  # without bytes
        ([ONCE], paper(("one-shot", 1, 0.8), aligned=["512"])),
        ([{**ONCE, "table": "another"}], BOTH),
        ([], BOTH),
    ],
)
def test_results_without_a_published_figure_are_refused(lines: list[Any], published: dict[str, Published]) -> None:
    with pytest.raises(InputError, match="no result has a published figure"):
        picture(lines, published)


def test_a_name_is_nearest_to_its_own_shape() -> None:
    drawing = committed()
    methods = r"split-nn|fedbcd|fedcvt|fedonce|one-shot|few-shot(?: \+ finetune)?"
    names = re.findall(rf'x="([\d.]+)" y="([\d.]+)"[^>]*>({methods})<', drawing)
    run = {(f"{one['rows']['aligned']:,}", one["title"]) for one in results()}
    joined = [end for _, end in joins(drawing)]
    filled, hollow = iter(ours(drawing)), iter([place for place in theirs(drawing) if place not in joined])
    for (x, y, name), aligned in zip(names, panels_of(drawing, methods), strict=True):
        right, top, bottom = float(x) + 6.5 * len(name), float(y) - 10.5, float(y) + 2.5

        def distance(place: Place, box: tuple[float, ...] = (float(x), right, top, bottom)) -> float:
            return max(box[0] - place[0], place[0] - box[1], 0) + max(box[2] - place[1], place[1] - box[3], 0)

        own = distance(next(filled if (aligned, name) in run else hollow))
        assert 3 < own < 25
        assert own <= min(distance(place) for place in (*ours(drawing), *theirs(drawing))) + 0.5
    assert not [*filled, *hollow]


def panels_of(drawing: str, names: str) -> list[str]:
    """The number of aligned rows of the panel that each name is in."""
    found: list[str] = []
    for panel in re.finditer(r"(.*?)>cifar10, ([\d,]+) aligned rows", drawing, flags=re.DOTALL):
        found += [panel[2]] * len(re.findall(rf">(?:{names})<", panel[1]))
    return found


def test_the_picture_needs_nothing_else_and_is_the_same_every_time() -> None:
    drawing = picture([ONCE, SPLIT], BOTH)
    assert drawing == picture([ONCE, SPLIT], BOTH)
    assert set(re.findall(r"https?://[^\"' ]+", drawing)) == {"http://www.w3.org/2000/svg"}
    assert set(re.findall(r"var\((--[\w-]+)\)", drawing)) <= set(re.findall(r"(--[\w-]+):", drawing))
    assert "#0101" not in drawing


def test_the_command_reads_results_and_the_figures_of_their_recipes_and_writes_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked(*names: str, out: str) -> int:
        given = [str(tmp_path / name) for name in names]
        options = ["--published", str(tmp_path / "published.csv"), "--out", str(tmp_path / out)]
        monkeypatch.setattr(sys, "argv", ["gaps", *given, *options])
        return gaps.main()

    alone = {**ONCE, "table": "alone"}
    told = [("table1", "one-shot", 1, 0.8), ("table1", "split-nn", 1000, 0.3), ("alone", "one-shot", 2, 0.9)]
    rows = [
        f"{table},{name},cifar10,256,MB,{mb},p\n{table},{name},cifar10,256,accuracy,{v},p"
        for table, name, mb, v in told
    ]
    (tmp_path / "published.csv").write_text("table,method,data,aligned,metric,value,source\n" + "\n".join(rows))
    (tmp_path / "one.jsonl").write_text(json.dumps(alone))
    (tmp_path / "two.jsonl").write_text(json.dumps(SPLIT))
    assert asked("one.jsonl", "two.jsonl", out="a.svg") == 0
    figures = {**BOTH, "alone": paper(("one-shot", 2, 0.9))["table1"]}
    assert (tmp_path / "a.svg").read_text() == picture([alone, SPLIT], figures)
    assert asked("none.jsonl", out="b.svg") == 2
    assert f"vesica: {tmp_path / 'none.jsonl'} is no file of results" in capsys.readouterr().err
    (tmp_path / "published.csv").unlink()
    assert asked("one.jsonl", out="b.svg") == 2
    assert f"vesica: {tmp_path / 'published.csv'} is no file of published figures" in capsys.readouterr().err
    assert not (tmp_path / "b.svg").exists()


def test_the_picture_in_the_documents_is_of_the_results_beside_the_recipes() -> None:
    now, made = (ROOT / "docs" / "one-shot-gaps.svg").read_text(), committed()
    again = "draw it again with python -m vesica.report.gaps"
    assert words(now) == words(made), again
    for part in (ours, theirs):
        assert sum(part(now), ()) == pytest.approx(sum(part(made), ()), abs=0.1), again
