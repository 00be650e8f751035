"""What placeholders and holes of a statement stand for, as far as the arguments of execute() tell."""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

from auditor.program.catalogue import UNNAMED
from auditor.sql.meaning import HOLE_CLOSE, HOLE_OPEN, Term, TermKind
from auditor.timeline.model.values import (
    UNKNOWN,
    Bound,
    Either,
    External,
    Items,
    Literal,
    Made,
    Mapping,
    Quoted,
    Text,
    Unknown,
    Value,
    options_of,
)
from auditor.timeline.model.varying import of_task

#: Calls whose result cannot carry a quote into a statement.
_PLAIN_TYPES = ("int", "float", "bool", "UUID", "uuid4", "Decimal", "len", "id")


#: What a name is made of that says nothing.
_NOTHING = frozenset(UNNAMED + '."')

#: What text PostgreSQL takes for a boolean, whether it is written out or travels as a parameter.
_TRUTHS = dict.fromkeys(("true", "t", "on"), True) | dict.fromkeys(("false", "f", "off"), False)


class Resolved(NamedTuple):
    """What a term holds: `text` when it is known, None when it is only known at run time."""

    text: str | None
    is_null: bool = False
    is_true: bool | None = None
    #: A parameter that travels beside the statement.
    parameter: bool = False
    #: Raw text that was put into the statement from outside.
    raw: bool = False
    #: The setting whose value it is, as a statement has read it before.
    read: str = ""
    #: It differs from job to job, wherever it is asked for.
    of_task: bool = False
    #: Only the deployment chooses it: it is the same for all jobs.
    deployed: bool = False


class Bindings:
    """Resolves the terms of the statements of one text."""

    def __init__(self, text: Text, parameters: Value) -> None:
        self._text = text
        self._parameters = parameters

    def resolve(self, term: Term) -> Resolved:
        """What a term comes to."""
        if term.kind is TermKind.CAST and term.parts:
            return self.resolve(term.parts[0])
        if term.kind is TermKind.NULL or term.kind is TermKind.DEFAULT:
            return Resolved("", is_null=True)
        if term.kind in (TermKind.TRUE, TermKind.FALSE):
            return Resolved(term.kind.value, is_true=term.kind is TermKind.TRUE)
        if term.kind is TermKind.PARAMETER or (term.kind is TermKind.HOLE and term.holes):
            return self._of_value(self._value(term), parameter=term.kind is TermKind.PARAMETER)
        if term.kind in (TermKind.LITERAL, TermKind.COLUMN):
            return self._written(term)
        return Resolved(None)

    def listed(self, term: Term) -> Resolved:
        """What the value of a setting comes to, which may be a list: `SET search_path TO a, b`."""
        if term.kind is not TermKind.OTHER or not term.parts:
            return self.resolve(term)
        parts = [self.resolve(part) for part in term.parts]
        texts = [part.text for part in parts if part.text is not None]
        known = len(texts) == len(parts)
        return Resolved(
            ", ".join(texts) if known else None,
            raw=any(part.raw for part in parts),
            of_task=any(part.of_task for part in parts),
            deployed=not known and all(part.deployed or part.text is not None for part in parts),
        )

    def alternatives(self, term: Term) -> tuple[str, ...]:
        """The texts that a term may come to; none where it may be anything else, too."""
        value = self._value(term)
        value = value.value if isinstance(value, Quoted) and not value.identifier else value
        texts = [self._of_value(option, parameter=True).text for option in options_of(value)]
        return tuple(text for text in texts if text) if all(text is not None for text in texts) else ()

    def _value(self, term: Term) -> Value:
        if term.kind is TermKind.PARAMETER:
            return self._parameter(term.text)
        return self._hole(term.holes[0]) if term.kind is TermKind.HOLE and term.holes else UNKNOWN

    def name(self, name: str) -> str:
        """The name of a table with what is known of its holes filled in; what is not known of it reads `…`."""
        return _named(name, self._text.holes)

    def name_of(self, term: Term) -> str:
        """The name that a term holds, `…` standing for what is not known of it."""
        value: Value = UNKNOWN
        if term.kind is TermKind.PARAMETER:
            value = self._parameter(term.text)
        elif term.kind is TermKind.HOLE and term.holes:
            value = self._hole(term.holes[0])
        elif term.kind in (TermKind.LITERAL, TermKind.COLUMN):
            value = Text(term.text, self._text.holes)
        value = value.value if isinstance(value, Quoted) else value
        name = _named(value.value, value.holes) if isinstance(value, Text) else UNNAMED
        # Of a setting whose namespace is not known nothing is known.
        return UNNAMED if name.startswith(UNNAMED) else name

    def _written(self, term: Term) -> Resolved:
        """A literal or name, what its holes hold being filled in."""
        if not term.holes and HOLE_OPEN not in term.text:
            return Resolved(term.text, is_true=_TRUTHS.get(term.text.lower()))
        parts = []
        raw = known = of_task = False
        deployed = True
        for index, part in enumerate(term.text.split(HOLE_OPEN)):
            if index == 0:
                parts.append(part)
                continue
            number, _, rest = part.partition(HOLE_CLOSE)
            inner = self._of_value(self._hole(int(number)) if number.isdecimal() else UNKNOWN, parameter=False)
            raw |= inner.raw
            of_task |= inner.of_task
            deployed &= inner.deployed or inner.text is not None
            known = inner.text is None or known
            parts.extend([inner.text or "", rest])
        return Resolved(None if known else "".join(parts), raw=raw, of_task=of_task, deployed=known and deployed)

    def _hole(self, number: int) -> Value:
        return self._text.holes[number] if 0 <= number < len(self._text.holes) else UNKNOWN

    def _parameter(self, name: str) -> Value:
        given = self._parameters
        if isinstance(given, Mapping):
            return given.get(Text(name)) or UNKNOWN
        number = (
            int(name[1:]) - 1 if name[:1] == "$" and name[1:].isdecimal() else int(name) if name.isdecimal() else -1
        )
        if isinstance(given, Items) and 0 <= number < len(given.items):
            return given.items[number]
        return UNKNOWN

    @staticmethod
    def _of_value(value: Value, parameter: bool) -> Resolved:
        if isinstance(value, Text) and not value.holes:
            return Resolved(value.value, is_true=_TRUTHS.get(value.value.lower()), parameter=parameter)
        if isinstance(value, Literal):
            known = value.value
            text = "" if known is None else str(known).lower()
            truth = known if isinstance(known, bool) else None
            return Resolved(text, is_null=known is None, is_true=truth, parameter=parameter)
        read = next((one.setting for one in options_of(value) if isinstance(one, Unknown) and one.setting), "")
        raw = not parameter and not _plain(value)
        return Resolved(
            None, parameter=parameter, raw=raw, read=read, of_task=of_task(value), deployed=_of_deployment(value)
        )


#: What modules and objects are called that hold what a deployment chooses.
_DEPLOYMENT = frozenset({"settings", "config", "conf", "environ"})


def _of_deployment(value: Value) -> bool:
    """Whether a value is read from the settings of a framework or from the environment: no job brings it along."""
    if isinstance(value, Quoted):
        return _of_deployment(value.value)
    if isinstance(value, Text):
        return all(_of_deployment(part) for part in value.holes)
    if isinstance(value, External):
        return not _DEPLOYMENT.isdisjoint(value.name.split(".")[:-1])
    if isinstance(value, Made):
        return value.name in ("os.getenv", "os.environ.get")
    options = options_of(value)
    return len(options) > 1 and all(isinstance(option, Text) or _of_deployment(option) for option in options)


def _named(name: str, holes: tuple[Value, ...]) -> str:
    """A name with its holes filled in. Two that share the part that is known are taken for the same."""
    written = _filled(name, holes)
    # Where nothing of it is known, what the program calls it tells one from another.
    return f"{UNNAMED}{_called(_own(name, holes))}" if UNNAMED in written and set(written) <= _NOTHING else written


def _own(name: str, holes: tuple[Value, ...]) -> Text:
    """A name with the holes that are in it, and not the others of its statement: a LIMIT, an id, another table."""
    numbers = (part.partition(HOLE_CLOSE)[0] for part in name.split(HOLE_OPEN)[1:])
    return Text(name, tuple(holes[int(one)] for one in numbers if one.isdecimal() and int(one) < len(holes)))


def _filled(name: str, holes: tuple[Value, ...]) -> str:
    first, *others = name.split(HOLE_OPEN)
    parts = [first]
    for other in others:
        number, _, rest = other.partition(HOLE_CLOSE)
        inner = holes[int(number)] if number.isdecimal() and int(number) < len(holes) else UNKNOWN
        parts.extend([_name_in(inner), rest])
    return "".join(parts)


def _name_in(value: Value) -> str:
    """The name that a value holds; where it can be one of several, only if all of them hold the same."""
    if isinstance(value, Quoted):
        return _name_in(value.value.items[-1] if _is_qualified(value.value) else value.value)
    if isinstance(value, Either):
        names = {_name_in(option) for option in value.options}
        return names.pop() if len(names) == 1 else UNNAMED
    if isinstance(value, Text):
        return _filled(value.value, value.holes)
    return str(value.value) if isinstance(value, Literal) else UNNAMED


def _called(value: Value) -> str:
    """What the program calls a value that is only known at run time."""
    if isinstance(value, Quoted):
        return _called(value.value.items[-1] if _is_qualified(value.value) else value.value)
    if isinstance(value, Either):
        names = {_called(option) for option in value.options}
        return names.pop() if len(names) == 1 else ""
    if isinstance(value, Text):
        return _called(value.holes[-1]) if value.holes else ""
    name = value.called if isinstance(value, Unknown) else value.name if isinstance(value, Bound) else ""
    return name.lstrip("_").lower()


def _is_qualified(value: Value) -> TypeGuard[Items]:
    """Whether it is a name in parts, its schema first."""
    return isinstance(value, Items) and bool(value.items)


def _plain(value: Value) -> bool:
    """Whether a value cannot break out of the quotes it is put between."""
    if isinstance(value, (Quoted, Literal)):
        return True
    if isinstance(value, Made) and value.name == "json.dumps":
        # JSON of what has no quote in it has none either.
        return not value.keywords and all(map(_has_no_quote, value.arguments))
    if isinstance(value, Made):
        return value.name.rpartition(".")[2] in _PLAIN_TYPES
    if isinstance(value, Text):
        return value.composed or all(_plain(part) for part in value.holes)
    options = options_of(value)
    return len(options) > 1 and all(_plain(option) for option in options)


def _has_no_quote(value: Value) -> bool:
    """Whether no text in a value can hold a quote."""
    if isinstance(value, Mapping):
        return not value.open and all(_has_no_quote(part) for pair in value.pairs for part in pair)
    if isinstance(value, Items):
        return not value.open and all(map(_has_no_quote, value.items))
    if isinstance(value, Text):
        return "'" not in value.value and all(map(_has_no_quote, value.holes))
    return not isinstance(value, Quoted) and _plain(value)
