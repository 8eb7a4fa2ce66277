"""One finding of an audit in words, and as a bar from knowing nothing to knowing everything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from vesica.errors import InputError
from vesica.report.plots import number

LISTS = ("parties", "received", "findings", "guarantees", "statements", "not_tried")
WORDS = ("attacker", "owner", "secret", "attack", "needs", "measure")
COUNTS = ("messages", "rows", "numbers", "bytes")
FIELDS: Mapping[str, Mapping[str, type]] = {
    "findings": dict.fromkeys(WORDS, str),
    "received": dict.fromkeys(("receiver", "sender", "kind"), str) | dict.fromkeys(COUNTS, int),
}
WIDTH, HEIGHT = 144, 16  # pixels of a bar

STYLE = """
.bar { margin: .15rem 0 .25rem; }
.bar rect { fill: var(--rule); } .bar .told { fill: var(--series-5); } .bar .untold { fill: var(--soft); }
.bar line { stroke: var(--ink); stroke-width: 1.5; }
.pictures div { display: flex; flex-wrap: wrap; gap: .5rem; } .pictures span { display: grid; gap: .25rem; }
.pictures img { width: 4rem; image-rendering: pixelated; background: var(--wash); }
.bar .home { stroke: var(--series-1); stroke-width: 3; } .bar .bound { stroke: var(--series-3); stroke-width: 3; }
"""


@dataclass(frozen=True)
class Finding:
    """What one party learned about another by one attack, as the page shows it."""

    attacker: str
    owner: str
    secret: str
    attack: str
    needs: str
    measure: str
    value: float
    low: float
    high: float
    nothing: float
    at_home: float | None
    bound: float | None
    detail: str
    told_apart: bool  # from knowing nothing
    pictures: Sequence[Sequence[str]]  # as they are, and as guessed: PNG in base64

    def place(self, value: float) -> float:
        """0 where nothing was learned, 1 where everything was."""
        return (value - self.nothing) / (1 - self.nothing) if self.nothing < 1 else 0.0

    @property
    def learned(self) -> float:
        return self.place(self.value)

    @property
    def beyond(self) -> float:
        """How much was learned that the attacker cannot do without the run."""
        base = max(self.nothing, self.at_home or 0.0)
        return (self.value - base) / (1 - base) if base < 1 else 0.0

    @property
    def beyond_its_bound(self) -> bool:
        return self.bound is not None and self.low > self.bound


def check(audit: Mapping[str, Any]) -> None:
    """Refuse what is no audit, before a page is begun."""
    wrong = [] if isinstance(audit.get("run"), Mapping) else ["run"]
    wrong += [name for name in LISTS if not isinstance(audit.get(name), list)]
    wrong += [] if audit.get("parties") else ["parties"]
    wrong += [] if wrong else [name for name, fields in FIELDS.items() if not _all_have(audit[name], fields)]
    if wrong:
        raise InputError(f"the audit has no usable '{wrong[0]}'; give what 'vesica audit --json' wrote")


def _all_have(entries: Sequence[Any], fields: Mapping[str, type]) -> bool:
    return all(
        isinstance(entry, Mapping) and all(isinstance(entry.get(name), kind) for name, kind in fields.items())
        for entry in entries
    )


def findings(audit: Mapping[str, Any]) -> list[Finding]:
    """Those with a figure, what was learned most first."""
    figured = (_finding(each) for each in audit["findings"])
    return sorted((each for each in figured if each is not None), key=lambda finding: -finding.beyond)


def without_figure(audit: Mapping[str, Any]) -> list[str]:
    """An attack that ended in no number, as can be with rows of one class only."""
    names = (f"{each['attack']} ({each['measure']})" for each in audit["findings"] if _finding(each) is None)
    return [f"By '{name}' no figure came out." for name in names]


def _finding(found: Mapping[str, Any]) -> Finding | None:
    value, low, high, nothing = (number(found, name) for name in ("value", "low", "high", "nothing"))
    if value is None or low is None or high is None or nothing is None:
        return None
    return Finding(
        **{name: found[name].rstrip(" ,") for name in WORDS},
        value=value,
        low=low,
        high=high,
        nothing=nothing,
        at_home=number(found, "at_home"),
        bound=number(found, "bound"),
        detail=str(found.get("detail") or ""),
        told_apart=bool(found.get("told_apart")),
        pictures=found.get("pictures") or (),
    )


def sentence(finding: Finding, parties: Sequence[str]) -> str:
    """HTML: who could learn what, and how well, for a reader in a hurry."""
    who = finding.attacker if finding.attacker in parties else finding.attacker[:1].upper() + finding.attacker[1:]
    return (
        f"<strong>{escape(who)}</strong> could learn <strong>{escape(finding.secret)}</strong> "
        f"(a secret of <strong>{escape(finding.owner)}</strong>): {escape(finding.measure)} "
        f"<strong>{figure(finding.value)}</strong>, where knowing nothing gives {figure(finding.nothing)} "
        "and knowing everything 1."
    )


def pictures(finding: Finding) -> str:
    """HTML: some images in one row, and below each what came back of it."""
    if not finding.pictures:
        return ""
    shown = "".join(
        f"<span>{_image('as it is', truth)}{_image('as guessed', guess)}</span>" for truth, guess in finding.pictures
    )
    who = f"{escape(finding.attacker)} about {escape(finding.owner)}, by {escape(finding.attack)}"
    caption = f"<figcaption>{who}: above as it is, below as guessed.</figcaption>"
    return f'<figure class="pictures"><div>{shown}</div>{caption}</figure>'


def _image(words: str, data: str) -> str:
    return f'<img alt="{words}" src="data:image/png;base64,{escape(data)}">'


def labelled(cells: Mapping[str, str]) -> dict[str, str]:
    """Cells that say what they are where a narrow screen has no room for headings."""
    return {name: f'<small class="label">{name}</small>{cell}' for name, cell in cells.items()}


def figure(value: float) -> str:
    return f"{value:.3f}"


def interval(finding: Finding) -> str:
    return f"{figure(finding.low)} to {figure(finding.high)}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def bar(finding: Finding) -> str:
    """SVG: how far from nothing (left) to everything (right), its interval, and what else is known of it."""
    said = f"{percent(finding.learned)} of the way from knowing nothing to knowing everything"
    low, high = _across(finding, finding.low), _across(finding, finding.high)
    marks = {"home": finding.at_home, "bound": finding.bound}
    ticks = "".join(
        f'<line class="{name}" x1="{x}" y1="0" x2="{x}" y2="{HEIGHT}"/>'
        for name, value in marks.items()
        if value is not None
        for x in [_across(finding, value)]
    )
    middle = HEIGHT // 2
    return (
        f'<svg class="bar" role="img" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">'
        f'<title>{said}</title><rect y="3" width="{WIDTH}" height="{HEIGHT - 6}"/>'
        f'<rect class="{"told" if finding.told_apart else "untold"}" y="3" width="{_across(finding, finding.value)}" '
        f'height="{HEIGHT - 6}"/><line x1="{low}" y1="{middle}" x2="{high}" y2="{middle}"/>{ticks}</svg>'
    )


def _across(finding: Finding, value: float) -> str:
    """Pixels from the left, never outside the bar."""
    return f"{WIDTH * min(max(finding.place(value), 0.0), 1.0):.1f}"
