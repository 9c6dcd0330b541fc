-- What a migration runs around its steps. Parameters are $1, $2.

-- name: lock
-- One migration of a schema at a time; held until the step's transaction ends. Takes: the schema's advisory lock.
SELECT pg_catalog.pg_advisory_xact_lock($1::bigint);

-- name: find_schema
-- Whether the schema is there.
SELECT 1 FROM pg_catalog.pg_namespace n WHERE n.nspname = $1::text;

-- name: create_schema
-- Only when it is not there: IF NOT EXISTS would need the right to create even when it is.
CREATE SCHEMA {schema};

-- name: find_migrations
-- Whether the table of applied steps is there.
SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND c.relname = 'migration';

-- name: versions
-- The steps this schema has.
SELECT m.version FROM {schema}.migration m ORDER BY m.version;

-- name: record
-- Note a step in its own transaction.
INSERT INTO {schema}.migration (version, name, applied_at)
VALUES ($1::int, $2::text, (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint);
