"""Small worlds for the command line: files on disk, and a timeline that answers what a test planted."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from auditor.findings import Finding, Place, Severity
from auditor.rule import Rule

if TYPE_CHECKING:
    from pathlib import Path

LEAK = Rule("ZZ101", "leaky-setting", Severity.ERROR)
CARELESS = Rule("ZZ201", "careless-callback", Severity.WARNING)
REMARK = Rule("ZZ301", "small-remark", Severity.NOTE)

_RULE = """\
from auditor.rule import Rule, Severity

RULE = Rule({code!r}, {name!r}, Severity.{severity}, triggers=(rb"set_config",))


def check(timeline):
    yield from timeline.planted(RULE.code)
"""

_PAGE = """\
# {code} {name}

It happens at run time. More follows.

## Bad

```python file=app.py
leak()  # expect: {code}
```

## Good

```python file=app.py
keep()
```
"""


@dataclass
class Program:
    """What the command line asks of a program."""

    skipped: tuple[Any, ...] = ()
    unread: tuple[Any, ...] = ()
    directives: tuple[Any, ...] = ()

    def symbol_at(self, place: Place) -> str:
        return ""

    def is_for_another_database(self, place: Place) -> bool:
        return False


@dataclass
class FakeTimeline:
    """A timeline whose findings were planted."""

    program: Program = field(default_factory=Program)
    findings: list[Finding] = field(default_factory=list)

    def planted(self, code: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.code == code]

    def with_calls(self, finding: Finding) -> Finding:
        return finding


def write_rule(folder: Path, rule: Rule, stem: str | None = None) -> None:
    """A rule that finds what is planted for it, with its page."""
    words = {"code": rule.code, "name": rule.name, "severity": rule.severity.name}
    stem = stem or rule.name.replace("-", "_")
    write(folder / f"{stem}.py", _RULE.format(**words))
    write(folder / f"{stem}.md", _PAGE.format(**words))


def write(path: Path, text: str = "") -> Path:
    """A file with that text to the letter, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def plant(folder: Path, *paths: str) -> None:
    """Files that hold one line each."""
    for path in paths:
        write(folder / path, "SELECT 1;\n" if path.endswith(".sql") else "x = 1\n")


def git(folder: Path, *words: str) -> None:
    """Run git in a folder, as somebody."""
    someone = ["-c", "user.name=Someone", "-c", "user.email=someone@example.org", "-c", "protocol.file.allow=always"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", *someone, *words], cwd=folder, check=True, capture_output=True, env=clean)


def at(path: str, line: int, column: int = 1, end_column: int = 0) -> Place:
    """A place on one line."""
    return Place(path, line, column, line if end_column else 0, end_column)


def place_of(path: str, text: str, words: str, turn: int = 0) -> Place:
    """The place of some words in a file, the first time they occur or a later one."""
    start = -1
    for _ in range(turn + 1):
        start = text.index(words, start + 1)
    line = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    return Place(path, line, column, line, column + len(words))
