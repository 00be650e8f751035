"""What experiments found, as a table in the terminal: the article's figures beside those of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TextIO

from auditor.lab import chart_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from auditor.lab.prove import Proven
    from auditor.lab.run import Report
    from auditor.report.look import Look

_MARKS = {True: "=", False: "differs", None: ""}


def _console(look: Look, out: TextIO) -> Console:
    from rich.console import Console

    colours: Literal["standard"] | None = "standard" if look.colour else None
    return Console(file=out, width=look.width, color_system=colours, force_terminal=look.colour, highlight=False)


def show_versions(found: Mapping[str, str], out: TextIO) -> None:
    told = [f"{'PostgreSQL' if name == 'postgresql' else name} {version}" for name, version in found.items()]
    print(", ".join(told), file=out)


def show(report: Report, look: Look, out: TextIO) -> None:
    """One experiment: its question, a table, its pictures, and the verdict."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    console = _console(look, out)
    console.print()
    console.print(Text.assemble((report.experiment.name, "bold"), "  ", report.experiment.title))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "article", "here", ""):
        table.add_column(heading, overflow="fold")
    for row in report.outcome.rows:
        style = "red" if row.holds is False else "dim" if row.holds is None and not row.figures else ""
        table.add_row(
            Text(row.what), Text(row.article), Text(row.here, style=style), Text(_MARKS[row.holds], style=style)
        )
    console.print(table)
    for chart in report.outcome.charts:
        console.print(Text.from_ansi(chart_text.text(chart, look.width, look.colour)))
    console.print(Text(report.outcome.verdict, style="bold green" if report.outcome.holds else "bold red"))
    console.print(Text(report.experiment.means))


def show_proven(proven: Proven, look: Look, out: TextIO) -> None:
    """One rule: what its bad example shows, and what its good one."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    console = _console(look, out)
    console.print()
    console.print(Text.assemble((proven.rule.rule.code, "bold"), "  ", proven.rule.rule.name))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("", f"bad: {proven.proof.bad}", f"good: {proven.proof.good}"):
        table.add_column(Text(heading), overflow="fold")
    for what in dict.fromkeys((*proven.bad, *proven.good)):
        table.add_row(Text(what), Text(_figure(proven.bad.get(what, ""))), Text(_figure(proven.good.get(what, ""))))
    console.print(table)
    console.print(Text(proven.verdict, style="bold green" if proven.holds else "bold red"))


def _figure(found: object) -> str:
    if isinstance(found, bool):
        return "yes" if found else "no"
    return str(found) or "nothing"
