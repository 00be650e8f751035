"""The trees that Python files are lowered to: what the audit needs of `ast`, and nothing that differs between versions.

Every node is a record of plain values, tuples and other nodes, so a tree can be stored as data and compared in tests.
(Not named tuples: type checkers compare those by structure, which on recursive unions takes for ever.)
`span` is (line, column, end line, end column) as `ast` counts: lines from 1, columns from 0 in UTF-8 bytes, the end
exclusive. Docstrings, comments and type checking blocks leave nothing behind.
"""

from __future__ import annotations

from typing import Union

from auditor.python.record import record

Span = tuple[int, int, int, int]

NOWHERE: Span = (0, 0, 0, 0)


# Expressions


@record
class Name:
    id: str
    span: Span


@record
class Attribute:
    value: Expression
    name: str
    span: Span


@record
class Constant:
    """None, True, False, an int or a float; `...` and complex numbers are Opaque. Strings and bytes are Text."""

    value: bool | int | float | None
    span: Span


@record
class Text:
    """A string literal or f-string: its pieces in order, each a str or the expression that fills the hole.

    Implicitly concatenated literals are one Text. `span` covers all of it. Bytes are decoded as UTF-8, or latin-1
    where that fails. Neighbouring str pieces are merged, and none is empty. A string that stands in a hole by itself
    belongs to the pieces around it; a hole that is converted or formatted is Opaque. A template string (PEP 750) has
    `template` true and its holes as they are; `formats` then tells how each is to be formatted: "", ":i", "!r:>3", …
    """

    pieces: tuple[str | Expression, ...]
    span: Span
    template: bool = False
    formats: tuple[str, ...] = ()


@record
class Call:
    """`function(*arguments, **keywords)`. A starred argument is Starred; `**mapping` has the keyword None."""

    function: Expression
    arguments: tuple[Expression, ...]
    keywords: tuple[tuple[str | None, Expression], ...]
    span: Span


@record
class Starred:
    value: Expression
    span: Span


@record
class Await:
    value: Expression
    span: Span


@record
class Yield:
    value: Expression | None
    span: Span
    delegated: bool = False  #: yield from


@record
class Items:
    """A tuple, list or set display; `kind` is "tuple", "list" or "set"."""

    kind: str
    items: tuple[Expression, ...]
    span: Span


@record
class Mapping:
    """A dict display; a key of None is `**mapping`."""

    pairs: tuple[tuple[Expression | None, Expression], ...]
    span: Span


@record
class Binary:
    """`left operator right`, the operator as it is written: +, %, *, |, …

    A chain `a + b + c` leans left, as deep as it is long: follow `left` in a loop, not by recursion.
    """

    operator: str
    left: Expression
    right: Expression
    span: Span


@record
class Logic:
    """`a and b and c` or `a or b or c`."""

    operator: str
    values: tuple[Expression, ...]
    span: Span


@record
class Not:
    value: Expression
    span: Span


@record
class Compare:
    """`left op right op right …`, operators as they are written: ==, !=, <, is, is not, in, not in, …"""

    left: Expression
    operators: tuple[str, ...]
    rights: tuple[Expression, ...]
    span: Span


@record
class Conditional:
    """`body if test else orelse`."""

    test: Expression
    body: Expression
    orelse: Expression
    span: Span


@record
class Subscript:
    value: Expression
    key: Expression
    span: Span


@record
class Lambda:
    function: Function
    span: Span


@record
class Comprehension:
    """A list, set, dict comprehension or generator expression; `kind` says which.

    `clauses` are (target, iterable, conditions) from the outside in; `results` is one expression, two for a dict.
    `is_async` is true where one of its clauses is `async for`.
    """

    kind: str
    results: tuple[Expression, ...]
    clauses: tuple[tuple[Expression, Expression, tuple[Expression, ...]], ...]
    span: Span
    is_async: bool = False


@record
class Assigned:
    """`target := value`."""

    target: Expression
    value: Expression
    span: Span


@record
class Opaque:
    """Anything else that has a value: slices, unary minus on names, … `parts` are evaluated in order."""

    parts: tuple[Expression, ...]
    span: Span


Expression = Union[
    Name,
    Attribute,
    Constant,
    Text,
    Call,
    Starred,
    Await,
    Yield,
    Items,
    Mapping,
    Binary,
    Logic,
    Not,
    Compare,
    Conditional,
    Subscript,
    Lambda,
    Comprehension,
    Assigned,
    Opaque,
]


# Statements


@record
class Do:
    """An expression on a line of its own. A string there is a docstring or a comment, and is left out."""

    value: Expression
    span: Span


@record
class Assign:
    """`targets = value`, or `target: annotation = value`; without a value the target is only declared."""

    targets: tuple[Expression, ...]
    value: Expression | None
    annotation: Expression | None
    span: Span


@record
class Augment:
    """`target += value`, the operator without its `=`."""

    target: Expression
    operator: str
    value: Expression
    span: Span


@record
class Return:
    value: Expression | None
    span: Span


@record
class Raise:
    value: Expression | None
    span: Span


@record
class If:
    test: Expression
    body: tuple[Node, ...]
    orelse: tuple[Node, ...]
    span: Span


@record
class While:
    test: Expression
    body: tuple[Node, ...]
    orelse: tuple[Node, ...]
    span: Span


@record
class For:
    target: Expression
    iterable: Expression
    body: tuple[Node, ...]
    orelse: tuple[Node, ...]
    is_async: bool
    span: Span


@record
class With:
    """`items` are (context manager, target or None); several items nest from left to right."""

    items: tuple[tuple[Expression, Expression | None], ...]
    body: tuple[Node, ...]
    is_async: bool
    span: Span


@record
class Handler:
    """`except type as name:`; without a type it catches everything."""

    type: Expression | None
    name: str | None
    body: tuple[Node, ...]
    span: Span


@record
class Try:
    body: tuple[Node, ...]
    handlers: tuple[Handler, ...]
    orelse: tuple[Node, ...]
    final: tuple[Node, ...]
    span: Span


@record
class Case:
    """A case of a match: `values` are the constants and dotted names its pattern is equal to, empty for others.

    `names` are what the pattern binds. `always` is true where the pattern matches anything and has no guard.
    """

    values: tuple[Expression, ...]
    names: tuple[str, ...]
    guard: Expression | None
    body: tuple[Node, ...]
    always: bool


@record
class Match:
    subject: Expression
    cases: tuple[Case, ...]
    span: Span


@record
class Break:
    span: Span


@record
class Continue:
    span: Span


@record
class Assert:
    test: Expression
    span: Span


@record
class Delete:
    targets: tuple[Expression, ...]
    span: Span


@record
class Scope:
    """`global names` or `nonlocal names`; `kind` says which."""

    kind: str
    names: tuple[str, ...]
    span: Span


@record
class Import:
    """`import module as name` when `attribute` is None, else `from module import attribute as name`.

    `level` is the number of leading dots; `attribute` "*" imports all. For `import a.b` the bound name is "a" and
    `module` is "a" too, with `loads` "a.b"; otherwise `loads` equals `module`.
    """

    module: str
    attribute: str | None
    name: str
    level: int
    loads: str
    span: Span


@record
class Parameter:
    """`kind` is "positional" (before /), "any", "args" (*args), "keyword" (after *) or "kwargs" (**kwargs)."""

    name: str
    kind: str
    annotation: Expression | None
    default: Expression | None


@record
class Function:
    """A def, async def or lambda (named "<lambda>", its body one Return)."""

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Node, ...]
    decorators: tuple[Expression, ...]
    returns: Expression | None
    is_async: bool
    is_generator: bool  #: it yields, in its own body
    span: Span  #: from `def` (not the decorators) to the end of the body
    name_span: Span


@record
class Class:
    name: str
    bases: tuple[Expression, ...]
    keywords: tuple[tuple[str | None, Expression], ...]
    decorators: tuple[Expression, ...]
    body: tuple[Node, ...]
    span: Span
    name_span: Span


Node = Union[
    Do,
    Assign,
    Augment,
    Return,
    Raise,
    If,
    While,
    For,
    With,
    Try,
    Match,
    Break,
    Continue,
    Assert,
    Delete,
    Scope,
    Import,
    Function,
    Class,
]


@record
class Module:
    body: tuple[Node, ...]


@record
class Comment:
    """A comment that speaks to the audit, as written from its `#`. `own_line` is false behind code.

    `line` and `column` count as those of spans do.
    """

    text: str
    line: int
    column: int
    own_line: bool


@record
class PythonFacts:
    """What one Python file says.

    `comments` holds only those that name the tool. `statements` are the (first line, last line) of every simple
    statement and every header of a compound one that spans more than one line, for comments that count for the
    whole of it: empty where there are no comments. `lowered` tells that the syntax is newer than the running Python.
    """

    module: Module
    comments: tuple[Comment, ...] = ()
    statements: tuple[tuple[int, int], ...] = ()
    lowered: bool = False
