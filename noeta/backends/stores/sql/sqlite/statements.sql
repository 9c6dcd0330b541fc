-- The statements of the SQLite store, by name. Those that write run under the write lock of their transaction.

-- name: task
-- One row. Locks nothing.
SELECT id, queue, status, kept, epoch, worker, token, lease_until, ready_at, wake_on, wake_key, wake_missing,
    inbox_seq, last_seq, takeovers, fail_attempts, parent, group_id, created_at
FROM {schema}.task WHERE id = ?1;

-- name: tasks
-- A page of rows in id order. Locks nothing.
SELECT id, queue, status, kept, epoch, worker, token, lease_until, ready_at, wake_on, wake_key, wake_missing,
    inbox_seq, last_seq, takeovers, fail_attempts, parent, group_id, created_at
FROM {schema}.task
WHERE id > ?1 AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR queue = ?4)
ORDER BY id LIMIT ?2;

-- name: tasks_of_token
-- The rows one claim call took, by their own index. Locks nothing.
SELECT id, queue, status, kept, epoch, worker, token, lease_until, ready_at, wake_on, wake_key, wake_missing,
    inbox_seq, last_seq, takeovers, fail_attempts, parent, group_id, created_at
FROM {schema}.task
WHERE token = ?5 AND id > ?1 AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR queue = ?4)
ORDER BY id LIMIT ?2;

-- name: content_hash
-- What tells a repeat of a birth from another task under its id. Locks nothing.
SELECT content_hash FROM {schema}.task WHERE id = ?1;

-- name: due
-- Tasks whose time has come, the longest due first, in every queue. Keeps: waiting-is-free.
SELECT id, queue, status, kept, epoch, worker, token, lease_until, ready_at, wake_on, wake_key, wake_missing,
    inbox_seq, last_seq, takeovers, fail_attempts, parent, group_id, created_at
FROM {schema}.task WHERE worker IS NULL AND due_at <= ?1 ORDER BY due_at, id LIMIT ?2;

-- name: due_in_queue
-- The same in one queue. Keeps: waiting-is-free.
SELECT id, queue, status, kept, epoch, worker, token, lease_until, ready_at, wake_on, wake_key, wake_missing,
    inbox_seq, last_seq, takeovers, fail_attempts, parent, group_id, created_at
FROM {schema}.task WHERE worker IS NULL AND queue = ?3 AND due_at <= ?1 ORDER BY due_at, id LIMIT ?2;

-- name: rested
-- Tasks whose lease has lapsed and that have rested since; ?3: the queues as JSON, NULL for all. Keeps: never-stuck.
SELECT id, queue, status, kept, epoch, worker, token, lease_until, ready_at, wake_on, wake_key, wake_missing,
    inbox_seq, last_seq, takeovers, fail_attempts, parent, group_id, created_at
FROM {schema}.task
WHERE worker IS NOT NULL AND due_at <= ?1 AND (?3 IS NULL OR queue IN (SELECT value FROM json_each(?3)))
ORDER BY due_at, id LIMIT ?2;

-- name: lapsed
-- Tasks whose lease has lapsed, the longest first; ?3 as above. Keeps: never-stuck.
SELECT id, queue, status, kept, epoch, worker, token, lease_until, ready_at, wake_on, wake_key, wake_missing,
    inbox_seq, last_seq, takeovers, fail_attempts, parent, group_id, created_at
FROM {schema}.task
WHERE worker IS NOT NULL AND lease_until <= ?1 AND (?3 IS NULL OR queue IN (SELECT value FROM json_each(?3)))
ORDER BY lease_until, id LIMIT ?2;

-- name: timers
-- Suspended tasks whose timer is due, the longest first. Keeps: waiting-is-free.
SELECT id, queue, status, kept, epoch, worker, token, lease_until, ready_at, wake_on, wake_key, wake_missing,
    inbox_seq, last_seq, takeovers, fail_attempts, parent, group_id, created_at
FROM {schema}.task WHERE status = 'suspended' AND worker IS NULL AND ready_at <= ?1 ORDER BY ready_at, id LIMIT ?2;

-- name: children
-- The unfinished tasks of a parent. Keeps: children-once.
SELECT id, queue, status, kept, epoch, worker, token, lease_until, ready_at, wake_on, wake_key, wake_missing,
    inbox_seq, last_seq, takeovers, fail_attempts, parent, group_id, created_at
FROM {schema}.task WHERE parent = ?1 AND status <> 'terminal' ORDER BY id;

-- name: add_task
-- A new row. Keeps: row-agrees.
INSERT INTO {schema}.task (id, queue, status, kept, epoch, worker, token, lease_until, ready_at, wake_on, wake_key,
    wake_missing, inbox_seq, last_seq, takeovers, fail_attempts, parent, group_id, created_at, due_at, content_hash)
VALUES (:id, :queue, :status, :kept, :epoch, :worker, :token, :lease_until, :ready_at, :wake_on, :wake_key,
    :wake_missing, :inbox_seq, :last_seq, :takeovers, :fail_attempts, :parent, :group, :created_at, :due_at,
    :content_hash);

-- name: put_task
-- A row after a transition. A wait that goes on keeps its bytes. Keeps: row-agrees.
UPDATE {schema}.task
SET status = :status, kept = :kept, epoch = :epoch, worker = :worker, token = :token, lease_until = :lease_until,
    ready_at = :ready_at, wake_on = CASE WHEN :wake_key IS NULL THEN NULL ELSE coalesce(:wake_on, wake_on) END,
    wake_key = :wake_key, wake_missing = :wake_missing, inbox_seq = :inbox_seq, last_seq = :last_seq,
    takeovers = :takeovers, fail_attempts = :fail_attempts, due_at = :due_at
WHERE id = :id;

-- name: put_counts
-- A row of which only counts changed: no index holds them. Keeps: row-agrees.
UPDATE {schema}.task
SET wake_missing = :wake_missing, inbox_seq = :inbox_seq, last_seq = :last_seq, takeovers = :takeovers,
    fail_attempts = :fail_attempts
WHERE id = :id;

-- name: add_entry
-- One entry of a log. Keeps: gapless-log.
INSERT INTO {schema}.entry (task_id, seq, epoch, at, body) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: entries
-- A page of a log. Locks nothing.
SELECT seq, epoch, at, body FROM {schema}.entry WHERE task_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3;

-- name: add_item
-- One item of an inbox. Keeps: taken-once.
INSERT INTO {schema}.item (task_id, number, key, wake_key, body, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: add_timer
-- The item of a timer, from the stored condition, byte for byte. Keeps: timers-once.
INSERT INTO {schema}.item (task_id, number, key, wake_key, body, at)
SELECT id, ?2, ?3, 'timer', wake_on, ?4 FROM {schema}.task WHERE id = ?1;

-- name: number_of_key
-- The item a key belongs to, taken or not. Keeps: taken-once.
SELECT number FROM {schema}.item WHERE task_id = ?1 AND key = ?2;

-- name: is_unread
-- Whether an item may be taken. Keeps: taken-once.
SELECT 1 FROM {schema}.item WHERE task_id = ?1 AND number = ?2 AND taken_seq IS NULL AND unread_seq IS NULL;

-- name: has_order
-- Whether an order waits that nobody has taken. Keeps: terminal-is-final.
SELECT 1 FROM {schema}.item
WHERE task_id = ?1 AND wake_key = 'control' AND taken_seq IS NULL AND unread_seq IS NULL LIMIT 1;

-- name: unread
-- Unread items after a number, in order. Locks nothing.
SELECT number, key, body, at FROM {schema}.item
WHERE task_id = ?1 AND number > ?2 AND taken_seq IS NULL AND unread_seq IS NULL ORDER BY number LIMIT ?3;

-- name: unread_of_wake_key
-- Unread items that could be the same event. Keeps: wake-once.
SELECT key, body FROM {schema}.item
WHERE task_id = ?1 AND wake_key = ?2 AND taken_seq IS NULL AND unread_seq IS NULL;

-- name: take_item
-- The entry at this seq holds the item now; the key stays. Keeps: taken-once.
UPDATE {schema}.item SET taken_seq = ?3, body = NULL WHERE task_id = ?1 AND number = ?2;

-- name: stamp_unread
-- What an ended task has left unread. Keeps: terminal-is-final.
UPDATE {schema}.item SET unread_seq = ?2 WHERE task_id = ?1 AND taken_seq IS NULL AND unread_seq IS NULL;

-- name: put_content
-- Keep a body under its hash, once. Keeps: acked-stays.
INSERT INTO {schema}.content (hash, media_type, body, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (hash) DO NOTHING;

-- name: get_content
-- A body by its hash. Locks nothing.
SELECT body FROM {schema}.content WHERE hash = ?1;

-- name: put_snapshot
-- Keep a folded state, unless a newer one is there. Keeps: acked-stays.
INSERT INTO {schema}.snapshot (task_id, version, seq, body) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (task_id, version) DO UPDATE SET seq = excluded.seq, body = excluded.body
WHERE excluded.seq >= snapshot.seq;

-- name: get_snapshot
-- A folded state of one version. Locks nothing.
SELECT seq, body FROM {schema}.snapshot WHERE task_id = ?1 AND version = ?2;
