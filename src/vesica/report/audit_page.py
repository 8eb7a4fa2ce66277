"""Pages of an audit for people who answer for data: what is proven, what was measured, and what it costs."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from vesica.report.audit_sweep import sweep_sections
from vesica.report.conversation import MANY_GUESTS, plural, size, table
from vesica.report.document import document, write_page
from vesica.report.findings import STYLE as BARS
from vesica.report.findings import (
    Finding,
    bar,
    check,
    figure,
    findings,
    interval,
    labelled,
    pictures,
    sentence,
    without_figure,
)
from vesica.report.glossary import glossary
from vesica.report.page import METRICS
from vesica.report.plots import number

STYLE = f"""{BARS}
.worst {{ font-size: 1.25rem; line-height: 1.45; margin: .75rem 0; }}
.proven, .said {{ padding-left: 1.1rem; max-width: 46rem; }} .proven li, .said li {{ margin: .4rem 0; }}
.findings .n {{ text-align: left; white-space: normal; }} .findings thead th {{ white-space: normal; }}
.findings tbody th {{ min-width: 13rem; }} .findings td {{ min-width: 5.5rem; }}
.findings td small {{ display: block; line-height: 1.35; }} .findings .label {{ display: none; }}
dl {{ font-size: .875rem; columns: 24rem; column-gap: 3rem; }} dt {{ font-weight: 600; break-after: avoid; }}
dd {{ margin: 0 0 .5rem; color: var(--soft); break-inside: avoid; }}
.panels {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 0 2rem; }}
.panels figure {{ margin: .75rem 0; }} .panels .plot {{ min-width: 0; }} .panels h4 {{ font-size: .9375rem; }}
@media (max-width: 44rem) {{
  .findings table, .findings tbody, .findings tr, .findings th, .findings td {{ display: block; padding-right: 0; }}
  .findings thead {{ display: none; }} .findings caption {{ display: block; }} .findings tr {{ padding: .5rem 0; }}
  .findings td {{ padding: .1rem 0; }} .findings .label {{ display: inline; margin-right: .5em; }} }}
"""
HOW_TO_READ = (
    "Every figure says how far one attack got on the messages of this one run; whoever made this page compared its "
    "guesses with the truth, which the attacker cannot. <strong>An attack that fails is no proof of safety</strong>: "
    "a better one, or an attacker who knows more, may get further. Only what is proven holds against every attack, "
    "and only for what it says it protects. “Without this run” is the best such attack by a party that took no part: "
    "only what lies beyond it came from the run."
)


def write_audit(path: Path, audit: Mapping[str, Any], *, title: str = "Vesica audit") -> None:
    """The page of one audit, as `Audit.to_json` gives it; the same audit gives the same bytes."""
    check(audit)
    found = findings(audit)
    sections = [
        section("The worst finding", _worst(found, audit["parties"])),
        section("What is proven", _proven(audit["guarantees"], audit["statements"])),
        section("What was only measured", _measured(found)),
        section("What each party received", _received(audit["received"], audit["parties"])),
        section("What the run says of itself", _said(audit["statements"], audit["guarantees"])),
        section("What was not tried", _not_tried([*audit["not_tried"], *without_figure(audit)])),
    ]
    write_page(path, document(title, _facts(audit["run"]), _explained(sections), style=STYLE))


def write_sweep(
    path: Path, audits: Sequence[Mapping[str, Any]], *, field: str, title: str = "Vesica audit: what a defence costs"
) -> None:
    """The page of audits that differ in one setting; a value is `value` beside the audit, else that of its run."""
    sections = [section(heading, content) for heading, content in sweep_sections(audits, field)]
    write_page(path, document(title, _facts(audits[0]["run"], of_one=False), _explained(sections), style=STYLE))


def section(heading: str, content: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>{content}</section>\n"


def _explained(sections: Sequence[str]) -> str:
    """With how to read them, and the words that they use."""
    content = "".join(sections)
    how = f"<p>{HOW_TO_READ}</p><h3>Words</h3>{glossary(content)}"
    return content + section("How to read this page", how)


def _facts(run: Mapping[str, Any], *, of_one: bool = True) -> str:
    aligned, metric = number(run, "rows", "aligned"), str((run.get("config") or {}).get("metric"))
    score = number(run, "metrics", metric)
    facts = [str(run[name]) for name in ("data", "method") if run.get(name)]
    facts += [] if aligned is None else [plural(int(aligned), "aligned row")]
    if of_one:
        facts += [] if score is None else [f"{METRICS.get(metric, metric)} {score:.4f}"]
        facts += [f"seed {run['seed']}"] if run.get("seed") is not None else []
    facts += [f"Vesica {run['version']}"] if run.get("version") else []
    return f'<p class="soft">{escape(" · ".join(facts))}</p>'


def _worst(found: Sequence[Finding], parties: Sequence[str]) -> str:
    if not found:
        return '<p class="worst">No attack could be tried on this run: nothing was measured, which is no safety.</p>'
    told = [finding for finding in found if finding.told_apart]
    count = f"{len(told)} of {plural(len(found), 'finding')}"
    if not told:
        return (
            '<p class="worst">No attack that was tried got further than knowing nothing does by chance.</p>'
            f"<p>The nearest: {sentence(found[0], parties)}</p>"
        )
    worst = told[0]
    broken = "A figure below lies above what the guarantee allows: do not rely on it before that is explained."
    warning = f"<p><strong>{broken}</strong></p>" if any(each.beyond_its_bound for each in found) else ""
    without = "" if worst.at_home is None else f" Without this run such attacks reach {figure(worst.at_home)}."
    return (
        f'<p class="worst">{sentence(worst, parties)}</p>{bar(worst)}'
        f"<p>How: {escape(worst.attack)}. Needed: {escape(worst.needs)}. 95 % interval: {interval(worst)}.{without} "
        f"In all, {count} are more than knowing nothing gives by chance.</p>{warning}"
    )


def _proven(guarantees: Sequence[str], statements: Sequence[str]) -> str:
    """What a guarantee says in the run's own words stands apart: it also says what is not covered."""
    if not guarantees:
        return (
            "<p><strong>Nothing.</strong> No mechanism of this run carries a guarantee. "
            "What stands below was measured, and says nothing about other attacks.</p>"
        )
    own = [each for each in guarantees if each in statements]
    words = f"<h3>In the run's own words, with what is not covered</h3>{_listed(own, 'said')}" if own else ""
    return _listed([each for each in guarantees if each not in own], "proven") + words


def _measured(found: Sequence[Finding]) -> str:
    if not found:
        return "<p>Nothing.</p>"
    caption = "What was learned most first. Bar: from knowing nothing (left) to knowing everything (right), "
    caption += "grey where it may be chance; line in it: the 95 % interval"
    home, bound = any(each.at_home is not None for each in found), any(each.bound is not None for each in found)
    caption += "; blue: the best such attack without this run" if home else ""
    caption += "; green: the most that the guarantee allows" if bound else ""
    rows = [(_about(each), _cells(each, home=home, bound=bound)) for each in found]
    shown = "".join(pictures(each) for each in found)
    return f'<div class="findings">{table(caption + ".", "who learns what", rows)}</div>{shown}'


def _about(finding: Finding) -> str:
    detail = f"<small>{escape(finding.detail)}</small>" if finding.detail else ""
    who = f"<strong>{escape(finding.attacker)}</strong> about <strong>{escape(finding.owner)}</strong>"
    return f"{who}: {escape(finding.secret)}{detail}"


def _cells(finding: Finding, *, home: bool, bound: bool) -> dict[str, str]:
    cells = {"how": escape(finding.attack), "needed": escape(finding.needs)}
    cells["how well"] = (
        f"{escape(finding.measure)} <strong>{figure(finding.value)}</strong>{bar(finding)}"
        f"<small>95 %: {interval(finding)}</small>"
    )
    cells["knowing nothing"] = figure(finding.nothing)
    cells |= {"without this run": "–" if finding.at_home is None else figure(finding.at_home)} if home else {}
    cells |= {"proven bound": _bound(finding)} if bound else {}
    return labelled(cells)


def _bound(finding: Finding) -> str:
    if finding.bound is None:
        return "–"
    broken = "<small><strong>exceeded: the guarantee or the measurement is wrong</strong></small>"
    return figure(finding.bound) + (broken if finding.beyond_its_bound else "")


def _received(received: Sequence[Mapping[str, Any]], parties: Sequence[str]) -> str:
    shown = "".join(
        _party(party, [each for each in received if each["receiver"] == party], parties) for party in parties
    )
    note = (
        "Rows: how many different rows the messages are about. Numbers: the values in them. Bytes: as they were sent."
    )
    return f'<p class="soft">{note}</p>{shown}'


def _party(party: str, got: Sequence[Mapping[str, Any]], parties: Sequence[str]) -> str:
    if not got:
        return f"<p><strong>{escape(party)}</strong> received nothing.</p>"
    rows = [
        (
            f"{escape(each['kind'])}<small>from {escape(each['sender'])}</small>",
            {name: f"{each[name]:,}" for name in ("messages", "rows", "numbers")} | {"bytes": size(each["bytes"])},
        )
        for each in got
    ]
    total = f"{size(sum(each['bytes'] for each in got))} in {plural(sum(each['messages'] for each in got), 'message')}"
    return (
        f"<details{'' if len(parties) > MANY_GUESTS else ' open'}><summary><strong>{escape(party)}</strong> "
        f"received {total}</summary>{table('Messages by kind', 'kind', rows)}</details>"
    )


def _said(statements: Sequence[str], guarantees: Sequence[str]) -> str:
    other = [each for each in statements if each not in guarantees]
    if other:
        return _listed(other, "said")
    return "<p>What it says stands above, under what is proven.</p>" if statements else "<p>Nothing.</p>"


def _not_tried(reasons: Sequence[str]) -> str:
    known = "Attacks that Vesica does not have, or an attacker who knows more than stands under “needed”."
    return _listed([*reasons, known], "said")


def _listed(lines: Iterable[str], name: str) -> str:
    return f'<ul class="{name}">{"".join(f"<li>{escape(str(line))}</li>" for line in lines)}</ul>'
