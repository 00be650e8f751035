"""SQL files that code loads: paths are followed as far as the file's name, and read as what the program holds."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from auditor.program.origins import Origin
from auditor.timeline.model.values import UNKNOWN, Items, Made, Text, Value

if TYPE_CHECKING:
    from auditor.program.program import Program
    from auditor.timeline.model.invocation import Invocation

_PATH = "pathlib.Path"
_PATHS = frozenset(
    {
        _PATH,
        "pathlib.PurePath",
        "pathlib.PosixPath",
        "importlib.resources.path",
        "os.fspath",
        "os.path.abspath",
        "os.path.realpath",
        "anyio.Path",
    }
)
_PACKAGES = frozenset({"importlib.resources.files", "importlib_resources.files"})
_READS = frozenset({"importlib.resources.read_text", "importlib_resources.read_text", "pkgutil.get_data"})
_KEEPS = frozenset({"resolve", "absolute", "expanduser", "as_posix", "open", "__enter__"})


def path(value: str) -> Made:
    """A path as a value."""
    return Made(_PATH, (Text(value),))


def _of(value: Value) -> str | None:
    """The path that a value is, when it is known."""
    if isinstance(value, Made) and value.name == _PATH:
        value = value.arguments[0] if value.arguments else UNKNOWN  # Path() alone is where the process runs
    return value.value if isinstance(value, Text) and not value.holes else None


def call(name: str, call: Invocation, program: Program) -> Value | None:
    """Calls that make a path or read a file; None for all others."""
    if name in _PATHS and call.positional:
        return _joined(call.positional)
    if name == "os.path.join":
        return _joined(call.positional)
    if name == "os.path.dirname":
        base = _of(call.argument(0))
        return path(posixpath.dirname(base)) if base is not None else UNKNOWN
    if name in _PACKAGES:
        package = _package(call.argument(0), call, program)
        return path(package) if package is not None else UNKNOWN
    if name in _READS and len(call.positional) > 1:
        package, inside = _package(call.argument(0), call, program), _of(call.argument(1))
        return read(posixpath.join(package, inside), program) if package is not None and inside is not None else UNKNOWN
    if name == "builtins.open":
        base = _of(call.argument(0, "file"))
        return path(base) if base is not None else UNKNOWN
    return None


def method(receiver: Value, name: str, call: Invocation, program: Program) -> Value | None:
    """Methods of a path or an open file; None for all others."""
    if not isinstance(receiver, Made) or receiver.name != _PATH:
        return None
    base = _of(receiver)
    if base is None:
        return UNKNOWN
    if name in ("read_text", "read", "read_bytes"):
        return read(base, program)
    if name in ("joinpath", "with_name"):
        start = path(posixpath.dirname(base)) if name == "with_name" else receiver
        return _joined((start, *call.positional))
    if name == "with_suffix":
        suffix = _of(call.argument(0))
        return path(posixpath.splitext(base)[0] + suffix) if suffix is not None else UNKNOWN
    if name in ("glob", "rglob", "iterdir"):
        found = [path(file) for file in program.sql_files_under(base, deep=name == "rglob")]
        return Items("list", tuple(found)) if found else Items("list", (), open=True)
    return receiver if name in _KEEPS else None


def attribute(receiver: Made, name: str) -> Value | None:
    """Parts of a path."""
    base = _of(receiver) if receiver.name == _PATH else None
    if base is None:
        return None
    if name == "parent":
        return path(posixpath.dirname(base))
    stem, suffix = posixpath.splitext(posixpath.basename(base))
    parts = {"name": stem + suffix, "stem": stem, "suffix": suffix}
    return Text(parts[name]) if name in parts else None


def divided(left: Value, right: Value) -> Value | None:
    """`path / part`."""
    if isinstance(left, Made) and left.name == _PATH:
        return _joined((left, right))
    return None


def _joined(parts: tuple[Value, ...]) -> Value:
    known = [_of(part) for part in parts]
    if any(part is None for part in known):
        return UNKNOWN
    return path(posixpath.normpath(posixpath.join(*(part for part in known if part is not None))))


def _package(value: Value, call: Invocation, program: Program) -> str | None:
    """The folder of a package given by name or as a module."""
    from auditor.timeline.model.values import Module

    if isinstance(value, Module):
        return posixpath.dirname(value.module.file)
    name, below = _of(value), ""
    while name:
        module = program.module(name, call.frame.module.file)
        if module is not None:
            return posixpath.join(posixpath.dirname(module.file), below) if below else posixpath.dirname(module.file)
        # A folder without an __init__.py is a package too.
        name, _, last = name.rpartition(".")
        below = posixpath.join(last, below) if below else last
    return None


def read(file: str, program: Program) -> Value:
    """The text of a SQL file of the program; its origins point into the file."""
    found = program.sql_text(file)
    if found is None:
        return UNKNOWN
    shown, text = found
    return Text(text, (), (Origin(0, len(text), shown, None, 0, 0),))
