"""The text of a migration: what was decided of each column and word, put into migration.sql.in and its end."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from string import Template
from typing import TYPE_CHECKING

from auditor.reference.columns import ADDED, LONG, accepted
from auditor.reference.write import FOLDER, STATES, Names, quote, rename
from auditor.sql import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from auditor.reference.seen import SeenQueue

#: What only whoever makes a job writes.
_WRITTEN_ONCE = ("kind", "payload", "created_at", "max_attempts")


@dataclass
class Plan:
    """What becomes of each column and word of a team's queue."""

    seen: SeenQueue
    names: Names
    pairs: dict[str, str] = field(default_factory=dict)  #: our column, and theirs that stands for it
    turned: dict[str, str] = field(default_factory=dict)  #: words of their status column, and ours for them
    questions: list[str] = field(default_factory=list)

    @property
    def table(self) -> str:
        return f"{quote(self.names.schema)}.{quote(self.names.jobs)}"

    def has(self, ours: str) -> bool:
        """Whether the team's table tells it, under whatever name."""
        return ours in self.seen.columns or ours in self.pairs

    @property
    def fields(self) -> list[str]:
        """The columns that a payload is made of, where there is none: what means nothing to a worker."""
        known = {"id", self.names.column, *ADDED, *self.pairs.values()}
        told = (words.is_token, words.is_started, words.is_heartbeat, words.is_finished, words.is_until, words.is_error)
        columns = () if self.has("payload") else self.seen.columns
        return [name for name in columns if name not in known and not any(is_it(name) for is_it in told)]


class _Sql(Template):
    delimiter = "@"
    idpattern = "[a-z_]+"


def fill(name: str, plan: Plan) -> str:
    """The text of a template of that name."""
    template = (FOLDER / name).read_text(encoding="utf-8")
    queued, running, done, dead = plan.names.states
    schema, jobs = quote(plan.names.schema), plan.names.jobs
    made = {
        "table": plan.table,
        "schema": schema,
        "owner": quote(f"{plan.names.schema}_owner"),
        "trigger": quote(f"{jobs}_side_by_side"),
        "function": f"{schema}.{quote(f'{jobs}_side_by_side')}",
        "kind_rule": quote(f"{jobs}_kind_rule"),
        "queued": queued,
        "running": running,
        "done": done,
        "dead": dead,
        "seen": "\n".join(_told(plan)),
        "questions": "\n".join(_asked(plan.questions)),
        "types": ",\n".join(_typed(plan)),
        "long": _texts(LONG),
        "needed": _texts([*plan.pairs.values(), *plan.fields]),
        "known": _texts(sorted({"id", *ADDED, plan.names.column, *plan.pairs.values(), *plan.fields})),
        "roles": _roles(plan),
        "step": "\n".join(_steps(plan)),
        "changes": ",\n".join(_changes(plan)),
        "constraints": "\n".join(_constraints(plan, _RULES if name == "migration.sql.in" else _LAST_RULES)),
        "indexes": "\n".join(_indexes(plan)),
        "validated": "\n".join(_validated(plan, _RULES)),
        "released": "".join(
            f",\n                ALTER COLUMN {quote(theirs)} DROP NOT NULL"
            for theirs in (*plan.pairs.values(), *plan.fields)
        ),
        "leftover": "\n".join(_left(plan)),
    }

    def put(line: str) -> str:
        """A line of the template, filled; what is put there in several lines stands as deep as it does."""
        deep = re.match(" *", line)
        found = _Sql(line).substitute(made)
        return found.replace("\n", "\n" + deep[0]) if deep and line.lstrip().startswith("@") else found

    text = "\n".join(put(line) for line in template.splitlines()) + "\n"
    return re.sub(r"[ \t]+$", "", re.sub(r"\n{3,}", "\n\n", text), flags=re.MULTILINE)


def _told(plan: Plan) -> Iterator[str]:
    known = "all of them" if plan.seen.created else "as far as the statements name them"
    yield f"-- The columns of {plan.table} in your code, {known}:"
    yield from _wrapped(", ".join(plan.seen.columns))
    if plan.pairs:
        yield "-- What new workers call otherwise, and the trigger keeps in step:"
        yield from _wrapped(", ".join(f"{theirs} is {ours}" for ours, theirs in plan.pairs.items()))
    if not plan.has("kind"):
        yield "-- Nothing tells kinds of jobs apart, so yours are of the kind 'job': @handlers.on(\"job\", …)."
    if plan.fields:
        yield "-- Nothing holds what a job is about as a whole, so handlers get these as its payload:"
        yield from _wrapped(", ".join(plan.fields))
    if plan.turned and "status" not in plan.pairs:
        yield "-- Several words were seen for the same status, and the trigger makes one of them:"
        yield from _wrapped(", ".join(f"'{word}' becomes '{ours}'" for word, ours in plan.turned.items()))
    yield "-- While old workers run, enqueue no job that they could not do."
    yield "-- Jobs that are done are removed after a week, or when the workers' option keep_done says."
    if not plan.has("locked_until"):
        yield "-- A job that an old worker has marked as running is given back after a day; see the trigger."


def _wrapped(text: str) -> list[str]:
    return [f"--     {line}" for line in textwrap.wrap(text, 110)]


def _asked(questions: Iterable[str]) -> Iterator[str]:
    lines = [line for number, asked in enumerate(questions, 1) for line in _question(number, asked)]
    if lines:
        yield "--"
        yield from lines
        yield "DO $$ BEGIN"
        yield "    RAISE EXCEPTION 'this file has open questions: answer them, then take this statement out';"
        yield "END $$;"


def _question(number: int, asked: str) -> Iterator[str]:
    first, *rest = textwrap.wrap(f"QUESTION {number}. {asked}", 114)
    yield f"-- {first}"
    yield from (f"--     {line}" for line in rest)


def _texts(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _typed(plan: Plan) -> Iterator[str]:
    for name, types in accepted(plan.names.column, plan.names.type).items():
        if name not in plan.pairs:
            yield f"('{name}', ARRAY[{_texts(types)}])"


def _roles(plan: Plan) -> str:
    """The roles as schema.sql makes them: the table gets its owner here."""
    schema = rename((FOLDER / "schema.sql").read_text(encoding="utf-8"), plan.names, "schema.sql")
    return "DO $roles$" + schema.split("DO $roles$", 1)[1].split("$roles$;", 1)[0] + "$roles$;"


def _steps(plan: Plan) -> Iterator[str]:
    """Each pair of columns: who enqueues writes one of them, and later the one that is changed is the newer one."""
    across = {ours: _across(plan, ours, quote(theirs)) for ours, theirs in plan.pairs.items()}
    fields = ", ".join(f"'{name}', NEW.{quote(name)}" for name in plan.fields)
    payload = f"NEW.payload := jsonb_build_object({fields});"
    if across or fields:
        yield f"IF TG_OP = 'INSERT' AND current_user = '{plan.names.schema}_owner' THEN"
        yield from (f"    {there}" for there, _ in across.values())
        yield from (f"    NEW.{quote(name)} := NEW.payload ->> '{name}';" for name in plan.fields)
        yield "ELSIF TG_OP = 'INSERT' THEN"
        yield from (f"    {here}" for _, here in across.values())
        if fields:
            yield f"    {payload}"
        yield "ELSE"
        for ours, (there, here) in across.items():
            if ours in _WRITTEN_ONCE:
                yield f"    {here}"
            else:
                yield f"    IF NEW.{ours} IS DISTINCT FROM OLD.{ours} THEN {there}"
                yield f"    ELSE {here}"
                yield "    END IF;"
        if fields:
            yield f"    IF OLD.side_by_side IS NULL THEN {payload} END IF;"
        yield "END IF;"
    if plan.turned and "status" not in plan.pairs:
        cases = " ".join(f"WHEN '{word}' THEN '{ours}'" for word, ours in plan.turned.items())
        yield f"NEW.status := CASE NEW.status {cases} ELSE NEW.status END;"


def _across(plan: Plan, ours: str, theirs: str) -> tuple[str, str]:
    """How a value gets from our column to theirs, and from theirs to ours."""
    if ours != "status":
        return f"NEW.{theirs} := NEW.{ours};", f"IF NEW.{theirs} IS NOT NULL THEN NEW.{ours} := NEW.{theirs}; END IF;"
    first = {state: word for word, state in reversed(plan.turned.items())}
    to_theirs = " ".join(f"WHEN '{state}' THEN '{word}'" for state, word in first.items())
    to_ours = " ".join(f"WHEN '{word}' THEN '{state}'" for word, state in plan.turned.items())
    # A word that nobody knows is no job to run.
    return (
        f"NEW.{theirs} := CASE NEW.status {to_theirs} ELSE NEW.status END;",
        f"NEW.status := CASE NEW.{theirs} {to_ours} ELSE 'dead' END;",
    )


def _changes(plan: Plan) -> Iterator[str]:
    for name, how in ADDED.items():
        if name == "max_attempts" and plan.seen.maximum is not None:
            how = f"integer NOT NULL DEFAULT {plan.seen.maximum}"
        if name not in plan.seen.columns:
            yield f"ADD COLUMN IF NOT EXISTS {name} {how}"
    yield "ADD COLUMN IF NOT EXISTS side_by_side boolean"
    yield "ALTER COLUMN run_at SET DEFAULT clock_timestamp()"
    yield "ALTER COLUMN created_at SET DEFAULT clock_timestamp()"
    yield f"ALTER COLUMN status SET DEFAULT '{plan.names.states[0]}'"
    yield "SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)"


#: What the trigger sees to, and what is only true when old workers are gone.
_RULES = {
    "kind": "kind IS NOT NULL",
    "running": "(status = '{running}') = (locked_until IS NOT NULL AND deadline IS NOT NULL AND worker IS NOT NULL)",
    "ended": "(status IN ('{done}', '{dead}')) = (ended_at IS NOT NULL)",
}
_LAST_RULES = {
    "status": "status IN ('{queued}', '{running}', '{done}', '{dead}')",
    "attempts": "attempts <= max_attempts",
}


def _constraints(plan: Plan, rules: Mapping[str, str]) -> Iterator[str]:
    states = dict(zip(STATES, plan.names.states, strict=True))
    for rule, told in rules.items():
        name = f"{plan.names.jobs}_{rule}_rule"
        yield f"ALTER TABLE {plan.table} DROP CONSTRAINT IF EXISTS {quote(name)};"
        yield f"ALTER TABLE {plan.table} ADD CONSTRAINT {quote(name)} CHECK ({told.format(**states)}) NOT VALID;"
    if rules is _LAST_RULES:
        yield from _validated(plan, rules)


def _validated(plan: Plan, rules: Mapping[str, str]) -> Iterator[str]:
    for rule in rules:
        yield f"ALTER TABLE {plan.table} VALIDATE CONSTRAINT {quote(f'{plan.names.jobs}_{rule}_rule')};"


def _indexes(plan: Plan) -> Iterator[str]:
    """The indexes of schema.sql, which then finds them there."""
    schema = rename((FOLDER / "schema.sql").read_text(encoding="utf-8"), plan.names, "schema.sql")
    found: list[str] = re.findall(r"^CREATE (?:UNIQUE )?INDEX IF NOT EXISTS [^;]*;", schema, re.MULTILINE)
    return (each.replace("INDEX IF", "INDEX CONCURRENTLY IF", 1) for each in found)


def _left(plan: Plan) -> Iterator[str]:
    gone = [*plan.pairs.values(), *plan.fields]
    for name in gone:
        yield f"-- ALTER TABLE {plan.table} DROP COLUMN {quote(name)};"
    yield f"-- REVOKE ALL ON {plan.table} FROM …;  -- what the old worker, and what enqueued, logged in as"
