"""The tool that gives us a Postgres does what it says, above all when it is struck itself.

Servers here are our own even where the other tests use one given by DSN: they are killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from noeta.testing.postgres import (
    NoPostgres,
    PostgresSource,
    Server,
    find_source,
    fresh_schema,
    guard,
    sweep_schemas,
    sweep_servers,
)
from noeta.testing.postgres.server import free_port
from noeta.testing.postgres.source import version_in

CLEANED_SECONDS_MAX = 10.0

OWN_A_SERVER = """
import os, sys, time
from noeta.testing.postgres import Server, find_source
server = Server(find_source(os.environ))
server.start()
print(server.data_dir.parent, flush=True)
time.sleep(600)
"""

HOLD_A_SCHEMA = """
import sys, time
from noeta.testing.postgres import fresh_schema
lease = fresh_schema(sys.argv[1])
print(lease.name, flush=True)
time.sleep(600)
"""


# As another host would name its lease: start time 1 belongs to no process here.
HOLD_A_FOREIGN_SCHEMA = """
import sys, time
from noeta.testing.postgres import schemas
schemas.started_at = lambda pid: 1
lease = schemas.fresh_schema(sys.argv[1])
print(lease.name, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def own_source(postgres_source: PostgresSource) -> PostgresSource:
    """Binaries we can start, also where a DSN is given."""
    if postgres_source.bin_dir is not None:
        return postgres_source
    try:
        return find_source(without_dsn())
    except NoPostgres as reason:
        pytest.skip(f"the given server is not ours to kill, and {reason}")


@pytest.fixture(scope="module")
def own_server(own_source: PostgresSource) -> Iterator[Server]:
    with Server(own_source, options={"work_mem": "7MB"}) as server:
        yield server


def without_dsn() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "NOETA_TEST_POSTGRES_DSN"}


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + CLEANED_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"not within {CLEANED_SECONDS_MAX} s: {what}"
        time.sleep(0.02)


def value(dsn: str, query: str) -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def schemas(dsn: str) -> set[object]:
    with psycopg.connect(dsn) as connection:
        return {row[0] for row in connection.execute("SELECT nspname FROM pg_namespace")}


class Owner:
    """Another process that runs one of the scripts above; `said` is its first line."""

    def __init__(self, script: str, *arguments: str, environ: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env=environ or without_dsn(),
            cwd=Path(__file__).parents[2],
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline().strip()
        assert self.said, "the script ended early"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


# Finding one.


def test_dsn_that_does_not_answer_is_one_clear_line_without_the_password() -> None:
    began = time.monotonic()
    port = free_port()
    with pytest.raises(NoPostgres) as caught:
        find_source({"NOETA_TEST_POSTGRES_DSN": f"postgresql://someone:hush-hush@127.0.0.1:{port}/db"})

    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "hush" not in repr(caught.value)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - began < 10


@pytest.mark.slow
def test_server_that_takes_connections_and_says_nothing_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        began = time.monotonic()
        with pytest.raises(NoPostgres, match="does not answer"):
            find_source({}, f"host=127.0.0.1 port={mute.getsockname()[1]}")

    assert time.monotonic() - began < 10


def test_malformed_dsn_is_not_quoted() -> None:
    with pytest.raises(NoPostgres, match="not a connection string") as caught:
        find_source({"NOETA_TEST_POSTGRES_DSN": "host=here hush-hush"})

    assert "hush" not in str(caught.value)


def test_unknown_forced_source_names_the_variable() -> None:
    with pytest.raises(NoPostgres, match="NOETA_POSTGRES must be"):
        find_source({"NOETA_POSTGRES": "podman"})


def test_wrapper_script_is_not_taken_for_a_server(tmp_path: Path) -> None:
    for name in ("postgres", "initdb"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 17.1'\n")
        (tmp_path / name).chmod(0o755)

    assert version_in(tmp_path) is None


def test_folder_without_initdb_is_not_taken(own_source: PostgresSource, tmp_path: Path) -> None:
    assert own_source.bin_dir is not None
    (tmp_path / "postgres").symlink_to(own_source.bin_dir / "postgres")

    assert version_in(tmp_path) is None
    assert version_in(own_source.bin_dir) == own_source.version


def test_source_does_not_show_its_password() -> None:
    source = PostgresSource(kind="dsn", version="17.1", dsn="host=db port=7 user=u password=hush-hush")

    assert str(source) == "PostgreSQL 17.1 (dsn: db:7)"
    assert "hush" not in repr(source)


# Running one.


def test_options_reach_the_server_and_fsync_is_on(own_server: Server) -> None:
    assert value(own_server.dsn, "SHOW work_mem") == "7MB"
    assert value(own_server.dsn, "SHOW fsync") == "on"
    assert value(own_server.dsn, "SHOW unix_socket_directories") == ""


def test_options_that_are_ours_are_refused(own_source: PostgresSource) -> None:
    with pytest.raises(ValueError, match="port"):
        Server(own_source, options={"port": "1"})


def test_wrong_password_is_refused(own_server: Server) -> None:
    with pytest.raises(psycopg.OperationalError), psycopg.connect(own_server.dsn, password="guess"):
        pass


def test_kill_takes_the_whole_server_and_keeps_what_was_committed(own_server: Server) -> None:
    with psycopg.connect(own_server.dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 41 + 1 AS answer")
    dsn, pids = own_server.dsn, own_server.processes()
    assert pids[:1] == [own_server.pid]

    own_server.kill()

    assert len(pids) > 1
    assert not own_server.is_running()
    assert all(guard.started_at(pid) is None for pid in pids)

    own_server.start()
    assert own_server.dsn == dsn
    assert value(dsn, "SELECT answer FROM kept") == 42


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_restart_keeps_the_address(own_server: Server, mode: str) -> None:
    dsn, pid = own_server.dsn, own_server.pid

    own_server.restart("fast" if mode == "fast" else "immediate")

    assert own_server.dsn == dsn
    assert own_server.pid not in (None, pid)
    assert value(dsn, "SELECT 1") == 1


def test_postmaster_killed_by_somebody_else_is_noticed(own_server: Server) -> None:
    assert own_server.pid is not None
    os.kill(own_server.pid, signal.SIGKILL)
    wait_until(lambda: not own_server.is_running(), "the postmaster is seen to be gone")

    own_server.start()

    assert value(own_server.dsn, "SELECT 1") == 1


def test_port_taken_by_another_is_given_up_for_a_new_one(own_source: PostgresSource, own_server: Server) -> None:
    taken = psycopg.conninfo.conninfo_to_dict(own_server.dsn)["port"]
    ports = iter([int(str(taken)), free_port()])

    with Server(own_source, choose_port=lambda: next(ports)) as second:
        assert value(second.dsn, "SELECT 1") == 1
        assert psycopg.conninfo.conninfo_to_dict(second.dsn)["port"] != taken


def test_close_leaves_nothing(own_source: PostgresSource) -> None:
    server = Server(own_source)
    server.start()
    base = server.data_dir.parent
    segment = guard.pid_file_lines(server.data_dir)[6].split()[1]
    assert is_segment_listed(segment)

    server.close()
    server.close()

    assert not base.exists()
    assert not guard.server_processes(guard.data_dir(base))
    assert not is_segment_listed(segment)


def is_segment_listed(segment: str) -> bool:
    return any(line.split()[1] == segment for line in Path("/proc/sysvipc/shm").read_text().splitlines())


def test_server_given_by_dsn_is_never_stopped(own_server: Server) -> None:
    given = Server(find_source({}, own_server.dsn))
    with given:
        assert not given.owned
        for strike in (given.stop, given.kill, given.restart):
            with pytest.raises(RuntimeError, match="not ours"):
                strike()

    assert own_server.is_running()
    assert value(given.dsn, "SELECT 1") == 1


# When the owner is killed.


def test_killed_owner_leaves_no_process_and_no_directory(own_source: PostgresSource) -> None:
    owner = Owner(OWN_A_SERVER)
    base = Path(owner.said)
    assert guard.server_processes(guard.data_dir(base))

    owner.kill()

    wait_until(lambda: not base.exists(), "directory removed")
    wait_until(lambda: not guard.server_processes(guard.data_dir(base)), "processes gone")


def test_what_a_killed_guard_leaves_is_swept(own_source: PostgresSource) -> None:
    owner = Owner(OWN_A_SERVER)
    base = Path(owner.said)
    os.kill(guard_of(base), signal.SIGKILL)
    owner.kill()
    assert base.exists()

    sweep_servers(base.parent)

    # Another process of this test run may have been quicker; what counts is that it is gone.
    wait_until(lambda: not base.exists(), "directory swept")
    assert not guard.server_processes(guard.data_dir(base))


def test_sweep_leaves_a_living_owner_alone(own_server: Server) -> None:
    base = own_server.data_dir.parent

    assert base not in sweep_servers(base.parent)
    assert value(own_server.dsn, "SELECT 1") == 1


def guard_of(base: Path) -> int:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and guard.started_at(int(entry.name)) is not None:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            if os.fsencode(base) in arguments:
                return int(entry.name)
    raise AssertionError(f"{base} has no guard")


@pytest.mark.slow
def test_several_processes_may_make_the_template_at_once(own_source: PostgresSource) -> None:
    # Not tmp_path: under root the server's user must be able to reach it.
    root = Path(tempfile.mkdtemp(prefix="noeta-test-"))
    root.chmod(0o755)
    try:
        owners = [
            subprocess.Popen(
                [sys.executable, "-c", OWN_A_SERVER.replace("time.sleep(600)", "server.close()")],
                stdout=subprocess.DEVNULL,
                env={**without_dsn(), "TMPDIR": str(root)},
                cwd=Path(__file__).parents[2],
            )
            for _ in range(3)
        ]
        codes = [owner.wait() for owner in owners]
        made = [path.name for path in root.glob("noeta-pg-cache-*/*") if not path.name.startswith("binaries-")]
        left = [path for path in root.iterdir() if not path.name.startswith("noeta-pg-cache-")]
    finally:
        shutil.rmtree(root)

    assert codes == [0, 0, 0]
    assert sorted(name.partition("-")[0] for name in made) == ["lock", "template"]
    assert left == []


# Schemas.


def test_schema_is_there_for_the_lease_and_gone_after_it(pg_dsn: str) -> None:
    with fresh_schema(pg_dsn) as lease, fresh_schema(pg_dsn) as other:
        assert {lease.name, other.name} <= schemas(pg_dsn)
        with psycopg.connect(pg_dsn) as connection:
            connection.execute(f"CREATE TABLE {lease.name}.thing (x int)".encode())

    assert schemas(pg_dsn).isdisjoint({lease.name, other.name})


def test_schema_of_a_killed_owner_is_swept_and_a_living_one_is_not(pg_dsn: str) -> None:
    dead, living = Owner(HOLD_A_SCHEMA, pg_dsn), Owner(HOLD_A_SCHEMA, pg_dsn)
    try:
        dead.kill()
        wait_until(lambda: is_swept(pg_dsn, dead.said), "the killed owner's schema is dropped")

        assert living.said in schemas(pg_dsn)
    finally:
        living.kill()
        wait_until(lambda: is_swept(pg_dsn, living.said), "the other one is dropped too")


def is_swept(dsn: str, name: str) -> bool:
    sweep_schemas(dsn)
    return name not in schemas(dsn)


def test_schema_of_an_owner_on_another_host_is_kept_while_its_lock_is_held(pg_dsn: str) -> None:
    """No process here has its id and start time; only the lock tells that the owner lives."""
    with fresh_schema(pg_dsn) as lease:
        foreign = Owner(HOLD_A_FOREIGN_SCHEMA, pg_dsn)
        try:
            assert foreign.said not in sweep_schemas(pg_dsn)
            assert foreign.said in schemas(pg_dsn)
        finally:
            foreign.kill()
        wait_until(lambda: is_swept(pg_dsn, foreign.said), "dropped once its lock is free")
        assert lease.name in schemas(pg_dsn)


def test_session_that_still_uses_the_schema_is_ended_with_a_warning(pg_dsn: str) -> None:
    lease = fresh_schema(pg_dsn)
    with psycopg.connect(pg_dsn, autocommit=True) as idle:
        idle.execute(f"CREATE TABLE {lease.name}.thing (x int)".encode())
        idle.execute("BEGIN")
        idle.execute(f"SELECT * FROM {lease.name}.thing".encode())

        with pytest.warns(ResourceWarning, match="still used schema"):
            lease.close()

        assert lease.name not in schemas(pg_dsn)
        with pytest.raises(psycopg.OperationalError):
            idle.execute("SELECT 1")


def test_lease_survives_a_server_that_was_killed_meanwhile(own_server: Server) -> None:
    with fresh_schema(own_server.dsn) as lease:
        own_server.kill()
        own_server.start()
        assert lease.name in schemas(own_server.dsn)

    assert lease.name not in schemas(own_server.dsn)
