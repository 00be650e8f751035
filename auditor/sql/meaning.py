"""The facts of a statement, as plain data. Importing this costs nothing; reading SQL into it is `auditor.sql.read`.

Text that was built in Python may have *holes*: places whose content is only known at run time. A hole is written into
the text as `hole(0)`, `hole(1)`, …: a number between two private-use characters, which no SQL contains by itself.
All offsets count characters in the text as given, holes included, and `end` is exclusive.

Some holes have no number and count as -1: a template's `{x}` or `{{ x }}` where a name or a value is expected, and what
PL/pgSQL puts into a statement that it makes up as it runs.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

HOLE_OPEN, HOLE_CLOSE = "\ue000", "\ue001"


def hole(number: int) -> str:
    """The mark that stands in a text for its hole of that number."""
    return f"{HOLE_OPEN}{number}{HOLE_CLOSE}"


class Span(NamedTuple):
    """From `start` up to, not including, `end`: characters of the text that was read."""

    start: int
    end: int


class Kind(str, enum.Enum):
    """Which statement it is. Statements nobody asks about by name are `DDL` (changes the schema) or `OTHER`."""

    SELECT = "select"
    VALUES = "values"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    MERGE = "merge"
    TRUNCATE = "truncate"
    COPY = "copy"
    LOCK = "lock"
    CALL = "call"
    DO = "do"
    SET = "set"
    RESET = "reset"
    SHOW = "show"
    DISCARD = "discard"
    PREPARE = "prepare"
    EXECUTE = "execute"
    DEALLOCATE = "deallocate"
    DECLARE = "declare"
    FETCH = "fetch"
    CLOSE = "close"
    LISTEN = "listen"
    UNLISTEN = "unlisten"
    NOTIFY = "notify"
    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RELEASE = "release"
    ROLLBACK_TO = "rollback to"
    PREPARE_TRANSACTION = "prepare transaction"
    SET_TRANSACTION = "set transaction"
    EXPLAIN = "explain"
    VACUUM = "vacuum"
    CREATE_TABLE = "create table"
    ALTER_TABLE = "alter table"
    CREATE_VIEW = "create view"
    CREATE_INDEX = "create index"
    CREATE_FUNCTION = "create function"
    CREATE_TRIGGER = "create trigger"
    CREATE_POLICY = "create policy"
    ALTER_POLICY = "alter policy"
    DROP_POLICY = "drop policy"
    CREATE_ROLE = "create role"
    ALTER_ROLE = "alter role"
    ALTER_DATABASE = "alter database"
    GRANT = "grant"
    REVOKE = "revoke"
    DDL = "ddl"
    OTHER = "other"


class TermKind(str, enum.Enum):
    """What a value in SQL is made of."""

    LITERAL = "literal"  #: text: its value, without quotes; `holes` where it was interpolated
    TRUE = "true"
    FALSE = "false"
    NULL = "null"
    DEFAULT = "default"
    PARAMETER = "parameter"  #: text: its number from 0 through the whole text (%s, ?), "$1", or its name (%(x)s, :x)
    HOLE = "hole"  #: a bare hole where a value or a name is expected
    COLUMN = "column"  #: text: the column's name, lower case, without its table
    NOW = "now"  #: text: now, clock_timestamp, …; `parts` is what is added, or taken from it
    ADD = "add"  #: column + something: text is the column's name, parts the other side
    SUBTRACT = "subtract"
    CASE = "case"  #: parts: the results of its branches
    CALL = "call"  #: text: the function's name, lower case, schema left out; parts: its arguments
    CAST = "cast"  #: text: the type's name; parts: what is cast
    QUERY = "query"  #: a subquery
    OTHER = "other"  #: anything else; parts: the terms it is made of, as far as they tell something


class Term(NamedTuple):
    """A value or a name in SQL."""

    kind: TermKind
    text: str = ""
    parts: tuple[Term, ...] = ()
    holes: tuple[int, ...] = ()
    span: Span = Span(0, 0)


class Table(NamedTuple):
    """A table as it is named. `name` and `schema` are lower case unless quoted, and may hold hole marks."""

    name: str
    schema: str = ""
    alias: str = ""
    span: Span = Span(0, 0)


class Assignment(NamedTuple):
    """`column = value` in UPDATE … SET, ON CONFLICT DO UPDATE SET, MERGE, or a column of INSERT with its value.

    Of several rows the first is told. The column is empty where a hole stands for the whole assignment.
    """

    column: str
    value: Term
    span: Span


class Comparison(NamedTuple):
    """A condition: `column operator value`, with a column on the left wherever there is one.

    Operators are written as =, <>, <, <=, >, >=, in, not in, is, is not, like, other; `= ANY (…)` is in. A column
    inside a cast or a call counts as the column. A hole that stands for a condition has no column, and "other". A
    boolean column on its own `is` TRUE. `optional` is true inside OR or NOT, where the condition does not decide alone.
    """

    column: str
    operator: str
    value: Term
    span: Span
    optional: bool = False


class Lock(NamedTuple):
    """A row-locking clause, the first of several: strength is "update", "no key update", "share" or "key share"."""

    strength: str
    skip_locked: bool
    nowait: bool
    span: Span


class Query(NamedTuple):
    """One SELECT, UPDATE, DELETE, INSERT or MERGE: the statement's own, a CTE or a subquery.

    `role` tells how it hangs under its `parent` (an index into the statement's queries, -1 for none): "top", "cte",
    "in" (column IN (SELECT …)), "scalar" (= (SELECT …)), "array" (ANY(ARRAY(SELECT …))), "exists", "from", "union",
    "other" (INSERT … SELECT). The first branch of a UNION stands for the whole of it; the others hang under it.
    """

    verb: Kind
    span: Span
    target: Table | None = None  #: what is written; for a SELECT the first table of FROM
    tables: tuple[Table, ...] = ()  #: every table in FROM, USING and JOIN, CTE names left out
    assignments: tuple[Assignment, ...] = ()
    conditions: tuple[Comparison, ...] = ()  #: WHERE, ON and HAVING of this query alone
    cases: tuple[Comparison, ...] = ()  #: comparisons inside CASE … WHEN and other expressions
    lock: Lock | None = None
    limit: Term | None = None
    ordered: bool = False
    returning: tuple[str, ...] = ()  #: the columns returned, "*" among them
    role: str = "top"
    parent: int = -1
    materialized: bool = False
    open_tail: bool = False  #: something is put behind it at run time that may be its row lock
    keys: tuple[str, ...] = ()  #: the columns by each of which one row of its target is known, where the program tells


class Change(str, enum.Enum):
    """What a statement does to a setting."""

    SET = "set"
    RESET = "reset"  #: back to the session's default; for a custom setting the empty string
    RESET_ALL = "reset all"  #: every setting but role and session authorization


class SettingChange(NamedTuple):
    """A setting that a statement changes: SET, RESET, SET ROLE, SET SESSION AUTHORIZATION, a call of set_config.

    `local` is TRUE or FALSE where the text says so, a PARAMETER or HOLE where it comes from outside.
    SET ROLE changes the setting "role", SET SESSION AUTHORIZATION "session_authorization".
    `called` is true for set_config, false for the statement forms. Names are lower case. SET … TO DEFAULT is a RESET
    whose value is DEFAULT, and DISCARD ALL is three of them: session_authorization, role, and all else. A list of
    values is one value of several parts.
    """

    change: Change
    name: Term
    value: Term
    local: Term
    called: bool
    span: Span


class SettingRead(NamedTuple):
    """A call of current_setting."""

    name: Term
    missing_ok: bool
    span: Span


class Call(NamedTuple):
    """A function that a statement calls and that is not one of PostgreSQL's own everyday ones."""

    name: str
    schema: str
    arguments: tuple[Term, ...]
    span: Span


class Policy(NamedTuple):
    """CREATE, ALTER or DROP POLICY. Expressions are kept as text; see `auditor.sql.policy` for what they come to."""

    name: str
    table: Table
    command: str  #: all, select, insert, update or delete
    roles: tuple[str, ...]  #: empty for PUBLIC
    permissive: bool
    using: str | None
    check: str | None
    reads: tuple[SettingRead, ...]
    calls: tuple[Call, ...]
    using_span: Span
    check_span: Span


class RowSecurity(NamedTuple):
    """ALTER TABLE … ROW LEVEL SECURITY: `action` is enable, disable, force or no force."""

    table: Table
    action: str


class Column(NamedTuple):
    """A column that CREATE TABLE or ALTER TABLE … ADD makes."""

    name: str
    type: str
    unique: bool = False  #: by itself it tells one row from all others


class TableShape(NamedTuple):
    """A table that is created or changed, with the columns the statement names. `owner` where OWNER TO gives one.

    Also the table of CREATE INDEX and CREATE TRIGGER, and a view, without columns. `renamed` where RENAME TO gives the
    table another name.
    """

    table: Table
    columns: tuple[Column, ...] = ()
    owner: str = ""
    renamed: str = ""


class RoleFacts(NamedTuple):
    """CREATE/ALTER ROLE, ALTER DATABASE … SET, ALTER SYSTEM SET (without a name) and GRANT role TO role.

    `attributes` are lower case: superuser, nosuperuser, bypassrls, nobypassrls, login, inherit, …
    """

    name: str
    attributes: tuple[str, ...] = ()
    settings: tuple[SettingChange, ...] = ()
    member_of: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  #: further members that the same GRANT makes


class Function(NamedTuple):
    """CREATE FUNCTION or PROCEDURE, or the body of DO (then without a name).

    ALTER FUNCTION, whose kind is DDL, tells its name, settings, rights and owner. `parameters` are what a caller
    passes, in order, empty where one has no name. A body's statements come in the order they are written, control flow
    flattened; a condition or a value is the SELECT that PL/pgSQL makes of it, told if it calls something or reads rows.
    """

    name: str
    schema: str
    language: str
    parameters: tuple[str, ...]
    security_definer: bool
    settings: tuple[SettingChange, ...]  #: its SET attributes, which end with each call
    body: tuple[Statement, ...]  #: spans count in the text that holds the CREATE FUNCTION
    returns: str | None  #: the expression of a body that is one SELECT or RETURN of one, as text
    body_span: Span = Span(0, 0)
    owner: str = ""
    variables: tuple[str, ...] = ()  #: what a PL/pgSQL body declares
    fires: bool = False  #: it returns a trigger: nothing but one runs it
    asks: tuple[str, ...] = ()  #: the names in what IF, WHEN and WHILE of a PL/pgSQL body ask
    looks_at_attempts: bool = False  #: and whether one of them holds a number of attempts against another


class Statement(NamedTuple):
    """One statement and everything the audit asks of it.

    `reads` and `writes` are tables whose rows it reads and changes; definitions change no rows. What a view will read
    is told by its CREATE VIEW, what a default will read of settings by its CREATE TABLE, what a trigger will call by
    its CREATE TRIGGER. What is in `body` is told there alone; plain EXPLAIN has none.
    """

    kind: Kind
    span: Span
    parsed: bool = True  #: false where only its tokens could be read
    queries: tuple[Query, ...] = ()
    reads: tuple[Table, ...] = ()
    writes: tuple[Table, ...] = ()
    settings: tuple[SettingChange, ...] = ()
    setting_reads: tuple[SettingRead, ...] = ()
    calls: tuple[Call, ...] = ()
    parameters: tuple[Term, ...] = ()  #: every placeholder, in order of appearance
    name: str = ""  #: of a savepoint, a prepared statement, a cursor, a channel; what DISCARD discards
    isolation: str = ""  #: BEGIN / SET TRANSACTION: "read committed", "repeatable read", "serializable"
    read_only: bool = False
    chain: bool = False  #: COMMIT AND CHAIN, ROLLBACK AND CHAIN
    policy: Policy | None = None
    row_security: tuple[RowSecurity, ...] = ()
    dropped: tuple[Table, ...] = ()  #: tables that are gone after it
    dropped_functions: tuple[str, ...] = ()  #: and functions, by their bare names
    shape: TableShape | None = None
    role: RoleFacts | None = None
    function: Function | None = None
    body: tuple[Statement, ...] = ()  #: what EXPLAIN ANALYZE, PREPARE, DECLARE or COPY (…) run
    text: str = ""  #: the statement as written, for people
