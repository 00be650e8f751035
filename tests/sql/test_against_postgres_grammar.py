"""Every statement of every SQL file at hand, read by us and by PostgreSQL's own grammar: no difference.

`TENANT_AUDIT_CORPUS` names a folder with more files.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("pglast")

from auditor.sql.read import read_sql
from auditor.sql.script import split_script
from tests.sql import oracle

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]


def _files() -> list[Path]:
    folders = [REPOSITORY / "fixtures"]
    if corpus := os.environ.get("TENANT_AUDIT_CORPUS"):
        folders.append(Path(corpus))
    return [HERE / "statements.sql", *sorted(file for folder in folders for file in folder.rglob("*.sql"))]


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize("file", _files(), ids=lambda file: "/".join(file.parts[-3:]))
def test_a_file_is_cut_where_postgresql_cuts_it(file: Path) -> None:
    text = _text(file)
    theirs = oracle.parse(text)
    if theirs is None:
        return  # psql's commands, data, or another database's SQL
    expected = []
    for raw in theirs:
        first = raw.stmt_location or 0
        last = first + raw.stmt_len if raw.stmt_len else len(text)
        # PostgreSQL counts the space and comments before a statement to it.
        expected += [text[start:end] for start, end in split_script(text, first, last).statements]
    assert [text[start:end] for start, end in split_script(text).statements] == expected


@pytest.mark.parametrize("file", _files(), ids=lambda file: "/".join(file.parts[-3:]))
def test_a_statement_means_what_postgresql_takes_it_for(file: Path) -> None:
    found = []
    for statement in read_sql(_text(file)):
        theirs = oracle.parse(statement.text)
        if theirs is None or len(theirs) != 1:
            continue
        ours = oracle.facts_of_statement(statement)
        found += [
            f"{line}\n    in {statement.text}"
            for line in oracle.differences(ours, oracle.facts_of_tree(theirs[0].stmt))
        ]
    assert not found, "\n".join(found)


def test_the_statements_here_are_all_postgresql() -> None:
    statements = read_sql(_text(HERE / "statements.sql"))
    assert len(statements) >= 250
    assert [one.text for one in statements if oracle.parse(one.text) is None] == []


#: What sqlglot before its version 30 cannot parse; we still read it from its tokens.
_TOO_NEW = ("ORDER BY 1 LIMIT 1", "IS NOT UNKNOWN", "h(*)")


def test_the_statements_here_are_all_parsed() -> None:
    new = int(version("sqlglot").partition(".")[0]) >= 30
    unparsed = [one.text for one in read_sql(_text(HERE / "statements.sql")) if not one.parsed]
    assert [text for text in unparsed if new or not any(words in text for words in _TOO_NEW)] == []


def test_the_statements_here_are_of_every_kind() -> None:
    from auditor.sql.meaning import Kind

    assert set(Kind) - {statement.kind for statement in read_sql(_text(HERE / "statements.sql"))} == set()
