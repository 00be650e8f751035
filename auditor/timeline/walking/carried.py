"""The connection that somebody gets along with a value: what keeps it, what is made of it, what is said to be it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.python import nodes
from auditor.timeline.model.connection import Life
from auditor.timeline.model.values import Connection, Instance, Made, connection_among, holds_connection

if TYPE_CHECKING:
    from auditor.program.code import ClassInfo
    from auditor.timeline.model.state import Frame, State
    from auditor.timeline.model.values import Key, Value
    from auditor.timeline.walking.walker import Walker

#: What a library makes that has nothing but what it was given.
_BUNDLES = frozenset({"types.SimpleNamespace", "argparse.Namespace"})


class Carried:
    """Finds it, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker

    def along_with(self, value: Value, state: State, frame: Frame) -> Key | None:
        """The connection that whoever is handed `value` can have committed."""
        key = holds_connection(value)
        if key is None and isinstance(value, Made) and value.name in _BUNDLES:
            kept = (*value.arguments, *(one for _, one in value.keywords))
            key = connection_among(kept)
        if key is None and isinstance(value, Instance):
            key = self._kept_by(value, state)
        if key is None or self.walker.database.connecting.is_only_said(key):
            said = self._said(state, frame)
            key = said if said is not None else key
        return key

    def _kept_by(self, value: Instance, state: State) -> Key | None:
        """Of an object that commits, or that is nothing but what it keeps, so that others have to."""
        lineage = list(self.walker.objects.lineage(value.info))
        if not any(info.commits for info in lineage) and not all(map(_only_keeps, lineage)):
            return None
        return connection_among(state.heap.get(value.key, {}).values())

    def _said(self, state: State, frame: Frame) -> Key | None:
        """The only connection that the function has taken out, where it says that it hands one out."""
        taken = [key for key, one in state.connections.items() if one.life is Life.POOL and one.settings]
        function = frame.function
        if len(taken) != 1 or function is None or function.node.returns is None:
            return None
        module = self.walker.names.module_frame(function.module)
        key = self.walker.keys.of("said", function)
        said = self.walker.types.handed_out(function.node.returns, module, key)
        return taken[0] if isinstance(said, Connection) else None


def _only_keeps(info: ClassInfo) -> bool:
    """Whether objects of a class do nothing by themselves."""
    members = (member for member in info.members.values() if isinstance(member, nodes.Function))
    return all(member.name in ("__init__", "__post_init__") for member in members)
