"""From a team's own jobs table to the reference's, while its old worker goes on."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from auditor import cli
from auditor.sql.script import split_script
from tests.reference.harness import PATIENCE, eventually, load_written
from tests.reference.old_workers import ARTICLE, OLD, RENAMED, WORDS, Old

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

TENANTS = """
    CREATE TABLE notes (id bigint, {column} {type} NOT NULL);
    ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON notes USING ({column} = nullif(current_setting('app.tenant', true), '')::{type});
"""


class Place:
    """A team's project, its database, and what the command wrote for it."""

    def __init__(self, folder: Path, dsn: str, old: Old) -> None:
        self.folder, self.old = folder, old
        self.admin = psycopg.connect(dsn, autocommit=True)
        name = self.admin.info.dbname
        self.old_login, self.new_login = f"old_{name}", "public_worker"
        self.dsn = dsn
        self.admin.execute(
            f"CREATE ROLE {self.old_login} LOGIN; GRANT CREATE, USAGE ON SCHEMA public TO {self.old_login}"
        )
        with self.connect(self.old_login) as conn:
            conn.execute(old.schema + "CREATE TABLE effects (job bigint, number int, worker text)")
            conn.execute("GRANT ALL ON effects TO public")
        (folder / "project").mkdir()
        kind = "uuid" if "uuid" in old.schema else "integer" if "tenant_id integer" in old.schema else "bigint"
        (folder / "project/schema.sql").write_text(old.schema + TENANTS.format(column=old.column, type=kind))
        (folder / "project/worker.py").write_text(old.worker)
        self.worker = _load("old_worker", folder / "project/worker.py")

    def connect(self, role: str) -> psycopg.Connection[Any]:
        return psycopg.connect(self.login(role), autocommit=True)

    def login(self, role: str) -> str:
        return self.dsn.replace("user=lab", f"user={role}")

    def run_script(self, name: str, **settings: str) -> None:
        """What psql does with a file: one statement after the other, each its own transaction, stopping at an error."""
        text = (self.folder / "written" / name).read_text(encoding="utf-8")
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            for setting, value in settings.items():
                conn.execute("SELECT set_config(%s, %s, false)", (setting, value))
            for start, end in split_script(text).statements:
                conn.execute(text[start:end])

    def enqueue_old(self, *numbers: int) -> list[int]:
        with self.connect(self.old_login) as conn:
            return [self.worker.enqueue(conn, self.old.tenant, number) for number in numbers]

    def enqueue_new(self, *numbers: int) -> list[int]:
        new = load_written("worker")
        jobs = [new.NewJob(self.old.kind, {"number": number}) for number in numbers]
        with psycopg.connect(self.dsn) as conn:
            conn.execute(
                "SELECT set_config('role', 'public_tenant', true), set_config('app.tenant', %s, true)",
                (self.old.tenant,),
            )
            found: list[int] = new.enqueue(conn, *jobs)
        return found

    def one(self, query: str, *words: object) -> Any:
        row = self.admin.execute(query, words).fetchone()
        return row[0] if row else None

    def count(self, where: str = "true") -> int:
        found: int = self.one(f"SELECT count(*) FROM {self.old.table} WHERE {where}")
        return found

    @contextlib.contextmanager
    def old_running(self, workers: int = 2) -> Iterator[list[BaseException]]:
        """Old workers, each on its connection, for as long as the block lasts; what went wrong in them."""
        ended, wrong = threading.Event(), list[BaseException]()

        def work() -> None:
            with self.connect(self.old_login) as conn:
                conn.execute("SET lock_timeout = '20s'")
                while not ended.is_set():
                    try:
                        if not self.worker.run_one(conn):
                            ended.wait(0.01)
                    except psycopg.Error as error:
                        wrong.append(error)

        threads = [threading.Thread(target=work) for _ in range(workers)]
        for thread in threads:
            thread.start()
        try:
            yield wrong
        finally:
            ended.set()
            for thread in threads:
                thread.join(PATIENCE)

    @contextlib.contextmanager
    def new_running(self) -> Iterator[None]:
        new = load_written("worker")
        handlers = new.Handlers()

        def run(job: Any) -> None:
            with job.finish() as conn:
                number = job.payload["number"]
                conn.execute("INSERT INTO effects VALUES (%s, %s, 'new')", (job.id, number))

        handlers.on(self.old.kind, dict)(run)
        options = new.Options(poll=0.02, tenant_limit=None, backoff=0)
        worker = new.Worker(self.login(self.new_login), handlers, options)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield
        finally:
            worker.stop()
            thread.join(PATIENCE)


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def place(request: pytest.FixtureRequest, written: Path, database: str) -> Iterator[Place]:
    folder = written.parent
    found = Place(folder, database, getattr(request, "param", ARTICLE))
    assert cli.main(["reference", "--from", str(folder / "project"), str(written), "--quiet", "--jobs=1"]) == 0
    yield found
    found.admin.close()


each = pytest.mark.parametrize("place", OLD.values(), ids=OLD.keys(), indirect=True)


@each
def test_every_job_ends_once_while_old_and_new_workers_run(place: Place) -> None:
    old, state = place.old, "state" if place.old is RENAMED else "status"
    before = place.enqueue_old(*range(3000))
    filenode = place.one("SELECT pg_relation_filenode(%s)", old.table)
    with place.old_running() as wrong:
        eventually(lambda: place.one("SELECT count(*) > 100 FROM effects"))
        place.run_script("migration.sql")
        place.run_script("schema.sql")
        assert place.one("SELECT count(*) FROM effects WHERE worker = 'old'") < len(before)
        with place.new_running():
            beside = place.enqueue_new(*range(3000, 3500))
            eventually(lambda: place.one("SELECT count(*) > 100 FROM effects WHERE worker = 'new'"))
            beside += place.enqueue_old(*range(3500, 4000))
            eventually(lambda: place.count("status <> ALL (ARRAY['done', 'completed'])") == 0)
    assert not wrong
    assert place.one("SELECT pg_relation_filenode(%s)", old.table) == filenode  # nothing has rewritten it
    with place.new_running():
        place.run_script("migration_end.sql")
        last = place.enqueue_new(*range(4000, 4100))
        eventually(lambda: place.count("status <> ALL (ARRAY['done', 'completed'])") == 0)
    jobs = [*before, *beside, *last]
    effects = place.admin.execute("SELECT job, number FROM effects ORDER BY job").fetchall()
    assert effects == sorted(zip(jobs, range(4100), strict=True))
    assert place.one("SELECT count(*) FROM effects WHERE worker = 'old'") > 100
    kept = {"article": "done", "renamed": "completed", "words": "completed"}
    assert place.one(f"SELECT count(*) FROM {old.table} WHERE {state} IS DISTINCT FROM %s", kept[_name(old)]) in (
        0,
        len(last),
    )
    assert place.one("SELECT count(*) FROM pg_trigger WHERE tgname LIKE '%%side_by_side'") == 0


def _name(old: Old) -> str:
    return next(name for name, known in OLD.items() if known is old)


@each
def test_the_database_then_carries_what_the_workers_need(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    for script in (
        "migration.sql",
        "migration.sql",
        "schema.sql",
        "migration_end.sql",
        "migration_end.sql",
        "schema.sql",
    ):
        place.run_script(script)
    kind = {"article": "integer", "renamed": "uuid", "words": "bigint"}[_name(place.old)]
    names = [f"--jobs-table={place.old.table}", f"--tenant-column={place.old.column}", f"--tenant-type={kind}"]
    assert cli.main(["reference", "--check", place.login("public_worker"), "--schema=public", *names]) == 0, (
        capsys.readouterr()
    )
    for index in ("queued", "running", "live_key", "done"):
        assert place.one(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = %s::regclass", f"{place.old.table}_{index}"
        )


@each
def test_what_failed_under_the_old_worker_is_counted_for_the_new_one(place: Place) -> None:
    """And the other way round: the columns that both have under other names, and words for the same state."""
    old = place.old
    first, second = place.enqueue_old(1, 2)
    with place.connect(place.old_login) as conn:
        if old is RENAMED:
            conn.execute(place.worker.CLAIM, ("w",))
        place.worker.failed(conn, first)
        place.run_script("migration.sql")
        place.run_script("schema.sql")
        job = f"SELECT status, attempts, payload ->> 'number' FROM {old.table} WHERE id = %s"
        assert place.admin.execute(job, (first,)).fetchone() == (old.states[0], 1, "1")
        assert place.admin.execute(job, (second,)).fetchone() == (old.states[0], 0, "2")
        if old is RENAMED:
            conn.execute(place.worker.CLAIM, ("w",))
            assert place.admin.execute(job, (first,)).fetchone() == ("running", 2, "1")
            assert place.one(f"SELECT locked_until = lease_expires_at FROM {old.table} WHERE id = %s", first)
        place.worker.failed(conn, first)
        assert place.admin.execute(job, (first,)).fetchone() == (old.states[0], 2, "1")


@pytest.mark.parametrize("place", [RENAMED], indirect=True)
def test_an_old_workers_claim_takes_the_fence_of_whoever_had_the_job(place: Place) -> None:
    (job,) = place.enqueue_old(1)
    place.run_script("migration.sql")
    fence = f"SELECT fence, worker, status FROM {place.old.table} WHERE id = %s"
    assert place.admin.execute(fence, (job,)).fetchone() == (0, None, "queued")
    with place.connect(place.old_login) as conn:
        conn.execute(place.worker.CLAIM, ("w",))
    assert place.admin.execute(fence, (job,)).fetchone() == (1, "an old worker", "running")


def test_who_holds_the_table_keeps_nobody_else_waiting(place: Place) -> None:
    """A long job of an old worker: the migration waits for it, for moments at a time, and others claim meanwhile."""
    place.enqueue_old(*range(60))
    told: list[BaseException] = []

    def migrate() -> None:
        try:
            place.run_script("migration.sql")
        except BaseException as error:
            told.append(error)

    waits = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        " AND query LIKE '%%ADD COLUMN%%'"
    )
    thread = threading.Thread(target=migrate)
    with place.connect(place.old_login) as conn, place.connect(place.old_login) as other:
        with conn.transaction():
            conn.execute(place.worker.CLAIM)
            thread.start()
            for _ in range(2):
                eventually(lambda: place.one(waits) == 1)
                assert place.worker.run_one(other)  # it had to wait for the migration, which gave up for now
        thread.join(PATIENCE)
    assert not told
    assert place.count("side_by_side") == 60


def test_a_broken_off_index_is_built_again(place: Place) -> None:
    place.run_script("migration.sql")
    place.admin.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'jobs_queued'::regclass")
    place.run_script("migration.sql")
    assert place.one("SELECT indisvalid FROM pg_index WHERE indexrelid = 'jobs_queued'::regclass")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("ALTER TABLE jobs RENAME TO others", "public.jobs is not in this database"),
        (
            "ALTER TABLE jobs ADD run_at timestamp",
            "run_at is timestamp without time zone, and should be timestamp with",
        ),
        ("ALTER TABLE jobs ADD last_error varchar(80)", "last_error is character varying(80), and should be text or"),
        ("ALTER TABLE jobs ADD lane text NOT NULL", "puts nothing into lane of public.jobs"),
        ("ALTER TABLE jobs RENAME number TO no", "names columns that public.jobs has not: number"),
        ("ALTER TABLE jobs ALTER id DROP IDENTITY", "no sequence to take the id"),
        ("ALTER TABLE jobs ALTER tenant_id TYPE text", "tenant_id is text, and should be integer"),
    ],
)
def test_a_live_table_that_is_not_what_the_code_says_is_left_alone(place: Place, change: str, told: str) -> None:
    place.admin.execute(change)
    columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('jobs') AND attnum > 0"
    before = place.one(columns)
    with pytest.raises(psycopg.errors.RaiseException, match=re.escape(told)):
        place.run_script("migration.sql")
    assert place.one(columns) == before


#: What is another in the project, and what is asked then.
QUESTIONS = {
    "whose": ("tenant_id", "about", "No column of public.jobs was seen to say whose job it is"),
    "priority": ("number integer", "priority integer, number integer", "have a priority"),
    "another word": ("status = 'failed'", "status = 'on hold'", "A job may be 'on hold'. New workers leave such"),
    "runs": ("CREATE TABLE jobs", "CREATE TABLE job_runs (id bigint); CREATE TABLE jobs", "You have a table job_runs"),
    "guarded": (");", "); ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;", "is under row security"),
    "lease": ("FOR UPDATE SKIP LOCKED", "", "without changing its status"),
    "advisory": ("FOR UPDATE SKIP LOCKED", "", "by advisory locks"),
}
CLAIMS = {
    "lease": """
    UPDATE jobs SET locked_until = clock_timestamp() + interval '1 minute'
     WHERE id = (SELECT id FROM jobs WHERE status = 'queued' AND locked_until < now() LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, tenant_id, number
    """,
    "advisory": """
    SELECT id, tenant_id, number FROM jobs WHERE status = 'queued' AND pg_try_advisory_xact_lock(id) ORDER BY id LIMIT 1
    """,
}


@pytest.mark.parametrize("what", QUESTIONS)
def test_what_the_code_does_not_tell_is_asked(
    place: Place, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is changed before it is answered."""
    before, after, told = QUESTIONS[what]
    schema, worker = tmp_path / "project/schema.sql", tmp_path / "project/worker.py"
    schema.write_text(schema.read_text().replace(before, after, 1))
    text = worker.read_text().replace(before, after)
    if what in CLAIMS:
        text = re.sub(r'CLAIM = """.*?"""', f'CLAIM = """{CLAIMS[what]}"""', text, flags=re.DOTALL)
    worker.write_text(text)
    words = ["reference", "--force", "--from", str(tmp_path / "project"), str(tmp_path / "written"), "--jobs=1"]
    assert cli.main(words) == 0
    assert told in capsys.readouterr().err
    with pytest.raises(psycopg.errors.RaiseException, match="this file has open questions"):
        place.run_script("migration.sql")
    assert place.one("SELECT count(*) FROM pg_attribute WHERE attrelid = 'jobs'::regclass AND attname = 'fence'") == 0


def test_where_there_is_no_queue_or_more_than_one_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "worker.py").write_text("import psycopg\n")
    assert cli.main(["reference", "--from", str(tmp_path), str(tmp_path / "written"), "--jobs=1"]) == 2
    assert "no statement there takes jobs out of a table" in capsys.readouterr().err
    for old in (ARTICLE, WORDS):
        (tmp_path / f"{old.table}.py").write_text(old.worker)
    assert cli.main(["reference", "--from", str(tmp_path), str(tmp_path / "written"), "--jobs=1"]) == 2
    assert "out of several tables, jobs, tasks; choose one with --jobs-table" in capsys.readouterr().err
    words = ["reference", "--from", str(tmp_path), str(tmp_path / "written"), "--jobs=1", "--jobs-table=tasks"]
    assert cli.main(words) == 0
    assert "public.tasks" in (tmp_path / "written/migration.sql").read_text()
    assert cli.main([*words[:-1], "--jobs-table=users", "--force"]) == 2
    assert "--jobs-table 'users': there is no such table in the code" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x'); DROP TABLE jobs; --", 'x" y', "a\nb"])
def test_a_name_that_would_be_more_than_a_name_is_not_written_down(tmp_path: Path, name: str) -> None:
    """The migration is run by someone: no text of the audited code gets into it but names and words."""
    quoted = name.replace('"', '""')
    (tmp_path / "schema.sql").write_text(
        ARTICLE.schema.replace("number integer", f'number integer, "{quoted}" integer')
    )
    written = repr(f"UPDATE jobs SET status = '{name.replace(chr(39), chr(39) * 2)}'")
    (tmp_path / "worker.py").write_text(
        f"{ARTICLE.worker}\n\ndef odd(conn: psycopg.Connection):\n    conn.execute({written})\n"
    )
    assert cli.main(["reference", "--from", str(tmp_path), str(tmp_path / "written"), "--jobs=1", "--quiet"]) == 0
    assert name not in (tmp_path / "written/migration.sql").read_text()
