"""Small programs, audited as the command audits them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from auditor.audit import audit
from auditor.config import Config
from auditor.findings import Confidence
from auditor.packs import load_packs, own_pack, triggers
from auditor.program import read_program
from auditor.progress import silent
from auditor.sources import find_files
from auditor.timeline import walk

if TYPE_CHECKING:
    from pathlib import Path

    from auditor.findings import Finding
    from auditor.timeline import Timeline

RULES = load_packs([own_pack()])


def walked(folder: Path, files: dict[str, str]) -> Timeline:
    """The timeline of a program of these files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    config = Config(str(folder), min_confidence=Confidence.LOW)
    inventory = find_files([], config, str(folder))
    return walk(read_program(inventory, triggers(RULES, RULES), config, 1, silent), silent)


def find(folder: Path, files: dict[str, str]) -> list[Finding]:
    """All findings in a program of these files, whatever their confidence, but for the note on the project as such."""
    return [one for one in audit(walked(folder, files), RULES) if one.code != "TA503"]


def codes(folder: Path, source: str, **more: str) -> list[str]:
    """`code at line` of each finding in a worker.py with this source; `more` are other modules by name."""
    files = {"worker.py": source, **{f"{name}.py": text for name, text in more.items()}}
    return [f"{one.code} at {one.place.path}:{one.place.line}" for one in find(folder, files)]
