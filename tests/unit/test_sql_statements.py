"""Every SQL statement has a name that is used, and every name used is there."""

from __future__ import annotations

import ast
import re
from importlib import resources
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from noeta.backends import stores
from noeta.backends.stores.pg_migrate import STORE, migrate
from noeta.backends.stores.sql_loader import load_migrations, load_statements, quote_name
from noeta.core.errors import BadInput

FOLDER = Path(stores.__file__).parent
PYTHON = ("postgres.py", "pg_startup.py", "pg_migrate.py")
RUNNERS = {"_write", "_write_family", "_ask", "_run", "run"}
PROMISE = re.compile(
    r"Keeps: |Takes: |Locks nothing|Whether |Only when|What start-up|The migrations|The steps|Note a step"
)


def names_used() -> set[str]:
    """First arguments of the calls that run a statement, and subscripts of the statements."""
    used: set[str] = set()
    for file in PYTHON:
        for node in ast.walk(ast.parse((FOLDER / file).read_text())):
            match node:
                case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Constant(value=str(name)), *_]):
                    if attr in RUNNERS:
                        used.add(name)
                case ast.Subscript(value=ast.Name(id="run"), slice=ast.Constant(value=str(name))):
                    used.add(name)
                case ast.Call(func=ast.Attribute(attr="_ask"), args=[ast.IfExp()]):
                    raise AssertionError(f"{file}: name the statement in the call, so that it can be found")
    return used


def names_given() -> set[str]:
    return {*load_statements(STORE, "s"), *load_statements(STORE, "s", "migrate.sql")}


def test_each_statement_is_used_and_each_used_name_exists() -> None:
    assert names_used() == names_given()


@pytest.mark.parametrize("file", ["statements.sql", "migrate.sql", "testing.sql"])
def test_each_statement_says_its_purpose(file: str) -> None:
    text = resources.files(stores).joinpath("sql", STORE, file).read_text("utf-8")
    parts = re.split(r"^-- name: (\w+)$", text, flags=re.MULTILINE)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        first = body.strip().splitlines()[0]
        assert first.startswith("-- "), f"{name}: a line above the statement says what it is for"
        if file == "statements.sql":
            comments = " ".join(line for line in body.splitlines() if line.startswith("--"))
            assert PROMISE.search(comments), f"{name}: says neither a promise nor what it locks"


def test_functions_pin_their_search_path_and_name_every_table_with_its_schema() -> None:
    for migration in load_migrations(STORE, "a schema"):
        for function in re.split(r"(?=^CREATE FUNCTION )", migration.text, flags=re.MULTILINE)[1:]:
            head = function.split("$noeta$")[0]
            assert "SET search_path = pg_catalog, pg_temp" in head or "RETURN (extract" in head, head[:80]
        bare = re.findall(r"(?:FROM|JOIN|INTO|UPDATE) (task|entry|item|content|snapshot|migration)\b", migration.text)
        assert not bare, (migration.name, bare)


def test_functions_that_write_are_volatile_and_numbered() -> None:
    for migration in load_migrations(STORE, "s"):
        for name, head in re.findall(r'CREATE FUNCTION "s"\.(\w+)\((.*?)\$noeta\$', migration.text, re.DOTALL):
            assert re.fullmatch(r"[a-z_]+_\d+", name), name
            assert "VOLATILE" in head or name.startswith("queues"), name


@pytest.mark.parametrize("name", ["noeta", 'Odd "na$$me', "with space", "UPPER", "ünïcode", "a.b", "{schema}"])
def test_a_schema_name_is_quoted_whole(name: str) -> None:
    assert quote_name(name).startswith('"')
    assert quote_name(name) in load_statements(STORE, name)["task"]


@pytest.mark.parametrize("name", ["", "x" * 64, "é" * 32, "nul\0", "a$noeta$b", "a\ud800"])
def test_a_name_that_cannot_be_a_schema_is_refused(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        quote_name(name)
    assert refused.value.field == "schema"


def test_a_patch_must_find_its_text() -> None:
    with pytest.raises(AssertionError, match="no migration holds"):
        load_migrations(STORE, "s", [("this text stands nowhere", "")])


def test_every_statement_can_be_prepared(pg_schema: tuple[str, str]) -> None:
    dsn, schema = pg_schema
    migrate(dsn, schema)
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=") as connection:
        for name, statement in load_statements(STORE, schema).items():
            prepare = sql.SQL("PREPARE {} AS ").format(sql.Identifier(name)).as_string(connection) + statement
            connection.execute(prepare.encode())
        prepared = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert prepared == (len(load_statements(STORE, schema)),)
