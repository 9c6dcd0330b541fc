-- Tables of the store. Every name is qualified with {schema}; nothing is resolved by search_path.
-- Instants are bigint microseconds since the Unix epoch. Names that are ordered are COLLATE "C" (code points), so
-- that the lock order and the page order are the same on every server and in Python.
-- Why these settings: docs/postgres.md.

CREATE TABLE {schema}.migration (
    version int NOT NULL,
    name text NOT NULL,
    applied_at bigint NOT NULL,
    CONSTRAINT migration_key PRIMARY KEY (version)
);

-- One row a task: what a claim must know without reading the log. Keeps: row-agrees.
CREATE TABLE {schema}.task (
    id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    kept boolean NOT NULL DEFAULT false,
    epoch bigint NOT NULL DEFAULT 0,
    worker text COLLATE "C",
    token text COLLATE "C",
    lease_until bigint,
    -- At most lease_until, and moved up only once it has passed: the lapse index holds this column and not
    -- lease_until, so that the renewals in between stay HOT.
    lease_check_at bigint,
    ready_at bigint,
    wake_on json,
    wake_key text COLLATE "C",
    wake_missing bigint NOT NULL DEFAULT 0,
    inbox_seq bigint NOT NULL DEFAULT 0,
    last_seq bigint NOT NULL DEFAULT 1,
    takeovers bigint NOT NULL DEFAULT 0,
    fail_attempts bigint NOT NULL DEFAULT 0,
    parent text COLLATE "C",
    group_id text COLLATE "C",
    created_at bigint NOT NULL,
    content_hash text COLLATE "C" NOT NULL,
    CONSTRAINT task_key PRIMARY KEY (id),
    CONSTRAINT task_status_known CHECK (status IN ('pending', 'running', 'suspended', 'terminal')),
    CONSTRAINT task_kept_is_suspended CHECK (NOT kept OR status = 'suspended'),
    -- An owner <=> running or kept. Keeps: row-agrees.
    CONSTRAINT task_owner_when_held CHECK (
        (status = 'running' OR kept) = (worker IS NOT NULL)
        AND (worker IS NULL) = (token IS NULL)
        AND (worker IS NULL) = (lease_until IS NULL)
        AND (worker IS NULL) = (lease_check_at IS NULL)
    ),
    CONSTRAINT task_lease_checked_in_time CHECK (lease_check_at <= lease_until),
    CONSTRAINT task_wait_when_suspended CHECK (
        (status = 'suspended') = (wake_on IS NOT NULL) AND (wake_on IS NULL) = (wake_key IS NULL)
    ),
    CONSTRAINT task_pending_is_ready CHECK (status <> 'pending' OR ready_at IS NOT NULL),
    CONSTRAINT task_ready_at_is_waited_for CHECK (status IN ('pending', 'suspended') OR ready_at IS NULL),
    CONSTRAINT task_counts_from_zero CHECK (
        epoch >= 0 AND wake_missing >= 0 AND inbox_seq >= 0 AND last_seq >= 1 AND takeovers >= 0 AND fail_attempts >= 0
    )
) WITH (
    -- Rows change often (renewals, posts, appends): half a page free keeps those changes on their page (HOT).
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- What a claim may take because its time has come: pending rows, and suspended ones with a timer. Idle rows are not
-- in it. Keeps: waiting-is-free.
CREATE INDEX task_ready ON {schema}.task (queue, ready_at, id) WHERE worker IS NULL AND ready_at IS NOT NULL;
-- What a claim may take because a lease has lapsed. No index holds lease_until.
CREATE INDEX task_held ON {schema}.task (queue, lease_check_at, id) WHERE worker IS NOT NULL;
-- What the timer poll looks for, without passing over a backlog of pending rows.
CREATE INDEX task_timer ON {schema}.task (ready_at, id)
    WHERE status = 'suspended' AND worker IS NULL AND ready_at IS NOT NULL;
-- The look-up after an unknown claim.
CREATE INDEX task_token ON {schema}.task (token) WHERE token IS NOT NULL;

-- The log. No foreign key to task: every writer holds the task's row lock, and nothing is deleted.
CREATE TABLE {schema}.entry (
    task_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    epoch bigint NOT NULL,
    at bigint NOT NULL,
    body json NOT NULL,
    CONSTRAINT entry_key PRIMARY KEY (task_id, seq),
    CONSTRAINT entry_seq_from_one CHECK (seq >= 1)
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.1
);

-- The inbox. A taken item loses its body (its entry holds it) and keeps its key. Keeps: taken-once.
CREATE TABLE {schema}.item (
    task_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    key text COLLATE "C",
    wake_key text COLLATE "C" NOT NULL,
    group_key text COLLATE "C",
    body json,
    at bigint NOT NULL,
    taken_seq bigint,
    unread_seq bigint,
    CONSTRAINT item_key PRIMARY KEY (task_id, number),
    CONSTRAINT item_one_fate CHECK (taken_seq IS NULL OR unread_seq IS NULL),
    CONSTRAINT item_body_until_taken CHECK ((body IS NULL) = (taken_seq IS NOT NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- A repeat with the same key is dropped, also after the first was taken. Keeps: taken-once.
CREATE UNIQUE INDEX item_dedupe_key ON {schema}.item (task_id, key) WHERE key IS NOT NULL;
CREATE INDEX item_unread ON {schema}.item (task_id, number) WHERE taken_seq IS NULL AND unread_seq IS NULL;

CREATE TABLE {schema}.content (
    hash text COLLATE "C" NOT NULL,
    media_type text NOT NULL,
    body bytea NOT NULL,
    at bigint NOT NULL,
    CONSTRAINT content_key PRIMARY KEY (hash)
);

CREATE TABLE {schema}.snapshot (
    task_id text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT snapshot_key PRIMARY KEY (task_id, version)
);

-- The only clock. Verbs read it into a variable before a search and again after their lock. Tests replace its body
-- and nothing else. Parsed once (no search_path); VOLATILE, so that it is never taken for a constant.
CREATE FUNCTION {schema}.clock() RETURNS bigint
LANGUAGE sql VOLATILE
RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
