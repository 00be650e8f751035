"""Evaluates a parsed expression over possibilities (`auditor.sql.logic`), for one state of the tenant settings."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from auditor.sql import logic
from auditor.sql.dialect import parse_expression
from auditor.sql.everyday import EVERYDAY
from auditor.sql.functions import FUNCTIONS, concatenated, is_empty
from auditor.sql.logic import ANY, FALSE, NULL, RAISE, SOME, TRUE, UNKNOWN, Atom, Value
from auditor.sql.meaning import Span, Term, TermKind
from auditor.sql.nodes import QUERIES, Nodes, children, function_name, quantified_in, walk
from auditor.sql.scan import calls_in
from auditor.sql.shapes import from_of, with_of
from auditor.sql.terms import parameter, setting_read
from auditor.sql.tokens import Lex, hole_marks_in, holes_in, tokenize, word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: How deep functions may wrap each other; more is a recursion.
_DEEPEST = 8


class Situation:
    """Every tenant setting is missing (`state` is None), or holds `state`. Remembers the settings that were read."""

    def __init__(self, functions: Mapping[str, str], is_tenant: Callable[[str], bool], state: str | None) -> None:
        self.functions = functions
        self.is_tenant = is_tenant
        self.state = state
        self.settings: dict[str, None] = {}

    def value_of(self, expression: str, depth: int = 0) -> Value:
        """The value of an expression as written; `depth` says how many functions are around it."""
        tokens = tokenize(expression)
        tree = parse_expression(tokens, expression) if tokens else None
        if tree is None:
            self.settings.update(dict.fromkeys(read.name.text for read in calls_in(tokens).reads))
            return UNKNOWN
        parameters = {token.start: parameter(token) for token in tokens if token.lex is Lex.PARAMETER}
        reader = _Reader(self, Nodes(tokens, parameters, expression), depth)
        reader.find_tenant_columns(tree)
        return reader.value(tree)

    def setting(self, arguments: tuple[Term, ...]) -> Value:
        read = setting_read(arguments, Span(0, 0))
        if read.name.kind is not TermKind.LITERAL:
            return UNKNOWN
        name = read.name.text
        self.settings[name] = None
        if not self.is_tenant(name):
            return UNKNOWN
        if self.state is not None:
            return logic.text(self.state)
        return NULL if read.missing_ok else RAISE


class _Rows(NamedTuple):
    """What a subquery gives: whether a row of its tables passes, and its first column."""

    passes: Value
    first: Any
    certain: bool  #: there is a row whatever the tables hold


class _Reader:
    """Evaluates the nodes of one parsed expression."""

    def __init__(self, situation: Situation, nodes: Nodes, depth: int) -> None:
        self.situation = situation
        self.nodes = nodes
        self.depth = depth
        self.tenant_columns: set[str] = set()

    def find_tenant_columns(self, tree: exp.Expression) -> None:
        """The columns that are compared with a setting: in a row that has a tenant they are not NULL and not ''."""
        if self.depth:
            return  # inside a function a name is its parameter
        for node in tree.find_all(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Like):
            calls = {function_name(call) for call in node.find_all(exp.Anonymous)}
            if "current_setting" in calls or calls & self.situation.functions.keys():
                columns = (part for part in walk(node) if isinstance(part, exp.Column))
                self.tenant_columns.update(self.nodes.column(column).text for column in columns)

    def value(self, node: Any) -> Value:
        if isinstance(node, QUERIES):
            return self.scalar(node)
        read = _READERS.get(type(node))
        return read(self, node) if read is not None else self.opaque(node)

    def truth(self, node: Any) -> Value:
        return logic.truth(self.value(node))

    def opaque(self, node: Any) -> Value:
        """Nothing is known of it but what it is made of: NULL and errors come through."""
        values = [self.value(child) for child in children(node) if not isinstance(child, (exp.DataType, exp.Var))]
        if values and node.key in FUNCTIONS:
            return logic.strict(FUNCTIONS[node.key], *values)
        return logic.strict(lambda *_: ANY, *values) if values else UNKNOWN

    # Values

    def inner(self, node: exp.Expression) -> Value:
        return self.value(node.this)

    def literal(self, node: exp.Expression) -> Value:
        text = str(node.this)
        return SOME if _is_filled_in(text) else logic.text(text)

    def constant(self, node: exp.Expression) -> Value:
        return NULL if isinstance(node, exp.Null) else (TRUE if node.this else FALSE)

    def column(self, node: exp.Expression) -> Value:
        term = self.nodes.column(node)
        if term.kind in (TermKind.TRUE, TermKind.FALSE, TermKind.NULL):
            return {TermKind.TRUE: TRUE, TermKind.FALSE: FALSE, TermKind.NULL: NULL}[term.kind]
        known = term.kind is TermKind.NOW or term.text in _ALWAYS or term.text in self.tenant_columns
        return SOME if known else UNKNOWN

    def cast(self, node: exp.Expression) -> Value:
        return logic.cast(self.value(node.this), self.nodes.cast(node).text)

    def negative(self, node: exp.Expression) -> Value:
        return logic.strict(
            lambda atom: logic.text(f"-{atom.text}") if atom.kind == "text" else SOME, self.value(node.this)
        )

    def joined(self, node: exp.Expression) -> Value:
        """a || b, and neighbouring literals."""
        parts = node.expressions or [node.this, node.args.get("expression")]
        return logic.strict(concatenated, *(self.value(part) for part in parts))

    def field(self, node: exp.Expression) -> Value:
        """-> and ->>: NULL where there is no such key."""
        return logic.strict(lambda *_: UNKNOWN, self.value(node.this), self.value(node.args.get("expression")))

    def case(self, node: exp.Expression) -> Value:
        subject = node.args.get("this")
        made: set[Atom] = set()
        for branch in node.args.get("ifs") or ():
            condition = (
                self.truth(branch.this)
                if subject is None
                else logic.equal(self.value(subject), self.value(branch.this))
            )
            made |= condition - logic.TRUE - logic.HIDING
            if logic.TRUE_ in condition:
                value = self.value(branch.args.get("true"))
                # A condition that is not decided here may be there to keep the error away.
                made |= logic.guarded(value) if condition & logic.HIDING else value
            if not condition & logic.HIDING:
                return frozenset(made)
        default = node.args.get("default")
        return frozenset(made | (self.value(default) if default is not None else NULL))

    def call(self, node: exp.Expression) -> Value:
        name = function_name(node)
        arguments = list(node.expressions)
        if name == "current_setting":
            return self.situation.setting(tuple(self.nodes.term(argument) for argument in arguments))
        if name == "array":
            return self.opaque(node)
        if name in ("coalesce", "nullif"):
            return _coalesced(self, arguments) if name == "coalesce" else self._nullif(arguments)
        values = [self.value(argument) for argument in arguments]
        if name in FUNCTIONS:
            return logic.strict(FUNCTIONS[name], *values)
        if name in _CAST_CALLS and len(values) == 1:
            return logic.cast(values[0], name)
        body = self.situation.functions.get(name)
        if body is not None and self.depth < _DEEPEST:
            return self.situation.value_of(body, self.depth + 1)
        if name in EVERYDAY and name not in _NOT_STRICT:
            return logic.strict(lambda *_: ANY, *values) if values else SOME
        return logic.lift(lambda *_: UNKNOWN, *values)

    def _nullif(self, arguments: Sequence[Any]) -> Value:
        def compare(one: Atom, other: Atom) -> Value:
            if logic.NULL_ in (one, other):
                return frozenset((one,))
            same = logic.equal(frozenset((one,)), frozenset((other,)))
            return frozenset(logic.NULL_ if atom == logic.TRUE_ else one for atom in same)

        return logic.lift(compare, *(self.value(argument) for argument in arguments[:2]))

    def dotted(self, node: exp.Expression) -> Value:
        last = node.args.get("expression")
        return self.value(last) if isinstance(last, exp.Func) else UNKNOWN

    def array(self, node: exp.Expression) -> Value:
        values = [self.value(item) for item in node.expressions]
        known = all(len(value) == 1 and next(iter(value)).kind == "text" for value in values)
        if known:
            return logic.array(next(iter(value)).text for value in values)
        return logic.lift(lambda *_: SOME, *values)

    # Conditions

    def and_(self, node: exp.Expression) -> Value:
        return logic.both(self.truth(node.this), self.truth(node.args.get("expression")))

    def or_(self, node: exp.Expression) -> Value:
        return logic.either(self.truth(node.this), self.truth(node.args.get("expression")))

    def not_(self, node: exp.Expression) -> Value:
        return logic.negated(self.truth(node.this))

    def equal(self, node: exp.Expression) -> Value:
        right = node.args.get("expression")
        unequal = isinstance(node, exp.NEQ)
        quantified = quantified_in(right)
        if quantified is not None:
            found = self._in(self.value(node.this), quantified)
            every = isinstance(right, exp.All) or (isinstance(right, exp.Anonymous) and function_name(right) == "all")
            if every == unequal:
                return logic.negated(found) if every else found
            return logic.strict(lambda *_: logic.EITHER, found)
        alike = self._is_itself(node.this, right) or self._is_itself(right, node.this)
        found = TRUE if alike else logic.equal(self.value(node.this), self.value(right))
        return logic.negated(found) if unequal else found

    def _is_itself(self, column: Any, other: Any) -> bool:
        """Whether a column is compared with itself: with what falls back on it, and has nothing before that."""
        if not isinstance(column, exp.Column) or not isinstance(other, exp.Anonymous):
            return False
        if function_name(other) != "coalesce" or self.value(column) != SOME:
            return False
        *before, last = other.expressions
        same = isinstance(last, exp.Column) and self.nodes.column(last)[:4] == self.nodes.column(column)[:4]
        return bool(same and _coalesced(self, before) == NULL)

    def distinct(self, node: exp.Expression) -> Value:
        found = logic.distinct(self.value(node.this), self.value(node.args.get("expression")))
        return found if isinstance(node, exp.NullSafeNEQ) else logic.negated(found)

    def ordered(self, node: exp.Expression) -> Value:
        sides = self.value(node.this), self.value(node.args.get("expression"))
        return logic.ordered(*sides, _ORDERS[type(node)])

    def between(self, node: exp.Expression) -> Value:
        value = self.value(node.this)
        low = logic.ordered(value, self.value(node.args.get("low")), operator.ge)
        return logic.both(low, logic.ordered(value, self.value(node.args.get("high")), operator.le))

    def is_(self, node: exp.Expression) -> Value:
        right, negated = node.args.get("expression"), bool(node.args.get("negate"))
        if isinstance(right, exp.Not):
            right, negated = right.this, not negated
        tested = logic.NULL_
        if isinstance(right, exp.Boolean):
            tested = logic.TRUE_ if right.this else logic.FALSE_
        elif not isinstance(right, exp.Null):
            return logic.lift(lambda _: logic.EITHER, self.value(node.this))
        found = logic.is_(self.value(node.this), tested)
        return logic.negated(found) if negated else found

    def like(self, node: exp.Expression) -> Value:
        def matches(one: Atom, pattern: Atom) -> Value:
            plain = one.kind == pattern.kind == "text" and not set("%_\\") & set(pattern.text)
            return (TRUE if one.text == pattern.text else FALSE) if plain else logic.EITHER

        return logic.strict(matches, self.value(node.this), self.value(node.args.get("expression")))

    def in_(self, node: exp.Expression) -> Value:
        value = self.value(node.this)
        query = node.args.get("query")
        if query is not None:
            return self._in(value, query)
        return self._among(value, node.expressions) if node.expressions else UNKNOWN

    def _among(self, value: Value, items: Sequence[Any]) -> Value:
        found = FALSE
        for item in items:
            found = logic.either(found, logic.equal(value, self.value(item)))
        return found

    def _in(self, value: Value, node: Any) -> Value:
        """Whether the value is among a subquery's rows, or an array's elements."""
        while isinstance(node, (exp.Paren, exp.Subquery)):
            node = node.this
        if isinstance(node, exp.Anonymous) and function_name(node) == "array" and node.expressions:
            node = node.expressions[0]
        if isinstance(node, exp.Array):
            return self._among(value, node.expressions)
        if not isinstance(node, QUERIES):
            return logic.in_array(value, self.value(node))
        rows = self._rows(node)
        if rows is None:
            return UNKNOWN
        elements = self._unnested(rows.first) if rows.certain else None
        if elements is not None:
            return logic.in_array(value, elements)
        if rows.passes <= logic.HIDING:
            return FALSE
        if logic.RAISE_ in rows.passes:
            return RAISE
        found = logic.equal(value, self.value(rows.first))
        return found if rows.certain and rows.passes == TRUE else found | FALSE

    # Subqueries

    def exists(self, node: exp.Expression) -> Value:
        rows = self._rows(node.this)
        if rows is None:
            return logic.EITHER
        if rows.passes <= logic.HIDING:
            return FALSE
        if logic.RAISE_ in rows.passes:
            return RAISE
        return TRUE if rows.certain and rows.passes == TRUE else logic.EITHER

    def scalar(self, node: Any) -> Value:
        rows = self._rows(node)
        if rows is None:
            return UNKNOWN
        counts = any(isinstance(part, exp.Anonymous) and function_name(part) == "count" for part in walk(rows.first))
        if rows.passes <= logic.HIDING:
            return logic.text("0") if counts else NULL
        if logic.RAISE_ in rows.passes:
            return RAISE
        value = self.value(rows.first)
        return value if rows.certain and rows.passes == TRUE else value | NULL

    def _rows(self, node: Any) -> _Rows | None:
        while isinstance(node, (exp.Subquery, exp.Paren)):
            node = node.this
        if not isinstance(node, exp.Select) or with_of(node):
            self._settings_below(node)
            return None
        source = from_of(node)
        joins = node.args.get("joins") or ()
        passes = TRUE
        for table in [*([source.this] if source else []), *(join.this for join in joins)]:
            passes = logic.both(passes, self._source(table))
        for join in joins:
            if join.args.get("on") is not None and not join.args.get("side"):
                passes = logic.both(passes, self.truth(join.args["on"]))
        where = node.args.get("where")
        if where is not None:
            passes = logic.both(passes, self.truth(where.this))
        first = node.expressions[0] if node.expressions else None
        return _Rows(passes, first.this if isinstance(first, exp.Alias) else first, source is None)

    def _source(self, node: Any) -> Value:
        """Whether what stands in FROM gives rows at all: an empty array or NULL that is unnested does not."""
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
            if function_name(node.this) in _UNNESTING:
                elements = self._elements(node.this)
                return logic.lift(lambda atom: FALSE if atom == logic.NULL_ or is_empty(atom) else TRUE, elements)
            return logic.lift(lambda *_: TRUE, *(self.value(argument) for argument in node.this.expressions))
        if isinstance(node, exp.Subquery):
            rows = self._rows(node)
            return rows.passes if rows is not None else TRUE
        return TRUE

    def _unnested(self, node: Any) -> Value | None:
        """The array that SELECT unnest(array)::type gives row by row; None for anything else."""
        if isinstance(node, exp.Cast):
            inner = self._unnested(node.this)
            return None if inner is None else logic.cast(inner, f"{self.nodes.cast(node).text}[]")
        unnests = isinstance(node, exp.Anonymous) and function_name(node) in _UNNESTING
        return self._elements(node) if unnests else None

    def _elements(self, call: Any) -> Value:
        """The array whose elements a call gives as rows."""
        name = function_name(call)
        arguments = [self.value(argument) for argument in call.expressions]
        if name == "unnest":
            return arguments[0] if arguments else UNKNOWN
        if name in ("string_to_table", "regexp_split_to_table"):
            split = "string_to_array" if name == "string_to_table" else "regexp_split_to_array"
            return logic.strict(FUNCTIONS[split], *arguments)
        return logic.strict(lambda *_: SOME, *arguments)

    def _settings_below(self, node: Any) -> None:
        if isinstance(node, exp.Expression):
            for call in node.find_all(exp.Anonymous):
                if function_name(call) == "current_setting":
                    self.situation.setting(tuple(self.nodes.term(argument) for argument in call.expressions))


def _is_filled_in(text: str) -> bool:
    """Whether part of a literal is put there later: by a hole, or by the format that the text is a template for."""
    named = holes_in(text) and "{}" not in text  # which is an empty array
    return bool(named or hole_marks_in(text)) or "%s" in text or "%(" in text


def _coalesced(reader: _Reader, arguments: Sequence[Any]) -> Value:
    """The first that is not NULL; what stands behind it is not evaluated."""
    made: set[Atom] = set()
    for argument in arguments:
        value = reader.value(argument)
        made |= value - NULL
        if logic.NULL_ not in value:
            return frozenset(made)
    return frozenset(made) | NULL


_CAST_CALLS = frozenset(("int4", "int8", "int2", "uuid", "text", "varchar", "bool", "jsonb", "json", "numeric", "date"))
#: Everyday functions that make something of NULL.
_NOT_STRICT = word_set(
    """
    greatest least row array exists concat concat_ws format quote_nullable json_build_array jsonb_build_array
    json_build_object jsonb_build_object json_object jsonb_object array_append array_prepend array_cat array_remove
    count sum avg min max array_agg string_agg json_agg jsonb_agg bool_and bool_or every any_value
    jsonb_extract_path jsonb_extract_path_text json_extract_path json_extract_path_text jsonb_set to_regclass
    """
)
#: Rows from one value.
_UNNESTING = word_set(
    """
    unnest string_to_table regexp_split_to_table jsonb_array_elements jsonb_array_elements_text json_array_elements
    json_array_elements_text
    """
)
#: Words that always have a value.
_ALWAYS = frozenset(("current_user", "session_user", "current_role", "user", "current_catalog", "current_schema"))

_ORDERS: dict[type[Any], Callable[[float, float], bool]] = {
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}

_READERS: dict[type[Any], Callable[[_Reader, Any], Value]] = {
    exp.Paren: _Reader.inner,
    exp.Alias: _Reader.inner,
    exp.AtTimeZone: _Reader.opaque,
    exp.Literal: _Reader.literal,
    exp.Null: _Reader.constant,
    exp.Boolean: _Reader.constant,
    exp.Column: _Reader.column,
    exp.Identifier: _Reader.column,
    exp.Cast: _Reader.cast,
    exp.Neg: _Reader.negative,
    exp.Concat: _Reader.joined,
    exp.DPipe: _Reader.joined,
    exp.BitwiseOr: _Reader.field,
    exp.Case: _Reader.case,
    exp.Anonymous: _Reader.call,
    exp.Dot: _Reader.dotted,
    exp.Array: _Reader.array,
    exp.And: _Reader.and_,
    exp.Or: _Reader.or_,
    exp.Not: _Reader.not_,
    exp.EQ: _Reader.equal,
    exp.NEQ: _Reader.equal,
    exp.NullSafeEQ: _Reader.distinct,
    exp.NullSafeNEQ: _Reader.distinct,
    exp.LT: _Reader.ordered,
    exp.LTE: _Reader.ordered,
    exp.GT: _Reader.ordered,
    exp.GTE: _Reader.ordered,
    exp.Between: _Reader.between,
    exp.Is: _Reader.is_,
    exp.Like: _Reader.like,
    exp.ILike: _Reader.like,
    exp.In: _Reader.in_,
    exp.Exists: _Reader.exists,
}
