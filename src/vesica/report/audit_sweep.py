"""Utility against leakage: what a defence costs and saves, as a defence grows stronger."""

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from vesica.report.conversation import table
from vesica.report.findings import Finding, bar, figure, interval, labelled, percent
from vesica.report.page import LOWER_IS_BETTER, METRICS
from vesica.report.sweep import Kind, Pair, Setting, metric_of, settings_of
from vesica.report.trade_off import Spot, panel

Sides = Mapping[str, Collection[str]]  # whose secrets: the host's and the guests', by what to call them


def sweep_sections(audits: Sequence[Mapping[str, Any]], field: str) -> list[tuple[str, str]]:
    """Headings and their content."""
    metric = metric_of(audits, field)
    settings = settings_of(audits, field, metric)
    host, *guests = audits[0]["parties"]
    sides = {host: [host], guests[0] if len(guests) == 1 else "the guests": guests}
    kinds = _kinds(settings)
    panels = "".join(_panel(settings, kind, metric, name=f"panel-{i}") for i, kind in enumerate(kinds))
    found = [each for setting in settings for each in setting.found.values()]
    bounded, at_home = (any(getattr(f, name) is not None for f in found) for name in ("bound", "at_home"))
    notes = f"A point for each value of {escape(field)}, in the order given. Low is little leakage. "
    notes += "Dashed: what knowing nothing gives; the top of the scale is knowing everything."
    notes += " Dash-dotted: what can be done without the run." if at_home else ""
    notes += " Dotted: the most that the guarantee allows." if bounded else ""
    return [
        ("What it costs and what it saves", _summary(settings, field, metric, sides)),
        ("Leakage against utility", f'<p class="soft">{notes}</p><div class="panels">{panels}</div>'),
        ("The figures", _figures(settings, kinds, field)),
    ]


def _kinds(settings: Sequence[Setting]) -> list[Kind]:
    """What leaked most at any setting first."""
    most: dict[Kind, float] = {}
    for setting in settings:
        for (kind, _), each in setting.found.items():
            most[kind] = max(most.get(kind, each.learned), each.learned)
    return sorted(most, key=lambda kind: -most[kind])


def _summary(settings: Sequence[Setting], field: str, metric: str, sides: Sides) -> str:
    rows = []
    for setting in settings:
        cells = {METRICS.get(metric, escape(metric)): f"{setting.score:.4f}"}
        cells |= {f"most learned about {escape(side)}": _most(setting.worst(owners)) for side, owners in sides.items()}
        cells |= {"proven": escape(setting.proven) or "nothing"}
        cells |= {"runs": str(setting.runs)} if any(each.runs > 1 for each in settings) else {}
        rows.append((escape(f"{field} {setting.value}"), labelled(cells)))
    caption = (
        "The score of the run, and the attacks that got furthest. Bar: from knowing nothing to knowing everything."
    )
    return f'{_in_short(settings, field, metric, sides)}<div class="findings">{table(caption, "setting", rows)}</div>'


def _most(finding: Finding | None) -> str:
    if finding is None:
        return "–"
    reached = f"{finding.measure} {figure(finding.value)}, {figure(finding.nothing)} knowing nothing"
    said = f"{finding.attacker}, {finding.attack}: {reached}"
    return f"{bar(finding)}<small>{escape(said)}</small>"


def _in_short(settings: Sequence[Setting], field: str, metric: str, sides: Sides) -> str:
    """From the first setting to the last, in words."""
    first, last = settings[0], settings[-1]
    moves = [
        f"from <strong>{percent(before.learned)}</strong> to <strong>{percent(after.learned)}</strong> "
        f"about {escape(side)}"
        for side, owners in sides.items()
        if (before := first.worst(owners)) and (after := last.worst(owners))
    ]
    if first is last or not moves:
        return ""
    return (
        f'<p class="worst">From {escape(f"{field} {first.value}")} to {escape(last.value)}, '
        f"{METRICS.get(metric, escape(metric))} goes from <strong>{first.score:.4f}</strong> to "
        f"<strong>{last.score:.4f}</strong>, and the most that an attack learned goes {' and '.join(moves)} "
        "(0 % is nothing, 100 % everything).</p>"
    )


def _panel(settings: Sequence[Setting], kind: Kind, metric: str, *, name: str) -> str:
    attack, measure = kind
    lines = {
        " about ".join(pair): [
            Spot(setting.value, setting.score, setting.found[kind, pair])
            for setting in settings
            if (kind, pair) in setting.found
        ]
        for pair in _pairs(settings, kind)
    }
    better = "lower" if metric in LOWER_IS_BETTER else "higher"
    across = f"{METRICS.get(metric, metric)} of the run ({better} is better)"
    return f"<figure><h4>{escape(attack)}</h4>{panel(lines, across=across, up=measure, name=name)}</figure>"


def _figures(settings: Sequence[Setting], kinds: Sequence[Kind], field: str) -> str:
    spread = "one standard deviation over the seeds" if any(each.runs > 1 for each in settings) else "95 % intervals"
    home = any(each.at_home is not None for setting in settings for each in setting.found.values())
    rows = []
    for kind in kinds:
        for pair in _pairs(settings, kind):
            found = {each.value: each.found[kind, pair] for each in settings if (kind, pair) in each.found}
            some = next(iter(found.values()))
            cells = {"knowing<br>nothing": figure(some.nothing)}
            cells |= {"without<br>this run": "–" if some.at_home is None else figure(some.at_home)} if home else {}
            cells |= {
                f"{escape(field)}<br>{escape(setting.value)}": _cell(found[setting.value])
                if setting.value in found
                else "–"
                for setting in settings
            }
            rows.append((f"{escape(': '.join(kind))}<small>{escape(' about '.join(pair))}</small>", cells))
    return table(f"Small: {spread}.", "who, how and how well", rows)


def _cell(finding: Finding) -> str:
    limit = "" if finding.bound is None else f"<br><small>at most {figure(finding.bound)}</small>"
    return f"{figure(finding.value)}<br><small>{interval(finding)}</small>{limit}"


def _pairs(settings: Sequence[Setting], kind: Kind) -> list[Pair]:
    return list(dict.fromkeys(pair for setting in settings for found, pair in setting.found if found == kind))
