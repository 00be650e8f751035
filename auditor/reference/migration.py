"""From a team's jobs table to the reference's: what to run while the old worker goes on, and what when it is gone.

The old worker keeps the columns and words that it knows. A trigger keeps what both call differently in step, and fills
in what an old worker knows nothing of, so that old and new workers may run side by side on one table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from auditor.reference import write
from auditor.reference.columns import ADDED
from auditor.reference.migration_text import Plan, fill
from auditor.reference.write import STATES, Names, quote
from auditor.sql import words
from auditor.sql.tokens import word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from auditor.reference.seen import SeenQueue

_COUNTED = word_set("attempts tries retries attempt retry")
_KINDS = frozenset(
    [
        "type",
        "job_type",
        "task_type",
        "task",
        "task_name",
        "name",
        "job_name",
        "job",
        "handler",
        "function",
        "event_type",
        "topic",
    ]
)
_PAYLOADS = word_set("data args arguments params parameters body kwargs input message")
#: What the reference calls a thing, and how the column that stands for it under another name is told.
_ALIKE: Mapping[str, Callable[[str], bool]] = {
    "status": words.is_status,
    "attempts": lambda name: words.is_attempts(name) and not words.is_left(name),
    "max_attempts": lambda name: words.is_maximum(name) and words.words(name)[-1] in _COUNTED,
    "run_at": words.is_run_at,
    "locked_until": words.is_until,
    "ended_at": words.is_finished,
    "last_error": lambda name: words.is_error(name) and not name.endswith("_at"),
    "kind": lambda name: "_".join(words.words(name)) in _KINDS,
    "payload": lambda name: words.words(name)[-1] in _PAYLOADS,
    "created_at": lambda name: "_".join(words.words(name)) in ("created", "created_on", "enqueued_at", "inserted_at"),
}


@dataclass(frozen=True)
class Migration:
    """What is written beside the schema."""

    begin: str  #: migration.sql
    end: str  #: migration_end.sql
    questions: tuple[str, ...]
    names: Names  #: as given, with the words of the team's status column


def migrate(seen: SeenQueue, names: Names) -> Migration:
    """What takes the team's table to the reference's."""
    plan = Plan(seen, names)
    _pair(plan)
    _choose_words(plan)
    plan.questions.extend(_open_questions(plan))
    begin, end = (fill(name, plan) for name in ("migration.sql.in", "migration_end.sql.in"))
    return Migration(begin, end, tuple(plan.questions), plan.names)


def files(seen: SeenQueue, names: Names) -> tuple[dict[str, str], tuple[str, ...]]:
    """All files for a team whose queue was seen, and the questions that are left open in the migration."""
    made = migrate(seen, names)
    texts = write.files(made.names)
    # The team has tables of its own, and might have one of the example's name.
    schema, line, example = texts["schema.sql"].partition("-- An example of what tenants own")
    commented = "\n".join(f"-- {each}".rstrip() for each in (line + example).splitlines()).replace("-- -- ", "-- ")
    texts["schema.sql"] = f"{schema}{commented}\n"
    return {**texts, "migration.sql": made.begin, "migration_end.sql": made.end}, made.questions


# What becomes of what is there


def _pair(plan: Plan) -> None:
    taken = {"id", plan.names.column, *ADDED}
    for ours, is_alike in _ALIKE.items():
        if ours not in plan.seen.columns:
            theirs = next((name for name in plan.seen.columns if name not in taken and is_alike(name)), None)
            if theirs is not None:
                plan.pairs[ours] = theirs
                taken.add(theirs)


def _choose_words(plan: Plan) -> None:
    """Which word stands for which state, and what becomes of others for the same."""
    states, claimed = plan.seen.states, plan.seen.claimed
    failed = tuple(word for word in states.get("failed", ()) if word not in claimed)
    meant = {
        "queued": claimed or states.get("queued", ()),
        "running": states.get("running", ()),
        "done": states.get("done", ()),
        "dead": states.get("dead", ()) or failed,
    }
    first = {state: next(iter(found), state) for state, found in meant.items()}
    own_column = "status" in plan.pairs
    ours = {state: state for state in STATES} if own_column else first
    plan.turned = {word: ours[state] for state, found in meant.items() for word in found if word != ours[state]}
    if own_column:
        plan.turned = {word: state for state, found in meant.items() for word in found}
    plan.names = plan.names._replace(states=(ours["queued"], ours["running"], ours["done"], ours["dead"]))
    if states.get("dead") and failed:
        plan.questions.append(
            f"A job may be {_listed(failed)} and may be {_listed(states['dead'])}. Is one that is {_listed(failed)}"
            f" tried again? Then let the trigger make '{ours['queued']}' of that word, or else '{ours['dead']}'."
        )
    if plan.seen.other_words:
        plan.questions.append(
            f"A job may be {_listed(plan.seen.other_words)}. New workers leave such a job alone. If it is to be run, or"
            f" has ended, let the trigger make {_listed(tuple(ours.values()))} of it; if it is to wait, leave it so."
        )


def _listed(found: tuple[str, ...]) -> str:
    return " or ".join(f"'{word}'" for word in found)


def _open_questions(plan: Plan) -> Iterator[str]:
    """What the code does not tell, and nobody should guess."""
    seen, runs = plan.seen, plan.names.tables()["job_runs"]
    if not seen.tenant_column:
        yield (
            f"No column of {plan.table} was seen to say whose job it is. Add {quote(plan.names.column)}"
            f" {plan.names.type} NOT NULL and fill it; or name yours with --tenant-column and --tenant-type."
        )
    if "priority" in seen.columns:
        yield (
            "Your jobs have a priority. For new workers it is 0 to 3, and 3 is run first. Where that is not so, give"
            " yours another name, and let the trigger reckon the one from the other."
        )
    if "lease" in seen.claims and not seen.states.get("running"):
        yield (
            "Your worker marks a job as taken without changing its status, which is what new workers look at. Let the"
            f" trigger make the status '{plan.names.states[1]}' while a job is taken; or stop old workers first."
        )
    if "advisory lock" in seen.claims:
        yield "Your worker takes jobs by advisory locks, which new workers do not ask for. Stop old workers first."
    if seen.guarded:
        yield (
            f"{plan.table} is under row security, under which a worker that has no tenant yet sees no job. New workers"
            " need it disabled. Who reads the table as a tenant, and what is to guard it then?"
        )
    if runs in seen.others:
        yield (
            f"You have a table {runs}, and new workers keep one of that name. Give yours another name, or theirs: in"
            " schema.sql, jobs.py and simple_worker.py."
        )
