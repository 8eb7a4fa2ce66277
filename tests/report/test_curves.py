"""The picture of curves: a panel a data set, a line through every epoch, one message as a shape."""

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from vesica.errors import InputError
from vesica.experiment.tables import read_lines
from vesica.report import curves
from vesica.report.curves import STYLES, looks_of, picture

ROOT = Path(__file__).parents[2]
FEDONCE = ROOT / "experiments" / "fedonce" / "results"
SVG = "{http://www.w3.org/2000/svg}"
Place = tuple[float, float]  # in pixels from the left and from the top


def line(title: str, *curve: Place, data: str = "mnist", metric: str = "accuracy", **more: Any) -> dict[str, Any]:
    config = {"metric": metric}
    named = {"method": title.split(",")[0], "title": title, "data": data, "config": config, "config_hash": title}
    return {**named, "curve": curve, **more}


ONCE = line("fedonce", (1e6, 0.8))
MORE = line("fedonce, more rounds", (1e6, 0.8), (1e7, 0.7), (1e8, 0.9))
SPLIT = line("split-nn", (1e7, 0.6), (1e8, 0.8))
TREES = line("vertical-trees")


def words(drawing: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


def drawn(drawing: str) -> list[list[Place]]:
    """The lines that stand inside the panels, each as its corners; not those of the frames and of the legend."""
    found = ElementTree.fromstring(drawing).iter(f"{SVG}path")
    paths = [path for path in found if path.get("clip-path") and "var(--series" in path.get("style", "")]
    return [[(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path.get("d", ""))] for path in paths]


def shapes(drawing: str) -> list[Place]:
    """Where shapes stand inside the panels."""
    groups = [group for group in ElementTree.fromstring(drawing).iter(f"{SVG}g") if group.get("clip-path")]
    return [(float(use.attrib["x"]), float(use.attrib["y"])) for group in groups for use in group.iter(f"{SVG}use")]


def test_every_data_set_has_a_panel_that_names_its_metric_and_every_title_is_in_the_legend() -> None:
    other = line("split-nn", (1e7, -9.0), (1e8, -8.0), data="uji-position", metric="rmse")
    said = words(picture([ONCE, MORE, SPLIT, other]))
    for heading in ("mnist: accuracy (higher is better)", "uji-position: RMSE (lower is better)"):
        assert said.count(heading) == 1
    for title in ("fedonce", "fedonce, more rounds", "split-nn"):
        assert said.count(title) == 1


def test_a_line_goes_through_every_epoch_at_its_bytes_and_its_value() -> None:
    ((first, second, third),) = drawn(picture([MORE]))
    assert second[0] - first[0] == pytest.approx(third[0] - second[0])  # ten times as many bytes, twice
    assert second[0] - first[0] > 50
    assert second[1] - third[1] == pytest.approx(2 * (second[1] - first[1]))  # an SVG counts from the top
    assert second[1] - first[1] > 30


def test_a_metric_that_is_to_be_low_is_drawn_as_it_is() -> None:
    drawing = picture([line("split-nn", (1e7, -18.0), (1e8, -8.0), metric="rmse")])
    (((_, begin), (_, end)),) = drawn(drawing)
    assert begin < end
    assert {"8", "18"} <= set(words(drawing))
    assert not any(word.startswith(("-", "−")) for word in words(drawing))


def test_one_message_is_a_shape_where_the_line_of_more_rounds_begins() -> None:
    assert drawn(picture([ONCE])) == []
    drawing = picture([ONCE, MORE])
    assert len(shapes(picture([ONCE]))) == 1
    assert [drawn(drawing)[0][0]] * 2 == shapes(drawing)


def test_lines_and_shapes_differ_without_colour() -> None:
    looks = looks_of([ONCE, MORE, SPLIT])
    assert looks["fedonce"]["linestyle"] == ""
    assert looks["fedonce"]["marker"] == looks["fedonce, more rounds"]["marker"] != looks["split-nn"]["marker"]
    assert looks["fedonce, more rounds"]["linestyle"] != looks["split-nn"]["linestyle"]
    assert len(set(STYLES)) == len(STYLES)


def test_the_first_of_the_results_lies_on_top() -> None:
    assert [len(corners) for corners in drawn(picture([MORE, SPLIT]))] == [2, 3]


def test_a_title_has_one_look_in_every_panel() -> None:
    alone = line("split-nn", (1e7, 0.6), (1e8, 0.8), data="phishing")
    styles = re.findall(
        r'clip-path="[^"]*" style="(fill: none;[^"]*var\(--series-2\)[^"]*)"', picture([MORE, SPLIT, alone])
    )
    assert len(styles) == 2
    assert len(set(styles)) == 1


def test_every_seed_is_a_line_and_another_setting_is_refused() -> None:
    assert len(drawn(picture([SPLIT, {**SPLIT, "seed": 1}]))) == 2
    with pytest.raises(InputError, match="runs of one title on mnist differ in more than the seed"):
        picture([SPLIT, {**SPLIT, "config_hash": "another host"}])


def test_a_run_without_a_curve_is_left_out_and_none_with_one_is_refused() -> None:
    assert picture([SPLIT, TREES]) == picture([SPLIT])
    with pytest.raises(InputError, match="no result has a curve"):
        picture([TREES])


def test_the_picture_needs_nothing_else_and_is_the_same_every_time() -> None:
    drawing = picture([ONCE, MORE, SPLIT])
    assert drawing == picture([ONCE, MORE, SPLIT])
    assert set(re.findall(r"https?://[^\"' ]+", drawing)) == {"http://www.w3.org/2000/svg"}
    assert set(re.findall(r"var\((--[\w-]+)\)", drawing)) <= set(re.findall(r"(--[\w-]+):", drawing))
    assert "#0101" not in drawing


def test_a_heading_ends_before_the_next_panel_and_before_the_edge() -> None:
    drawing = picture([line("split-nn", (1e7, 0.6), (1e8, 0.8), data=f"cifar10-quadrant{i}") for i in "123"])
    (edge,) = re.findall(r'viewBox="0 0 ([\d.]+) ', drawing)
    found = re.findall(r'font-size: ([\d.]+)px[^>]* x="([\d.]+)"[^>]*>(cifar10-[^<]*)<', drawing)
    begins = [float(x) for _, x, _ in found]
    ends = [float(x) + 0.56 * float(size) * len(heading) for size, x, heading in found]
    assert len(found) == 3
    assert all(end < following for end, following in zip(ends, [*begins[1:], float(edge)], strict=True))


def test_the_command_reads_results_and_writes_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked(*arguments: str) -> int:
        monkeypatch.setattr(
            sys,
            "argv",
            ["curves", *(str(tmp_path / name) for name in arguments[:-1]), "--out", str(tmp_path / arguments[-1])],
        )
        return curves.main()

    (tmp_path / "one.jsonl").write_text("\n".join(map(json.dumps, (ONCE, MORE))))
    (tmp_path / "two.jsonl").write_text(json.dumps(SPLIT))
    assert asked("one.jsonl", "two.jsonl", "a.svg") == 0
    assert (tmp_path / "a.svg").read_text() == picture([ONCE, MORE, SPLIT])
    assert asked("none.jsonl", "b.svg") == 2
    assert f"vesica: {tmp_path / 'none.jsonl'} is no file of results" in capsys.readouterr().err
    assert asked("one.jsonl", "no/b.svg") == 2
    assert f"there is no directory {tmp_path / 'no'} to write b.svg to: make it first" in capsys.readouterr().err
    assert not (tmp_path / "b.svg").exists()


def test_the_picture_in_the_documents_is_of_the_results_beside_the_recipes() -> None:
    now = (ROOT / "docs" / "fedonce-curves.svg").read_text()
    made = picture([one for name in ("fig6", "fig11") for one in read_lines(FEDONCE / f"{name}.jsonl")])
    again = "draw it again with python -m vesica.report.curves"
    assert words(now) == words(made), again
    assert [len(corners) for corners in drawn(now)] == [len(corners) for corners in drawn(made)], again
    for before, after in zip(drawn(now), drawn(made), strict=True):
        assert sum(before, ()) == pytest.approx(sum(after, ()), abs=0.1), again
