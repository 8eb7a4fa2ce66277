"""A ledger as a picture of the conversation, with tables of what was said and by whom."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

Entry = Mapping[str, Any]

PHASES = ("agreement", "training", "scoring")
LONG, HEAD, TAIL = 18, 8, 6  # lines: a longer phase shows about so many of its first and of its last ones
MANY_GUESTS, SHOWN_GUESTS = 6, 4
ROW, TOP, FIRST_LIFELINE = 24, 56, 322  # pixels


@dataclass(frozen=True)
class Line:
    """One arrow: a message, or the like messages of the guests that share a lifeline."""

    round: int
    sender: int  # which lifeline; 0 is the host's
    receiver: int
    kind: str
    wire: int
    messages: int = 1


def size(count: float) -> str:
    """Bytes, in a unit that keeps small messages visible."""
    if count < 1e3:
        return f"{count:,.0f} B"
    value, unit = (count / 1e6, "MB") if count >= 999_950 else (count / 1e3, "kB")
    return f"{value:,.{2 if unit == 'MB' and value < 10 else 1}f} {unit}"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shorten(text: str, limit: int) -> str:
    """The start and the end: names often differ in their last characters only."""
    end = limit // 3
    return text if len(text) <= limit else f"{text[: limit - end - 1]}…{text[-end:]}"


def table(caption: str, corner: str, rows: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    """An HTML table of rows (name, cells by heading); names, headings and cells are HTML already."""
    headings = dict.fromkeys(heading for _, cells in rows for heading in cells)
    head = "".join(f'<th scope="col" class="n">{heading}</th>' for heading in headings)
    body = "".join(
        f'<tr><th scope="row">{name}</th>'
        + "".join(f'<td class="n">{cells.get(heading, "–")}</td>' for heading in headings)
        + "</tr>\n"
        for name, cells in rows
    )
    return (
        f'<div class="scroll" tabindex="0"><table><caption><span>{caption}</span></caption>'
        f'<thead><tr><th scope="col">{corner}</th>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n'
    )


def conversation(ledger: Sequence[Entry], parties: Sequence[str], *, title: str) -> str:
    """HTML: the picture, the table by kind, and what left each party."""
    ends = (entry[end] for entry in ledger for end in ("from", "to"))
    everyone = list(dict.fromkeys([*parties, *ends]))
    return (
        f'<div class="scroll" tabindex="0">{_picture(ledger, everyone, title)}</div>\n'
        f'<div class="aside">{_by_kind(ledger, everyone[0])}{_what_left(ledger, everyone)}</div>\n'
    )


def lines(ledger: Iterable[Entry], lifelines: Mapping[str, int]) -> list[Line]:
    """One line a message; where guests share a lifeline, one line a round, direction and kind."""
    shared = max(lifelines.values()) if len(set(lifelines.values())) < len(lifelines) else None
    merged: dict[object, Line] = {}
    for number, entry in enumerate(ledger):
        line = Line(entry["round"], lifelines[entry["from"]], lifelines[entry["to"]], entry["kind"], entry["wire"])
        key = replace(line, wire=0) if shared in (line.sender, line.receiver) else number
        known = merged.get(key)
        merged[key] = replace(line, wire=line.wire + known.wire, messages=1 + known.messages) if known else line
    return list(merged.values())


def condense(said: Sequence[Line]) -> list[Line | str]:
    """The lines; of a long conversation the first and the last, and a sentence for what is between."""
    if len(said) <= LONG:
        return list(said)
    starts = [i for i in range(1, len(said)) if said[i].round != said[i - 1].round]  # cut between rounds
    head = max((i for i in starts if i <= HEAD), default=HEAD)
    tail = min((i for i in starts if i >= len(said) - TAIL), default=len(said) - TAIL)
    first, hidden, last = said[:head], said[head:tail], said[tail:]
    return [*first, _left_out(hidden, [*first, *last]), *last]


def _left_out(hidden: Sequence[Line], shown: Sequence[Line]) -> str:
    total = f"{plural(sum(x.messages for x in hidden), 'message')}, {size(sum(x.wire for x in hidden))}"
    rounds = {x.round for x in hidden} - {x.round for x in shown}
    if not rounds:
        return f"… {total} more"
    alike = {(x.kind, x.sender, x.receiver) for x in hidden} <= {(x.kind, x.sender, x.receiver) for x in shown}
    more = f"{len(rounds):,} more round{'' if len(rounds) == 1 else 's'}"
    return f"… {more}{' like these' if alike else ''}: {total}"


def _picture(ledger: Sequence[Entry], everyone: Sequence[str], title: str) -> str:
    """Left a column of words, right the lifelines: so that no word lies on a line."""
    shown = len(everyone) if len(everyone) - 1 <= MANY_GUESTS else SHOWN_GUESTS + 1
    names = [(party, "guest" if i else "host") for i, party in enumerate(everyone[:shown])]
    if shown < len(everyone):
        names.append((f"{len(everyone) - shown} more", "guests"))
    lifelines = {party: min(i, shown) for i, party in enumerate(everyone)}
    gap = 112 if len(names) <= 4 else 88
    columns = [FIRST_LIFELINE + gap * i for i in range(len(names))]
    rows, y = [], TOP
    for phase in PHASES:
        said = condense(lines((e for e in ledger if e["phase"] == phase), lifelines))
        rows.append(_phase(said, phase, columns, y))
        y += ROW * len(said) + 14 if said else 0
    width = columns[-1] + gap // 2
    heads = [_lifeline(*name, (x, gap, y)) for name, x in zip(names, columns, strict=True)]
    return (
        f'<svg class="talk" role="img" width="{width}" height="{y}" viewBox="0 0 {width} {y}">'
        f"<title>{escape(title)}</title>{''.join(heads)}{''.join(rows)}</svg>"
    )


def _lifeline(name: str, role: str, place: tuple[int, int, int]) -> str:
    x, room, bottom = place
    return (
        f"<g><title>{escape(name)}</title>"
        f'<line class="life" x1="{x}" y1="{TOP - 12}" x2="{x}" y2="{bottom - 6}"/>'
        f'<text class="name" x="{x}" y="18" text-anchor="middle">{escape(shorten(name, room // 9))}</text>'
        f'<text class="soft" x="{x}" y="34" text-anchor="middle">{role}</text></g>'
    )


def _phase(said: Sequence[Line | str], phase: str, columns: Sequence[int], top: int) -> str:
    drawn, previous = [], None
    for i, line in enumerate(said):
        y = top + ROW * i
        if isinstance(line, str):
            drawn.append(
                f'<rect class="gap" x="0" y="{y + 1}" width="{columns[-1] + 20}" height="{ROW - 2}"/>'
                f'<text class="soft" x="84" y="{y + 16}">{escape(line)}</text>'
            )
            continue
        if line.round != previous:
            label = f"round {line.round:,}" if phase == "training" else phase if i == 0 else ""
            rule = f'<line class="rule" x1="0" y1="{y}" x2="{columns[-1] + 20}" y2="{y}"/>'
            drawn.append(f'{rule}<text class="soft" x="0" y="{y + 16}">{label}</text>')
            previous = line.round
        drawn.append(_arrow(line, columns, y))
    return "".join(drawn)


def _arrow(line: Line, columns: Sequence[int], y: int) -> str:
    start, end, middle = columns[line.sender], columns[line.receiver], y + 12
    back = -7 if end > start else 7
    count = f" ×{line.messages:,}" if line.messages > 1 else ""
    return (
        f'<g class="{"up" if line.receiver == 0 else "down"}"><title>{escape(line.kind)}{count}</title>'
        f'<text x="84" y="{y + 16}">{escape(shorten(line.kind, 20 - len(count)))}{count}</text>'
        f'<text x="288" y="{y + 16}" text-anchor="end">{size(line.wire)}</text>'
        f'<circle cx="{start}" cy="{middle}" r="2.5"/>'
        f'<line x1="{start}" y1="{middle}" x2="{end + back}" y2="{middle}"/>'
        f'<path d="M{end} {middle}l{back} -4v8z"/></g>'
    )


def _by_kind(ledger: Sequence[Entry], host: str) -> str:
    kinds: dict[tuple[str, str], list[int]] = {}
    for entry in sorted(ledger, key=lambda e: PHASES.index(e["phase"])):
        total = kinds.setdefault((entry["phase"], entry["kind"]), [0, 0, 0])
        total[0] += 1
        total[1 if entry["to"] == host else 2] += entry["wire"]
    rows = [
        (
            escape(kind) + (f"<small>{phase}</small>" if phase != kind else ""),
            {"messages": f"{count:,}", "to the host": size(up), "from the host": size(down)},
        )
        for (phase, kind), (count, up, down) in kinds.items()
    ]
    return f"<div>{table('Messages by kind', 'kind', rows)}</div>"


def _what_left(ledger: Sequence[Entry], everyone: Sequence[str]) -> str:
    many = len(everyone) - 1 > MANY_GUESTS
    groups = [(escape(party), {party}) for party in (everyone[: SHOWN_GUESTS + 1] if many else everyone)]
    if many:
        rest = set(everyone[SHOWN_GUESTS + 1 :])
        groups.append((f"the other {len(rest)} guests together", rest))
    said = "".join(
        f"<li><strong>{who}</strong> {_sent([e for e in ledger if e['from'] in senders])}</li>"
        for who, senders in groups
    )
    return f'<div><h4>What left each party</h4><ul class="left">{said}</ul></div>'


def _sent(entries: Sequence[Entry]) -> str:
    if not entries:
        return "sent nothing."
    kinds: dict[str, list[int]] = {}
    for entry in entries:
        kinds.setdefault(entry["kind"], []).append(entry["wire"])
    parts = [f"{size(sum(w))} of {escape(k)} ({plural(len(w), 'message')})" for k, w in kinds.items()]
    total = f"{size(sum(e['wire'] for e in entries))}: " if len(parts) > 1 else ""
    return f"sent {total}{', '.join(parts)}."
