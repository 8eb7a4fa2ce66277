"""The page of an audit: the worst first, what is proven apart from what was measured, and nothing left unsaid."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from report.test_report import CHROMIUM, QUIET
from vesica.errors import InputError
from vesica.experiment.audit.audit import Audit, Got
from vesica.experiment.audit.findings import Finding
from vesica.experiment.audit.findings import Measured as Figures
from vesica.report.audit_page import write_audit, write_sweep
from vesica.report.findings import WIDTH


def measured_as(value: float, low: float, high: float, nothing: float) -> Figures:
    """Told apart from nothing where the whole interval lies above."""
    return Figures(value, low, high, nothing, low > nothing)


LABELS = "the labels of 1000 aligned rows, up to renaming the classes,"
CLUSTERS = Finding(
    "shop", "bank", LABELS, "k-means on the gradients", "its messages alone", "purity of its clusters",
    measured_as(0.95, 0.93, 0.97, 0.75),
)  # fmt: skip
COLUMNS = Finding(
    "bank", "shop", "the columns of 6920 rows", "an inverse of the representations",
    "80 of those rows in full, from elsewhere", "share that came back", measured_as(0.64, 0.62, 0.66, 0.0),
    detail="Most of all: AGE 0.89.",
)  # fmt: skip
COMPLETED = Finding(
    "shop", "bank", "the labels of 6920 common rows", "model completion (plain)", "80 labels from elsewhere", "AUC",
    measured_as(0.66, 0.65, 0.68, 0.5), at_home=0.625,
)  # fmt: skip
MEMBERS = Finding(
    "whoever may ask for predictions", "bank", "which of 6900 rows are the 900 trained on", "a threshold on the loss",
    "the rows, their labels and predictions", "true-positive rate at 1.0% false positives",
    measured_as(0.009, 0.004, 0.017, 0.01),
)  # fmt: skip
GUARANTEE = "Differential privacy with epsilon 1.000 and delta 0; neighbours differ in one row's label."
OWN_WORDS = "Each label went through randomised response (epsilon = 1). Not covered: the features."
DISCLOSED = "The gradients disclose the labels."


def result(*, auc: float | None = 0.7477, label_epsilon: float | None = None, seed: int = 0) -> dict[str, Any]:
    return {
        "method": "one-shot", "data": "credit", "seed": seed, "parties": ["bank", "shop"], "rows": {"aligned": 1000},
        "metrics": {"auc": auc, "accuracy": 0.8}, "epsilon": label_epsilon, "delta": None, "protects": "labels",
        "config": {"metric": "auc", "method": {"label_epsilon": label_epsilon}}, "version": "0.1.0",
    }  # fmt: skip


def audited(*findings: Finding, but: dict[str, Any] | None = None, run: dict[str, Any] | None = None) -> dict[str, Any]:
    got = [
        Got("bank", "shop", "representations", messages=3, rows=7000, numbers=256_000, bytes=1_024_408),
        Got("shop", "bank", "gradients", messages=1, rows=1000, numbers=32_000, bytes=128_144),
    ]
    found = Audit(run or result(), ["bank", "shop"], got, list(findings), [], [DISCLOSED], ["XGBoost's own messages."])
    return found.to_json() | (but or {})


def everything() -> dict[str, Any]:
    bounded = replace(MEMBERS, bound=0.027)
    return audited(CLUSTERS, COLUMNS, COMPLETED, bounded, but={"guarantees": [GUARANTEE]})


def page(folder: Path, audit: dict[str, Any], *, title: str = "Vesica audit") -> str:
    write_audit(folder / "audit.html", audit, title=title)
    return (folder / "audit.html").read_text(encoding="utf-8")


def text(html: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html.split("<main>")[1].split("</main>")[0]))).strip()


def part(html: str, heading: str) -> str:
    """What stands under a heading, without the markup."""
    return text(f"<main>{html.split(f'<h2>{heading}</h2>')[1].split('</section>')[0]}</main>")


def test_the_parts_come_in_the_order_that_a_reader_in_a_hurry_needs(tmp_path: Path) -> None:
    html = page(tmp_path, everything(), title="Credit & shop")
    assert "<h1>Credit &amp; shop</h1>" in html
    assert re.findall("<h2>(.*?)</h2>", html) == [
        "The worst finding",
        "What is proven",
        "What was only measured",
        "What each party received",
        "What the run says of itself",
        "What was not tried",
        "How to read this page",
    ]
    assert "credit · one-shot · 1,000 aligned rows · AUC 0.7477 · seed 0 · Vesica 0.1.0" in html
    assert [path.name for path in tmp_path.iterdir()] == ["audit.html"]


def test_the_worst_finding_comes_first_in_one_sentence_with_its_figure(tmp_path: Path) -> None:
    html = page(tmp_path, audited(COMPLETED, CLUSTERS, COLUMNS, MEMBERS))
    assert text(html).startswith(
        "The worst finding"
        "shop could learn the labels of 1000 aligned rows, up to renaming the classes (a secret of bank): "
        "purity of its clusters 0.950, where knowing nothing gives 0.750 and knowing everything 1."
    )
    assert "3 of 4 findings are more than knowing nothing gives" in part(html, "The worst finding")


def test_a_high_figure_that_may_be_chance_is_not_the_worst_finding(tmp_path: Path) -> None:
    noisy = replace(MEMBERS, measured=measured_as(0.99, 0.005, 1.0, 0.01))
    assert "shop could learn" in part(page(tmp_path, audited(noisy, COMPLETED)), "The worst finding")


def test_the_worst_finding_says_what_its_attacker_could_do_without_the_run(tmp_path: Path) -> None:
    html = page(tmp_path, audited(COMPLETED))
    assert "Without this run such attacks reach 0.625." in part(html, "The worst finding")
    assert "Without this run" not in part(page(tmp_path, audited(CLUSTERS)), "The worst finding")


def test_where_no_attack_got_anywhere_the_page_says_so_and_that_it_proves_nothing(tmp_path: Path) -> None:
    html = page(tmp_path, audited(MEMBERS))
    assert "No attack that was tried got further than knowing nothing" in part(html, "The worst finding")
    assert "An attack that fails is no proof of safety" in part(html, "How to read this page")
    assert "No attack could be tried" in part(page(tmp_path, audited()), "The worst finding")


def test_what_is_proven_stands_apart_from_what_was_measured(tmp_path: Path) -> None:
    said = {"guarantees": [GUARANTEE, OWN_WORDS], "statements": [OWN_WORDS, DISCLOSED]}
    html = page(tmp_path, audited(CLUSTERS, but=said))
    proven = part(html, "What is proven")
    assert proven.index("epsilon 1.000") < proven.index("In the run's own words") < proven.index("Not covered")
    assert "purity" not in proven
    assert "epsilon 1.000" not in part(html, "What was only measured")
    assert part(html, "What the run says of itself") == DISCLOSED  # what stands above is not said again


def test_a_run_without_a_guarantee_has_nothing_proven(tmp_path: Path) -> None:
    assert part(page(tmp_path, audited(CLUSTERS)), "What is proven").startswith("Nothing.")


def test_findings_are_sorted_by_how_much_was_learned_and_not_by_their_figure(tmp_path: Path) -> None:
    strong = replace(CLUSTERS, measured=measured_as(0.7, 0.6, 0.8, 0.1))  # two thirds of the way
    weak = replace(COLUMNS, measured=measured_as(0.9, 0.85, 0.95, 0.88))  # a sixth of it
    measured = part(page(tmp_path, audited(weak, strong)), "What was only measured")
    assert measured.index("k-means") < measured.index("an inverse")


def test_a_finding_says_who_what_how_with_what_and_how_well(tmp_path: Path) -> None:
    measured = part(page(tmp_path, audited(COLUMNS)), "What was only measured")
    for words in (
        "bank about shop: the columns of 6920 rows",
        "Most of all: AGE 0.89.",
        "an inverse of the representations",
        "80 of those rows in full, from elsewhere",
        "share that came back 0.640",
        "95 %: 0.620 to 0.660",
    ):
        assert words in measured


def bars(html: str) -> list[tuple[str, float]]:
    found = re.findall(r'<rect class="(told|untold)" y="3" width="([\d.-]+)"', html.split("What was only measured")[1])
    return [(name, float(width) / WIDTH) for name, width in found]


def test_a_bar_goes_from_knowing_nothing_to_everything_and_is_grey_where_it_may_be_chance(tmp_path: Path) -> None:
    whole = replace(CLUSTERS, measured=measured_as(1.0, 1.0, 1.0, 0.75))
    worse_than_nothing = replace(COMPLETED, measured=measured_as(0.4, 0.3, 0.6, 0.5), at_home=None)
    shown = bars(page(tmp_path, audited(worse_than_nothing, CLUSTERS, whole)))
    assert [name for name, _ in shown] == ["told", "told", "untold"]
    assert [length for _, length in shown] == pytest.approx([1.0, 0.8, 0.0], abs=0.001)  # never below nothing


def test_what_the_attacker_can_do_anyway_and_the_bound_are_columns_only_where_known(tmp_path: Path) -> None:
    plain = page(tmp_path, audited(CLUSTERS)).split("<dl>")[0]
    assert 'class="home"' not in plain
    assert "proven bound</th>" not in plain
    full = page(tmp_path, audited(COMPLETED, replace(MEMBERS, bound=0.027)))
    assert "without this run</th>" in full
    assert "proven bound</th>" in full
    assert f'class="home" x1="{WIDTH / 4:.1f}"' in full  # 0.625 is a quarter of the way from 0.5
    measured = part(full, "What was only measured")
    assert "without this run0.625" in measured
    assert "proven bound0.027" in measured
    assert "exceeded" not in full


def test_a_figure_above_its_bound_is_called_out_at_the_top(tmp_path: Path) -> None:
    broken = replace(MEMBERS, measured=measured_as(0.2, 0.15, 0.25, 0.01), bound=0.027)
    html = page(tmp_path, audited(broken))
    assert part(html, "The worst finding").startswith("Whoever may ask for predictions could learn which of 6900 rows")
    assert "above what the guarantee allows" in part(html, "The worst finding")
    assert "exceeded" in part(html, "What was only measured")


def test_an_attack_that_ended_in_no_figure_is_said_and_not_shown_as_a_finding(tmp_path: Path) -> None:
    nothing = replace(COMPLETED, measured=measured_as(float("nan"), float("nan"), float("nan"), 0.5))
    html = page(tmp_path, audited(nothing, CLUSTERS))
    assert "nan" not in text(html)
    assert "By 'model completion (plain) (AUC)' no figure came out." in part(html, "What was not tried")
    assert "XGBoost's own messages." in part(html, "What was not tried")


def test_what_each_party_received_is_counted(tmp_path: Path) -> None:
    received = part(page(tmp_path, everything()), "What each party received")
    assert "bank received 1.02 MB in 3 messages" in received
    assert re.search(r"representations ?from shop ?3 ?7,000 ?256,000 ?1.02 MB", received)
    assert received.index("bank received") < received.index("shop received 128.1 kB in 1 message")
    silent = part(page(tmp_path, audited(but={"received": []})), "What each party received")
    assert "shop received nothing." in silent


def test_words_that_occur_are_explained_and_others_are_not(tmp_path: Path) -> None:
    few = part(page(tmp_path, audited(COLUMNS)), "How to read this page")
    assert "share that came back" in few
    assert "purity" not in few
    full = page(tmp_path, everything()).split("<dl>")[1]
    for word in ("AUC", "purity", "true-positive rate", "epsilon", "delta", "neighbours", "gradients", "95 % interval"):
        assert f"<dt>{word}</dt>" in full


def swept(*plan: tuple[float | None, float, float]) -> list[dict[str, Any]]:
    """Audits of label_epsilon, the AUC of the run and the purity of the clusters."""
    return [
        audited(
            replace(CLUSTERS, measured=measured_as(purity, purity - 0.02, purity + 0.02, 0.75)),
            COLUMNS,
            run=result(auc=auc, label_epsilon=epsilon),
        )
        for epsilon, auc, purity in plan
    ]


PLAN = ((None, 0.75, 0.97), (8.0, 0.745, 0.95), (1.0, 0.73, 0.77))


def sweep_page(folder: Path, audits: Sequence[dict[str, Any]], *, field: str = "label_epsilon") -> str:
    write_sweep(folder / "sweep.html", audits, field=field)
    return (folder / "sweep.html").read_text(encoding="utf-8")


def place(drawing: str, label: str) -> tuple[float, float]:
    found = re.search(rf'x="([\d.]+)" y="([\d.]+)"[^>]*>{re.escape(label)}<', drawing)
    assert found, label
    return float(found[1]), float(found[2])


def panels(html: str) -> dict[str, str]:
    found = re.findall(r"<figure><h4>(.*?)</h4>(.*?)</figure>", html, flags=re.DOTALL)
    return {heading: drawing for heading, drawing in found}


def test_a_sweep_says_what_the_defence_costs_and_saves_for_each_side(tmp_path: Path) -> None:
    html = sweep_page(tmp_path, swept(*PLAN))
    short = part(html, "What it costs and what it saves")
    assert short.startswith(
        "From label_epsilon none to 1, AUC goes from 0.7500 to 0.7300, and the most that an attack learned goes "
        "from 88.0 % to 8.0 % about bank and from 64.0 % to 64.0 % about shop"
    )
    assert short.index("label_epsilon none") < short.index("label_epsilon 8") < short.rindex("label_epsilon 1")
    assert "protects labels" in short
    assert "epsilon 8.000" in short


def test_a_sweep_draws_each_attack_as_a_line_from_setting_to_setting(tmp_path: Path) -> None:
    drawn = panels(sweep_page(tmp_path, swept(*PLAN)))
    assert list(drawn) == ["k-means on the gradients", "an inverse of the representations"]  # what leaked most first
    drawing = drawn["k-means on the gradients"]
    assert "shop about bank" in drawing
    assert "AUC of the run (higher is better)" in drawing
    (x_none, y_none), (_, y_8), (x_1, y_1) = (place(drawing, label) for label in ("none", "8", "1"))
    assert x_1 < x_none
    assert y_none < y_1
    assert y_8 < y_1
    assert "stroke-dasharray" in drawing  # knowing nothing


def test_of_rmse_the_plot_says_that_lower_is_better(tmp_path: Path) -> None:
    run = result() | {"config": {"metric": "rmse"}, "metrics": {"rmse": 0.3}}
    html = sweep_page(tmp_path, [audited(COLUMNS, run=run) | {"value": "on"}])
    assert "RMSE of the run (lower is better)" in html


def test_a_point_that_leaks_nothing_lies_on_the_dashed_line_and_others_above_it(tmp_path: Path) -> None:
    drawing = panels(sweep_page(tmp_path, swept((None, 0.75, 0.97), (1.0, 0.73, 0.75))))["k-means on the gradients"]
    dashed = re.search(r'd="M [\d.]+ ([\d.]+) *\n?L [\d.]+ [\d.]+ *\n?"[^>]*stroke-dasharray', drawing)
    points = re.findall(r'<use href="#panel-0-[^"]*" x="[\d.]+" y="([\d.]+)"[^>]*series-1', drawing)
    assert dashed
    heights = [float(dashed[1]) - float(y) for y in points]  # of the markers, and of the ends of their whiskers
    assert min(map(abs, heights)) < 0.01
    assert max(heights) > 100


def test_seeds_of_one_setting_are_one_point_with_their_mean(tmp_path: Path) -> None:
    html = sweep_page(tmp_path, swept((None, 0.75, 0.97), (1.0, 0.72, 0.8), (1.0, 0.74, 0.9)))
    assert "AUC goes from 0.7500 to 0.7300" in part(html, "What it costs and what it saves")
    figures = part(html, "The figures")
    assert "one standard deviation over the seeds" in figures
    assert "0.8500.779 to 0.921" in figures


def test_of_seeds_the_weakest_guarantee_counts_and_one_without_any_leaves_none(tmp_path: Path) -> None:
    def seeds(*plan: tuple[float | None, float | None]) -> str:
        audits = [
            audited(replace(MEMBERS, bound=bound), run=result(label_epsilon=epsilon)) | {"value": "on"}
            for epsilon, bound in plan
        ]
        return text(sweep_page(tmp_path, audits))

    weakest = seeds((1.0, 0.1), (2.0, 0.2))
    assert "epsilon 2.000" in weakest
    assert "at most 0.200" in weakest
    none = seeds((1.0, 0.1), (None, None))
    assert "provennothing" in none
    assert "at most 0.1" not in none


def test_the_value_beside_an_audit_names_the_point(tmp_path: Path) -> None:
    audits = [audit | {"value": name} for audit, name in zip(swept(*PLAN), ("off", "weak", "strong"), strict=True)]
    drawing = panels(sweep_page(tmp_path, audits, field="anything"))["k-means on the gradients"]
    assert place(drawing, "strong")[0] < place(drawing, "off")[0]


def test_a_finding_that_one_setting_lacks_is_a_dash_there(tmp_path: Path) -> None:
    first, second = swept((None, 0.75, 0.97), (1.0, 0.73, 0.77))
    second["findings"] = second["findings"][:1]
    assert "0.6400.620 to 0.660–" in part(sweep_page(tmp_path, [first, second]), "The figures")


def test_the_bound_of_a_guarantee_is_drawn_and_told(tmp_path: Path) -> None:
    bounded = [
        audited(replace(MEMBERS, bound=b), run=result(auc=a)) | {"value": str(b)} for a, b in ((0.7, 0.9), (0.6, 0.1))
    ]
    html = sweep_page(tmp_path, bounded)
    assert "Dotted: the most that the guarantee allows." in html
    dashes = set(re.findall(r"stroke-dasharray: ([\d. ,]+)", panels(html)["a threshold on the loss"]))
    assert len(dashes) == 2  # of the bound, and of knowing nothing
    assert "at most 0.100" in part(html, "The figures")
    assert "Dotted" not in sweep_page(tmp_path, swept(*PLAN))


@pytest.mark.parametrize(
    ("audits", "field", "says"),
    [
        ([], "label_epsilon", "no audit"),
        (swept(*PLAN), "noise", "no setting 'noise'"),
        ([*swept(*PLAN), audited(CLUSTERS, run=result() | {"method": "split-nn"})], "label_epsilon", "differ in"),
        ([audited(CLUSTERS), audited(CLUSTERS, run=result() | {"config": {"metric": "f1"}})], "x", "differ in"),
        ([audited(CLUSTERS, run=result(auc=None))], "label_epsilon", "has no auc"),
    ],
)
def test_audits_that_are_no_sweep_are_refused(tmp_path: Path, audits: Any, field: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        write_sweep(tmp_path / "sweep.html", audits, field=field)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "but",
    [{"findings": None}, {"run": []}, {"parties": []}, {"findings": [{"attack": "x"}]}, {"received": [{"kind": "x"}]}],
)
def test_what_is_no_audit_is_refused_by_the_part_that_is_wrong(tmp_path: Path, but: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"no usable '{next(iter(but))}'"):
        write_audit(tmp_path / "audit.html", everything() | but)
    assert not list(tmp_path.iterdir())


def evil_audits() -> list[dict[str, Any]]:
    evil = "<script>alert('x')</script>\"&--> id=\"a $x^{ \\1"
    found = Finding(evil, evil, evil, evil, evil, evil, COMPLETED.measured, at_home=0.6, bound=0.9, detail=evil)
    run = result() | dict.fromkeys(("data", "method", "version", "seed", "protects"), evil)
    run |= {"epsilon": 1.0, "config": {"metric": evil, "method": {evil: evil}}, "metrics": {evil: 0.5}}
    got = vars(Got(evil, evil, evil, 1, 2, 3, 4))
    said = {
        "parties": [evil, f"{evil}, who got nothing"],
        "received": [got],
        "guarantees": [evil],
        "statements": [f"{evil}2"],
        "not_tried": [evil],
    }
    return [audited(found, run=run, but=said | {"value": value}) for value in (evil, f"{evil}2")]


def test_everything_from_an_audit_is_escaped(tmp_path: Path) -> None:
    one, two = evil_audits()
    for html in (page(tmp_path, one, title=one["value"]), sweep_page(tmp_path, [one, two], field=one["value"])):
        assert "<script" not in html
        assert "&lt;script&gt;alert(" in html
        ids = re.findall(r'<[^>]*\sid="([^"]*)"', html)
        assert len(ids) == len(set(ids))


def both(folder: Path) -> list[str]:
    return [page(folder, everything()), sweep_page(folder, swept(*PLAN))]


def test_the_pages_point_at_nothing_outside_themselves_and_run_nothing(tmp_path: Path) -> None:
    for html in both(tmp_path):
        assert "default-src 'none'" in html
        assert set(re.findall(r"\bhttps?:[^\s\"'<>]*", html)) <= {"http://www.w3.org/2000/svg"}
        assert not re.search(r"\bsrc=|@import|<script|<link", html)
        assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', html))


def test_the_same_audit_gives_the_same_bytes(tmp_path: Path) -> None:
    assert both(tmp_path) == both(tmp_path)


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "audit.html").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_audit(tmp_path / "audit.html", everything())


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium or Chrome on the PATH")
@pytest.mark.parametrize("name", ["audit.html", "sweep.html"])
def test_a_browser_shows_the_page_without_a_complaint(tmp_path: Path, name: str) -> None:
    both(tmp_path)
    picture = tmp_path / "page.png"
    options = [f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={picture}", "--window-size=600,2400"]
    command = [str(CHROMIUM), *QUIET, *options, (tmp_path / name).as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in shown.stderr
    pixels = np.asarray(Image.open(picture).convert("L"))
    assert (pixels < 128).mean() > 0.005  # ink
    assert pixels[-1200:].std() > 1  # down the page too
