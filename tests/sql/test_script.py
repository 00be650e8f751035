"""Where a text is cut into statements, and which comments speak to us."""

from __future__ import annotations

import pytest

from auditor.sql.meaning import Span
from auditor.sql.script import comments, split_script

PIECES = {
    "nothing in an empty text": ("", []),
    "nothing in space, comments and semicolons": (" ; -- x\n /* y; */ ;;\n", []),
    "one statement without a semicolon": ("SELECT 1", ["SELECT 1"]),
    "no space, comments or semicolon around a statement": ("  -- a\nSELECT 1 /* b */ -- c\n ; \n", ["SELECT 1"]),
    "comments inside a statement stay": ("SELECT /* ; */ 1 -- ;\n + 2;", ["SELECT /* ; */ 1 -- ;\n + 2"]),
    "nested comments end with the outermost": ("/* a /* ; */ ; */ SELECT 1; x", ["SELECT 1", "x"]),
    "a comment that never ends takes the rest": ("SELECT 1; /* SELECT 2;", ["SELECT 1"]),
    "quotes hide semicolons": ("SELECT ';', 'it''s;'; x", ["SELECT ';', 'it''s;'", "x"]),
    "a backslash is nothing in a plain string": (r"SELECT '\'; x", [r"SELECT '\'", "x"]),
    "a backslash hides the quote in an E string": (r"SELECT E'\';'; x", [r"SELECT E'\';'", "x"]),
    "a name that ends in e makes no E string": (r"SELECT type'\'; x", [r"SELECT type'\'", "x"]),
    "unicode strings have no backslash escapes": (r"SELECT U&'\'; x", [r"SELECT U&'\'", "x"]),
    "names in quotes hide semicolons": ('SELECT ";" FROM "a"";b"; x', ['SELECT ";" FROM "a"";b"', "x"]),
    "dollar quotes hide semicolons": ("SELECT $$;$$; x", ["SELECT $$;$$", "x"]),
    "dollar quotes end with their own tag": ("SELECT $a$ $$;$b$; $a$; x", ["SELECT $a$ $$;$b$; $a$", "x"]),
    "a placeholder opens no dollar quote": ("SELECT $1, $2; x$$y; z", ["SELECT $1, $2", "x$$y", "z"]),
    "a dollar quote may hold a quote": ("DO $$ it's $$; x", ["DO $$ it's $$", "x"]),
    "brackets hide semicolons": (
        "CREATE RULE r AS ON INSERT TO t DO (a; b); x",
        ["CREATE RULE r AS ON INSERT TO t DO (a; b)", "x"],
    ),
    "a bracket that never closes loses no statement": (
        "SELECT (1; UPDATE t SET a = (2); x",
        ["SELECT (1", "UPDATE t SET a = (2)", "x"],
    ),
    "a bracket too many harms nothing": ("SELECT 1); x", ["SELECT 1)", "x"]),
    "an atomic body ends with its END": (
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; SELECT 2; END; x",
        ["CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; SELECT 2; END", "x"],
    ),
    "a transaction is no atomic body": ("BEGIN; SELECT 1; END; x", ["BEGIN", "SELECT 1", "END", "x"]),
    "CASE outside a routine opens nothing": (
        "SELECT CASE WHEN a THEN 1 END; x",
        ["SELECT CASE WHEN a THEN 1 END", "x"],
    ),
    "data of COPY is left out": (
        "COPY t (a) FROM stdin;\n1\tit's;\n\\.\n\nSELECT 1;",
        ["COPY t (a) FROM stdin", "SELECT 1"],
    ),
    "no data at all is data too": (
        "COPY t FROM STDIN WITH (FORMAT csv);\n\\.\nx",
        ["COPY t FROM STDIN WITH (FORMAT csv)", "x"],
    ),
    "COPY to a client has no data": ("COPY t TO stdout;\nSELECT 1;", ["COPY t TO stdout", "SELECT 1"]),
    "COPY whose data never ends is followed by statements": (
        "COPY t FROM stdin; SELECT 1;",
        ["COPY t FROM stdin", "SELECT 1"],
    ),
    "psql's commands are left out": (
        "\\set x 'it''s'\n\\c db\nSELECT 1;\n\\if :x\nSELECT 2;\n\\endif",
        ["SELECT 1", "SELECT 2"],
    ),
    "psql's senders end a statement": (
        "SELECT 1 AS a \\gset\nSELECT 2 \\g /tmp/x\nSELECT 3",
        ["SELECT 1 AS a", "SELECT 2", "SELECT 3"],
    ),
    "psql's variables are no commands": ("SELECT :'a', :b; x", ["SELECT :'a', :b", "x"]),
    "an escaped colon is no command": (r"SELECT a\:\:int; x", [r"SELECT a\:\:int", "x"]),
    "a byte order mark is space": ("\ufeffSELECT 1;", ["SELECT 1"]),
    "windows line ends are space": ("SELECT 1;\r\nSELECT 2;\r\n", ["SELECT 1", "SELECT 2"]),
    "a quote that never ends takes the rest": ("SELECT 'a; SELECT 2;", ["SELECT 'a; SELECT 2;"]),
}


@pytest.mark.parametrize(("text", "pieces"), PIECES.values(), ids=PIECES)
def test_a_text_is_cut(text: str, pieces: list[str]) -> None:
    assert [text[start:end] for start, end in split_script(text).statements] == pieces


def test_a_stretch_is_cut_at_offsets_of_the_whole_text() -> None:
    text = "a; b; c'"
    assert split_script(text, 3, 7).statements == (Span(3, 4), Span(6, 7))


COMMENTS = {
    "a comment that names us, and where it stands": (
        "SELECT 1; -- tenant-audit: ignore\n",
        [("-- tenant-audit: ignore", 10, 33, False)],
    ),
    "a comment on a line of its own": (
        "SELECT 1;\n  -- tenant-audit: off\nx",
        [("-- tenant-audit: off", 12, 32, True)],
    ),
    "a block comment": ("/* tenant-audit: off */ SELECT 1", [("/* tenant-audit: off */", 0, 23, True)]),
    "a comment inside a statement": ("SELECT 1 -- tenant-audit: x\n + 1", [("-- tenant-audit: x", 9, 27, False)]),
    "no other comments": ("-- audit\n/* tenant */ SELECT 1", []),
    "nothing inside strings": ("SELECT '-- tenant-audit: x', $$-- tenant-audit: y$$, \"-- tenant-audit: z\"", []),
    "nothing inside data": ("COPY t FROM stdin;\n-- tenant-audit: x\n\\.\n", []),
    "a comment once, though brackets are read twice": (
        "SELECT ( -- tenant-audit: x\n ; SELECT 2",
        [("-- tenant-audit: x", 9, 27, False)],
    ),
}


@pytest.mark.parametrize(("text", "expected"), COMMENTS.values(), ids=COMMENTS)
def test_comments_for_us(text: str, expected: list[tuple[str, int, int, bool]]) -> None:
    assert [tuple(comment) for comment in comments(text)] == expected


def test_data_is_searched_not_read() -> None:
    import time

    rows = "".join(f'{number}\tit\'s ("data"; $$\n' for number in range(200_000))
    text = f"COPY t FROM stdin;\n{rows}\\.\nSELECT 1;"
    start = time.perf_counter()
    assert len(split_script(text).statements) == 2
    assert time.perf_counter() - start < 0.5
