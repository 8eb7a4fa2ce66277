"""The report: one page, complete in itself, that says what was run and what left each party."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from vesica.errors import InputError, RunFolderError
from vesica.report import ReportedRun, read_results, read_run, write_report
from vesica.report.conversation import HEAD, LONG, TAIL, conversation, size
from vesica.report.page import plotted_metric, summaries

Ledger = list[dict[str, Any]]
BANKS = ["bank", "shop", "telco", "insurer"]


def message(
    sender: str, receiver: str, kind: str, *, turn: int = 1, wire: int = 1000, phase: str = "training"
) -> dict[str, Any]:
    ends = {"phase": phase, "round": turn, "from": sender, "to": receiver}
    return ends | {"kind": kind, "payload": wire - 100, "wire": wire}


def agreement(parties: list[str]) -> Ledger:
    return [message(parties[0], guest, "agreement", turn=0, wire=1840, phase="agreement") for guest in parties[1:]]


def exchange(parties: list[str], *, rounds: int, up: int = 51_300, down: int = 51_200) -> Ledger:
    """Representations up, gradients down, in turn."""
    host, *guests = parties
    ledger: Ledger = []
    for turn in range(1, rounds + 1):
        for guest in guests:
            if turn % 2:
                ledger.append(message(guest, host, "representations", turn=turn, wire=up))
            else:
                ledger.append(message(host, guest, "gradients", turn=turn, wire=down))
    return ledger


def reported(
    method: str = "one-shot",
    *,
    seed: int = 0,
    auc: float | None = 0.75,
    parties: list[str] | None = None,
    ledger: Ledger | None = None,
    but: Mapping[str, Any] | None = None,
) -> ReportedRun:
    parties = ["bank", "shop"] if parties is None else parties
    ledger = exchange(parties, rounds=3) if ledger is None else ledger
    training = [entry for entry in ledger if entry["phase"] == "training"]
    up = sum(entry["wire"] for entry in training if entry["to"] == parties[0])
    total = sum(entry["wire"] for entry in training)
    unaligned = {party: 4000 + 500 * i for i, party in enumerate(parties)}
    result = {
        "method": method, "data": "credit", "seed": seed, "parties": parties,
        "rows": {"aligned": 1000, "labelled": 1000, "validation": 100, "unaligned": unaligned, "test": 6000},
        "metrics": {"accuracy": None if auc is None else auc + 0.06, "auc": auc, "f1": None, "rmse": None},
        "rounds": len({entry["round"] for entry in training}), "messages": len(training),
        "bytes": {"payload": total - 100 * len(training), "wire": total, "up": up, "down": total - up},
        "wire": "float32", "epsilon": None, "delta": None, "seconds": 12.5 + seed,
        "config": {"metric": "auc", "epochs": 50}, "config_hash": "9f86d081884c7d65", "version": "0.1.0",
    }  # fmt: skip
    return ReportedRun(result | dict(but or {}), ledger)


def page(tmp_path: Path, *runs: ReportedRun, title: str = "Vesica report") -> str:
    write_report(tmp_path / "report.html", runs, title=title)
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def realistic() -> list[ReportedRun]:
    """Eight methods and three seeds on credit, with three guests."""
    draw = np.random.default_rng(0)
    plan = {
        "local-only": (0.718, 0, 0, 0.0), "pooled": (0.781, 0, 0, 0.0), "one-shot": (0.752, 3, 512_000, 0.0),
        "few-shot": (0.761, 5, 512_000, 0.0), "fedonce": (0.741, 1, 512_000, 0.0),
        "fedhssl": (0.757, 400, 64_000, 0.0), "vflhlp": (0.744, 60, 128_000, 0.0),
        "split-nn": (0.763, 1334, 32_000, 0.0), "fedbcd": (0.7595, 420, 32_000, 2.0),
    }  # fmt: skip
    runs = []
    for method, (auc, rounds, wire, epsilon) in plan.items():
        for seed in range(3):
            ledger = agreement(BANKS) + exchange(BANKS, rounds=rounds, up=wire, down=wire - 200) if rounds else []
            value = round(auc + draw.normal(0, 0.003), 4)
            privacy = {"epsilon": epsilon or None, "delta": 1e-5 if epsilon else None}
            run = reported(method, seed=seed, auc=value, parties=BANKS, ledger=ledger, but=privacy)
            turns: Any = np.unique(np.geomspace(1, rounds, 12).astype(int)) if method == "split-nn" else []
            curve = [{"round": float(t), "bytes": float(t * 96_000), "value": value - 0.06 / t**0.5} for t in turns]
            runs.append(ReportedRun(run.result, run.ledger, curve))
    return runs


def test_zero_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one"):
        write_report(tmp_path / "report.html", [])
    assert not list(tmp_path.iterdir())


def test_one_run_gives_a_whole_page(tmp_path: Path) -> None:
    html = page(tmp_path, reported(), title="Credit, first try")
    assert html.startswith("<!DOCTYPE html>")
    assert html.count("<h1>Credit, first try</h1>") == 1
    for words in (
        "0.7500",
        "AUC against bytes",
        "AUC against rounds",
        ">shop 4,500</span>",
        "best federated",
    ):
        assert words in html
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]  # no temporary file is left


def test_everything_from_a_run_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>\"&--> id=\"a $x^{ \\1"
    parties = [evil, f"{evil}2"]
    names = dict.fromkeys(("data", "seed", "wire", "config_hash", "version"), evil)
    rows = {"aligned": 3, "unaligned": {evil: 3}, evil: 3}
    settings = {"config": {"metric": evil, evil: evil}, "metrics": {evil: 0.5}, "rows": rows}
    ledger = [*exchange(parties, rounds=2), message(evil, f"{evil}2", evil, turn=3)]
    run = reported(evil, parties=parties, ledger=ledger, but=names | settings)
    other = reported(evil, but=names | {"wire": "int8", "rows": {"aligned": 3}})
    html = page(tmp_path, run, other, title=evil)
    assert "<script" not in html
    assert "&lt;script&gt;alert(" in html


def test_what_a_run_gives_away_stands_before_its_conversation(tmp_path: Path) -> None:
    html = page(tmp_path, reported(but={"statements": ["The gradients disclose <every> label."]}))
    assert "What it gives away.</strong> The gradients disclose &lt;every&gt; label." in html


def test_a_name_that_looks_like_a_formula_or_has_foreign_letters_is_shown_as_it_is(tmp_path: Path) -> None:
    drawing = page(tmp_path, reported("$x^{$ 方法")).split('<svg class="plot"')[1]
    assert "$x^{$ 方法" in drawing


def test_seeds_of_one_configuration_are_one_row_with_mean_deviation_and_count(tmp_path: Path) -> None:
    runs = [reported(seed=seed, auc=auc) for seed, auc in enumerate((0.70, 0.72, 0.74))]
    html = page(tmp_path, *runs)
    assert html.count('<th scope="row"><strong>one-shot</strong>') == 1
    assert "0.7200 ± 0.0200" in html  # the sample standard deviation
    assert "3 <small>(0, 1, 2)</small>" in html


@pytest.mark.parametrize(
    "change", [{"wire": "int8"}, {"config_hash": "other"}, {"data": "adult"}, {"rows": {"aligned": 5}}]
)
def test_runs_that_differ_in_more_than_the_seed_are_not_averaged(change: dict[str, Any]) -> None:
    assert len(summaries([reported(seed=0), reported(seed=1)])) == 1
    assert len(summaries([reported(seed=0), reported(seed=1, but=change)])) == 2


def test_configurations_of_one_method_get_labels_that_differ() -> None:
    runs = [reported(), reported(but={"config_hash": "0123456789"}), reported(but={"wire": "int8"})]
    labels = [summary.label for summary in summaries([*runs, reported("split-nn")])]
    assert labels == [
        "one-shot, float32, 9f86d081",
        "one-shot, float32, 01234567",
        "one-shot, int8",
        "split-nn",
    ]


def best_row(html: str) -> str:
    return str(re.findall(r'<th scope="row"><strong>(.*?)</strong>', html)[0])


def test_the_best_federated_value_is_marked_and_a_reference_never_is(tmp_path: Path) -> None:
    runs = [
        reported("pooled", auc=0.9, ledger=[]), reported("one-shot", auc=0.7), reported("split-nn", auc=0.8),
    ]  # fmt: skip
    html = page(tmp_path, *runs)
    assert best_row(html) == "split-nn"
    assert "<strong>0.8000</strong>" in html
    assert "pooled: raw data in one place, simulation only" in html


def test_of_rmse_the_lowest_is_best(tmp_path: Path) -> None:
    runs = [
        reported(method, but={"config": {}, "metrics": {"accuracy": None, "auc": None, "rmse": rmse}})
        for method, rmse in (("one-shot", 8.5), ("split-nn", 9.5))
    ]
    html = page(tmp_path, *runs)
    assert best_row(html) == "one-shot"
    assert "RMSE (lower is better)" in html
    assert "AUC" not in html


def test_the_configured_metric_is_plotted_else_the_first_with_a_value() -> None:
    def chosen(but: Mapping[str, Any]) -> str | None:
        return plotted_metric([reported(but=but)])

    assert chosen({"config": {"metric": "accuracy"}}) == "accuracy"
    assert chosen({"config": {"metric": "f1"}}) == "auc"  # f1 is null here
    assert chosen({"config": {}, "metrics": {"auc": None, "accuracy": 0.5}}) == "accuracy"
    assert chosen({"config": {}, "metrics": {}}) is None


def test_values_that_do_not_apply_are_dashes(tmp_path: Path) -> None:
    gone = dict.fromkeys(("rounds", "messages", "bytes", "wire", "seconds", "config", "config_hash", "rows", "data"))
    html = page(tmp_path, reported(auc=None, but=gone))
    assert "None" not in html
    assert "null" not in html.replace("<pre>null</pre>", "")
    assert html.count('<td class="n">–</td>') >= 6


def test_epsilon_is_a_column_only_where_a_run_has_one(tmp_path: Path) -> None:
    assert ">ε</th>" not in page(tmp_path, reported())
    assert "2<br><small>δ 1e-05</small>" in page(tmp_path, reported(but={"epsilon": 2.0, "delta": 1e-5}))
    assert "2<br><small>δ 0</small>" in page(tmp_path, reported(but={"epsilon": 2.0, "delta": 0.0}))


def test_a_long_conversation_is_condensed_to_its_first_and_last_rounds() -> None:
    ledger = exchange(BANKS, rounds=2000, up=1000, down=1000)
    html = conversation(ledger, BANKS, title="split-nn")
    assert html.count("<circle") == 12
    assert "… 1,996 more rounds like these: 5,988 messages, 5.99 MB" in html
    rounds = re.findall(r">(round [\d,]+)<", html)
    assert rounds == ["round 1", "round 2", "round 1,999", "round 2,000"]


def test_rounds_unlike_the_shown_ones_are_not_called_alike() -> None:
    ledger = exchange(["bank", "shop"], rounds=40)
    ledger[20] = message("shop", "bank", "labels", turn=21)
    html = conversation(ledger, ["bank", "shop"], title="x")
    assert "more rounds: " in html
    assert "like these" not in html


def test_one_endless_round_is_condensed_too() -> None:
    ledger = [message("shop", "bank", "chunks", wire=10) for _ in range(100)]
    html = conversation(ledger, ["bank", "shop"], title="x")
    assert html.count("<circle") == HEAD + TAIL
    assert "… 86 messages, 860 B more" in html


def test_a_short_conversation_is_shown_whole() -> None:
    html = conversation(exchange(["bank", "shop"], rounds=LONG), ["bank", "shop"], title="x")
    assert html.count("<circle") == LONG
    assert "more round" not in html


def test_many_guests_are_a_few_and_a_count() -> None:
    parties = ["bank", *(f"shop-{i}" for i in range(1, 21))]
    html = conversation(agreement(parties) + exchange(parties, rounds=3), parties, title="x")
    assert html.count('class="life"') == 6
    assert ">16 more</text>" in html
    assert "shop-4" in html
    assert "shop-5" not in html
    assert html.count("representations ×16") == 4  # two rounds, each with its tooltip
    assert "<strong>the other 16 guests together</strong> sent 1.64 MB of representations (32 messages)." in html


def test_what_left_each_party_adds_up() -> None:
    parties = ["bank", "shop", "clinic"]
    ledger = [
        message("bank", "shop", "agreement", turn=0, wire=500, phase="agreement"),
        message("shop", "bank", "representations", wire=2_000_000),
        message("bank", "shop", "gradients", turn=2, wire=1_500),
        message("shop", "bank", "representations", turn=3, wire=2_050_000),
        message("shop", "bank", "scores", turn=1, wire=64, phase="scoring"),
    ]
    html = conversation(ledger, parties, title="x")
    assert "<strong>shop</strong> sent 4.05 MB: 4.05 MB of representations (2 messages), 64 B of scores" in html
    assert "<strong>bank</strong> sent 2.0 kB: 500 B of agreement (1 message), 1.5 kB of gradients" in html
    assert "<strong>clinic</strong> sent nothing." in html
    by_kind = r'representations<small>training</small></th><td class="n">2</td><td class="n">4.05 MB</td>'
    assert re.search(by_kind, html)
    assert html.index(">agreement<") < html.index(">round 1<") < html.index(">scoring<")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_960, "1.00 MB"),
        (2.5e8, "250.0 MB"),
    ],
)
def test_sizes_have_decimal_units(count: float, words: str) -> None:
    assert size(count) == words


def test_results_without_a_ledger_say_so(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text("\n".join(json.dumps(reported(seed=s).result) for s in (0, 1)) + "\n")
    runs = read_results(tmp_path / "results.jsonl")
    assert [run.result["seed"] for run in runs] == [0, 1]
    html = page(tmp_path, *runs, reported("local-only", ledger=[]))
    assert "one-shot (no ledger given); local-only (the host alone, sends nothing)." in html


def test_a_json_file_may_hold_one_result_or_several(tmp_path: Path) -> None:
    result = reported().result
    (tmp_path / "one.json").write_text(json.dumps(result, indent=2))
    (tmp_path / "two.json").write_text(json.dumps([result, result]))
    assert len(read_results(tmp_path / "one.json")) == 1
    assert len(read_results(tmp_path / "two.json")) == 2


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("empty.jsonl", "", "no result"),
        ("torn.jsonl", '{"method": "one-shot"}\n{"meth', "line 2, is not JSON"),
        ("list.json", "[3]", "without a method"),
        ("shape.json", '{"method": "one-shot", "metrics": [1]}', "wrong 'metrics'"),
    ],
)
def test_a_file_of_no_use_is_refused_by_name(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        read_results(tmp_path / name)
    assert name in str(caught.value)


def run_folder(folder: Path, run: ReportedRun) -> Path:
    host = folder / run.result["parties"][0]
    host.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"parties": run.result["parties"]}))
    (folder / "result.json").write_text(json.dumps(run.result))
    (host / "ledger.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in run.ledger))
    (host / "curve.jsonl").write_text("".join(f"{json.dumps(point)}\n" for point in run.curve))
    return folder


def test_a_run_folder_is_read_with_the_ledger_and_curve_of_its_host(tmp_path: Path) -> None:
    run = reported(ledger=agreement(BANKS) + exchange(BANKS, rounds=3), parties=BANKS)
    run = ReportedRun(run.result, run.ledger, [{"round": 1.0, "bytes": 10.0, "value": 0.5}])
    assert read_run(run_folder(tmp_path / "run", run)) == run


def test_a_run_folder_without_its_ledger_is_refused(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", reported())
    (folder / "bank" / "ledger.jsonl").unlink()
    with pytest.raises(RunFolderError, match="not complete"):
        read_run(folder)


@pytest.mark.parametrize("name", ["round", "from", "wire", "phase"])
def test_a_damaged_ledger_line_is_refused_by_number(tmp_path: Path, name: str) -> None:
    run = reported()
    run.ledger[1][name] = "gossip" if name == "phase" else None  # type: ignore[index]
    with pytest.raises(RunFolderError, match=f"line 2, has no usable '{name}'"):
        read_run(run_folder(tmp_path / "run", run))


def test_a_host_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", reported())
    (folder / "run.json").write_text('{"parties": ["../elsewhere", "shop"]}')
    with pytest.raises(RunFolderError, match="no folder name"):
        read_run(folder)


def test_a_place_that_cannot_be_written_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_report(tmp_path / "report.html", [reported()])
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        write_report(tmp_path / "file" / "report.html", [reported()])


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    first = page(tmp_path, *realistic())
    assert first == page(tmp_path, *realistic())


def test_the_page_points_at_nothing_outside_itself(tmp_path: Path) -> None:
    html = page(tmp_path, *realistic())
    assert set(re.findall(r"\bhttps?:[^\s\"'<>]*", html)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\bsrc=|@import|<script|<link", html)
    assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', html))


def test_ids_on_the_page_are_unique_and_every_reference_is_met(tmp_path: Path) -> None:
    html = page(tmp_path, *realistic(), reported(but={"data": "adult"}))
    ids = re.findall(r'\sid="([^"]*)"', html)
    assert len(ids) == len(set(ids)) > 0
    assert set(re.findall(r'url\(#([^)]*)\)|href="#([^"]*)"', html)) <= {(i, "") for i in ids} | {("", i) for i in ids}


def test_labels_in_a_plot_do_not_overlap(tmp_path: Path) -> None:
    crowd = [reported(f"method-{i}") for i in range(12)]  # all at the same place
    html = page(tmp_path, *crowd, reported("pooled", auc=0.75, ledger=[]), reported("trees", auc=0.75, ledger=[]))
    drawing = html[html.index('<svg class="plot"') :].split("</svg>")[0]
    places = re.findall(r'x="([\d.]+)" y="([\d.]+)"[^>]*>(method-\d+|pooled|trees)<', drawing)
    assert len(places) == 14
    boxes = [(float(x), float(y), 5.0 * len(name)) for x, y, name in places]
    for i, (x, y, width) in enumerate(boxes):
        for across, up, other in boxes[:i]:
            assert abs(y - up) > 10 or x + width < across or across + other < x


def test_the_name_of_a_reference_stands_at_its_line(tmp_path: Path) -> None:
    html = page(tmp_path, reported(auc=0.7), reported("pooled", auc=0.8, ledger=[]))
    drawing = html[html.index('<svg class="plot"') :].split("</svg>")[0]
    line = re.search(r'd="M [\d.]+ ([\d.]+) *\n?L [\d.]+ [\d.]+ *\n?"[^>]*stroke-dasharray', drawing)
    name = re.search(r'y="([\d.]+)"[^>]*>pooled<', drawing)
    assert line
    assert name
    assert 2 < float(name[1]) - float(line[1]) < 6  # the baseline is a little below the middle


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--enable-logging=stderr", "--v=0",
]  # fmt: skip


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium or Chrome on the PATH")
def test_a_browser_shows_the_page_without_a_complaint(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", realistic(), title="Credit: nine methods")
    address = (tmp_path / "report.html").as_uri()

    def browse(*options: str) -> subprocess.CompletedProcess[str]:
        command = [str(CHROMIUM), *QUIET, f"--user-data-dir={tmp_path / 'profile'}", *options, address]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    shown = browse("--dump-dom")
    assert "CONSOLE" not in shown.stderr
    assert "Credit: nine methods" in shown.stdout
    assert "more rounds like these" in shown.stdout
    taken = browse(f"--screenshot={tmp_path / 'page.png'}", "--window-size=1280,6000")
    assert "CONSOLE" not in taken.stderr
    pixels = np.asarray(Image.open(tmp_path / "page.png").convert("L"))
    assert pixels.shape == (6000, 1280)
    assert (pixels < 128).mean() > 0.005  # ink
    assert pixels[-3000:].std() > 1  # down the page too
