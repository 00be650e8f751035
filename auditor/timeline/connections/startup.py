"""What a connection is opened with, for as long as it lives: `options=-c app.tenant=…`, or what a callback sets."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.program.catalogue import UNNAMED
from auditor.sql.meaning import HOLE_CLOSE, HOLE_OPEN
from auditor.timeline.model.settings import CALLBACK, OPTION, Held, Holding, Setting
from auditor.timeline.model.values import UNKNOWN, Literal, Made, Mapping, Text, Value, options_of
from auditor.timeline.model.varying import of_task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.findings import Place
    from auditor.timeline.model.connection import ConnectionState

_OPTION = re.compile(r"(?:-c\s*|--)([a-z_]\w*\.[\w.]+)=((?:\\.|[^\s'\"&])*)", re.IGNORECASE)
_TEXTS = ("options", "conninfo", "dsn", "url")
_IN_URL = re.compile(r"[a-z][\w+.-]*://([^:@/?\s]+)(?::[^@]*)?@", re.IGNORECASE)
_IN_WORDS = re.compile(r"(?:^|\s)user\s*=\s*'?([^\s']+)")
_MAPPINGS = ("server_settings",)


def startup_settings(options: dict[str, Value], first: Value, place: Place) -> tuple[Setting, ...]:
    """The custom settings that connect() asks the server for, in its options or in a connection string."""
    found: dict[str, Held] = {}
    for given in (first, *(options[name] for name in _TEXTS if name in options)):
        for option in options_of(given):
            if isinstance(option, Text):
                found.update(_in_text(option, place))
    for name in _MAPPINGS:
        mapping = options.get(name)
        if isinstance(mapping, Mapping):
            found.update(_in_mapping(mapping, place))
    return tuple(Setting(name, kept=held) for name, held in sorted(found.items()))


def user_of(options: dict[str, Value], first: Value) -> str:
    """The role that a connection is opened as, where the code says it in so many words; else empty."""
    named = options.get("user", options.get("username"))
    if isinstance(first, Made):
        named = first.argument(1, "username") if first.name.endswith("URL.create") else None
    if named is not None:
        return named.value if isinstance(named, Text) and not named.holes else ""
    for given in (first, *(options[name] for name in _TEXTS if name in options)):
        found = _IN_URL.match(given.value) or _IN_WORDS.search(given.value) if isinstance(given, Text) else None
        if found is not None:
            return "" if HOLE_OPEN in found[1] else _unquoted(found[1])
    return ""


def _unquoted(text: str) -> str:
    """The text of a URL without its escapes; few connect with options in one, and all would pay the import."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)


def _in_text(text: Text, place: Place) -> Iterator[tuple[str, Held]]:
    if "." not in text.value or "=" not in text.value:
        return
    for name, value in _OPTION.findall(_unquoted(text.value)):
        holes = [_hole(part, text) for part in value.split(HOLE_OPEN)[1:]]
        yield name.lower(), _held(value if not holes else None, any(map(of_task, holes)), place)


def _hole(part: str, text: Text) -> Value:
    number = part.partition(HOLE_CLOSE)[0]
    return text.holes[int(number)] if number.isdecimal() and int(number) < len(text.holes) else UNKNOWN


def _in_mapping(mapping: Mapping, place: Place) -> Iterator[tuple[str, Held]]:
    for key, value in mapping.pairs:
        if isinstance(key, Text) and "." in key.value and not key.holes:
            known = value.value if isinstance(value, Text) and not value.holes else None
            known = str(value.value) if isinstance(value, Literal) else known
            yield key.value.lower(), _held(known, of_task(value), place)


def _held(value: str | None, varies: bool, place: Place) -> Held:
    return Held(Holding.VALUE, UNNAMED if value is None else value, place, of_task=varies, since=OPTION)


def configured(connection: ConnectionState) -> ConnectionState:
    """The connection after the callback that ran when it was opened: what that has set is there from the beginning."""
    settings = tuple(
        replace(
            setting,
            kept=_since(setting.kept),
            layers=tuple(
                replace(layer, session=_since(layer.session) if layer.session is not None else None)
                for layer in setting.layers
            ),
        )
        for setting in connection.settings
    )
    return replace(connection, settings=settings)


def _since(held: Held) -> Held:
    return replace(held, since=CALLBACK) if held.is_value and not held.since else held
