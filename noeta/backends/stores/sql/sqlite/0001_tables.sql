-- Tables of the store. Instants are whole microseconds since the Unix epoch. Text is compared by its UTF-8 bytes, which
-- is the order of code points, so that pages and ties are ordered as in Python.

-- One row a task: what a claim must know without reading the log. Keeps: row-agrees.
CREATE TABLE {schema}.task (
    id TEXT NOT NULL,
    queue TEXT NOT NULL,
    status TEXT NOT NULL,
    kept INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    worker TEXT,
    token TEXT,
    lease_until INTEGER,
    ready_at INTEGER,
    wake_on TEXT,
    wake_key TEXT,
    wake_missing INTEGER NOT NULL,
    inbox_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    takeovers INTEGER NOT NULL,
    fail_attempts INTEGER NOT NULL,
    parent TEXT,
    group_id TEXT,
    created_at INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    -- The instant from which a claim may take the row, as core computes it (claimable_at); NULL: none ever will.
    due_at INTEGER,
    CONSTRAINT task_key PRIMARY KEY (id),
    CONSTRAINT task_status_known CHECK (status IN ('pending', 'running', 'suspended', 'terminal')),
    CONSTRAINT task_kept_is_suspended CHECK (kept IN (0, 1) AND (NOT kept OR status = 'suspended')),
    -- An owner <=> running or kept. Keeps: row-agrees.
    CONSTRAINT task_owner_when_held CHECK (
        (status = 'running' OR kept) = (worker IS NOT NULL)
        AND (worker IS NULL) = (token IS NULL)
        AND (worker IS NULL) = (lease_until IS NULL)
    ),
    CONSTRAINT task_wait_when_suspended CHECK (
        (status = 'suspended') = (wake_on IS NOT NULL) AND (wake_on IS NULL) = (wake_key IS NULL)
    ),
    CONSTRAINT task_pending_is_ready CHECK (status <> 'pending' OR ready_at IS NOT NULL),
    CONSTRAINT task_ready_at_is_waited_for CHECK (status IN ('pending', 'suspended') OR ready_at IS NULL),
    CONSTRAINT task_due_when_claimable CHECK (
        CASE WHEN worker IS NULL THEN due_at IS ready_at ELSE due_at >= lease_until END
    ),
    CONSTRAINT task_counts_from_zero CHECK (
        epoch >= 0 AND wake_missing >= 0 AND inbox_seq >= 0 AND last_seq >= 1 AND takeovers >= 0 AND fail_attempts >= 0
    )
) STRICT, WITHOUT ROWID;

-- What a claim may take because its time has come: pending rows, and suspended ones with a timer. Idle rows are not in
-- it. Keeps: waiting-is-free.
CREATE INDEX {schema}.task_due ON task (due_at, id) WHERE worker IS NULL AND due_at IS NOT NULL;
CREATE INDEX {schema}.task_due_in_queue ON task (queue, due_at, id) WHERE worker IS NULL AND due_at IS NOT NULL;
-- What a claim may take because its lease has lapsed and it has rested. As many as workers hold, so by no queue.
CREATE INDEX {schema}.task_rested ON task (due_at, id) WHERE worker IS NOT NULL;
-- What a sweep puts back.
CREATE INDEX {schema}.task_lapsed ON task (lease_until, id) WHERE worker IS NOT NULL;
-- What the timer poll looks for, without passing over a backlog of pending rows.
CREATE INDEX {schema}.task_timer ON task (ready_at, id)
    WHERE status = 'suspended' AND worker IS NULL AND ready_at IS NOT NULL;
-- The look-up after an unknown claim.
CREATE INDEX {schema}.task_token ON task (token) WHERE token IS NOT NULL;

-- The log. No foreign key to task: every writer holds the write lock, and nothing is deleted.
CREATE TABLE {schema}.entry (
    task_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    CONSTRAINT entry_key PRIMARY KEY (task_id, seq),
    CONSTRAINT entry_seq_from_one CHECK (seq >= 1)
) STRICT;

-- The inbox. A taken item loses its body (its entry holds it) and keeps its key. Keeps: taken-once.
CREATE TABLE {schema}.item (
    task_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    key TEXT,
    wake_key TEXT NOT NULL,
    body TEXT,
    at INTEGER NOT NULL,
    taken_seq INTEGER,
    unread_seq INTEGER,
    CONSTRAINT item_key PRIMARY KEY (task_id, number),
    CONSTRAINT item_one_fate CHECK (taken_seq IS NULL OR unread_seq IS NULL),
    CONSTRAINT item_body_until_taken CHECK ((body IS NULL) = (taken_seq IS NOT NULL))
) STRICT;

-- A repeat with the same key is dropped, also after the first was taken. Keeps: taken-once.
CREATE UNIQUE INDEX {schema}.item_dedupe_key ON item (task_id, key) WHERE key IS NOT NULL;
CREATE INDEX {schema}.item_unread ON item (task_id, number) WHERE taken_seq IS NULL AND unread_seq IS NULL;

CREATE TABLE {schema}.content (
    hash TEXT NOT NULL,
    media_type TEXT NOT NULL,
    body BLOB NOT NULL,
    at INTEGER NOT NULL,
    CONSTRAINT content_key PRIMARY KEY (hash)
) STRICT;

CREATE TABLE {schema}.snapshot (
    task_id TEXT NOT NULL,
    version TEXT NOT NULL,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    CONSTRAINT snapshot_key PRIMARY KEY (task_id, version)
) STRICT;

-- The file is ours ("noet" as a number), at this version.
PRAGMA {schema}.application_id = 1852794228;
PRAGMA {schema}.user_version = 1;
