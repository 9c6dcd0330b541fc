-- The statements of the Postgres store, by name. Parameters are $1, $2, … with their types.

-- name: create
-- Create a task with its first entry. Keeps: gapless-log. Takes: the new row's key.
SELECT o_outcome FROM {schema}.create_1($1::text, $2::text, $3::text, $4::text, $5::bigint);

-- name: claim
-- Take claimable tasks. Keeps: one-writer, epochs-rise. Takes: row locks, SKIP LOCKED.
SELECT o_now, o_claims, o_fired, o_requeued, o_floors, o_queues, o_probed
FROM {schema}.claim_1($1::text, $2::text, $3::bigint, $4::int, $5::text[], $6::bigint[], $7::boolean, $8::boolean,
    $9::boolean, $10::bigint, $11::bigint[], $12::int);

-- name: renew
-- Extend claims. Keeps: one-writer. Takes: row locks, SKIP LOCKED.
SELECT o_now, o_answers, o_ordered FROM {schema}.renew_2($1::text[], $2::bigint[], $3::text[], $4::bigint);

-- name: release
-- Give a claim back. Keeps: one-writer. Takes: the row lock.
SELECT o_outcome, o_detail FROM {schema}.release_1($1::text, $2::bigint, $3::text);

-- name: resume
-- Go on with a kept task. Keeps: one-writer, timers-once. Takes: the row lock.
SELECT o_outcome, o_detail, o_now, o_inbox_seq, o_last_seq, o_timer_fired
FROM {schema}.resume_1($1::text, $2::bigint, $3::text);

-- name: append
-- Apply a commit. Keeps: one-writer, gapless-log, acked-stays. Takes: the row locks of the task and its posts, by id.
SELECT o_outcome, o_detail, o_last_seq, o_at, o_status, o_moved, o_inbox_seq, o_refused
FROM {schema}.append_1($1::text, $2::bigint, $3::text, $4::bigint, $5::text[], $6::text, $7::bigint[], $8::bigint[],
    $9::bigint,
    ROW($10::text, $11::boolean, $12::boolean, $13::bigint, $14::bigint, $15::text, $16::text,
        $17::bigint)::{schema}.target_1,
    ROW($18::text, $19::boolean, $20::boolean, $21::bigint, $22::bigint, $23::text, $24::text,
        $25::bigint)::{schema}.target_1,
    $26::boolean, $27::text[], $28::text[], $29::text[], $30::text[], $31::text[], $32::boolean[], $33::text[],
    $34::text[], $35::text[], $36::text[], $37::bigint[], $38::text[], $39::text[], $40::text[], $41::bytea[]);

-- name: append_family
-- Apply a commit that ends the task, or bears children for a task above it. Keeps: one-writer, children-once.
-- Takes: the row locks of the task, its posts, its children's parents and its own unfinished children, by id.
SELECT o_outcome, o_detail, o_last_seq, o_at, o_status, o_moved, o_inbox_seq, o_refused
FROM {schema}.append_2($1::text, $2::bigint, $3::text, $4::bigint, $5::text[], $6::text, $7::bigint[], $8::bigint[],
    $9::bigint,
    ROW($10::text, $11::boolean, $12::boolean, $13::bigint, $14::bigint, $15::text, $16::text,
        $17::bigint)::{schema}.target_1,
    ROW($18::text, $19::boolean, $20::boolean, $21::bigint, $22::bigint, $23::text, $24::text,
        $25::bigint)::{schema}.target_1,
    $26::boolean, $27::text[], $28::text[], $29::text[], $30::text[], $31::text[], $32::boolean[], $33::text[],
    $34::text[], $35::text[], $36::text[], $37::bigint[], $38::text[], $39::text[], $40::text[], $41::bytea[],
    $42::text[], $43::text, $44::text);

-- name: append_many
-- Apply commits of different tasks. Keeps: one-writer. Takes: the row locks, by id.
SELECT a.o_outcome, a.o_detail, a.o_last_seq, a.o_at, a.o_status, a.o_moved, a.o_inbox_seq, a.o_refused
FROM {schema}.append_many_1($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[],
    $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
    ARRAY(
        SELECT ROW(k.*)::{schema}.target_1
        FROM unnest($12::text[], $13::boolean[], $14::boolean[], $15::bigint[], $16::bigint[], $17::text[],
            $18::text[], $19::bigint[]) AS k
    ),
    ARRAY(
        SELECT ROW(k.*)::{schema}.target_1
        FROM unnest($20::text[], $21::boolean[], $22::boolean[], $23::bigint[], $24::bigint[], $25::text[],
            $26::text[], $27::bigint[]) AS k
    ),
    $28::boolean[]) AS a;

-- name: fail
-- Rest and try again, or end at the bound. Keeps: one-writer, bounded, children-once.
-- Takes: the row locks of the task, its parent and its unfinished children, by id.
SELECT o_outcome, o_detail, o_fail_attempts, o_last_seq
FROM {schema}.fail_2($1::text, $2::bigint, $3::text, $4::boolean, $5::bigint, $6::bigint[], $7::text, $8::text,
    $9::text, $10::text, $11::text, $12::text, $13::text, $14::text);

-- name: post
-- Put an item in an inbox. Keeps: taken-once, terminal-is-final. Takes: the row lock.
SELECT o_outcome, o_number, o_made_ready FROM {schema}.post_1($1::text, $2::text, $3::text, $4::text, $5::text);

-- name: cancel
-- Post a cancel, which ends a task that nobody runs. Keeps: terminal-is-final, children-once.
-- Takes: the row locks of the task, its parent and its unfinished children, by id.
SELECT o_outcome, o_number, o_made_ready, o_epoch, o_last_seq, o_detail, o_group
FROM {schema}.cancel_1($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text,
    $10::text, $11::text);

-- name: wake
-- A post whose key is derived under the lock. Keeps: wake-once. Takes: the row lock.
SELECT o_outcome, o_number, o_made_ready FROM {schema}.wake_1($1::text, $2::text, $3::text, $4::text);

-- name: fire_due_timers
-- Make tasks with a due timer pending. Keeps: timers-once. Takes: row locks, SKIP LOCKED.
SELECT o_ids, o_more FROM {schema}.fire_due_timers_1($1::int, $2::int);

-- name: requeue_stale
-- Put back tasks whose lease has lapsed. Keeps: bounded. Takes: row locks, SKIP LOCKED.
SELECT o_ids, o_more FROM {schema}.requeue_stale_1($1::int, $2::bigint[], $3::int);

-- name: read
-- The row, a page of entries and the unread inbox as of one instant (one statement, one snapshot). Locks nothing.
-- part 0: the row; 1: an entry (seq, epoch, at, body); 2: an unread item (number, at, key, body).
-- $4 items after number $5 at most, and one more that says that there are more.
WITH page AS MATERIALIZED (
    SELECT e.seq, e.epoch, e.at, e.body FROM {schema}.entry e
    WHERE e.task_id = $1::text AND e.seq > $2::bigint ORDER BY e.seq LIMIT $3::bigint
), inbox AS MATERIALIZED (
    SELECT i.number, i.at, i.key, i.body FROM {schema}.item i
    WHERE i.task_id = $1::text AND i.taken_seq IS NULL AND i.unread_seq IS NULL AND i.number > $5::bigint
    ORDER BY i.number LIMIT $4::bigint + 1
)
SELECT 0 AS part, NULL::bigint AS n1, NULL::bigint AS n2, NULL::bigint AS n3, NULL::text AS key, NULL::text AS body,
    t.id, t.queue, t.status, t.kept, t.epoch, t.worker, t.token, t.lease_until, t.ready_at, t.wake_on, t.wake_key,
    t.wake_missing, t.inbox_seq, t.last_seq, t.takeovers, t.fail_attempts, t.parent, t.group_id, t.created_at
FROM {schema}.task t WHERE t.id = $1::text
UNION ALL
SELECT 1, p.seq, p.epoch, p.at, NULL, p.body::text, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM page p
UNION ALL
SELECT 2, b.number, NULL, b.at, b.key, b.body::text, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM inbox b
ORDER BY 1, 2;

-- name: task
-- One row. Locks nothing.
SELECT t.id, t.queue, t.status, t.kept, t.epoch, t.worker, t.token, t.lease_until, t.ready_at, t.wake_on, t.wake_key,
    t.wake_missing, t.inbox_seq, t.last_seq, t.takeovers, t.fail_attempts, t.parent, t.group_id, t.created_at
FROM {schema}.task t WHERE t.id = $1::text;

-- name: tasks
-- A page of rows in id order. Locks nothing.
SELECT t.id, t.queue, t.status, t.kept, t.epoch, t.worker, t.token, t.lease_until, t.ready_at, t.wake_on, t.wake_key,
    t.wake_missing, t.inbox_seq, t.last_seq, t.takeovers, t.fail_attempts, t.parent, t.group_id, t.created_at
FROM {schema}.task t
WHERE t.id > $1::text AND ($3::text IS NULL OR t.status = $3::text) AND ($4::text IS NULL OR t.queue = $4::text)
ORDER BY t.id LIMIT $2::bigint;

-- name: tasks_of_token
-- The rows one claim call took: the look-up after an unknown claim, by its own index. Locks nothing.
SELECT t.id, t.queue, t.status, t.kept, t.epoch, t.worker, t.token, t.lease_until, t.ready_at, t.wake_on, t.wake_key,
    t.wake_missing, t.inbox_seq, t.last_seq, t.takeovers, t.fail_attempts, t.parent, t.group_id, t.created_at
FROM {schema}.task t
WHERE t.token = $5::text AND t.id > $1::text AND ($3::text IS NULL OR t.status = $3::text)
    AND ($4::text IS NULL OR t.queue = $4::text)
ORDER BY t.id LIMIT $2::bigint;

-- name: put_content
-- Keep a body under its hash. Takes: the new row's key.
SELECT o_outcome FROM {schema}.put_content_1($1::text, $2::text, $3::bytea);

-- name: get_content
-- A body by its hash. Locks nothing.
SELECT c.body FROM {schema}.content c WHERE c.hash = $1::text;

-- name: put_snapshot
-- Keep a folded state. Takes: the snapshot's row.
SELECT o_outcome FROM {schema}.put_snapshot_1($1::text, $2::text, $3::bigint, $4::bytea);

-- name: get_snapshot
-- A folded state of one version; no row: no task; NULL seq: no snapshot. Locks nothing.
SELECT s.seq, s.body FROM {schema}.task t
LEFT JOIN {schema}.snapshot s ON s.task_id = t.id AND s.version = $2::text
WHERE t.id = $1::text;

-- name: check_server
-- What start-up looks at: durability, pins, and the schema's version (NULL: the table is not there).
SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
    current_setting('default_transaction_isolation'), current_setting('statement_timeout'),
    current_setting('server_version_num'), current_setting('transaction_read_only'),
    current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout');

-- name: schema_versions
-- The migrations this schema has.
SELECT m.version, m.name FROM {schema}.migration m ORDER BY m.version;
