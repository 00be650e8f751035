"""The pages of rules: what `tenant-audit rule` prints, and the examples that are run as tests.

A page is Markdown. Its title is `# TA101 session-tenant`. Below `## Bad` and `## Good` fenced blocks with `file=` are
examples: the blocks below one `###` heading are the files of one small project.

    ```python file=app/worker.py
    conn.execute("SET app.tenant = '1'")  # expect: TA101
    ```

`# expect: TA101` and `-- expect: TA101 medium, TA109` mark the lines where findings are expected, and how sure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from auditor.errors import UserError, reason_of
from auditor.findings import Confidence
from auditor.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from auditor.packs import LoadedRule

#: Where the pages of our rules can be read in a browser; None as long as they are only in `tenant-audit rule`.
SITE: str | None = None


def url(code: str) -> str | None:
    """The address of a rule's page, or None where there is none."""
    return None if SITE is None else f"{SITE}/{code}"


class Expected(NamedTuple):
    """A finding that a mark expects. `confidence` is None where any will do."""

    path: str
    line: int
    code: str
    confidence: Confidence | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """One small project of a page, and what is to be found in it."""

    title: str
    good: bool
    files: dict[str, str]
    expected: frozenset[Expected]


class Page(NamedTuple):
    """A page as people read it, without the marks of its tests."""

    title: str
    summary: str
    text: str


def read_page(loaded: LoadedRule) -> Page:
    """A rule's page."""
    text = _read(loaded.page)
    lines = text.splitlines()
    title = next((line for line in lines if line.startswith("# ")), "")
    if title != f"# {loaded.rule.code} {loaded.rule.name}":
        raise UserError(f'{loaded.page}: the page begins with "# {loaded.rule.code} {loaded.rule.name}"')
    return Page(title[2:], _summary(lines[lines.index(title) + 1 :]), without_marks(text))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError as error:
        raise UserError(f"{path}: the page cannot be read: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: the page is not UTF-8") from error


def _summary(lines: Iterable[str]) -> str:
    """The first sentence below the title."""
    paragraph: list[str] = []
    for line in lines:
        if line.strip() and not line.startswith("#"):
            paragraph.append(line.strip())
        elif paragraph:
            break
    text = " ".join(paragraph)
    sentence = re.match(r".+?[.!?](?=\s+[^a-z\s]|\s*$)", text)
    return sentence[0] if sentence else text


# Marks


_MARK = re.compile(r"(?:#|--)[ \t]*expect:[ \t]*(?P<what>[A-Z][^\n]*?)[ \t\r]*$")
_CODE = re.compile(r"([A-Z]{2,8}[0-9]{3,4})(?:\s+(low|medium|high))?")


def marks(path: str, text: str) -> Iterator[Expected]:
    """The findings that the marks in a file expect."""
    for number, line in enumerate(text.split("\n"), 1):
        mark = _MARK.search(line)
        for part in mark["what"].split(",") if mark else ():
            code = _CODE.fullmatch(part.strip())
            if code is None:
                raise UserError(f'{path}:{number}: "{part.strip()}" is no expectation; write `expect: TA101 medium`')
            yield Expected(path, number, code[1], Confidence(code[2]) if code[2] else None)


def without_marks(text: str) -> str:
    """The text as people read it."""
    return re.sub(r"[ \t]*" + _MARK.pattern, "", text, flags=re.MULTILINE)


# Examples


_FENCE = re.compile(r"(?P<ticks>`{3,}|~{3,})(?P<info>[^`\n]*)")
_FILE = re.compile(r"(?:^|\s)file=(\S+)")


class _Block(NamedTuple):
    section: str
    group: str
    path: str
    text: str


def examples(path: str) -> list[Example]:
    """The examples of a page, in its order."""
    projects: dict[tuple[str, str], dict[str, str]] = {}
    for block in _blocks(_read(path).splitlines()):
        files = projects.setdefault((block.section, block.group), {})
        if block.path in files:
            raise UserError(f'{path}: "{block.group}" has two files {block.path}; separate examples with a ### heading')
        files[block.path] = block.text
    return [
        Example(
            group,
            section == "good",
            files,
            frozenset(mark for name, text in files.items() for mark in marks(name, text)),
        )
        for (section, group), files in projects.items()
    ]


def _blocks(lines: Iterable[str]) -> Iterator[_Block]:
    """The fenced blocks with a file name below `## Bad` and `## Good`."""
    section = group = ""
    block: list[str] | None = None
    fence = name = ""
    for line in lines:
        if block is not None:
            if line.strip() == fence:
                if section in ("bad", "good") and name:
                    yield _Block(section, group, name, "".join(f"{text}\n" for text in block))
                block = None
            else:
                block.append(line)
        elif opening := _FENCE.match(line):
            fence, block = opening["ticks"], []
            file = _FILE.search(opening["info"])
            name = file[1] if file else ""
        elif line.startswith("## "):
            section = group = line[3:].strip().lower()
        elif line.startswith("### "):
            group = line[4:].strip()


# Listing


def table(rules: Sequence[LoadedRule]) -> str:
    """The rules as a table in Markdown, for the README."""
    rows = ["| code | name | severity | what happens |", "| --- | --- | --- | --- |"]
    for loaded in rules:
        summary = read_page(loaded).summary.replace("|", "\\|")
        rows.append(f"| {loaded.rule.code} | `{loaded.rule.name}` | {loaded.rule.severity.value} | {summary} |")
    return "\n".join(rows) + "\n"
