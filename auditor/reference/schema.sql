-- The schema of the worker beside this file: a queue for many tenants, and an example of a table that belongs to them.
-- PostgreSQL 14 or newer. It can be run again; what is there stays. Run it as a role that may create roles:
--
--     psql --single-transaction --set ON_ERROR_STOP=1 --file schema.sql
--
-- Three roles, each refused what it need not see:
--
--     app_owner    owns everything and logs in nowhere
--     app_worker   what the worker logs in as: it sees the queue, and nothing of any tenant's
--     app_tenant   what the work runs as, for one transaction at a time: it sees one tenant's rows, and no job
--
-- The web application connects as a role of its own that is a member of app_tenant, or takes that role as the worker
-- does. Give app_worker a password, or a way in through pg_hba.conf, yourself.

-- Roles belong to the cluster, not to the database, and have no IF NOT EXISTS.
DO $roles$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'app_owner') THEN
        CREATE ROLE app_owner NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'app_worker') THEN
        CREATE ROLE app_worker LOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'app_tenant') THEN
        CREATE ROLE app_tenant NOLOGIN;
    END IF;
    -- Who is no superuser has to be a member of the owner, in order to make things that are the owner's.
    IF NOT pg_catalog.pg_has_role(current_user, 'app_owner', 'USAGE') THEN
        EXECUTE pg_catalog.format('GRANT app_owner TO %I', current_user);
    END IF;
    -- NOINHERIT: the worker has the tenants' rights only where it takes their role. From PostgreSQL 16 on it is each
    -- membership that says so, and the role's attribute is only what a new membership starts with.
    ALTER ROLE app_worker NOINHERIT;
    IF pg_catalog.current_setting('server_version_num')::int >= 160000 THEN
        EXECUTE 'GRANT app_tenant TO app_worker WITH INHERIT FALSE, SET TRUE';
    ELSE
        GRANT app_tenant TO app_worker;
    END IF;
END
$roles$;

CREATE SCHEMA IF NOT EXISTS app AUTHORIZATION app_owner;
GRANT USAGE ON SCHEMA app TO app_worker, app_tenant;


-- The queue. It is under no tenant's policy: a worker has to see every job before it knows which tenant to become.

CREATE TABLE IF NOT EXISTS app.jobs (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id    bigint NOT NULL,
    kind         text NOT NULL,
    payload      jsonb NOT NULL DEFAULT '{}',
    key          text,
    priority     smallint NOT NULL DEFAULT 1 CHECK (priority BETWEEN 0 AND 3),
    status       text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'running', 'done', 'dead')),
    attempts     integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    max_attempts integer NOT NULL DEFAULT 3 CHECK (max_attempts > 0),
    fence        bigint NOT NULL DEFAULT 0,
    run_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    time_limit   interval NOT NULL DEFAULT interval '5 minutes' CHECK (time_limit > interval '0'),
    locked_until timestamptz,
    deadline     timestamptz,
    worker       text,
    last_error   text,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at     timestamptz,
    CHECK (attempts <= max_attempts),
    CHECK ((status = 'running') = (locked_until IS NOT NULL AND deadline IS NOT NULL AND worker IS NOT NULL)),
    CHECK ((status IN ('done', 'dead')) = (ended_at IS NOT NULL))
)
-- A heartbeat writes locked_until and nothing else. With room on the page, and no index on that column, such a version
-- of a row is heap-only: no index grows by it, and the next reader of the page clears it away.
WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE app.jobs OWNER TO app_owner;

COMMENT ON TABLE app.jobs IS 'The queue: one row a job, kept when it has ended until prune_jobs removes it';
COMMENT ON COLUMN app.jobs.tenant_id IS 'Whose job it is; the work runs as this tenant';
COMMENT ON COLUMN app.jobs.kind IS 'Names the handler';
COMMENT ON COLUMN app.jobs.payload IS 'What the handler is given';
COMMENT ON COLUMN app.jobs.key IS 'At most one job of a tenant and kind is queued or running with the same key';
COMMENT ON COLUMN app.jobs.priority IS '3 is run first, 0 last. Few levels, as the claim looks at each of them';
COMMENT ON COLUMN app.jobs.status IS 'queued, running, done, or dead: it failed or was lost max_attempts times, or gave up';
COMMENT ON COLUMN app.jobs.attempts IS 'Counted by the claim, so that no crash can take it back; given back by a shutdown';
COMMENT ON COLUMN app.jobs.fence IS 'Goes up with each claim and each reaping, never down: who holds an older number holds nothing';
COMMENT ON COLUMN app.jobs.run_at IS 'Not before this; moved on by a failure';
COMMENT ON COLUMN app.jobs.time_limit IS 'How long one run may take, whatever the heartbeats say';
COMMENT ON COLUMN app.jobs.locked_until IS 'The lease: whose worker is silent until then has lost the job';
COMMENT ON COLUMN app.jobs.deadline IS 'When this run reaches its time_limit; no heartbeat takes the lease beyond';
COMMENT ON COLUMN app.jobs.worker IS 'Which worker runs it';
COMMENT ON COLUMN app.jobs.last_error IS 'Why it last failed or was lost';
COMMENT ON COLUMN app.jobs.ended_at IS 'When it became done or dead';

-- What a claim reads. One index search a priority finds the next job, or that there is none, however many are to run later.
CREATE INDEX IF NOT EXISTS jobs_queued ON app.jobs (priority DESC, run_at, id) WHERE status = 'queued';
-- What the reaper reads, and who counts a tenant's running jobs. There are never more entries than running jobs.
CREATE INDEX IF NOT EXISTS jobs_running ON app.jobs (id) WHERE status = 'running';
CREATE UNIQUE INDEX IF NOT EXISTS jobs_live_key ON app.jobs (tenant_id, kind, key)
    WHERE key IS NOT NULL AND status IN ('queued', 'running');
-- What prune_jobs reads.
CREATE INDEX IF NOT EXISTS jobs_done ON app.jobs (ended_at) WHERE status = 'done';


CREATE TABLE IF NOT EXISTS app.job_runs (
    job_id     bigint NOT NULL REFERENCES app.jobs ON DELETE CASCADE,
    fence      bigint NOT NULL,
    attempt    integer NOT NULL,
    worker     text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    outcome    text CHECK (outcome IN ('done', 'failed', 'lost', 'released')),
    error      text,
    PRIMARY KEY (job_id, fence),
    CHECK ((outcome IS NULL) = (ended_at IS NULL))
)
WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE app.job_runs OWNER TO app_owner;

COMMENT ON TABLE app.job_runs IS 'Every run of every job, written with its claim and so never rolled back with its work';
COMMENT ON COLUMN app.job_runs.fence IS 'The fence that the claim was given';
COMMENT ON COLUMN app.job_runs.attempt IS 'Which attempt of the job it is; a released run does not use its attempt up';
COMMENT ON COLUMN app.job_runs.outcome IS 'done, failed, lost (nothing was heard of its worker), released; NULL while it runs';
COMMENT ON COLUMN app.job_runs.error IS 'Why it failed or was lost';


-- The worker's login may move jobs along. It may not make them, nor change whose they are or what they say.

GRANT SELECT ON app.jobs TO app_worker;
GRANT UPDATE (status, attempts, fence, run_at, locked_until, deadline, worker, last_error, ended_at)
    ON app.jobs TO app_worker;
GRANT SELECT, INSERT ON app.job_runs TO app_worker;
GRANT UPDATE (ended_at, outcome, error) ON app.job_runs TO app_worker;

CREATE OR REPLACE FUNCTION app.prune_jobs(keep interval, most integer) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    WITH old AS MATERIALIZED (
        SELECT id FROM app.jobs
         WHERE status = 'done' AND ended_at < (SELECT clock_timestamp()) - keep
         ORDER BY ended_at LIMIT most FOR UPDATE SKIP LOCKED
    ), pruned AS (
        DELETE FROM app.jobs USING old WHERE jobs.id = old.id RETURNING jobs.id
    )
    SELECT count(*) FROM pruned
$$;
ALTER FUNCTION app.prune_jobs OWNER TO app_owner;
REVOKE ALL ON FUNCTION app.prune_jobs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION app.prune_jobs TO app_worker;
COMMENT ON FUNCTION app.prune_jobs IS 'Removes some jobs that were done long ago, with their runs; the dead stay until someone has looked';


-- The tenants' role has no rights on the queue but these three functions, and each of them only for the tenant that the
-- transaction is set to. They run as their owner, so the search_path is theirs, and names in them are told in full.

CREATE OR REPLACE FUNCTION app.enqueue_jobs(new_jobs jsonb, wake boolean DEFAULT false) RETURNS SETOF bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    this_tenant CONSTANT bigint := nullif(current_setting('app.tenant', true), '')::bigint;
BEGIN
    IF this_tenant IS NULL THEN
        RAISE EXCEPTION 'a job is enqueued in a transaction of its tenant, and none is set' USING
            ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'SELECT set_config(''app.tenant'', <tenant>, true) in the same transaction, before.';
    END IF;
    IF wake THEN
        PERFORM pg_notify('app_jobs', '');
    END IF;
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT nextval(pg_get_serial_sequence('app.jobs', 'id')) AS id, new.*
          FROM ROWS FROM (
               jsonb_to_recordset(new_jobs) AS (
                   kind text, payload jsonb, key text, priority smallint, max_attempts integer,
                   run_at timestamptz, delay interval, time_limit interval)
          ) WITH ORDINALITY AS new (kind, payload, key, priority, max_attempts, run_at, delay, time_limit, place)
    ), added AS (
        INSERT INTO app.jobs AS job
               (id, tenant_id, kind, payload, key, priority, max_attempts, run_at, time_limit)
        OVERRIDING SYSTEM VALUE
        SELECT given.id, this_tenant, given.kind, coalesce(given.payload, '{}'), given.key, coalesce(given.priority, 1),
               coalesce(given.max_attempts, 3),
               coalesce(given.run_at, clock_timestamp()) + coalesce(given.delay, interval '0'),
               coalesce(given.time_limit, interval '5 minutes')
          FROM given ORDER BY given.place
        ON CONFLICT (tenant_id, kind, key) WHERE key IS NOT NULL AND status IN ('queued', 'running') DO NOTHING
        RETURNING job.id
    )
    SELECT added.id::bigint FROM given LEFT JOIN added ON added.id = given.id ORDER BY given.place;
END
$$;
ALTER FUNCTION app.enqueue_jobs OWNER TO app_owner;
REVOKE ALL ON FUNCTION app.enqueue_jobs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION app.enqueue_jobs TO app_tenant;
COMMENT ON FUNCTION app.enqueue_jobs IS
    'Adds jobs for the tenant that is set: an array of objects with kind, and payload, key, priority, max_attempts, run_at, '
    'delay, time_limit where wanted. Gives their ids in order, NULL for one whose key is queued or running already';

CREATE OR REPLACE FUNCTION app.hold_job(this_job bigint, this_fence bigint) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT true FROM app.jobs
     WHERE id = this_job AND fence = this_fence AND status = 'running'
       AND tenant_id = nullif(current_setting('app.tenant', true), '')::bigint
       FOR SHARE
$$;
ALTER FUNCTION app.hold_job OWNER TO app_owner;
REVOKE ALL ON FUNCTION app.hold_job FROM PUBLIC;
GRANT EXECUTE ON FUNCTION app.hold_job TO app_tenant;
COMMENT ON FUNCTION app.hold_job IS
    'True while the job is still the one that was claimed; nobody can take it until the transaction ends';

CREATE OR REPLACE FUNCTION app.finish_job(this_job bigint, this_fence bigint) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    WITH finished AS (
        UPDATE app.jobs
           SET status = 'done', ended_at = clock_timestamp(), locked_until = NULL, deadline = NULL, worker = NULL
         WHERE id = this_job AND fence = this_fence AND status = 'running'
           AND tenant_id = nullif(current_setting('app.tenant', true), '')::bigint
        RETURNING id, fence
    ), run AS (
        UPDATE app.job_runs SET outcome = 'done', ended_at = clock_timestamp()
          FROM finished WHERE job_id = finished.id AND job_runs.fence = finished.fence
    )
    SELECT true FROM finished
$$;
ALTER FUNCTION app.finish_job OWNER TO app_owner;
REVOKE ALL ON FUNCTION app.finish_job FROM PUBLIC;
GRANT EXECUTE ON FUNCTION app.finish_job TO app_tenant;
COMMENT ON FUNCTION app.finish_job IS 'True when the job was still the one that was claimed, and is done now';


-- An example of what tenants own, and of the policy that all such tables have. Forced, so that it binds the owner too.

CREATE TABLE IF NOT EXISTS app.invoices (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id bigint NOT NULL DEFAULT nullif(current_setting('app.tenant', true), '')::bigint,
    number    text NOT NULL,
    total     numeric(12, 2) NOT NULL DEFAULT 0,
    sent_at   timestamptz,
    UNIQUE (tenant_id, number)
);
ALTER TABLE app.invoices OWNER TO app_owner;
ALTER TABLE app.invoices ENABLE ROW LEVEL SECURITY;
ALTER TABLE app.invoices FORCE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS tenant ON app.invoices;
-- A setting that has ended with its transaction reads as '': no tenant, so no row.
CREATE POLICY tenant ON app.invoices
    USING (tenant_id = (SELECT nullif(current_setting('app.tenant', true), '')::bigint))
    WITH CHECK (tenant_id = (SELECT nullif(current_setting('app.tenant', true), '')::bigint));
GRANT SELECT, INSERT, UPDATE, DELETE ON app.invoices TO app_tenant;
COMMENT ON TABLE app.invoices IS 'An example of a table under row security; put your own in its place';
