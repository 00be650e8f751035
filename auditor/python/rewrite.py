"""Where a file says what only a newer Python reads, and what to write there instead.

| new | instead |
|---|---|
| `f"a {x["k"]!r}"`, `t"…"`, with the strings beside it | `mark0((x["k"]),)` |
| `def f[T: int](x)`, `class C[T = int]:` | `def f (x)`, `class C :` |
| `type X[T] = list[T]` | `X = list[T]` |
| `except A, B:`, `except* A:` | `except (A, B):`, `except A:` |
| `a[*b]`, `*args: *Ts`, `[*x for x in y]` | `a[mark0(b),]`, `*args: mark0(Ts)`, `[mark0(x) for x in y]` |
| `lazy import x` | `import x` |

An edit leaves as many lines as it finds. What a mark stands for is put back into the tree by `auditor.python.modern`.
"""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, NamedTuple, Union

from auditor.python.scan import Chunk, Hole, ScanError, tokens
from auditor.python.strings import conversion, debug_text, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from auditor.python.scan import Literal, Part, Token


class Edit(NamedTuple):
    """Write `text` over what stands from `start` up to `end`."""

    start: int
    end: int
    text: str


class Slot(NamedTuple):
    """A hole: the number of the mark's argument that fills it, and how it is formatted."""

    argument: int
    conversion: str
    spec: Contents


Content = Union[str, Slot]
Contents = tuple[Content, ...]


class Mark(NamedTuple):
    """What a marked call stands for: a formatted string, or a starred value when there is no content."""

    content: Contents | None = None
    template: bool = False


class Rewriting(NamedTuple):
    """Edits in the order of the source, none over another, and the marks by the names they are called by."""

    edits: tuple[Edit, ...]
    marks: dict[str, Mark]


def rewrite(source: str) -> Rewriting:
    """What must change for Python 3.10 to parse the source; ScanError where no version could."""
    prefix = "mark"
    while prefix in source:
        prefix += "_"
    rewriter = _Rewriter(source, prefix)
    rewriter.read(_Line.of(tokens(source)))
    return Rewriting(tuple(sorted(rewriter.edits, key=lambda edit: edit.start)), rewriter.marks)


_OPENING = {"(": ")", "[": "]", "{": "}"}
_VALUES = ("None", "True", "False")


class _Line:
    """Tokens without comments and line ends inside brackets, and which bracket closes which."""

    def __init__(self, found: list[Token], closing: dict[int, int], opened: list[int]) -> None:
        self.tokens = found
        self.closing = closing  #: the number of the closing bracket by that of the opening one
        self.opened = opened  #: the number of the innermost bracket that each token stands in, or -1

    @classmethod
    def of(cls, read: Iterable[Token], bracketed: bool = False) -> _Line:
        found: list[Token] = []
        closing: dict[int, int] = {}
        opened: list[int] = []
        stack: list[int] = []
        for token in read:
            if token.kind == "comment" or (token.kind == "newline" and (stack or bracketed)):
                continue
            if token.text in _OPENING.values():
                if not stack or _OPENING[found[stack[-1]].text] != token.text:
                    raise ScanError(f"unmatched {token.text!r}", token.start)
                closing[stack.pop()] = len(found)
            opened.append(stack[-1] if stack else -1)
            if token.text in _OPENING:
                stack.append(len(found))
            found.append(token)
        if stack:
            raise ScanError(f"{found[stack[-1]].text!r} was never closed", found[stack[-1]].start)
        return cls(found, closing, opened)

    def text(self, at: int) -> str:
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def is_name(self, at: int) -> bool:
        token = self.tokens[at] if 0 <= at < len(self.tokens) else None
        return token is not None and token.kind == "name" and not keyword.iskeyword(token.text)

    def begins_statement(self, at: int) -> bool:
        return at == 0 or self.text(at - 1) in ("\n", ";", ":")

    def until(self, at: int, *stops: str) -> int:
        """The first of `stops` from `at` on, brackets in between left out."""
        while at < len(self.tokens) and self.text(at) not in stops:
            at = self.closing.get(at, at) + 1
        return at


class _Rewriter:
    def __init__(self, source: str, prefix: str) -> None:
        self.source = source
        self.prefix = prefix
        self.edits: list[Edit] = []
        self.marks: dict[str, Mark] = {}

    def read(self, line: _Line) -> None:
        """Find what is new, in one pass; each finder tells how far it has read."""
        at = 0
        while at < len(line.tokens):
            if line.tokens[at].literal:
                at = self.strings(line, at)
            else:
                finder = _FINDERS.get(line.text(at))
                at = max(at + 1, finder(self, line, at) if finder else 0)

    def generic(self, line: _Line, at: int) -> int:
        """`def name[…]` and `class name[…]` without their type parameters."""
        return self.blank(line, at + 2) if line.is_name(at + 1) and line.text(at + 2) == "[" else 0

    def alias(self, line: _Line, at: int) -> int:
        """`type name[…] = …` is an assignment."""
        if not line.begins_statement(at) or not line.is_name(at + 1):
            return 0
        equals = line.closing.get(at + 2, at + 1) + 1
        if line.text(equals) != "=":
            return 0
        self.drop_first(line, at)
        return self.blank(line, at + 2) if line.text(at + 2) == "[" else 0

    def lazy(self, line: _Line, at: int) -> int:
        if line.begins_statement(at) and line.text(at + 1) in ("import", "from"):
            self.drop_first(line, at)
        return 0

    def drop_first(self, line: _Line, at: int) -> None:
        """Take away the word that a statement begins with."""
        first, second = line.tokens[at], line.tokens[at + 1]
        if "\n" in self.source[first.start : second.start]:
            self.edits.append(Edit(first.start, second.end, second.text + self.joined(first.start, second.end)))
        else:
            self.edits.append(Edit(first.start, second.start, ""))

    def blank(self, line: _Line, opening: int) -> int:
        """Take away brackets with all that is in them."""
        closing = line.closing.get(opening, opening)
        start, end = line.tokens[opening].start, line.tokens[closing].end
        self.edits.append(Edit(start, end, " " + self.joined(start, end)))
        return closing + 1

    def joined(self, start: int, end: int) -> str:
        """As many line ends as stand there, none of which ends the statement."""
        return " \\\n" * self.source.count("\n", start, end)

    def handler(self, line: _Line, at: int) -> int:
        """`except A, B:` gets its brackets, `except* A:` loses its star."""
        first = at + 1
        if line.text(first) == "*":
            self.edits.append(Edit(line.tokens[first].start, line.tokens[first].end, ""))
            first += 1
        end = line.until(first, ":")
        comma = line.until(first, ",", "as", ":")
        if line.text(comma) == "," and line.until(first, "as", ":") == end < len(line.tokens):
            start, last = line.tokens[first].start, line.tokens[end - 1].end
            self.edits += [Edit(start, start, "("), Edit(last, last, ")")]
        return 0

    def star(self, line: _Line, at: int) -> int:
        """A star where a value was expected: in an index, in an annotation, before `for` in a comprehension."""
        before, bracket = line.text(at - 1), line.opened[at]
        if bracket < 0:
            return 0
        end = line.until(at + 1, ",", line.text(line.closing[bracket]), "for", "async")
        first = bracket == at - 1
        looped = first and line.text(end) in ("for", "async")
        indexed = (first or before == ",") and self.is_index(line, bracket)
        annotated = before == ":" and line.text(at - 3) == "*" and line.is_name(at - 2)
        if looped or indexed or annotated:
            alone = indexed and first and line.text(end) == "]"
            start, last = line.tokens[at], line.tokens[end - 1].end
            self.edits.append(Edit(start.start, start.end, self.mark(start.start, Mark()) + "("))
            self.edits.append(Edit(last, last, ")," if alone else ")"))
        return 0

    def is_index(self, line: _Line, bracket: int) -> bool:
        """The bracket follows a value, so that it isn't a list. (`case [*rest]` is a pattern.)"""
        before = line.tokens[bracket - 1] if bracket > 0 else None
        if before is None or line.text(bracket) != "[" or before.text == "case":
            return False
        return line.is_name(bracket - 1) or before.kind == "string" or before.text in (")", "]", "}", *_VALUES)

    def mark(self, start: int, mark: Mark) -> str:
        """The name of a new mark, to be written at `start`."""
        name = f"{self.prefix}{len(self.marks)}"
        self.marks[name] = mark
        return f" {name}" if self.source[start - 1 : start].isidentifier() else name

    def strings(self, line: _Line, at: int) -> int:
        """Strings side by side, if one of them may be read differently by an older Python."""
        literals: list[Literal] = []
        while at < len(line.tokens) and (literal := line.tokens[at].literal):
            literals.append(literal)
            at += 1
        if any(literal.formatted for literal in literals):
            _check_mixture(literals)
            self.formatted(literals)
        return at

    def formatted(self, literals: Sequence[Literal]) -> None:
        holes: list[Hole] = []
        content = [piece for literal in literals for piece in self.content(literal, literal.parts, holes)]
        start, end = literals[0].start, literals[-1].end
        written = self.mark(start, Mark(tuple(content), literals[0].template)) + "("
        for hole in holes:
            lines = self.source.count("\n", start, hole.start)
            self.edits.append(Edit(start, hole.start, written + "\n" * lines + "("))
            self.read(_Line.of(hole.tokens, bracketed=True))
            start, written = hole.end, "),"
        self.edits.append(Edit(start, end, written + "\n" * self.source.count("\n", start, end) + ")"))

    def content(self, literal: Literal, parts: Iterable[Part], holes: list[Hole], spec: bool = False) -> Contents:
        """What the parts come to; their holes are added to `holes`."""
        found: list[Content] = []
        for part in parts:
            if isinstance(part, Chunk):
                found.append(text(self.source, literal, part, spec))
                continue
            if part.debug:
                found.append(debug_text(self.source, part, part.debug))
            argument = len(holes)
            holes.append(part)
            formats = self.content(literal, part.spec or (), holes, spec=True)
            found.append(Slot(argument, conversion(part), formats))
        return tuple(found)


def _check_mixture(literals: Sequence[Literal]) -> None:
    for kind in ("b", "t"):
        if len({kind in literal.prefix for literal in literals}) > 1:
            raise ScanError("cannot mix different kinds of string literals", literals[0].start)


_FINDERS = {
    "def": _Rewriter.generic,
    "class": _Rewriter.generic,
    "type": _Rewriter.alias,
    "lazy": _Rewriter.lazy,
    "except": _Rewriter.handler,
    "*": _Rewriter.star,
}
