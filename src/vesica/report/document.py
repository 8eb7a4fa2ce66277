"""What every page has around its content: colours of light and dark, no script, nothing from outside."""

from html import escape
from pathlib import Path

from vesica.errors import InputError
from vesica.protocol.files import write_atomically

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # the browser itself refuses anything from outside
)

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


def document(title: str, introduction: str, content: str, *, style: str = "") -> str:
    """A whole page; the introduction and the content are HTML already, `style` is CSS beside the page's own."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{PALETTE}{STYLE}{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>{introduction}</header>\n<main>\n{content}</main>\n"
        '<footer class="soft">This page is complete in itself: it loads nothing and sends nothing. '
        "1 MB is 1,000,000 bytes.</footer>\n</body>\n</html>\n"
    )


def write_page(path: Path, page: str) -> None:
    """A reader never sees half of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the report cannot be written to {path} ({error.strerror}); give another file") from error
    write_atomically(path, page)
