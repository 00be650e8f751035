"""Searching files for patterns and names before anything is parsed."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor import files
from auditor import search as searching
from auditor.config import Config
from auditor.files import LIMIT, SourceFile
from auditor.search import literals, mentions, search
from auditor.sources import find_files
from tests.command.world import plant, write

if TYPE_CHECKING:
    from pathlib import Path


def listed(here: Path) -> tuple[SourceFile, ...]:
    return find_files((), Config(str(here)), str(here)).files


def by_path(result: dict[SourceFile, frozenset[int]]) -> dict[str, set[int]]:
    return {file.path: set(numbers) for file, numbers in result.items()}


def test_each_file_comes_with_the_patterns_it_contains(here: Path) -> None:
    write(here / "a.py", "conn.execute('SELECT Set_Config(1)')\nattempts \t= 1")
    write(here / "b.py", "nothing")
    write(here / "c.sql", "RESET ALL")
    patterns = [rb"set_config", rb"attempts\s*=", rb"reset (?:all|role)", rb"discard"]
    assert by_path(search(listed(here), patterns)) == {"a.py": {0, 1}, "c.sql": {2}}


def test_without_folding_letters_are_what_they_are(here: Path) -> None:
    write(here / "a.py", "Set_Tenant()")
    assert by_path(search(listed(here), [rb"set_tenant"], fold=False)) == {}
    assert by_path(search(listed(here), [rb"Set_Tenant"], fold=False)) == {"a.py": {0}}


NAMES = {
    "a whole word": (b"with set_tenant(conn):", True),
    "part of a longer word": (b"reset_tenants()", False),
    "the end of a longer word": (b"reset_tenant()", False),
    "a later occurrence counts": (b"reset_tenant(); set_tenant()", True),
    "an attribute": (b"db.set_tenant", True),
    "other letters": (b"SET_TENANT", False),
    "a file of nothing but the word": (b"set_tenant", True),
}


@pytest.mark.parametrize(("data", "expected"), NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("others", [0, 100])
def test_names_are_whole_identifiers_however_many_are_looked_for(
    here: Path, data: bytes, expected: bool, others: int
) -> None:
    (here / "a.py").write_bytes(data)
    names = [b"set_tenant", *(b"other_%d" % number for number in range(others))]
    assert by_path(mentions(listed(here), names)) == ({"a.py": {0}} if expected else {})


def test_a_file_that_cannot_be_read_is_found_with_nothing(here: Path) -> None:
    plant(here, "a.py", "b.py")
    files = listed(here)
    (here / "b.py").unlink()
    os.mkfifo(here / "b.py")
    assert by_path(search(files, [rb"x = 1"])) == {"a.py": {0}, "b.py": set()}


def test_bytes_of_all_kinds_are_searched(here: Path) -> None:
    (here / "a.py").write_bytes(b"\x00\xff\xfe SET_CONFIG \x00")
    write(here / "b.py", "")
    assert by_path(search(listed(here), [rb"set_config"])) == {"a.py": {0}}


def test_a_huge_file_is_searched_in_pieces(here: Path) -> None:
    step = 8 * 1024 * 1024
    with (here / "a.sql").open("wb") as stream:
        stream.seek(step - 5)
        stream.write(b"SET_CONFIG")  # across two pieces
        stream.truncate(LIMIT + 1)
    assert by_path(search(listed(here), [rb"set_config", rb"reset"])) == {"a.sql": {0}}


class TestProcesses:
    @pytest.fixture
    def tree(self, here: Path) -> tuple[SourceFile, ...]:
        for number in range(600):
            write(here / f"{number % 7}/f{number}.py", f"word_{number % 13} = {number}\n")
        (here / "3/f3.py").unlink()
        os.mkfifo(here / "3/f3.py")
        return (*listed(here), SourceFile("gone.py", str(here / "gone.py"), "python", listed(here)[0].role))

    @pytest.mark.parametrize("jobs", [2, 3, None])
    def test_several_find_what_one_finds(self, tree: tuple[SourceFile, ...], jobs: int | None) -> None:
        patterns = [rb"word_%d " % number for number in range(13)]
        alone = search(tree, patterns, jobs=1)
        assert len(alone) == 600
        assert list(search(tree, patterns, jobs=jobs).items()) == list(alone.items())

    def test_beside_other_threads_too(self, tree: tuple[SourceFile, ...]) -> None:
        waiting = threading.Event()
        thread = threading.Thread(target=waiting.wait)
        thread.start()
        try:
            assert len(search(tree, [rb"word_1 "], jobs=2)) == 48
        finally:
            waiting.set()
            thread.join()

    def test_what_a_dead_process_had_taken_is_searched_again(
        self, tree: tuple[SourceFile, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        alone = search(tree, [rb"word_1 "], jobs=1)
        parent = os.getpid()
        pieces = files.pieces

        def die(file: str) -> object:
            if os.getpid() != parent:
                os._exit(9)
            return pieces(file)

        monkeypatch.setattr(searching, "pieces", die)
        assert search(tree, [rb"word_1 "], jobs=2) == alone

    def test_where_processes_cannot_be_forked_one_does_it(
        self, tree: tuple[SourceFile, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(os, "fork")
        assert len(search(tree, [rb"word_1 "], jobs=2)) == 48


LITERALS = {
    "a plain word": (rb"set_config", [b"set_config"]),
    "up to a class, and behind it": (rb"set\s+local", [b"set", b"local"]),
    "a letter that may be missing": (rb"attempts?", [b"attempt"]),
    "a letter that may be missing in the middle": (rb"lease_?until", [b"lease", b"until"]),
    "a letter that comes once or more": (rb"ab+c", [b"ab", b"c"]),
    "a letter that comes so many times": (rb"abc{0,2}d", [b"ab", b"d"]),
    "an escaped dot is a dot": (rb"conn\.execute", [b"conn.execute"]),
    "a class": (rb"set[ab]x", [b"set", b"x"]),
    "a class that holds a bracket": (rb"set[]a]x", [b"set", b"x"]),
    "a choice inside": (rb"set (?:local|session) x", [b"set ", b" x"]),
    "groups in groups": (rb"set (?:a(?:b|c))?x", [b"set ", b"x"]),
    "a choice of the whole": (rb"set|reset", [b""]),
    "a bar in a class is no choice": (rb"set[|]x", [b"set", b"x"]),
    "an escaped bar is no choice": (rb"set\|x", [b"set|x"]),
    "an anchor": (rb"^set", [b"", b"set"]),
    "nothing that is certain": (rb"\w+", [b""]),
    "a look ahead": (rb"set(?!ting)s", [b"set", b"s"]),
    "flags change what letters mean": (rb"(?i)set", [b""]),
    "flags inside": (rb"set(?i:local)", [b""]),
}


@pytest.mark.parametrize(("pattern", "expected"), LITERALS.values(), ids=LITERALS)
def test_the_literals_in_every_match_of_a_pattern(pattern: bytes, expected: list[bytes]) -> None:
    assert list(literals(pattern)) == expected


WORDS = [
    b"set",
    b"_",
    b" ",
    b"config",
    b"local",
    b"|",
    b".",
    b"x",
    b"\n",
    b"SET",
    b"reset",
    b"=",
    b'"',
    b"policy",
    b"create",
]
PATTERNS = [
    rb"set_config", rb"set\s+x", rb"set\s+local", rb"set\s+(?:x|local)\s", rb"set\s+[\"x]", rb"setx?", rb"set(?:_|\.)",
    rb"set|x", rb"set\.", rb"set[|]", rb"reset=", rb"reset\"", rb"reset\s", rb"create\s+policy", rb"alter\s+policy",
    rb"x\s+x",
]  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(
    data=st.lists(st.sampled_from(WORDS), max_size=12).map(b"".join),
    patterns=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=16),
)
def test_the_search_agrees_with_re(here: Path, data: bytes, patterns: list[bytes]) -> None:
    (here / "a.py").write_bytes(data)
    expected = {number for number, pattern in enumerate(patterns) if re.search(pattern, data.lower())}
    assert by_path(search(listed(here), patterns)) == ({"a.py": expected} if expected else {})
