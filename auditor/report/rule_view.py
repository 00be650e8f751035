"""What `tenant-audit rule` prints: the list of rules, or the page of one."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from auditor.packs import find
from auditor.pages import read_page, url

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from auditor.packs import LoadedRule
    from auditor.report.look import Look


def show(rules: Sequence[LoadedRule], word: str | None, form: str, look: Look, terminal: bool) -> Iterator[str]:
    """All rules, or those that the word means: one of them with its page."""
    found = find([word], rules, "rule") if word is not None else list(rules)
    if form == "json":
        yield _json(found, one=word is not None and len(found) == 1)
    elif word is not None and len(found) == 1:
        yield from _page(found[0], look, terminal)
    else:
        yield from _list(found, look)


def _json(rules: Sequence[LoadedRule], one: bool) -> str:
    import json

    described = [_described(loaded) for loaded in rules]
    return json.dumps(described[0] if one else described, indent=2) + "\n"


def _described(loaded: LoadedRule) -> dict[str, str | None]:
    page = read_page(loaded)
    return {
        "code": loaded.rule.code,
        "name": loaded.rule.name,
        "severity": loaded.rule.severity.value,
        "summary": page.summary,
        "page": page.text,
        "url": url(loaded.rule.code),
    }


def _page(loaded: LoadedRule, look: Look, terminal: bool) -> Iterator[str]:
    text = read_page(loaded).text
    if not terminal:
        yield text
        return
    from io import StringIO

    from rich.console import Console
    from rich.markdown import Markdown

    canvas = StringIO()
    console = Console(file=canvas, width=min(look.width, 100), force_terminal=look.colour, no_color=not look.colour)
    console.print(Markdown(text))
    yield canvas.getvalue()


def _list(rules: Sequence[LoadedRule], look: Look) -> Iterator[str]:
    columns = [(loaded.rule.code, loaded.rule.name, loaded.rule.severity.value) for loaded in rules]
    widths = [max(len(row[column]) for row in columns) for column in range(3)]
    indent = sum(widths) + 2 * len(widths)
    for (code, name, severity), loaded in zip(columns, rules, strict=True):
        head = f"{code:<{widths[0]}}  {name:<{widths[1]}}  {look.paint(severity, f'{severity:<{widths[2]}}')}  "
        first, *others = textwrap.wrap(read_page(loaded).summary, max(look.width - indent, 30)) or [""]
        yield f"{head}{first}\n"
        yield from (f"{' ' * indent}{line}\n" for line in others)
