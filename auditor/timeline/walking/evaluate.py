"""What expressions come to: each way through one gives a state and a value."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from auditor.program.origins import Origin
from auditor.python import nodes
from auditor.timeline.computing import dialects, files
from auditor.timeline.computing.texts import join_texts, text_of
from auditor.timeline.mappers import orm
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.rendered import parts_of
from auditor.timeline.model.state import merge_values
from auditor.timeline.model.values import (
    MOST_OPTIONS,
    NONE,
    UNKNOWN,
    Either,
    Field,
    Items,
    Literal,
    Mapping,
    Query,
    Slot,
    Template,
    Text,
    Unknown,
    Value,
    either,
    from_row,
    options_of,
)
from auditor.timeline.walking.operators import compare, operate, subscript, truth_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from auditor.timeline.model.state import Flow, Frame, State
    from auditor.timeline.walking.walker import Walker

Results = list[tuple["State", Value]]


def _called(value: Value, name: str) -> Value:
    """What is not known, with the name that it is asked for by, unless it had one before."""
    return Unknown(value.row, value.setting, name) if isinstance(value, Unknown) and not value.called else value


class Evaluator:
    """Evaluates expressions on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._dispatch: dict[type, Callable[[Any, State, Frame, Flow], Results]] = {
            nodes.Name: self._name,
            nodes.Attribute: self._attribute,
            nodes.Constant: self._constant,
            nodes.Text: self._text,
            nodes.Call: self._call,
            nodes.Starred: self._inner,
            nodes.Await: self._await,
            nodes.Yield: self._yield,
            nodes.Items: self._items,
            nodes.Mapping: self._mapping,
            nodes.Binary: self._binary,
            nodes.Logic: self._logic,
            nodes.Not: self._not,
            nodes.Compare: self._compare,
            nodes.Conditional: self._conditional,
            nodes.Subscript: self._subscript,
            nodes.Lambda: self._lambda,
            nodes.Comprehension: self._comprehension,
            nodes.Assigned: self._assigned,
            nodes.Opaque: self._opaque,
        }

    def value(self, expression: nodes.Expression, state: State, frame: Frame, flow: Flow) -> Results:
        """Each way through `expression` from `state`; exceptions go to `flow`."""
        self.walker.step()
        ways = self._dispatch[type(expression)](expression, state, frame, flow)
        return ways if len(ways) == 1 else merge_values(ways)

    def test(self, expression: nodes.Expression, state: State, frame: Frame, flow: Flow) -> Results:
        """The same of a condition, of which only the truth is asked: what stops an `and` early is false."""
        if isinstance(expression, nodes.Not):
            return self._negated(self.test(expression.value, state, frame, flow))
        if not isinstance(expression, nodes.Logic):
            return self.value(expression, state, frame, flow)
        self.walker.step()
        return merge_values(self._logic(expression, state, frame, flow, of_test=True))

    def each(
        self, expressions: Iterable[nodes.Expression], state: State, frame: Frame, flow: Flow
    ) -> list[tuple[State, tuple[Value, ...]]]:
        """Several expressions one after the other: each way with the tuple of their values."""
        ways: list[tuple[State, tuple[Value, ...]]] = [(state, ())]
        for expression in expressions:
            ways = [
                (after, (*got, value))
                for before, got in ways
                for after, value in self.value(expression, before, frame, flow)
            ]
        return ways

    # Names and constants

    def _name(self, node: nodes.Name, state: State, frame: Frame, flow: Flow) -> Results:
        if node.id == "__file__":
            return [(state, files.path(frame.module.file))]
        if node.id == "__name__":
            return [(state, Text(frame.module.name))]
        return [(state, _called(self.walker.names.lookup(node.id, state, frame), node.id))]

    def _constant(self, node: nodes.Constant, state: State, frame: Frame, flow: Flow) -> Results:
        return [(state, Literal(node.value))]

    def _text(self, node: nodes.Text, state: State, frame: Frame, flow: Flow) -> Results:
        path = frame.module.path
        if len(node.pieces) == 1 and isinstance(node.pieces[0], str):
            whole = node.pieces[0]
            return [(state, Text(whole, (), (Origin(0, len(whole), path, node.span, 0, 0),)))]
        holes = [piece for piece in node.pieces if not isinstance(piece, str)]
        results: Results = []
        for after, filled in self.each(holes, state, frame, flow):
            waiting = iter(filled)
            formats = iter(node.formats)
            parts: list[Text | Slot] = []
            for index, piece in enumerate(node.pieces):
                if isinstance(piece, str):
                    parts.append(Text(piece, (), (Origin(0, len(piece), path, node.span, index, 0),)))
                else:
                    parts.append(Slot(next(waiting), next(formats, "").removeprefix(":")))
            if node.template:
                results.append((after, Template(tuple(parts))))
            else:
                results.append((after, _written([part.value if isinstance(part, Slot) else part for part in parts])))
        return results

    # Attributes, subscripts, calls

    def _attribute(self, node: nodes.Attribute, state: State, frame: Frame, flow: Flow) -> Results:
        results: Results = []
        for after, receiver in self.value(node.value, state, frame, flow):
            if isinstance(node.value, nodes.Name):
                owner = frame.function or frame.module
                receiver = self.walker.database.connecting.held_as(node.value.id, receiver, frame, owner)
            found = self.walker.objects.attribute(receiver, node.name, after, frame, flow, node.span)
            results.extend((then, _called(value, node.name)) for then, value in found)
        return results

    def _subscript(self, node: nodes.Subscript, state: State, frame: Frame, flow: Flow) -> Results:
        results: Results = []
        for after, (value, key) in self.each((node.value, node.key), state, frame, flow):
            queries = [option for option in options_of(value) if isinstance(option, Query)]
            others = [option for option in options_of(value) if not isinstance(option, Query)]
            for query in queries:
                call = Invocation((), (), after, frame, flow, node.span)
                results.extend(self.walker.models.taken(query, node.key, key, call))
            if others:
                item = either([self._item(parts_of(option), key) for option in others])
                if item == UNKNOWN:
                    item = self.walker.scratch.item(node, key, after) or item
                if item == UNKNOWN:
                    item = self.walker.names.declared_item(node.value, key, frame) or item
                name = key.value if isinstance(key, Text) and not key.holes else ""
                results.append((after, replace(item, called=name) if isinstance(item, Unknown) else item))
        return results

    def _item(self, collection: Value, key: Value) -> Value:
        held = self.walker.database.held.item(collection, key)
        return subscript(collection, key) if held is None else held

    def _call(self, node: nodes.Call, state: State, frame: Frame, flow: Flow) -> Results:
        return self.walker.calls.evaluate(node, state, frame, flow)

    def _await(self, node: nodes.Await, state: State, frame: Frame, flow: Flow) -> Results:
        results: Results = []
        for after, value in self.value(node.value, state, frame, flow):
            results.extend(self.walker.coroutines.awaited(value, Invocation((), (), after, frame, flow, node.span)))
        return results

    def _yield(self, node: nodes.Yield, state: State, frame: Frame, flow: Flow) -> Results:
        if node.value is None:
            return [(after, UNKNOWN) for after in self.walker.yielded(state, NONE, frame, flow, node.span)]
        results: Results = []
        for after, value in self.value(node.value, state, frame, flow):
            if node.delegated:
                results.extend(
                    self.walker.coroutines.delegated(value, Invocation((), (), after, frame, flow, node.span))
                )
                continue
            results.extend((then, UNKNOWN) for then in self.walker.yielded(after, value, frame, flow, node.span))
        return results

    # Collections

    def _items(self, node: nodes.Items, state: State, frame: Frame, flow: Flow) -> Results:
        results: Results = []
        for after, got in self.each(node.items, state, frame, flow):
            items: list[Value] = []
            is_open = False
            for item, value in zip(node.items, got, strict=True):
                if not isinstance(item, nodes.Starred):
                    items.append(value)
                elif isinstance(value, Items):
                    items.extend(value.items)
                    is_open |= value.open
                else:
                    is_open = True
            results.append((after, Items(node.kind, tuple(items), is_open)))
        return results

    def _mapping(self, node: nodes.Mapping, state: State, frame: Frame, flow: Flow) -> Results:
        parts = [part for key, value in node.pairs for part in ((value,) if key is None else (key, value))]
        results: Results = []
        for after, got in self.each(parts, state, frame, flow):
            waiting = iter(got)
            pairs: list[tuple[Value, Value]] = []
            is_open = False
            for key, _ in node.pairs:
                if key is not None:
                    pairs.append((next(waiting), next(waiting)))
                    continue
                spread = next(waiting)
                pairs.extend(spread.pairs if isinstance(spread, Mapping) else ())
                is_open |= spread.open if isinstance(spread, Mapping) else True
            results.append((after, Mapping(tuple(pairs), is_open)))
        return results

    def _comprehension(self, node: nodes.Comprehension, state: State, frame: Frame, flow: Flow) -> Results:
        """Walked once with one element, as a loop that turns; the result is not known but for unrolled constants."""
        results: Results = []
        target, iterable, conditions = node.clauses[0]
        sources = [
            (after, option)
            for after, source in self.value(iterable, state, frame, flow)
            for option in options_of(source)
        ]
        for after, source in sources:
            elements = self.walker.elements(source)
            inner = [self.walker.assign(target, element, after, frame, flow) for element in elements[:16]]
            collected: list[Value] = []
            last = after
            for states in inner:
                for turn in states:
                    ways = self._rest(node, 1, turn, frame, flow, conditions)
                    for then, got in ways:
                        collected.append(got)
                        last = then
            known = (
                isinstance(source, (Items, Mapping)) and not source.open and not conditions and len(node.clauses) == 1
            )
            if node.kind in ("list", "set", "generator") and known and len(collected) == len(elements):
                results.append((last, Items("list", tuple(collected))))
            elif node.kind != "dict":
                results.append((last, Items("list", tuple(collected[:1]), open=True) if collected else UNKNOWN))
            else:
                results.append((last, Unknown(row=from_row(source))))
        return results

    def _rest(
        self,
        node: nodes.Comprehension,
        index: int,
        state: State,
        frame: Frame,
        flow: Flow,
        conditions: tuple[nodes.Expression, ...],
    ) -> Results:
        ways = [after for after, _ in self.each(conditions, state, frame, flow)]
        for target, iterable, inner in node.clauses[index:]:
            ways = [
                then
                for way in ways
                for after, source in self.value(iterable, way, frame, flow)
                for element in self.walker.elements(source)[:1]
                for then in self.walker.assign(target, element, after, frame, flow)
            ]
            ways = [after for way in ways for after, _ in self.each(inner, way, frame, flow)]
        return [(after, got[-1]) for way in ways for after, got in self.each(node.results, way, frame, flow)]

    # Operators

    def _binary(self, node: nodes.Binary, state: State, frame: Frame, flow: Flow) -> Results:
        chain: list[nodes.Expression] = []
        left: nodes.Expression = node
        # A long concatenation leans to the left: it is walked, not recursed into.
        while isinstance(left, nodes.Binary) and left.operator == node.operator:
            chain.append(left.right)
            left = left.left
        results: Results = []
        for after, got in self.each((left, *reversed(chain)), state, frame, flow):
            value = got[0]
            for operand in got[1:]:
                value = self._operated(node.operator, value, operand)
            results.append((after, value))
        return results

    def _operated(self, operator: str, left: Value, right: Value) -> Value:
        options = [
            orm.operate(operator, one, other) or operate(operator, one, other)
            for one in options_of(left)
            for other in options_of(right)
        ]
        return either(options)

    def _logic(self, node: nodes.Logic, state: State, frame: Frame, flow: Flow, *, of_test: bool = False) -> Results:
        """`and` and `or` stop early: what is behind the point where they do is not evaluated on that path."""
        stop = node.operator == "or"
        results: Results = []
        going = [state]
        for index, part in enumerate(node.values):
            ahead: list[State] = []
            for before in going:
                for after, value in (self.test if of_test else self.value)(part, before, frame, flow):
                    if index == len(node.values) - 1:
                        results.append((after, value))
                        continue
                    if stop and isinstance(value, Field) and isinstance(node.values[index + 1], nodes.Constant):
                        # `job.attempts or 0` is the column, with what it is where there is none.
                        results.append((after, value))
                        continue
                    truth = self.truth(value)
                    if truth is not (not stop):
                        stopped = self.walker.assume(part, stop, after, frame)
                        if stopped is not None:
                            results.append((stopped, Literal(stop) if of_test else self._narrowed(value, stop)))
                    if truth is not stop:
                        goes = self.walker.assume(part, not stop, after, frame)
                        if goes is not None:
                            ahead.append(goes)
            going = ahead
        return results

    @staticmethod
    def _narrowed(value: Value, truth: bool) -> Value:
        """`value`, known to be true (or false)."""
        if isinstance(value, Either):
            left = [option for option in value.options if truth_of(option) is not (not truth)]
            return either(left) if left else UNKNOWN
        return value

    def _not(self, node: nodes.Not, state: State, frame: Frame, flow: Flow) -> Results:
        return self._negated(self.value(node.value, state, frame, flow))

    def _negated(self, ways: Results) -> Results:
        truths = [(after, self.truth(value)) for after, value in ways]
        return [(after, UNKNOWN if truth is None else Literal(not truth)) for after, truth in truths]

    def _compare(self, node: nodes.Compare, state: State, frame: Frame, flow: Flow) -> Results:
        results: Results = []
        read = self.each((node.left, *node.rights), state, frame, flow)
        for after, got in ((after, way) for after, values in read for way in orm.ways(tuple(values))):
            built = orm.operate(node.operators[0], got[0], got[1]) if len(got) == 2 else None
            if built is not None:
                results.append((after, built))
                continue
            known: bool | None = True
            for operator, left, right in zip(node.operators, got, got[1:], strict=False):
                answer = compare(operator, left, right)
                answer = dialects.compared(operator, left, right) if answer is None else answer
                known = (
                    False if answer is False or known is False else None if answer is None or known is None else True
                )
            results.append((after, UNKNOWN if known is None else Literal(known)))
        return results

    def _conditional(self, node: nodes.Conditional, state: State, frame: Frame, flow: Flow) -> Results:
        results: Results = []
        for after, test in self.test(node.test, state, frame, flow):
            truth = self.truth(test)
            for way, branch in ((True, node.body), (False, node.orelse)):
                if truth is not None and truth is not way:
                    continue
                assumed = self.walker.assume(node.test, way, after, frame)
                if assumed is not None:
                    results.extend(self.value(branch, assumed, frame, flow))
        return results

    # Others

    def _lambda(self, node: nodes.Lambda, state: State, frame: Frame, flow: Flow) -> Results:
        prefix = f"{frame.symbol}.<locals>." if frame.function else ""
        info = frame.module.function(node.function, f"{prefix}<lambda>", nested=True)
        return [(state, self.walker.names.close(info, frame))]

    def _assigned(self, node: nodes.Assigned, state: State, frame: Frame, flow: Flow) -> Results:
        return [
            (then, value)
            for after, value in self.value(node.value, state, frame, flow)
            for then in self.walker.assign(node.target, value, after, frame, flow)
        ]

    def _inner(self, node: nodes.Starred, state: State, frame: Frame, flow: Flow) -> Results:
        return self.value(node.value, state, frame, flow)

    def _opaque(self, node: nodes.Opaque, state: State, frame: Frame, flow: Flow) -> Results:
        return [
            (after, Unknown(row=any(from_row(value) for value in got)))
            for after, got in self.each(node.parts, state, frame, flow)
        ]

    def truth(self, value: Value) -> bool | None:
        """Whether a value is true in a condition, or None when it can be either."""
        return truth_of(value)


def _written(parts: list[Value]) -> Value:
    """The pieces of a string one behind the other: one text for each way to choose among texts, if those are few."""
    choices: list[tuple[Value, ...]] = []
    count = 1
    for part in parts:
        options = options_of(part)
        known = all(isinstance(option, (Text, Literal)) for option in options)
        choices.append(options if known and count * len(options) <= MOST_OPTIONS else (part,))
        count *= len(choices[-1])
    return either([join_texts([text_of(part) for part in chosen]) for chosen in product(*choices)])
