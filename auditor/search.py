"""Which files contain which words: a search of bytes that decides what is parsed at all.

It reads every file of a tree, so it runs in as many processes as there are processors. They are forked here and talk
through pipes: `multiprocessing` takes longer to import than most trees take to search.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from auditor.files import SourceFile, UnreadableError, pieces

#: Which patterns were found in a stretch of bytes: a number with one bit for each.
Matcher = Callable[[bytes], int]

#: Where a tree is smaller than this, starting another process takes longer than it saves.
_SMALL = 200

_AT_ONCE = 32
_UNREADABLE = 0


def search(
    files: Sequence[SourceFile], patterns: Sequence[bytes], *, fold: bool = True, jobs: int | None = None
) -> dict[SourceFile, frozenset[int]]:
    """The files in which at least one of the patterns occurs, with the numbers of those that do.

    With `fold`, letters are lowered first: patterns are written in lower case and match any. A file that cannot be
    read is among the results with no number: whoever reads it learns why.
    """
    return _search(files, _patterns(patterns), fold, jobs)


def mentions(
    files: Sequence[SourceFile], names: Sequence[bytes], *, fold: bool = False, jobs: int | None = None
) -> dict[SourceFile, frozenset[int]]:
    """As `search`, for whole identifiers, of which there may be hundreds."""
    return _search(files, _names(names), fold, jobs)


# Matchers


#: Patterns, each with the bit that stands for it.
_Numbered = list[tuple[int, bytes]]


def _patterns(patterns: Sequence[bytes]) -> Matcher:
    """Looking for a literal first is twice as fast as leaving that to `re`, and patterns can share one."""
    keys, families = _filed(patterns)
    tests = [(key, [(bit, _rest(pattern, key)) for bit, pattern in members]) for key, members in keys.items()]
    searches = [_family(word, members) for word, members in families.items()]

    def match(data: bytes) -> int:
        found = 0
        for key, members in tests:
            if key in data:
                for bit, pattern in members:
                    if pattern is None or compiled(pattern).search(data):
                        found |= bit
        for find_members in searches:
            found |= find_members(data)
        return found

    return match


#: A literal of this length is rare enough to be looked for instead of a longer one.
_RARE = 5


def _filed(patterns: Sequence[bytes]) -> tuple[dict[bytes, _Numbered], dict[bytes, _Numbered]]:
    """The patterns by the literal to look for first; apart from these, the ones that share a short word and a blank."""
    keys: dict[bytes, _Numbered] = {}
    families: dict[bytes, _Numbered] = {}
    known = [(literals(pattern), 1 << number, pattern) for number, pattern in enumerate(patterns)]
    words = [found[0] for found, _, pattern in known if _is_blank_behind(found[0], pattern)]
    for found, bit, pattern in sorted(known, key=lambda one: len(max(one[0], key=len))):
        longest = max(reversed(found), key=len)  # of equal ones the later says more: `create policy`
        if words.count(found[0]) > 1 and _is_blank_behind(found[0], pattern):
            families.setdefault(found[0], []).append((bit, pattern))
        else:
            key = next((key for key in keys if len(key) >= _RARE and key in longest), longest)
            keys.setdefault(key, []).append((bit, pattern))
    return keys, families


def _is_blank_behind(word: bytes, pattern: bytes) -> bool:
    return 0 < len(word) < _RARE and pattern.startswith(word + rb"\s+")


#: A pattern is compiled when the literal in it was found: that takes longer than to search a small file for all others.
compiled = cache(re.compile)


def _rest(pattern: bytes, key: bytes) -> bytes | None:
    """What to look for where the key was found: nothing more when that is all of the pattern."""
    return None if re.escape(key) == pattern else pattern


def _family(word: bytes, members: _Numbered) -> Matcher:
    """Patterns that begin with one word and a blank: the file is gone through once for all of them."""
    beginnings = re.compile(word + rb"\s").finditer
    any_of_them = b"|".join(b"(?:%b)" % pattern for _, pattern in members)

    def match(data: bytes) -> int:
        found = 0
        for beginning in beginnings(data):
            start = beginning.start()
            if compiled(any_of_them).match(data, start):
                for bit, pattern in members:
                    if not found & bit and compiled(pattern).match(data, start):
                        found |= bit
        return found

    return match


_TOKEN = re.compile(
    rb"(?P<flags>\(\?[a-zA-Z-]+[:)])|(?P<open>\()|(?P<close>\))|(?P<choice>\|)|(?P<more>\+\??)|(?P<any>[*?]\??|\{[\d,]+\}\??)"
    rb"|\\(?P<escaped>[^a-zA-Z0-9])|(?P<literal>[^\\\[.^$])|\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|.",
    re.DOTALL,
)


@cache
def literals(pattern: bytes) -> tuple[bytes, ...]:
    """The stretches of bytes that stand in every match of a regular expression; with the first of them it begins."""
    found = [bytearray()]
    depth = 0
    for token in _TOKEN.finditer(pattern):
        if token["flags"] or (token["choice"] and not depth):
            return (b"",)
        depth += bool(token["open"]) - bool(token["close"])
        literal = None if depth else token["literal"] or token["escaped"]
        if literal and not token["close"]:
            found[-1] += literal
            continue
        if token["any"] and not depth:
            del found[-1][-1:]
        found.append(bytearray())
    return (bytes(found[0]), *(bytes(stretch) for stretch in found[1:] if stretch))


#: Up to so many names are looked for one by one; for more, a file is split into its words.
_FEW = 30


def _names(names: Sequence[bytes]) -> Matcher:
    if len(names) <= _FEW:
        return _patterns([re.escape(name) + rb"(?<!\w" + re.escape(name) + rb")(?!\w)" for name in names])
    bits: dict[bytes, int] = {}
    for number, name in enumerate(names):
        bits[name] = bits.get(name, 0) | 1 << number
    known = bits.keys()
    words = bytes(byte if byte > 127 or chr(byte).isalnum() or byte == ord("_") else 32 for byte in range(256))

    def match(data: bytes) -> int:
        found = 0
        for name in known & set(data.translate(words).split()):
            found |= bits[name]
        return found

    return match


# Searching


def _search(
    files: Sequence[SourceFile], match: Matcher, fold: bool, jobs: int | None
) -> dict[SourceFile, frozenset[int]]:
    def test(number: int) -> int | None:
        return _found(files[number].file, match, fold)

    workers = min(jobs or _processors(), 8, len(files) // (_SMALL // 2))
    if workers > 1 and hasattr(os, "fork"):
        found = _shared(len(files), test, workers)
    else:
        found = dict(_results(range(len(files)), test))
    return {files[number]: _numbers(found[number]) for number in sorted(found)}


def _found(file: str, match: Matcher, fold: bool) -> int | None:
    """What was found in a file: None for nothing, no bit for a file that cannot be read."""
    found = 0
    try:
        for data in pieces(file):
            found |= match(data.lower() if fold else data)
    except UnreadableError:
        return _UNREADABLE
    return found or None


def _results(numbers: Iterable[int], test: Callable[[int], int | None]) -> Iterator[tuple[int, int]]:
    for number in numbers:
        found = test(number)
        if found is not None:
            yield number, found


def _numbers(bits: int) -> frozenset[int]:
    return frozenset(number for number in range(bits.bit_length()) if bits >> number & 1)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Sharing the work


def _shared(count: int, test: Callable[[int], int | None], workers: int) -> dict[int, int]:
    """Test `count` files in several processes. What a process that dies had taken is tested again here."""
    tickets = _tickets(count)
    children = [_start(lambda: _take(tickets, count, test)) for _ in range(workers - 1)]
    found = dict(_take(tickets, count, test))
    os.close(tickets)
    sound = True
    for process, results in children:
        with open(results, "rb") as stream:
            lines = stream.read().split()
        _, status = os.waitpid(process, 0)
        sound &= status == 0
        found.update((int(number), int(bits, 16)) for number, _, bits in (line.partition(b":") for line in lines))
    return found if sound else dict(_results(range(count), test))


def _tickets(count: int) -> int:
    """A pipe that holds a two-byte ticket for every stretch of the files: who is free takes the next."""
    reading, writing = os.pipe()
    os.write(writing, b"".join(start.to_bytes(2, "big") for start in range(-(-count // _stretch(count)))))
    os.close(writing)
    return reading


def _stretch(count: int) -> int:
    """How many files a ticket stands for: never so few that the tickets would not fit into a pipe."""
    return max(_AT_ONCE, count // 1000)


def _take(tickets: int, count: int, test: Callable[[int], int | None]) -> Iterator[tuple[int, int]]:
    size = _stretch(count)
    while ticket := os.read(tickets, 2):
        start = int.from_bytes(ticket, "big") * size
        yield from _results(range(start, min(start + size, count)), test)


def _start(work: Callable[[], Iterator[tuple[int, int]]]) -> tuple[int, int]:
    """A process that does the work and writes its results to a pipe: its id, and the end to read from."""
    reading, writing = os.pipe()
    process = _fork()
    if process:
        os.close(writing)
        return process, reading
    status = 1
    try:
        os.close(reading)
        with open(writing, "wb") as stream:
            stream.write(b" ".join(b"%d:%x" % result for result in work()))
        status = 0
    finally:
        os._exit(status)


def _fork() -> int:
    import warnings

    with warnings.catch_warnings():
        # Since 3.12 Python warns where other threads are running; the child takes no lock and runs no code of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()
