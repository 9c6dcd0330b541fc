-- What tests do to a schema of their own: replace the clock's body, save and restore a state, look who waits.

-- name: create_clock
-- An instant that the tests set.
CREATE TABLE {schema}.test_clock AS SELECT 0::bigint AS at;

-- name: replace_clock
-- The body of clock() and nothing else.
CREATE OR REPLACE FUNCTION {schema}.clock() RETURNS bigint
LANGUAGE sql VOLATILE
RETURN (SELECT c.at FROM {schema}.test_clock c);

-- name: set_clock
-- Move the tests' instant.
UPDATE {schema}.test_clock SET at = $1::bigint;

-- name: create_state
-- Copies of the tables a scene touches, filled by save_state.
CREATE FUNCTION {schema}.test_create_state() RETURNS void LANGUAGE sql
AS $noeta$
    CREATE TABLE {schema}.test_task (LIKE {schema}.task);
    CREATE TABLE {schema}.test_entry (LIKE {schema}.entry);
    CREATE TABLE {schema}.test_item (LIKE {schema}.item);
$noeta$;

-- name: call_create_state
-- Run it once a schema.
SELECT {schema}.test_create_state();

-- name: create_save_state
-- Remember the present state.
CREATE FUNCTION {schema}.test_save_state() RETURNS void LANGUAGE sql
AS $noeta$
    DELETE FROM {schema}.test_task; DELETE FROM {schema}.test_entry; DELETE FROM {schema}.test_item;
    INSERT INTO {schema}.test_task SELECT * FROM {schema}.task;
    INSERT INTO {schema}.test_entry SELECT * FROM {schema}.entry;
    INSERT INTO {schema}.test_item SELECT * FROM {schema}.item;
$noeta$;

-- name: save_state
-- Remember the present state.
SELECT {schema}.test_save_state();

-- name: create_restore_state
-- Back to the state remembered.
CREATE FUNCTION {schema}.test_restore_state() RETURNS void LANGUAGE sql
AS $noeta$
    DELETE FROM {schema}.task; DELETE FROM {schema}.entry; DELETE FROM {schema}.item;
    DELETE FROM {schema}.content; DELETE FROM {schema}.snapshot;  -- no scene holds any
    INSERT INTO {schema}.task SELECT * FROM {schema}.test_task;
    INSERT INTO {schema}.entry SELECT * FROM {schema}.test_entry;
    INSERT INTO {schema}.item SELECT * FROM {schema}.test_item;
$noeta$;

-- name: restore_state
-- Back to the state remembered.
SELECT {schema}.test_restore_state();

-- name: clear_state
-- An empty store.
TRUNCATE {schema}.task, {schema}.entry, {schema}.item, {schema}.content, {schema}.snapshot;

-- name: vacuum_task
-- Give back what restore_state left dead.
VACUUM {schema}.task;

-- name: vacuum_entry
-- The same of the log.
VACUUM {schema}.entry;

-- name: vacuum_item
-- The same of the inbox.
VACUUM {schema}.item;

-- name: is_waiting
-- Whether this session waits for another one's lock.
SELECT cardinality(pg_blocking_pids($1::int)) > 0;

-- name: default_isolation
-- The statement that gives the sessions to come another isolation; a database's name can be no parameter of it.
SELECT format('ALTER DATABASE %I SET default_transaction_isolation = %L', current_database(), $1::text);

-- name: no_default_isolation
-- The statement that takes it back.
SELECT format('ALTER DATABASE %I RESET default_transaction_isolation', current_database());

-- name: begin
-- Hold what the next verb does open, at the session's isolation.
BEGIN;

-- name: commit
-- Let it land.
COMMIT;

-- name: rollback
-- Let it never have been.
ROLLBACK;
