"""What the queries of one statement do, whichever way they were read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from auditor.sql.meaning import Call, Query, SettingChange, SettingRead, Table


class Facts(NamedTuple):
    queries: tuple[Query, ...] = ()
    reads: tuple[Table, ...] = ()
    writes: tuple[Table, ...] = ()
    settings: tuple[SettingChange, ...] = ()
    setting_reads: tuple[SettingRead, ...] = ()
    calls: tuple[Call, ...] = ()
