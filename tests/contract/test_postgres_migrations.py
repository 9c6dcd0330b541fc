"""Migrations: two at once, killed half way, repeated, newer than the code, in schemas with odd names."""

from __future__ import annotations

import subprocess
import sys
import threading

import psycopg
import pytest
from psycopg import sql

from noeta.backends.stores.pg_errors import SchemaMismatch
from noeta.backends.stores.pg_migrate import apply_migrations, migrate, needed_version
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.store import NewTask
from noeta.testing.postgres import fresh_schema
from tests.contract.postgres_stores import claimed, open_store

ALL = tuple(range(1, needed_version() + 1))


def test_a_second_migration_changes_nothing(pg_schema: tuple[str, str]) -> None:
    assert migrate(*pg_schema) == ALL
    assert migrate(*pg_schema) == ()


def test_several_migrations_at_once_apply_each_step_once(pg_schema: tuple[str, str]) -> None:
    applied: list[tuple[int, ...]] = []
    threads = [threading.Thread(target=lambda: applied.append(migrate(*pg_schema))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(version for versions in applied for version in versions) == list(ALL)


@pytest.mark.parametrize("up_to", range(len(ALL)))
def test_a_migration_that_ended_half_way_is_finished_by_the_next(pg_schema: tuple[str, str], up_to: int) -> None:
    apply_migrations(*pg_schema, up_to=up_to)

    assert migrate(*pg_schema) == ALL[up_to:]


def test_a_step_cut_in_the_middle_leaves_nothing_of_itself(pg_schema: tuple[str, str]) -> None:
    dsn, schema = pg_schema
    failing = [("CREATE FUNCTION {schema}.fire_timer_1", "SELECT 1/0;\nCREATE FUNCTION {schema}.fire_timer_1")]
    with pytest.raises(Exception, match="22012"):
        apply_migrations(dsn, schema, patches=failing)

    with psycopg.connect(dsn) as connection:
        left = connection.execute(
            "SELECT proname FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = %s", [schema]
        ).fetchall()
    assert left == [("clock",)]
    assert migrate(dsn, schema) == ALL[1:]


def test_a_killed_migration_is_finished_by_the_next(pg_schema: tuple[str, str]) -> None:
    """Killed while it waits inside a step: its transaction and its lock go with it."""
    dsn, schema = pg_schema
    script = (
        "import sys; from noeta.backends.stores.pg_migrate import apply_migrations;"
        "apply_migrations(sys.argv[1], sys.argv[2], patches=[('CREATE FUNCTION {schema}.fire_timer_1',"
        " 'SELECT pg_sleep(60);\\nCREATE FUNCTION {schema}.fire_timer_1')])"
    )
    victim = subprocess.Popen([sys.executable, "-c", script, dsn, schema])
    with psycopg.connect(dsn, autocommit=True) as connection:
        sleeping = sql.SQL(
            "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND application_name = 'noeta migrate'"
        )
        while (row := connection.execute(sleeping).fetchone()) is None:
            assert victim.poll() is None, "the migration ended before it reached the planted sleep"
        victim.kill()
        victim.wait()
        connection.execute("SELECT pg_terminate_backend(%s)", row)  # what the kernel does when the socket closes

    assert migrate(dsn, schema) == ALL[1:]


@pytest.mark.parametrize("name", ['Odd "na$$me', "with space", "UPPER", "ünï", "{schema}", "select", "%s"])
def test_any_schema_name_works(pg_dsn: str, name: str) -> None:
    with fresh_schema(pg_dsn) as lease:
        odd = f"{lease.name[:30]} {name}"
        try:
            with open_store(pg_dsn, odd) as store:
                claim = claimed(store)
                assert store.read("t").row.epoch == claim.epoch
                assert [row.id for row in store.tasks()] == ["t"]
        finally:
            with psycopg.connect(pg_dsn, autocommit=True) as connection:
                connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(odd)))


def test_a_newer_schema_is_refused_by_name(pg_schema: tuple[str, str]) -> None:
    dsn, schema = pg_schema
    migrate(dsn, schema)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            sql.SQL("INSERT INTO {}.migration VALUES (99, 'from the future', 0)").format(sql.Identifier(schema))
        )
    store = PostgresStore(dsn, schema=schema, allow_unsafe=True)

    with pytest.raises(SchemaMismatch, match="newer"):
        migrate(dsn, schema)
    with pytest.raises(SchemaMismatch, match=f"'{schema}' is at version 99, newer"):
        store.create(NewTask("t", "agent", "goal"))
    store.close()


@pytest.mark.parametrize("up_to", [0, 1, 3])
def test_a_missing_or_older_schema_says_what_to_run(pg_schema: tuple[str, str], up_to: int) -> None:
    dsn, schema = pg_schema
    apply_migrations(dsn, schema, up_to=up_to)
    store = PostgresStore(dsn, schema=schema, allow_unsafe=True)

    with pytest.raises(SchemaMismatch, match="run `noeta migrate`"):
        store.create(NewTask("t", "agent", "goal"))
    migrate(dsn, schema)
    assert store.create(NewTask("t", "agent", "goal")).created  # the same store, without a restart
    store.close()


def test_two_installs_in_one_database_do_not_see_each_other(pg_dsn: str) -> None:
    with fresh_schema(pg_dsn) as one, fresh_schema(pg_dsn) as two:
        with open_store(pg_dsn, one.name) as left, open_store(pg_dsn, two.name) as right:
            claimed(left)

            assert right.tasks() == ()
