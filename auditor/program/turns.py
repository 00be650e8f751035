"""Locks that are kept outside of the database, by which one process alone does a piece of work at a time.

Facts: redis-py's `set(nx=True)`, `setnx` and `lock(name)`, Django's `cache.add()` ("adds a key only if it is not there
yet"), the locks of filelock, portalocker and fcntl, huey's `lock_task`. Locks of threading, asyncio and multiprocessing
keep nobody out of another process: they are made without a name, and entered as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.program.tree import descend, last_name
from auditor.python import nodes
from auditor.sql.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program.tree import Words

#: What the names of things are made of that see to it that one process alone works.
ALONE = frozenset({"lock", "flock", "lockf", "redlock", "filelock", "mutex", "leader", "elect", "singleton"})
#: What sets a key that nobody else has set.
_IF_ABSENT = "nx"


def takes_turns(function: nodes.Function, made_of: Words) -> bool:
    """Whether a function takes such a lock, or its decorators say that one is taken around it."""
    if any(_decorates(decorator) for decorator in function.decorators):
        return True
    tells = _IF_ABSENT in made_of.keywords or any(map(_may_take, made_of.names))
    return tells and any(_takes(call) for call in descend(function) if isinstance(call, nodes.Call))


def _may_take(name: str) -> bool:
    return name in ("setnx", "add") or _says_alone(name)


def _takes(call: nodes.Call) -> bool:
    if any(name == _IF_ABSENT for name, _ in call.keywords):
        return True
    called = last_name(call.function)
    if called == "setnx" or (called == "add" and _is_cache(call.function)):
        return True
    # Without arguments it is a lock of this process, and nobody's in particular.
    named = bool(call.arguments or call.keywords)
    return bool(words(called)[-1:]) and words(called)[-1] in ALONE and (named or "leader" in words(called))


def _is_cache(function: nodes.Expression) -> bool:
    if not isinstance(function, nodes.Attribute):
        return False
    return any("cache" in word for name in _names(function.value) for word in words(name))


def _names(expression: nodes.Expression) -> Iterator[str]:
    for part in descend(expression):
        if isinstance(part, nodes.Name):
            yield part.id
        elif isinstance(part, nodes.Attribute):
            yield part.name


def _decorates(decorator: nodes.Expression) -> bool:
    """`@singleton`, `@with_lock("sends")`, `@task(lock_key="sends")`, `@task(base=Singleton)`."""
    if not isinstance(decorator, nodes.Call):
        return _says_alone(last_name(decorator))
    keywords = [name or "" for name, _ in decorator.keywords]
    bases = [last_name(value) for name, value in decorator.keywords if name == "base"]
    return any(map(_says_alone, (last_name(decorator.function), *keywords, *bases)))


def _says_alone(name: str) -> bool:
    return not ALONE.isdisjoint(words(name))
