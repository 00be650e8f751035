"""Statements that a library which is not read makes of a template: `render(SQL, {...})`, `prepare_query(SQL, data)`.

What it does to the text is not seen. But who hands it SQL, and runs what comes back, runs that SQL: with the
placeholders in the driver's style, the values beside it or in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from auditor.program.relevance import is_sql
from auditor.sql.meaning import hole
from auditor.timeline.computing.strings import slice_text
from auditor.timeline.computing.texts import join_texts
from auditor.timeline.model.values import UNKNOWN, Clause, Items, Mapping, Text, Value

if TYPE_CHECKING:
    from auditor.timeline.model.invocation import Invocation

#: What such a call is named: anything else that is given SQL runs it.
_RENDERS = frozenset(
    {
        *("render", "prepare", "build", "compile", "format", "bind", "bindparams", "template", "substitute", "rewrite"),
        *("translate", "convert", "interpolate", "parametrize", "parameterize", "make", "mogrify", "transpile"),
    }
)
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{[%#].*?[%#]\}", re.DOTALL)


def rendered(name: str, call: Invocation) -> Clause | None:
    """What a call of a library's function or method gives that is handed SQL to fill in; None for any other call."""
    # Drivers prepare statements, too, and give something that is no statement.
    if name == "prepare" or name.strip("_").lower().split("_")[0] not in _RENDERS:
        return None
    text = next((one for one in call.everything if isinstance(one, Text) and is_sql(one.value)), None)
    if text is None:
        return None
    given = next((one for one in call.everything if isinstance(one, Mapping)), None)
    pairs = given.pairs if given is not None else tuple((Text(key), value) for key, value in call.named)
    named = tuple((key.value, value) for key, value in pairs if isinstance(key, Text) and value is not text)
    return Clause(_opened(text), named, whole=True, unread=True)


def _opened(text: Text) -> Text:
    """The text with holes where its template has expressions, and without what steers it."""
    pieces: list[Text] = []
    at = 0
    for found in _TEMPLATE.finditer(text.value):
        pieces.append(slice_text(text, at, found.start()))
        if found[0].startswith("{{"):
            pieces.append(Text(hole(0), (UNKNOWN,)))
        at = found.end()
    return join_texts([*pieces, slice_text(text, at, len(text.value))]) if pieces else text


#: The attributes under which what is made of it has its text.
_TEXTS = frozenset({"sql", "query", "text", "statement", "query_string"})


def attribute(made: Clause, name: str) -> Value:
    """An attribute of what a library has made of it: its text, or its values."""
    return made if name in _TEXTS else UNKNOWN


def parts_of(value: Value) -> Value:
    """What a rendered statement comes to where it is taken apart: the statement, and values that are not known."""
    if isinstance(value, Clause) and value.unread:
        return Items("tuple", (value, UNKNOWN), open=True)
    return value
