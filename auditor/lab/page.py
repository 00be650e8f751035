"""What experiments found as one page that needs nothing else: no script, no font, nothing that is fetched."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from auditor.lab.chart_svg import svg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from auditor.lab.run import Report

#: The colours of pictures too: `c0` … `c5` are the variants'.
STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c2128; --soft: #59636e; --grid: #d9dee4; --good: #1a7f37;
  --bad: #b3261e; --c0: #c0392b; --c1: #b26a00; --c2: #1e7d4b; --c3: #1f6feb; --c4: #7d3fc4; --c5: #5c6670; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171c; --ink: #e6e9ed; --soft: #9aa4af; --grid: #363d46;
  --good: #57c77a; --bad: #ff8078; --c0: #ff7b6e; --c1: #f0b429; --c2: #57c77a; --c3: #6cb0ff; --c4: #c297ff;
  --c5: #aab4bf; } }
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 60rem; padding: 0 1rem; }
h2 { margin: 3rem 0 0; } p { margin: .4rem 0 1rem; } .soft { color: var(--soft); }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { border-bottom: 1px solid var(--grid); padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top; }
svg { display: block; height: auto; margin: 1.5rem 0; max-width: 100%; width: 45rem; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; } svg text.title { font-weight: 600; font-size: 14px; }
svg text.end { text-anchor: end; } svg text.middle { text-anchor: middle; } svg text.on { fill: var(--paper); }
.grid { stroke: var(--grid); } .line { fill: none; stroke-width: 2; }
""" + "\n".join(
    f".line.c{n} {{ stroke: var(--c{n}); }} .bar.c{n}, .dot.c{n} {{ fill: var(--c{n}); }}" for n in range(6)
)


def page(versions: Mapping[str, str], reports: Sequence[Report]) -> str:
    """The whole page."""
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    parts = "\n".join(_section(report) for report in reports)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tenant-audit lab</title>
<style>{STYLE}
</style>
</head>
<body>
<h1>What was seen on a real PostgreSQL</h1>
<p class="soft">{escape(told)}. Times are one machine's: compare them with each other.</p>
{parts}
</body>
</html>
"""


def _section(report: Report) -> str:
    outcome = report.outcome
    rows = "\n".join(
        f"<tr><td>{escape(row.what)}</td><td>{escape(row.article)}</td><td>{escape(row.here)}</td>"
        f"<td>{_mark(row.holds)}</td></tr>"
        for row in outcome.rows
    )
    pictures = "\n".join(svg(chart) for chart in outcome.charts)
    return f"""<h2 id="{report.experiment.name}">{report.experiment.name}</h2>
<p>{escape(report.experiment.title)}</p>
<div class="wide"><table>
<tr><th></th><th>article</th><th>here</th><th></th></tr>
{rows}
</table></div>
{pictures}
<p class="{"good" if outcome.holds else "bad"}">{escape(outcome.verdict)}</p>
<p>{escape(report.experiment.means)}</p>"""


def _mark(holds: bool | None) -> str:
    return {True: '<span class="good">=</span>', False: '<span class="bad">differs</span>', None: ""}[holds]
