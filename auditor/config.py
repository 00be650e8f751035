"""The configuration: `[tool.tenant-audit]` in pyproject.toml, or tenant-audit.toml, whichever is nearest upward."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from auditor import toml
from auditor.errors import UserError, nearest
from auditor.files import UnreadableError, pieces
from auditor.findings import Confidence, Severity
from auditor.listing import upward

FORMATS = ("text", "concise", "json", "github")
#: The names of `auditor.drivers.DRIVERS`, written out: what they describe is only imported when SQL is found.
DRIVERS = (
    "psycopg",
    "psycopg2",
    "asyncpg",
    "django",
    "sqlalchemy",
    "pg8000.native",
    "pg8000",
    "peewee",
    "piccolo",
    "aiopg",
    "databases",
    "tortoise",
)
#: Of a pooler between the program and its database.
POOL_MODES = ("session", "transaction", "statement")

_TABLE = "[tool.tenant-audit]"


class DriverDefaults(NamedTuple):
    """What the project says about a driver that its sources do not show; None where it says nothing."""

    autocommit: bool | None = None
    prepare_threshold: int | str | None = None  #: "none" when nothing is prepared
    version: str | None = None


class Config(NamedTuple):
    """All that can be configured. Relative paths and patterns start from `folder`; `file` is for people to see."""

    folder: str
    file: str | None = None
    paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    include_tests: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_path_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    min_severity: Severity = Severity.NOTE
    min_confidence: Confidence = Confidence.MEDIUM
    fail_on: Severity = Severity.WARNING
    job_tables: tuple[str, ...] = ()
    tenant_settings: tuple[str, ...] = ()
    tenant_columns: tuple[str, ...] = ()
    default_driver: str | None = None
    pool_mode: str | None = None
    drivers: Mapping[str, DriverDefaults] = MappingProxyType({})
    rules: tuple[str, ...] = ()  #: folders that are named, and loaded only when the command line names them too
    format: str = "text"

    def but(self, **options: Any) -> Config:
        """The same configuration with what the command line says instead; None where it says nothing."""
        said = {name: value for name, value in options.items() if value is not None}
        if "select" in said:
            said.setdefault("ignore", ())
        elif "ignore" in said:
            said["ignore"] = (*self.ignore, *said["ignore"])
        return self._replace(**said)


def read_config(named: str | None, paths: Iterable[str], cwd: str) -> Config:
    """The configuration file that was named, or the nearest upward from the first path; without one, the defaults."""
    if named is not None:
        file = os.path.normpath(os.path.join(cwd, named))
        return _read(file, cwd, named=True) or Config(os.path.dirname(file), _shown(file, cwd))
    start = os.path.normpath(os.path.join(cwd, next(iter(paths), "")))
    for folder in upward(start if os.path.isdir(start) else os.path.dirname(start)):
        for name in ("tenant-audit.toml", "pyproject.toml"):
            file = os.path.join(folder, name)
            config = _read(file, cwd, named=False) if os.path.isfile(file) else None
            if config is not None:
                return config
    return Config(cwd)


def _read(file: str, cwd: str, named: bool) -> Config | None:
    """What a file says, or None where it is a pyproject.toml that says nothing to us."""
    shown = _shown(file, cwd)
    try:
        data = b"".join(pieces(file, whole=True))
    except UnreadableError as error:
        raise UserError(f"{shown}: the configuration cannot be read: {error}") from error
    shared = os.path.basename(file) == "pyproject.toml"
    # Reading TOML costs more than a look, and an invalid file is not ours to judge when it does not speak to us.
    if shared and not named and b"tenant-audit" not in data:
        return None
    table: Any = _toml(data, shown)
    for name in ("tool", "tenant-audit") if shared else ():
        table = table.get(name) if isinstance(table, dict) else None
    if table is None:
        return None
    try:
        return Config(os.path.dirname(file), shown, **_fields(table))
    except _WrongError as error:
        where = f"{shown}: {_TABLE}" if shared else f"{shown}:"
        raise UserError(f"{where} {error}") from None


def _shown(file: str, cwd: str) -> str:
    return file.removeprefix(cwd.rstrip(os.sep) + os.sep)


def _toml(data: bytes, shown: str) -> dict[str, Any]:
    try:
        return toml.parse(data.decode("utf-8-sig"))
    except ValueError as error:  # not UTF-8, or not TOML
        raise UserError(f"{shown}: not valid TOML: {error}") from error


# Reading values


class _WrongError(Exception):
    """What is wrong with a key, told as `KEY is …`."""


def _fields(table: Any, keys: Mapping[str, Reader] | None = None, above: str = "") -> dict[str, Any]:
    """The values of a table under the names of our fields."""
    readers = _KEYS if keys is None else keys
    found = {}
    for key, value in _items(table, above.rstrip(".")):
        if key not in readers:
            hint = nearest(key, readers) or f"; the keys are {', '.join(readers)}"
            if key == "tool" and not above:
                hint = f"; in this file the keys stand at the top, without {_TABLE}"
            raise _WrongError(f"{above}{key} is not a key{hint}")
        found[key.replace("-", "_")] = readers[key](value, f"{above}{key}")
    return found


Reader = Callable[[Any, str], Any]

_KINDS = {bool: "a boolean", int: "an integer", float: "a float", str: "a string", list: "an array", dict: "a table"}


def _fail(value: Any, key: str, wanted: str) -> NoReturn:
    kind = "an empty string" if value == "" else _KINDS.get(type(value), "a date or time")
    raise _WrongError(f"{key} is {kind}; it must be {wanted}".lstrip())


def _items(value: Any, key: str) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, dict) else _fail(value, key, "a table")


def _boolean(value: Any, key: str) -> bool:
    return value if isinstance(value, bool) else _fail(value, key, "true or false")


def _string(value: Any, key: str) -> str:
    return value if isinstance(value, str) and value else _fail(value, key, "a string")


def _strings(value: Any, key: str) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if isinstance(value, list):
        raise _WrongError(f"{key} holds something that is not a string; it must be an array of strings")
    _fail(value, key, "an array of strings")


def _one_of(choices: Iterable[str]) -> Reader:
    known = tuple(choices)

    def read(value: Any, key: str) -> str:
        text = _string(value, key)
        if text not in known:
            raise _WrongError(f'{key} is "{text}"; it must be one of {", ".join(known)}{nearest(text, known)}')
        return text

    return read


def _member(kind: type[Severity] | type[Confidence]) -> Reader:
    choice = _one_of(member.value for member in kind)
    return lambda value, key: kind(choice(value, key))


def _ignores(value: Any, key: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((glob, _strings(rules, f'{key}."{glob}"')) for glob, rules in _items(value, key))


def _threshold(value: Any, key: str) -> int | str:
    if value == "none" or (type(value) is int and value >= 0):
        return value  # type: ignore[no-any-return]
    raise _WrongError(f'{key} must be a number of executions, or "none" when nothing is prepared')


def _drivers(value: Any, key: str) -> dict[str, DriverDefaults]:
    drivers = {}
    for name, table in _items(value, key):
        if name not in DRIVERS:
            raise _WrongError(f"{key}.{name} is not a driver; it must be one of {', '.join(DRIVERS)}")
        drivers[name] = DriverDefaults(**_fields(table, _DRIVER_KEYS, f"{key}.{name}."))
    return drivers


_DRIVER_KEYS: Mapping[str, Reader] = {
    "autocommit": _boolean,
    "prepare-threshold": _threshold,
    "version": _string,
}

_KEYS: Mapping[str, Reader] = {
    "paths": _strings,
    "exclude": _strings,
    "include-tests": _boolean,
    "select": _strings,
    "ignore": _strings,
    "per-path-ignores": _ignores,
    "min-severity": _member(Severity),
    "min-confidence": _member(Confidence),
    "fail-on": _member(Severity),
    "job-tables": _strings,
    "tenant-settings": _strings,
    "tenant-columns": _strings,
    "default-driver": _one_of(DRIVERS),
    "pool-mode": _one_of(POOL_MODES),
    "drivers": _drivers,
    "rules": _strings,
    "format": _one_of(FORMATS),
}
