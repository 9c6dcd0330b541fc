"""Every instant in the schema is a number of microseconds since the epoch: no session's zone shifts it, and none is
infinite."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from noeta.backends.stores.pg_migrate import migrate

OF_TIME = """
    SELECT c.relname || '.' || a.attname FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE n.nspname = %(schema)s AND a.attnum > 0 AND t.typcategory IN ('D', 'T')
    UNION
    SELECT p.proname FROM pg_proc p
    JOIN pg_namespace n ON n.oid = p.pronamespace
    JOIN pg_type t ON t.oid = ANY (coalesce(p.proallargtypes, p.proargtypes::oid[]) || p.prorettype)
    WHERE n.nspname = %(schema)s AND t.typcategory IN ('D', 'T')
    ORDER BY 1
"""
"""Columns, and functions with an argument or a result, of a date or a time of any kind."""


def test_no_column_and_no_function_has_a_type_with_a_zone_or_an_infinity(pg_schema: tuple[str, str]) -> None:
    """https://github.com/lincolnloop/django-absurd/pull/89 , https://github.com/raystack/entropy/issues/91"""
    dsn, schema = pg_schema
    migrate(dsn, schema)
    with psycopg.connect(dsn, autocommit=True) as admin:
        assert of_time(admin, schema) == []

        for planted in (
            "CREATE TABLE {}.planted (at timestamptz)",
            "CREATE FUNCTION {}.planted(a timestamp) RETURNS bigint LANGUAGE sql RETURN 1",
        ):
            admin.execute(sql.SQL(planted).format(sql.Identifier(schema)))
        assert of_time(admin, schema) == ["planted", "planted.at"], "or this looks at nothing"


def of_time(admin: psycopg.Connection[tuple[Any, ...]], schema: str) -> list[str]:
    return [row[0] for row in admin.execute(OF_TIME, {"schema": schema})]
