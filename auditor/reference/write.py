"""Writes the reference into a team's project, with the team's own names in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from auditor.errors import UserError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping

FOLDER = Path(__file__).parent
FILES = ("__init__.py", "schema.sql", "jobs.py", "worker.py", "worker_async.py", "simple_worker.py", "guide.md")
TYPES = ("bigint", "integer", "smallint", "text", "uuid")
STATES = ("queued", "running", "done", "dead")

#: What PostgreSQL takes for a name only in quotes.
_RESERVED = """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case
    cast char character check coalesce collate collation column concurrently constraint create cross current_catalog
    current_date current_role current_schema current_time current_timestamp current_user dec decimal default
    deferrable desc distinct do else end except exists extract false fetch float for foreign freeze from full grant
    greatest group grouping having ilike in initially inner inout int integer intersect interval into is isnull join
    json lateral leading least left like limit localtime localtimestamp merge_action national natural nchar none
    normalize not notnull null nullif numeric offset on only or order out outer overlaps overlay placing position
    precision primary real references returning right row select session_user setof similar smallint some substring
    symmetric system_user table tablesample then time timestamp to trailing treat trim true union unique user using
    values varchar variadic verbose when where window with
"""
#: Names that the files give to something else.
_TAKEN = """
    added attempt attempts busy claimed created_at deadline delay ended_at error expired failed fence finished given id
    invoices job_id job_runs key kind last_error level locked_until max_attempts mine new new_jobs next number old
    outcome payload place priority pruned reaped ready released role run run_at sent_at started_at status this_fence
    this_job this_tenant time_limit total wake worker
"""


class Names(NamedTuple):
    """What a team calls the things of the reference."""

    schema: str = "app"
    jobs: str = "jobs"
    column: str = "tenant_id"
    type: str = "bigint"
    setting: str = "app.tenant"
    #: The words in the status column.
    states: tuple[str, str, str, str] = STATES

    @classmethod
    def of(cls, options: Namespace, found: Names | None = None) -> Names:
        """The names that the options give, else those that were found, else ours."""
        known = found or cls()
        return cls(
            known.schema if options.schema is None else options.schema,
            known.jobs if options.jobs_table is None else options.jobs_table,
            known.column if options.tenant_column is None else options.tenant_column,
            known.type if options.tenant_type is None else options.tenant_type,
            known.setting if options.setting is None else options.setting,
        )

    def tables(self) -> dict[str, str]:
        """The tables of the queue: what we call them, and what the team does."""
        return {"jobs": self.jobs, "job_runs": "job_runs" if self.jobs == "jobs" else f"{self.jobs}_runs"}

    def checked(self) -> Names:
        """The same, where they are names; a `UserError` where one is not."""
        for option, name in (("schema", self.schema), ("jobs-table", self.jobs), ("tenant-column", self.column)):
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_ -]{0,47}", name) or name != name.strip():
                raise UserError(f"--{option} {name!r} is no name: up to 48 letters, digits, _, - and spaces inside")
            if name in _TAKEN.split() and option != "schema":
                raise UserError(f"--{option} {name!r} is what the reference calls something else")
        if self.schema.lower().startswith("pg_"):
            raise UserError(f"--schema {self.schema!r} is a name that PostgreSQL keeps for itself")
        if not re.fullmatch(r"[A-Za-z_]\w{0,30}(\.[A-Za-z_]\w{0,30})+", self.setting, re.ASCII):
            raise UserError(f"--setting {self.setting!r} is no custom setting, which is two names with a dot between")
        if any(not re.fullmatch(r"[\w -]{1,48}", word, re.ASCII) for word in self.states):
            raise UserError(f"the statuses {', '.join(self.states)} are more than words; rename them first")
        if self.type not in TYPES:
            raise UserError(f"--tenant-type {self.type!r} is none of {', '.join(TYPES)}")
        return self


def files(names: Names) -> dict[str, str]:
    """The files by their names, with a team's own names in them."""
    return {name: rename((FOLDER / name).read_text(encoding="utf-8"), names.checked(), name) for name in FILES}


def write(folder: Path, texts: Mapping[str, str], force: bool) -> list[Path]:
    """Write the files; nothing at all where one is there already and it is not forced."""
    targets = [folder / name for name in texts]
    there = [str(target) for target in targets if target.exists() and target.name != "__init__.py"]
    if there and not force:
        raise UserError(f"{', '.join(there)}: there already; --force writes over it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [target for target in targets if target.name != "__init__.py" or not target.exists()]
        for target in written:
            target.write_text(texts[target.name], encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"{error.filename or folder}: cannot be written: {error.strerror}") from error
    return written


#: Each place in the files where a name stands, and what kind of place it is. All are found in one pass, so that a name
#: that is put in is not taken for one of ours.
_PLACES = re.compile(
    r"""
      (?P<typed>current_setting\('app\.tenant',\ true\),\ ''\)::)bigint\b
    | \b(?P<column>tenant_id)(?P<kind>\ +bigint\b)?
    | \bthis_tenant\ CONSTANT\ (?P<constant>bigint)\b
    | \b(?P<setting>app\.tenant)\b
    | \bapp\.(?P<thing>jobs|job_runs|invoices|enqueue_jobs|hold_job|finish_job|prune_jobs)\b
    | \b(?P<table>jobs|job_runs)(?=\.(?:id\b|fence\b|\*))
    | \bINDEX\ IF\ NOT\ EXISTS\ jobs_(?P<index>\w+)
    | \b(?P<before>SCHEMA(?:\ IF\ NOT\ EXISTS)?\ )app\b
    | '(?P<text>app|jobs|app_owner|app_worker|app_tenant|app_jobs)'
    | (?<!outcome\ =\ )(?<!outcome\ IN\ \()'(?P<state>queued|running|done|dead)'
    | (?P<told>(?:row\[0\]|\bstatus)\ ==\ )"dead"
    | \bapp_(?P<role>owner|worker|tenant|jobs)\b
    """,
    re.VERBOSE,
)


def quote(name: str, mark: str = '"') -> str:
    """The name as SQL takes it: in quotes where it needs them."""
    plain = re.fullmatch(r"[a-z_][a-z0-9_]*", name) and name not in _RESERVED.split()
    return name if plain else f"{mark}{name}{mark}"


def rename(text: str, names: Names, file: str) -> str:
    """The text of a file with a team's names."""
    # In Python the quotes of a name stand in strings, most of them in double quotes.
    mark = '\\"' if file.endswith(".py") else '"'
    tables, states = names.tables(), dict(zip(STATES, names.states, strict=True))

    def quoted(name: str) -> str:
        return quote(name, mark)

    def raw(name: str) -> str:
        return {"app": names.schema, "jobs": names.jobs}.get(name) or f"{names.schema}_{name[4:]}"

    put: dict[str, Callable[[re.Match[str]], str]] = {
        "typed": lambda found: f"current_setting('{names.setting}', true), '')::{names.type}",
        "kind": lambda found: f"{quoted(names.column)} {names.type}",
        "column": lambda found: quoted(names.column),
        "constant": lambda found: f"this_tenant CONSTANT {names.type}",
        "setting": lambda found: names.setting,
        "thing": lambda found: f"{quoted(names.schema)}.{quoted(tables.get(found['thing'], found['thing']))}",
        "table": lambda found: quoted(tables[found["table"]]),
        "index": lambda found: "INDEX IF NOT EXISTS " + quoted(f"{names.jobs}_{found['index']}"),
        "before": lambda found: f"{found['before']}{quoted(names.schema)}",
        "text": lambda found: f"'{raw(found['text'])}'",
        "state": lambda found: f"'{states[found['state']]}'",
        "told": lambda found: f'{found["told"]}"{states["dead"]}"',
        "role": lambda found: quoted(f"{names.schema}_{found['role']}"),
    }

    def replace(found: re.Match[str]) -> str:
        return next(make(found) for place, make in put.items() if found[place] is not None)

    return text if names == Names() else _PLACES.sub(replace, text)
