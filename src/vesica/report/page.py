"""The page: what was run, what it gave, what it cost, and what left each party."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from vesica.report.conversation import conversation, plural, size, table
from vesica.report.plots import BYTES, ROUNDS, Cost, ReportedRun, Summary, number, plot

METRICS = {"auc": "AUC", "accuracy": "accuracy", "f1": "F1", "rmse": "RMSE"}
LOWER_IS_BETTER = {"rmse"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # the browser itself refuses anything from outside

PALETTE = """
:root { color-scheme: light dark;
  --paper: #fff; --ink: #1b1f24; --soft: #5c6570; --rule: #d9dee4; --wash: #f5f7f9;
  --series-1: #2166ac; --series-2: #c4570f; --series-3: #26804d; --series-4: #7a4fa8; --series-5: #b8323f;
  --series-6: #0e7c86; --series-7: #7d6420; --series-8: #ad3f86; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #15191e; --ink: #e6e9ed; --soft: #9ba5b0; --rule: #363d46; --wash: #1c2127;
  --series-1: #6fb1ee; --series-2: #f29a5c; --series-3: #6cc492; --series-4: #bd9ae6;
  --series-5: #f08088; --series-6: #58c4cd; --series-7: #cfb263; --series-8: #e58bc3; } }
"""

STYLE = """
* { box-sizing: border-box; }
body { max-width: 66rem; margin: 0 auto; padding: 2.5rem 1.25rem 5rem;
  background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.4rem; margin: 3.5rem 0 .5rem; padding-top: 1rem; border-top: 2px solid var(--ink); }
section:first-child h2 { margin-top: 1.75rem; }
h3 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; }
h4 { font-size: .875rem; margin: 0 0 .4rem; }
h1, h2, h3, h4, li, summary { overflow-wrap: anywhere; }
p { margin: .4rem 0; max-width: 46rem; }
.soft, small, caption, figcaption { color: var(--soft); font-size: .875rem; font-weight: 400; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 0; font-size: .875rem; font-variant-numeric: tabular-nums }
caption { text-align: left; padding-bottom: .4rem; }
caption span { display: block; max-width: calc(100vw - 2.5rem); }
th, td { padding: .4rem .8rem .4rem 0; text-align: left; vertical-align: top; }
tr { border-bottom: 1px solid var(--rule); }
th:last-child, td:last-child { padding-right: 0; }
th { font-weight: 500; } thead th { color: var(--soft); white-space: nowrap; }
tbody th { min-width: 7rem; } tbody small { font-size: .8125rem; }
tbody th small { display: block; line-height: 1.3; }
.aside table { margin: 0; } .aside caption { padding: 0; font-weight: 700; color: var(--ink); }
.aside th small { display: inline; margin-left: .5em; }
.n { text-align: right; white-space: nowrap; }
.names { display: inline-block; min-width: 14rem; white-space: normal; }
figure { margin: 1rem 0 2rem; }
svg { display: block; font-variant-numeric: tabular-nums; }
svg text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif !important; }
.plot { width: 100%; min-width: 38rem; height: auto; }
.plot text { paint-order: stroke; stroke: var(--paper); stroke-width: 3px; stroke-linejoin: round; }
.talk { font-size: 13px; }
.talk text { fill: var(--ink); } .talk .name { font-weight: 600; }
.talk .soft { fill: var(--soft); font-size: 13px; }
.talk .life { stroke: var(--rule); stroke-width: 2; } .talk .rule { stroke: var(--rule); }
.talk .gap { fill: var(--wash); }
.up line, .down line { stroke-width: 1.5; }
.up line { stroke: var(--series-2); } .up circle, .up path { fill: var(--series-2); }
.down line { stroke: var(--series-1); } .down circle, .down path { fill: var(--series-1); }
.aside { display: flex; flex-wrap: wrap; gap: 1rem 3rem; margin-top: 1.25rem; }
.aside > div { flex: 1 1 22rem; min-width: 0; }
.left { margin: 0; padding-left: 1.1rem; font-size: .875rem; }
details { margin: .5rem 0; } summary { cursor: pointer; }
pre { overflow-x: auto; padding: .75rem 1rem; background: var(--wash); font-size: .8125rem; }
footer { margin-top: 4rem; }
"""


def render(runs: Sequence[ReportedRun], title: str) -> str:
    """The whole page; the same runs give the same bytes."""
    scenarios: dict[tuple[str, float | None], list[ReportedRun]] = {}
    for run in runs:
        key = str(run.result.get("data") or "–"), number(run.result, "rows", "aligned")
        scenarios.setdefault(key, []).append(run)
    sections = [_scenario(data, found, i) for i, ((data, _), found) in enumerate(scenarios.items())]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{PALETTE}{STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>{_overview(runs)}</header>\n<main>\n{''.join(sections)}</main>\n"
        '<footer class="soft">This page is complete in itself: it loads nothing and sends nothing. '
        "1 MB is 1,000,000 bytes.</footer>\n</body>\n</html>\n"
    )


def summaries(runs: Iterable[ReportedRun]) -> list[Summary]:
    """Seeds of the same title, data, aligned rows, wire and configuration together, in their order."""
    groups: dict[tuple[str, ...], list[ReportedRun]] = {}
    for run in runs:
        title = str(run.result.get("title") or run.result["method"])
        names = [str(run.result.get(name)) for name in ("wire", "config_hash", "data")]
        groups.setdefault((title, *names, str(number(run.result, "rows", "aligned"))), []).append(run)
    return [Summary(_label(key, list(groups)), tuple(group)) for key, group in groups.items()]


def _label(key: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> str:
    """The title, and what tells it from the other configurations of the same title."""
    title, wire, digest, *_ = key
    same = [other for other in others if other[0] == title]
    several_wires = len({other[1] for other in same}) > 1
    several_configurations = len({other[2] for other in same if other[1] == wire}) > 1
    return title + (f", {wire}" if several_wires else "") + (f", {digest[:8]}" if several_configurations else "")


def plotted_metric(runs: Sequence[ReportedRun]) -> str | None:
    """The metric of the configuration, else the first that has a value."""
    configured = [(run.result.get("config") or {}).get("metric") for run in runs]
    names = [str(name) for name in (*configured, *METRICS) if name]
    return next((n for n in names if any(number(run.result, "metrics", n) is not None for run in runs)), None)


def _overview(runs: Sequence[ReportedRun]) -> str:
    data, methods, versions = (
        list(dict.fromkeys(str(run.result[name]) for run in runs if run.result.get(name) is not None))
        for name in ("data", "method", "version")
    )
    facts = [", ".join(data), plural(len(methods), "method"), plural(len(runs), "run")]
    facts += [f"Vesica {' and '.join(versions)}"] if versions else []
    return f'<p class="soft">{escape(" · ".join(facts))}</p>'


def _scenario(data: str, runs: Sequence[ReportedRun], position: int) -> str:
    found, metric = summaries(runs), plotted_metric(runs)
    best = _best(found, metric)
    aligned = number(runs[0].result, "rows", "aligned")
    heading = data if aligned is None else f"{data}: {plural(int(aligned), 'aligned row')}"
    plots = [
        _plot(found, metric, cost=cost, data=data, name=f"plot-{position}-{cost.in_curve}")
        for cost in (BYTES, ROUNDS)
        if metric
    ]
    return (
        f"<section><h2>{escape(heading)}</h2>{_verdict(best, metric)}{_results(found, metric, best)}"
        f"{''.join(plots)}{_rows(found)}{''.join(map(_talk, found))}{_silent(found)}"
        f"<h3>Configurations</h3>{''.join(map(_configuration, found))}</section>\n"
    )


def _best(found: Sequence[Summary], metric: str | None) -> Summary | None:
    """The best federated configuration; a reference is never it."""
    worth = {i: s.mean("metrics", metric) for i, s in enumerate(found) if metric and not s.reference}
    known = {i: value for i, value in worth.items() if value is not None}
    choose = min if metric in LOWER_IS_BETTER else max
    return found[choose(known, key=known.__getitem__)] if known else None


def _verdict(best: Summary | None, metric: str | None) -> str:
    if best is None or metric is None:
        return "<p>No federated method has a value here.</p>"
    rounds, sent = best.mean("rounds"), best.mean("bytes", "wire")
    cost = "" if rounds is None or sent is None else f", in {plural(round(rounds), 'round')} and {size(sent)}"
    return (
        f"<p>Best federated: <strong>{escape(best.label)}</strong>, {_name(metric)} "
        f"{_spread(best, _score, 'metrics', metric)}{cost}.</p>"
    )


def _name(metric: str) -> str:
    return METRICS.get(metric, escape(metric))


def _score(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.2f}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _megabytes(value: float) -> str:
    if value == 0:
        return "0"
    return "&lt;0.001" if value < 500 else f"{value / 1e6:,.{3 if value < 1e7 else 1}f}"


def _spread(summary: Summary, words: Callable[[float], str], *path: str) -> str:
    """Mean and standard deviation over the seeds; a dash for a value that does not apply."""
    mean, deviation = summary.mean(*path), summary.deviation(*path)
    return "–" if mean is None else words(mean) + (f" ± {words(deviation)}" if deviation else "")


def _results(found: Sequence[Summary], metric: str | None, best: Summary | None) -> str:
    known = dict.fromkeys(name for s in found for run in s.runs for name in run.result.get("metrics") or {})
    shown = [n for n in known if any(s.values("metrics", n) for s in found)]
    shown.sort(key=lambda name: name != metric)
    private = any(s.values("epsilon") for s in found)
    rows = []
    for summary in found:
        cells = _cells(summary, shown, private=private)
        name, note = escape(summary.label), "reference" if summary.reference else ""
        if summary is best and metric:
            cells[_name(metric)] = f"<strong>{cells[_name(metric)]}</strong>"
            name, note = f"<strong>{name}</strong>", "best federated"
        rows.append((f"{name}<small>{note}</small>" if note else name, cells))
    caption = "Scores on the test rows, and the cost of training"
    caption += ": mean ± standard deviation over the seeds." if any(len(s.runs) > 1 for s in found) else "."
    references = "; ".join(f"{escape(s.label)}: {s.reference}" for s in found if s.reference)
    return table(caption, "method", rows) + (f'<p class="soft">References. {references}.</p>' if references else "")


def _cells(summary: Summary, metrics: Sequence[str], *, private: bool) -> dict[str, str]:
    first = summary.runs[0].result
    delta = number(first, "delta")
    epsilon = _spread(summary, lambda value: f"{value:.3g}", "epsilon")
    seeds = ", ".join(escape(str(run.result.get("seed", "–"))) for run in summary.runs[:5])
    return (
        {_name(name): _spread(summary, _score, "metrics", name) for name in metrics}
        | {"rounds": _spread(summary, _count, "rounds"), "messages": _spread(summary, _count, "messages")}
        | {"MB": _spread(summary, _megabytes, "bytes", "wire")}
        | {f"MB {way}": _spread(summary, _megabytes, "bytes", way) for way in ("up", "down")}
        | {"wire": escape(str(first.get("wire") or "–"))}
        | ({"ε": epsilon if delta is None else f"{epsilon}<br><small>δ {delta:g}</small>"} if private else {})
        | {"seconds": _spread(summary, lambda value: f"{value:,.1f}", "seconds")}
        | {"seeds": f"{len(summary.runs)} <small>({seeds}{', …' if len(summary.runs) > 5 else ''})</small>"}
    )


def _plot(found: Sequence[Summary], metric: str, *, cost: Cost, data: str, name: str) -> str:
    better = "lower" if metric in LOWER_IS_BETTER else "higher"
    against = "bytes" if cost is BYTES else "rounds"
    heading = f"{METRICS.get(metric, metric)} against {against}"
    axis = f"{METRICS.get(metric, metric)} ({better} is better)"
    picture = plot(found, metric, cost=cost, axis=axis, title=f"{data}: {heading}", name=name)
    notes = ["Bars: one standard deviation over the seeds."] if any(len(s.runs) > 1 for s in found) else []
    notes += ["Dashed: references."] if any(s.reference for s in found) else []
    notes += ["Thin lines: validation score in training, first seed."] if any(s.runs[0].curve for s in found) else []
    return (
        f'<h3>{escape(heading)}</h3><figure><div class="scroll" tabindex="0">{picture}</div>'
        f"<figcaption>{' '.join(notes)}</figcaption></figure>"
    )


def _rows(found: Sequence[Summary]) -> str:
    """Which rows the runs had; methods with the same rows share a line."""
    having: dict[str, list[str]] = {}
    for summary in found:
        rows = json.dumps(summary.runs[0].result.get("rows") or {})
        having.setdefault(rows, []).append(escape(summary.label))
    lines = [
        (", ".join(labels) if len(having) > 1 else "every run", _row_counts(json.loads(rows)))
        for rows, labels in having.items()
    ]
    caption = "Aligned rows exist at every party and include the validation rows; the test rows are apart."
    return f"<h3>Rows</h3>{table(caption, 'runs', lines)}"


def _row_counts(rows: Mapping[str, Any]) -> dict[str, str]:
    def words(counts: Mapping[str, Any]) -> dict[str, str]:
        known = {escape(name): number(counts, name) for name in counts}
        return {name: "–" if count is None else _count(count) for name, count in known.items()}

    unaligned = words(rows.get("unaligned") or {})
    places = ", ".join(f'<span class="n">{party} {count}</span>' for party, count in unaligned.items()) or "–"
    cells = words({name: count for name, count in rows.items() if name != "unaligned"})
    return cells | {"unaligned": f'<span class="names">{places}</span>'}


def _talk(summary: Summary) -> str:
    run = summary.runs[0]
    if not run.ledger:
        return ""
    title = f"Conversation of {summary.label}, seed {run.result.get('seed', '–')}"
    drawn = conversation(run.ledger, run.result.get("parties") or [], title=title)
    said = "".join(
        f"<p><strong>What it gives away.</strong> {escape(str(s))}</p>" for s in run.result.get("statements") or ()
    )
    return f"<h3>Conversation: {escape(summary.label)}</h3>{said}{drawn}"


def _silent(found: Sequence[Summary]) -> str:
    """Why some runs have no picture."""
    why = []
    for summary in (s for s in found if not s.runs[0].ledger):
        silent = "sent nothing" if summary.mean("messages") == 0 else "no ledger given"
        why.append(f"{escape(summary.label)} ({summary.reference or silent})")
    return f"<h3>Without a conversation</h3><p>{'; '.join(why)}.</p>" if why else ""


def _configuration(summary: Summary) -> str:
    result = summary.runs[0].result
    digest = escape(str(result.get("config_hash") or "–"))
    settings = escape(json.dumps(result.get("config"), indent=2, sort_keys=True, ensure_ascii=False))
    return f"<details><summary>{escape(summary.label)} <small>{digest}</small></summary><pre>{settings}</pre></details>"
