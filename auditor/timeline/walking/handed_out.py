"""Sessions and borrowed connections that an entry point returns with a value on them, for its caller to go on with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.findings import Confidence
from auditor.timeline.model import connection as change
from auditor.timeline.model.connection import Life
from auditor.timeline.model.values import options_of
from auditor.timeline.walking.carried import Carried

if TYPE_CHECKING:
    from auditor.python import nodes
    from auditor.timeline.model.connection import ConnectionState
    from auditor.timeline.model.state import Flow, Frame, State
    from auditor.timeline.model.values import Key
    from auditor.timeline.walking.walker import Walker


class HandedOut:
    """Tells, on behalf of a walk, what such a connection brings to its next borrower."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._carried = Carried(walker)

    def told(self, flow: Flow, frame: Frame, span: nodes.Span) -> None:
        """Who asked commits what it does with the session, and gives it back: that nobody is seen to is not certain."""
        for state, value in flow.returns:
            for option in options_of(value):
                key = self._carried.along_with(option, state, frame)
                connection = state.connections.get(key) if key is not None else None
                if key is None or connection is None:
                    continue
                if connection.life is not Life.POOL or connection.pool is None or not _holds_value(connection):
                    continue
                kept = change.commit(connection, frame.module.place(span))[0]
                kept = replace(kept, sure=min(kept.sure, Confidence.MEDIUM))
                self._given_back(key, kept, state, frame, span)

    def _given_back(self, key: Key, connection: ConnectionState, state: State, frame: Frame, span: nodes.Span) -> None:
        assert connection.pool is not None
        self.walker.database.pools.release(
            connection.pool, key, state.connect(key, connection), frame, span, by="session"
        )


def _holds_value(connection: ConnectionState) -> bool:
    """Whether a value of this job's stays for the session, or will when its transaction is committed."""
    left = [setting.pending if setting.pending is not None else setting.kept for setting in connection.settings]
    return any(held.is_value and not held.inherited for held in left)
