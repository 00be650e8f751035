"""Sessions that hold a transaction open, each in another way, and what that does to VACUUM's horizon."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from auditor.lab.place import Place


class Holder(NamedTuple):
    """What a transaction has done before it is left open; nothing for no transaction at all."""

    name: str
    statements: tuple[str, ...]
    holds: bool  #: it keeps VACUUM, and every index scan, from clearing away what died since it began


NOBODY = Holder("no transaction", (), False)
READER = Holder("idle after a read, READ COMMITTED", ("SELECT count(*) FROM held",), False)
HOLDERS = (
    Holder("has written a row", ("INSERT INTO held VALUES (1)",), True),
    Holder("has locked a row FOR UPDATE", ("SELECT FROM held FOR UPDATE",), True),
    Holder(
        "only reads, REPEATABLE READ",
        ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM held"),
        True,
    ),
)


def prepare(admin: psycopg.Connection[Any]) -> None:
    """What the holders write, lock and read: a table that nobody else is interested in."""
    admin.execute("CREATE TABLE IF NOT EXISTS held (id int); INSERT INTO held VALUES (0); GRANT ALL ON held TO PUBLIC")


@contextlib.contextmanager
def holding(place: Place, holder: Holder) -> Iterator[None]:
    """A session that stays in its transaction for as long as the block lasts."""
    if not holder.statements:
        yield
        return
    import psycopg

    with contextlib.closing(psycopg.connect(place.worker_dsn)) as conn:
        for statement in holder.statements:
            conn.execute(statement.encode())
        yield
