"""The page: what was run, what it gave, what it cost, and what left each party."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from vesica.report.conversation import conversation, plural, size, table
from vesica.report.document import document
from vesica.report.plots import BYTES, ROUNDS, Cost, ReportedRun, Summary, number, plot

METRICS = {"auc": "AUC", "accuracy": "accuracy", "f1": "F1", "rmse": "RMSE"}
LOWER_IS_BETTER = {"rmse"}


def render(runs: Sequence[ReportedRun], title: str) -> str:
    """The whole page; the same runs give the same bytes."""
    scenarios: dict[tuple[str, float | None], list[ReportedRun]] = {}
    for run in runs:
        key = str(run.result.get("data") or "–"), number(run.result, "rows", "aligned")
        scenarios.setdefault(key, []).append(run)
    sections = [_scenario(data, found, i) for i, ((data, _), found) in enumerate(scenarios.items())]
    return document(title, _overview(runs), "".join(sections))


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
