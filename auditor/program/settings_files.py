"""What Django settings say of databases: how long connections live, what stands in a transaction, who binds.

Read from the files that assign DATABASES, statically: what is computed there is taken to be anything. Facts: the
documentation's page on settings, and "Persistent connections", "Connection pool", "Server-side parameters binding".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.frozen import dataclass
from auditor.program.tree import literal
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program.code import ModuleInfo

#: What stands in every file that says something of this.
TRIGGERS = (rb"databases\s*(?::[^=\n]*)?=", rb"conn_max_age", rb"atomic_requests")


@dataclass(frozen=True)
class DatabaseSettings:
    """Of one database, as far as they are seen; None where it cannot be told."""

    #: Some settings file of the program names it.
    seen: bool = False
    autocommit: bool | None = None
    atomic_requests: bool | None = None
    #: The connection outlives the request or task: CONN_MAX_AGE, or a pool.
    persists: bool | None = None
    binds_on_server: bool = False
    #: A call makes them.
    computed: bool = False

    @property
    def closes_after_use(self) -> bool:
        """Whether the connection is closed when its request or task is over, as it is by default."""
        return self.seen and self.persists is False


UNSEEN = DatabaseSettings()
_PLAIN = DatabaseSettings(seen=True, autocommit=True, atomic_requests=False, persists=False)


def read_settings(modules: Iterable[ModuleInfo]) -> dict[str, DatabaseSettings]:
    """What settings files say, by alias. Of several files any may be the one in use: what differs is not known."""
    found: dict[str, DatabaseSettings] = {}
    for module in modules:
        for alias, settings in _of_module(module).items():
            known = found.get(alias)
            found[alias] = settings if known is None else _either(known, settings)
    return found


def _of_module(module: ModuleInfo) -> dict[str, DatabaseSettings]:
    found: dict[str, DatabaseSettings] = {}
    for part in module.bound.get("DATABASES", ()):
        if isinstance(part, nodes.Assign) and part.value is not None:
            found.update(dict(_of_databases(part.value)))
    if not found:
        return {}
    written = module.data.lower()
    for alias, settings in found.items():
        # Set further down, or computed: DATABASES["default"]["CONN_MAX_AGE"] = …, .config(conn_max_age=600).
        if settings.persists is False and (settings.computed or b'["conn_max_age"]' in written):
            settings = replace(settings, persists=None if b"conn_max_age" in written else False)
        if b'"pool"' in written or b"'pool'" in written:
            # A pool keeps connections; what its callback resets leaves no trace of the request.
            resets = b'"reset"' in written or b"'reset'" in written
            settings = replace(settings, persists=False if resets else settings.persists or None)
        if settings.atomic_requests is False and b"atomic_requests" in written:
            settings = replace(settings, atomic_requests=None)
        found[alias] = settings
    return found


def _of_databases(value: nodes.Expression) -> Iterator[tuple[str, DatabaseSettings]]:
    if not isinstance(value, nodes.Mapping):
        yield "default", DatabaseSettings(seen=True, persists=None)
        return
    for key, settings in value.pairs:
        alias = literal(key)
        if alias is not None:
            yield alias, _of_one(settings)


def _of_one(value: nodes.Expression) -> DatabaseSettings:
    if not isinstance(value, nodes.Mapping) or any(key is None for key, _ in value.pairs):
        # env.db(), dj_database_url.config(): without a word of it connections are closed.
        return replace(_PLAIN, computed=True)
    pairs = {literal(key): one for key, one in value.pairs}
    options = pairs.get("OPTIONS")
    inner = {literal(key): one for key, one in options.pairs} if isinstance(options, nodes.Mapping) else {}
    age = pairs.get("CONN_MAX_AGE")
    pool = inner.get("pool")
    persists = _truth(pool) if pool is not None else False
    if persists is False and age is not None:
        persists = _lives(age)
    return replace(
        _PLAIN,
        persists=persists,
        autocommit=_truth(pairs["AUTOCOMMIT"]) if "AUTOCOMMIT" in pairs else True,
        atomic_requests=_truth(pairs["ATOMIC_REQUESTS"]) if "ATOMIC_REQUESTS" in pairs else False,
        binds_on_server=_truth(inner["server_side_binding"]) is True if "server_side_binding" in inner else False,
    )


def _lives(age: nodes.Expression) -> bool | None:
    """CONN_MAX_AGE: 0 closes after each request, None never does."""
    if isinstance(age, nodes.Constant):
        return age.value is None or bool(age.value)
    return None


def _truth(value: nodes.Expression) -> bool | None:
    if isinstance(value, nodes.Constant):
        return bool(value.value)
    if isinstance(value, nodes.Mapping):
        # pool: {"min_size": 2}, and an empty dict means the default options, but is false for Django.
        return bool(value.pairs)
    return None


def _either(one: DatabaseSettings, other: DatabaseSettings) -> DatabaseSettings:
    """Either of two: what is said in one of them may be what is in force."""
    return DatabaseSettings(
        seen=True,
        autocommit=one.autocommit if one.autocommit == other.autocommit else None,
        atomic_requests=one.atomic_requests if one.atomic_requests == other.atomic_requests else None,
        persists=True if True in (one.persists, other.persists) else one.persists if one == other else None,
        binds_on_server=one.binds_on_server and other.binds_on_server,
    )
