"""What the nodes of a sqlglot tree mean: terms, comparisons, tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from auditor.sql.dialect import span_of
from auditor.sql.meaning import Comparison, Span, Table, Term, TermKind
from auditor.sql.terms import FALSE, NOTHING, NULL, TRUE, called, column_in, literal, ordered, sum_of, word_term
from auditor.sql.tokens import Lex, Token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: Nodes that are queries of their own inside an expression.
QUERIES = (exp.Query, exp.Values)

_OPERATORS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "=",
    exp.NullSafeNEQ: "<>",
    exp.Like: "like",
    exp.ILike: "like",
    exp.SimilarTo: "like",
}
_NEGATED = {"in": "not in", "is": "is not", "=": "<>", "like": "other"}

#: Predicates: what tells something where it stands outside a WHERE.
_PREDICATES = (*_OPERATORS, exp.In, exp.Between, exp.Is)


class Nodes:
    """Reads nodes of one statement's tree, whose tokens are at hand."""

    def __init__(self, tokens: Sequence[Token], parameters: Mapping[int, Term], text: str) -> None:
        self.tokens = {token.start: index for index, token in enumerate(tokens)}
        self.list = tokens
        self.parameters = parameters
        self.text = text

    # Terms

    def term(self, node: Any) -> Term:
        """The term a node makes."""
        if not isinstance(node, exp.Expression):
            return NOTHING
        read = _TERMS.get(type(node))
        if read is not None:
            return read(self, node)
        span = span_of(node)
        if isinstance(node, QUERIES):
            return Term(TermKind.QUERY, "", (), (), span)
        if isinstance(node, exp.Func):
            return Term(TermKind.CALL, node.key, self.parts(node), (), span)
        return Term(TermKind.OTHER, "", self.parts(node), (), span)

    def parts(self, node: exp.Expression) -> tuple[Term, ...]:
        terms = (self.term(child) for child in children(node) if not isinstance(child, (exp.DataType, exp.Var)))
        return tuple(term for term in terms if term != NOTHING)

    def name(self, node: exp.Expression, span: Span) -> Term:
        """What a name stands for: a column, or the placeholder or hole that the parser took for one."""
        identifier = node.this if isinstance(node, exp.Column) else node
        if isinstance(identifier, exp.Star):
            return Term(TermKind.COLUMN, "*", (), (), span)
        start = identifier.meta.get("start", -1)
        if start in self.parameters and not (isinstance(node, exp.Column) and node.args.get("table")):
            return self.parameters[start]
        if not isinstance(identifier, exp.Identifier) or not isinstance(identifier.this, str):
            return Term(TermKind.OTHER, "", self.parts(node), (), span)
        qualified = isinstance(node, exp.Column) and bool(node.args.get("table"))
        lex = Lex.NAME if identifier.args.get("quoted") or qualified else Lex.WORD
        return word_term(Token(lex, identifier.this, *span)) if identifier.this else NOTHING

    def column(self, node: exp.Expression) -> Term:
        return self.name(node, span_of(node))

    def inner(self, node: exp.Expression) -> Term:
        return self.term(node.this)

    def literal(self, node: exp.Expression) -> Term:
        return literal(str(node.this), span_of(node))

    def boolean(self, node: exp.Expression) -> Term:
        return (TRUE if node.this else FALSE)._replace(span=span_of(node))

    def null(self, node: exp.Expression) -> Term:
        return NULL._replace(span=span_of(node))

    def joined(self, node: exp.Expression) -> Term:
        """Neighbouring string literals are one; anything else is not."""
        pieces = node.expressions
        if all(isinstance(piece, exp.Literal) for piece in pieces):
            return literal("".join(str(piece.this) for piece in pieces), span_of(node))
        return Term(TermKind.OTHER, "", self.parts(node), (), span_of(node))

    def negative(self, node: exp.Expression) -> Term:
        inner = self.term(node.this)
        if inner.kind is TermKind.LITERAL:
            return inner._replace(text=f"-{inner.text}", span=span_of(node))
        return Term(TermKind.OTHER, "", (inner,), (), span_of(node))

    def cast(self, node: exp.Expression) -> Term:
        target = node.args.get("to")
        span = span_of(target) if isinstance(target, exp.Expression) else Span(0, 0)
        type_name = " ".join(self.text[span.start : span.end].split()).lower()
        return Term(TermKind.CAST, type_name, (self.term(node.this),), (), span_of(node))

    def interval(self, node: exp.Expression) -> Term:
        """INTERVAL '5 minutes' as it was written: sqlglot takes the literal apart."""
        span = span_of(node)
        at = self.tokens.get(span.start)
        following = self.list[at + 1] if at is not None and at + 1 < len(self.list) else None
        if following is not None and following.lex is Lex.STRING:
            return literal(following.value, span)
        return self.term(node.this)

    def sum(self, node: exp.Expression) -> Term:
        left, right = self.term(node.this), self.term(node.args.get("expression"))
        return sum_of(left, right, span_of(node), minus=isinstance(node, exp.Sub))

    def case(self, node: exp.Expression) -> Term:
        results = [self.term(branch.args.get("true")) for branch in node.args.get("ifs") or ()]
        default = node.args.get("default")
        if default is not None:
            results.append(self.term(default))
        return Term(TermKind.CASE, "", tuple(results), (), span_of(node))

    def call(self, node: exp.Expression) -> Term:
        name, span = function_name(node), span_of(node)
        if name == "array" and any(isinstance(argument, QUERIES) for argument in node.expressions):
            return Term(TermKind.QUERY, "", (), (), span)
        return called(name, tuple(self.term(argument) for argument in node.expressions), span)

    def dotted(self, node: exp.Expression) -> Term:
        """schema.function(…); or a field of a value."""
        last = node.args.get("expression")
        return self.term(last) if isinstance(last, exp.Func) else self.parts_of(node)

    def parts_of(self, node: exp.Expression) -> Term:
        return Term(TermKind.OTHER, "", self.parts(node), (), span_of(node))

    def argument(self, node: exp.Expression) -> Term:
        return self.term(node.args.get("expression"))

    def moved(self, node: exp.Expression) -> Term:
        """A time in another zone is the same time."""
        inner = self.term(node.this)
        return inner if inner.kind is TermKind.NOW else Term(TermKind.OTHER, "", (inner,), (), span_of(node))

    def select_span(self, node: exp.Expression) -> Span:
        """Where a query stands. sqlglot forgets the first branch of a UNION: it begins at its SELECT."""
        span = span_of(node)
        if isinstance(node, exp.Select) and "span" not in node.meta:
            at = self.tokens.get(span.start, 0)
            while at > 0 and not self.list[at].is_word("select"):
                at -= 1
            return Span(self.list[at].start, span.end)
        return span

    # Tables

    def table(self, node: exp.Expression) -> Table:
        name, schema = node.this, node.args.get("db")
        alias = node.args.get("alias")
        parts = [part for part in (node.args.get("catalog"), schema, name) if isinstance(part, exp.Expression)]
        spans = [span_of(part) for part in parts]
        return Table(
            text_of(name),
            text_of(schema),
            text_of(alias.this) if isinstance(alias, exp.Expression) else "",
            Span(spans[0].start, spans[-1].end) if spans else span_of(node),
        )

    # Conditions

    def conditions(self, root: Any, *, optional: bool = False) -> Iterator[Comparison]:
        """The comparisons that decide a condition, in the order they are written."""
        stack = [(root, optional, False)]
        while stack:
            node, optional, negated = stack.pop()
            if isinstance(node, exp.Paren):
                stack.append((node.this, optional, negated))
            elif isinstance(node, (exp.And, exp.Or)):
                # Under NOT, AND is as open as OR is.
                optional |= isinstance(node, exp.Or) or negated
                stack += ((node.args.get("expression"), optional, negated), (node.this, optional, negated))
            elif isinstance(node, exp.Not):
                stack.append((node.this, optional, not negated))
            elif isinstance(node, exp.Expression):
                yield from self._leaf(node, optional, negated)

    def _leaf(self, node: exp.Expression, optional: bool, negated: bool) -> Iterator[Comparison]:
        for found in self._compared(node):
            operator = found.operator
            if negated:
                optional = optional or operator not in _NEGATED
                operator = _NEGATED.get(operator, operator)
            yield found._replace(operator=operator, optional=optional)

    def _compared(self, node: exp.Expression) -> Iterator[Comparison]:
        span = span_of(node)
        operator = _OPERATORS.get(type(node))
        if operator is not None:
            yield from self._sides(node.this, operator, node.args.get("expression"), span)
        elif isinstance(node, exp.In):
            yield self._in(node, span)
        elif isinstance(node, exp.Between):
            yield ordered(self.term(node.this), ">=", self.term(node.args.get("low")), span)
            yield ordered(self.term(node.this), "<=", self.term(node.args.get("high")), span)
        elif isinstance(node, exp.Is):
            yield self._is(node, span)
        elif not isinstance(node, exp.Exists):
            yield self._alone(node, span)

    def _sides(self, left: Any, operator: str, right: Any, span: Span) -> Iterator[Comparison]:
        lefts, rights = row_of(left), row_of(right)
        if lefts and rights and len(lefts) == len(rights):
            for one, other in zip(lefts, rights, strict=True):
                yield ordered(self.term(one), operator, self.term(other), span)
        elif lefts:
            for one in lefts:
                yield ordered(self.term(one), operator, self.term(right), span)
        elif (quantified := quantified_in(right)) is not None:
            name = {"=": "in", "<>": "not in"}.get(operator, "other")
            yield Comparison(column_in(self.term(left)), name, self.term(quantified), span)
        else:
            yield ordered(self.term(left), operator, self.term(right), span)

    def _in(self, node: exp.In, span: Span) -> Comparison:
        query, field = node.args.get("query"), node.args.get("field")
        if query is not None or field is not None:
            value = self.term(query if query is not None else field)
        else:
            terms = tuple(self.term(item) for item in node.expressions)
            # IN (%s): one placeholder may stand for a list.
            single = len(terms) == 1 and terms[0].kind in (TermKind.PARAMETER, TermKind.HOLE, TermKind.QUERY)
            value = terms[0] if single else Term(TermKind.OTHER, "", terms, (), span)
        columns = row_of(node.this)
        column = column_in(self.term(columns[0] if columns else node.this))
        return Comparison(column, "in", value, span)

    def _is(self, node: exp.Is, span: Span) -> Comparison:
        right = node.args.get("expression")
        negated = bool(node.args.get("negate"))
        if isinstance(right, exp.Not):
            right, negated = right.this, not negated
        return Comparison(column_in(self.term(node.this)), "is not" if negated else "is", self.term(right), span)

    def _alone(self, node: exp.Expression, span: Span) -> Comparison:
        """A condition without an operator: a boolean column, a hole, a function's answer."""
        term = self.term(node)
        if term.kind is TermKind.COLUMN:
            return Comparison(term.text, "is", TRUE, span)
        return Comparison(column_in(term), "other", term, span)

    def cases(self, root: exp.Expression) -> Iterator[Comparison]:
        """The comparisons anywhere below a node that is no condition itself, subqueries left out."""
        for node in walk(root):
            if isinstance(node, _PREDICATES):
                yield from self._compared(node)


_TERMS: dict[type[Any], Callable[[Nodes, Any], Term]] = {
    exp.Column: Nodes.column,
    exp.Identifier: Nodes.column,
    exp.Paren: Nodes.inner,
    exp.Alias: Nodes.inner,
    exp.Any: Nodes.inner,
    exp.All: Nodes.inner,
    exp.Literal: Nodes.literal,
    exp.Boolean: Nodes.boolean,
    exp.Null: Nodes.null,
    exp.Concat: Nodes.joined,
    exp.Neg: Nodes.negative,
    exp.Cast: Nodes.cast,
    exp.Interval: Nodes.interval,
    exp.Add: Nodes.sum,
    exp.Sub: Nodes.sum,
    exp.Case: Nodes.case,
    exp.Anonymous: Nodes.call,
    exp.Dot: Nodes.dotted,
    exp.Kwarg: Nodes.argument,
    exp.AtTimeZone: Nodes.moved,
}


def children(node: exp.Expression) -> Iterator[exp.Expression]:
    """A node's direct children, in the order of its arguments."""
    for value in node.args.values():
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, exp.Expression):
                yield child


def walk(root: Any) -> Iterator[exp.Expression]:
    """The nodes of an expression in order; a query in it is given, but not entered."""
    stack = [root] if isinstance(root, exp.Expression) else []
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, QUERIES):
            stack.extend(reversed(list(children(node))))


def row_of(node: Any) -> list[exp.Expression]:
    """The members of (a, b) or ROW(a, b)."""
    if isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and function_name(node) == "row"):
        return list(node.expressions)
    return []


def quantified_in(node: Any) -> Any:
    """What ANY, SOME or ALL is about; None for anything else."""
    if isinstance(node, (exp.Any, exp.All)):
        return node.this
    quantifies = isinstance(node, exp.Anonymous) and function_name(node) in ("any", "some", "all")
    return node.expressions[0] if quantifies and len(node.expressions) == 1 else None


def function_name(node: Any) -> str:
    return text_of(node.this)


def text_of(name: Any) -> str:
    """The text of a name, however sqlglot wraps it."""
    while isinstance(name, exp.Expression):
        name = name.args.get("this")
    return name if isinstance(name, str) else ""
