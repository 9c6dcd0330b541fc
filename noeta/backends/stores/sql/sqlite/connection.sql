-- What a connection is told, and what is asked of a file, by name. A pragma takes no parameters.

-- name: begin_write
-- Take the write lock first, so that everything is decided on what is read after it. Keeps: one-writer.
BEGIN IMMEDIATE;

-- name: begin_read
-- One snapshot for the statements of a read. Locks nothing.
BEGIN DEFERRED;

-- name: commit
-- The last word of a transaction; never said twice. Keeps: acked-stays.
COMMIT;

-- name: rollback
-- As if it had never been.
ROLLBACK;

-- name: poll_locks
-- SQLite waits for no lock itself: the store looks again, often (sqlite_connection.py).
PRAGMA busy_timeout = 0;

-- name: use_wal
-- Readers and the writer do not wait for each other. Stays in the file; answers the mode.
PRAGMA journal_mode = WAL;

-- name: sync_full
-- Each COMMIT is on the disk before it is answered. Keeps: acked-stays.
PRAGMA synchronous = FULL;

-- name: sync_whole
-- On macOS an ordinary fsync stops in the drive's cache. Keeps: acked-stays.
PRAGMA fullfsync = ON;

-- name: sync_is
-- 2: FULL.
PRAGMA synchronous;

-- name: no_auto_checkpoint
-- Checkpoints are made under the write lock (sqlite_connection.py says why).
PRAGMA wal_autocheckpoint = 0;

-- name: sort_in_memory
-- No temporary file can fail a statement.
PRAGMA temp_store = MEMORY;

-- name: checkpoint
-- Copy what is committed from the -wal to the database. Answers (blocked, frames in the -wal, frames copied).
PRAGMA wal_checkpoint(PASSIVE);

-- name: page_bytes
-- The size of a page.
PRAGMA page_size;

-- name: owner
-- Whose file it is (0: nobody's), its newest migration (0: none), and how many tables and indexes it has. One statement,
-- so one snapshot: another process may be making the file.
SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version), count(*)
FROM {schema}.sqlite_schema;

-- name: version
-- The newest migration applied; 0: none.
PRAGMA user_version;
