"""The proxy between a real store and a real server: two cuts around a commit, and otherwise as if it were not there."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo, sql

from noeta.backends.stores.pg_migrate import migrate
from noeta.backends.stores.postgres import PostgresStore
from noeta.chaos.proxy import Cut, NoWire, Outcome, Wire, WireFailed, resolve
from noeta.chaos.proxy.target import Address, Target
from noeta.chaos.reaper import Reapers
from noeta.chaos.schedule import Kind
from noeta.core.errors import CommitUnknown, InvalidLease, StoreUnavailable
from noeta.core.events import ModelCalled
from noeta.core.store import Claim, Commit
from noeta.testing.postgres import PostgresSource, Server
from tests.contract.postgres_stores import QUICK, claimed
from tests.unit.chaos import wire_bytes

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

BEFORE, AFTER = Kind.CUT_BEFORE_COMMIT, Kind.CUT_AFTER_COMMIT
CALLED = Commit((ModelCalled("h", 1),))
DEADLINE_SECONDS = 20.0


@pytest.fixture
def reapers() -> Iterator[Reapers]:
    with Reapers() as made:
        yield made


@pytest.fixture
def wire(pg_schema: tuple[str, str], tmp_path: Path, reapers: Reapers) -> Iterator[Wire]:
    migrate(*pg_schema)
    with Wire(resolve(pg_schema[0]), tmp_path / "cuts.jsonl", tmp_path / "wire.log", reapers) as made:
        yield made
    assert (tmp_path / "wire.log").read_text() == ""


@contextmanager
def store_at(dsn: str, schema: str) -> Iterator[PostgresStore]:
    made = PostgresStore(dsn, schema=schema, settings=QUICK, allow_unsafe=True)
    with contextlib.closing(made):
        yield made


@pytest.fixture
def far(wire: Wire, pg_schema: tuple[str, str]) -> Iterator[PostgresStore]:
    """The store of a worker: through the proxy."""
    with store_at(wire.address_of("w1#1"), pg_schema[1]) as made:
        yield made


@pytest.fixture
def near(wire: Wire, pg_schema: tuple[str, str]) -> Iterator[PostgresStore]:
    """The store of the harness: directly at the server."""
    with store_at(*pg_schema) as made:
        yield made


def last_seq(store: PostgresStore, claim: Claim) -> int:
    return store.read(claim.task_id).row.last_seq


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("kind", "outcome", "entries"), [(BEFORE, Outcome.NOT_LANDED, 1), (AFTER, Outcome.LANDED, 2), (None, None, 2)]
)
def test_an_append_is_cut_before_or_after_its_commit_and_the_record_says_which(
    wire: Wire, far: PostgresStore, near: PostgresStore, kind: Kind | None, outcome: Outcome | None, entries: int
) -> None:
    claim = claimed(far)
    if kind is None:
        far.append(claim, 1, CALLED)
    else:
        wire.arm(Cut("c", kind, "append"))
        with pytest.raises(CommitUnknown):
            far.append(claim, 1, CALLED)
    cuts = wire.cuts()

    assert last_seq(near, claim) == entries
    assert [(cut.outcome, cut.kind, cut.process, cut.facts) for cut in cuts] == (
        [] if kind is None else [(outcome, kind, "w1#1", {"task": "t"})]
    )
    assert last_seq(far, claim) == entries  # the next connection is not cut
    wire.disarm_all()


def test_an_append_that_the_fence_refuses_has_not_landed(wire: Wire, far: PostgresStore, near: PostgresStore) -> None:
    claim = claimed(far)
    near.release(claim)
    wire.arm(Cut("c", AFTER, "append"))
    with pytest.raises(CommitUnknown):
        far.append(claim, 1, CALLED)
    (cut,) = wire.cuts()

    assert (cut.outcome, cut.why.partition("; ")[2]) == (Outcome.NOT_LANDED, "it answered 'lost'")
    with pytest.raises(InvalidLease):
        far.append(claim, 1, CALLED)
    assert last_seq(near, claim) == 1


def test_an_append_that_the_server_fails_has_not_landed(
    wire: Wire, far: PostgresStore, near: PostgresStore, pg_schema: tuple[str, str]
) -> None:
    claim = claimed(far)
    wire.arm(Cut("c", AFTER, "append"))
    with psycopg.connect(pg_schema[0]) as session:
        session.execute(sql.SQL("LOCK TABLE {}.task").format(sql.Identifier(pg_schema[1])))
        with pytest.raises(CommitUnknown):
            far.append(claim, 1, CALLED)
    (cut,) = wire.cuts()

    assert (cut.outcome, cut.sqlstate) == (Outcome.NOT_LANDED, "55P03")
    assert last_seq(near, claim) == 1


@pytest.mark.parametrize(("kind", "running"), [(BEFORE, False), (AFTER, True)])
def test_a_claim_is_cut_like_an_append(
    wire: Wire, far: PostgresStore, near: PostgresStore, kind: Kind, running: bool
) -> None:
    near.release(claimed(near))
    far.task("t")
    wire.arm(Cut("c", kind, "claim"))
    with pytest.raises(CommitUnknown):
        far.claim("w1-1", ["queue of t"], 60.0)
    (cut,) = wire.cuts()

    assert (near.task("t").worker == "w1-1") is running
    assert cut.outcome is (Outcome.LANDED if running else Outcome.NOT_LANDED)


def test_without_a_cut_a_big_commit_and_a_big_read_pass_unchanged(far: PostgresStore, near: PostgresStore) -> None:
    body = os.urandom(3 << 20)
    ref = far.put_content(body)

    assert near.get_content(ref.hash) == body == far.get_content(ref.hash)


def test_a_frozen_client_blocks_no_other_and_holds_no_row(
    wire: Wire, far: PostgresStore, near: PostgresStore, pg_schema: tuple[str, str]
) -> None:
    claim = claimed(near)
    frozen = psycopg.connect(wire.address_of("w9#1"), autocommit=True)
    # More than all buffers on the way hold, and nobody reads it.
    frozen.pgconn.send_query(b"SELECT repeat('x', 1000) FROM generate_series(1, 200000)")
    frozen.pgconn.flush()
    with psycopg.connect(pg_schema[0], autocommit=True) as session:
        stuck = "SELECT wait_event FROM pg_stat_activity WHERE application_name = 'noeta w9#1'"
        wait_until(
            "the server waits for the frozen client", lambda: session.execute(stuck).fetchone() == ("ClientWrite",)
        )
    for seq in range(1, 50):
        far.append(claim, seq, CALLED)

    assert last_seq(near, claim) == 50
    frozen.close()


def dies_as_if_killed(client: psycopg.Connection) -> None:
    """What the kernel does for a process that is killed: no word of farewell."""
    with socket.socket(fileno=os.dup(client.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


def test_a_client_that_dies_is_gone_for_the_server_too(wire: Wire, pg_schema: tuple[str, str]) -> None:
    lock = sql.SQL("LOCK TABLE {}.task IN EXCLUSIVE MODE").format(sql.Identifier(pg_schema[1]))
    with contextlib.closing(psycopg.connect(wire.address_of("w9#1"))) as dies:
        dies.execute(lock)
        dies_as_if_killed(dies)
        with psycopg.connect(pg_schema[0], options="-c lock_timeout=10s") as session:
            session.execute(lock)


def test_a_statement_that_was_sent_whole_lands_although_its_client_dies_at_once(
    wire: Wire, near: PostgresStore, pg_schema: tuple[str, str]
) -> None:
    near.release(claimed(near))
    with contextlib.closing(psycopg.connect(wire.address_of("w9#1"), autocommit=True)) as dies:
        update = sql.SQL("UPDATE {}.task SET takeovers = 3").format(sql.Identifier(pg_schema[1]))
        dies.pgconn.send_query(update.as_bytes())
        dies.pgconn.flush()
        dies_as_if_killed(dies)

    wait_until("it landed", lambda: near.task("t").takeovers == 3)


def test_a_request_for_encryption_is_answered_and_one_to_cancel_passes(wire: Wire, pg_dsn: str) -> None:
    dsn = conninfo.make_conninfo(wire.address_of("w9#1"), sslmode="prefer")
    with psycopg.connect(dsn, autocommit=True) as session, psycopg.connect(pg_dsn, autocommit=True) as looks:
        assert not session.pgconn.ssl_in_use
        session.pgconn.send_query(b"SELECT pg_sleep(60)")
        session.pgconn.flush()
        sleeps = "SELECT wait_event FROM pg_stat_activity WHERE application_name = 'noeta w9#1'"
        wait_until("it sleeps", lambda: looks.execute(sleeps).fetchone() == ("PgSleep",))
        session.cancel_safe(timeout=10)
        while session.pgconn.is_busy():
            session.pgconn.consume_input()
        result = session.pgconn.get_result()
        assert result is not None
        assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"57014"
        assert session.pgconn.get_result() is None


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", wire_bytes.start()[:5], b""])
def test_whoever_speaks_another_protocol_or_nothing_hurts_nobody(wire: Wire, far: PostgresStore, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", wire.port)) as stranger:
        stranger.sendall(said)
        far.tasks()
        if len(said) > 8:
            stranger.settimeout(DEADLINE_SECONDS)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""


def test_disarming_waits_for_the_cut_that_is_under_way(
    wire: Wire, near: PostgresStore, pg_schema: tuple[str, str]
) -> None:
    claimed(near)
    name = sql.Identifier(pg_schema[1])
    body = "BEGIN PERFORM FROM {0}.task; o_outcome := 'landed'; END"
    made = f"CREATE FUNCTION {{0}}.append_9(OUT o_outcome text) LANGUAGE plpgsql AS $$ {body} $$"
    with psycopg.connect(pg_schema[0], autocommit=True) as session:
        session.execute(sql.SQL(made).format(name))
    wire.arm(Cut("c", AFTER, "append"))
    with (
        contextlib.closing(psycopg.connect(wire.address_of("w2#1"), autocommit=True)) as waits,
        psycopg.connect(pg_schema[0]) as locks,
        psycopg.connect(pg_schema[0], autocommit=True) as looks,
    ):
        locks.execute(sql.SQL("LOCK TABLE {}.task").format(name))
        waits.pgconn.send_query(sql.SQL("SELECT * FROM {}.append_9()").format(name).as_bytes())
        waits.pgconn.flush()
        why = "SELECT wait_event_type FROM pg_stat_activity WHERE application_name = 'noeta w2#1'"
        wait_until("it waits for the lock", lambda: looks.execute(why).fetchone() == ("Lock",))
        assert wire.cuts() == ()
        threading.Timer(0.3, locks.rollback).start()
        wire.disarm_all()
        (cut,) = wire.cuts()

    assert (cut.outcome, cut.process) == (Outcome.LANDED, "w2#1")


def test_nothing_is_left_and_the_port_is_closed(pg_dsn: str, tmp_path: Path, reapers: Reapers) -> None:
    with Wire(resolve(pg_dsn), tmp_path / "cuts.jsonl", tmp_path / "wire.log", reapers) as wire:
        session = psycopg.connect(wire.address_of("w1#1"), autocommit=True)
        pid, port = wire.pid, wire.port
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")
    session.close()

    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    wire.close()  # twice does no harm


@pytest.mark.parametrize("where", ["registers", "hears"])
def test_a_start_that_is_interrupted_leaves_no_proxy(
    where: str, tmp_path: Path, reapers: Reapers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody was given the wire, so nobody closes it."""
    pids: list[int] = []
    process = reapers.process

    def registers(pid: int) -> int:
        pids.append(pid)
        if where == "registers":
            raise KeyboardInterrupt
        return process(pid)

    def hears(wire: Wire, seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reapers, "process", registers)
    monkeypatch.setattr(Wire, "_hear", hears)
    with pytest.raises(KeyboardInterrupt):
        Wire(Target(Address("127.0.0.1", 1), {}), tmp_path / "cuts.jsonl", tmp_path / "wire.log", reapers)

    (pid,) = pids
    assert not Path(f"/proc/{pid}").exists()


def test_a_proxy_that_is_killed_is_noticed(wire: Wire, far: PostgresStore) -> None:
    far.tasks()
    os.kill(wire.pid, signal.SIGKILL)
    os.waitid(os.P_PID, wire.pid, os.WEXITED | os.WNOWAIT)

    with pytest.raises(WireFailed, match="exit code -9"):
        wire.cuts()
    with pytest.raises(WireFailed):
        wire.disarm_all()
    with pytest.raises(StoreUnavailable):
        far.tasks()


def test_a_server_that_is_away_is_away_through_the_proxy_too_and_comes_back(
    postgres_source: PostgresSource, tmp_path: Path, reapers: Reapers
) -> None:
    if postgres_source.bin_dir is None:
        pytest.skip("the server is not ours to stop")
    with Server(postgres_source) as server:
        migrate(server.dsn, "s")
        with Wire(resolve(server.dsn), tmp_path / "cuts.jsonl", tmp_path / "wire.log", reapers) as wire:
            with store_at(wire.address_of("w1#1"), "s") as far:
                claim = claimed(far)
                wire.arm(Cut("c", AFTER, "append"))
                server.kill()
                with pytest.raises(StoreUnavailable):
                    far.tasks()
                server.start()
                with pytest.raises(CommitUnknown):
                    far.append(claim, 1, CALLED)
                assert last_seq(far, claim) == 2
            assert [cut.outcome for cut in wire.cuts()] == [Outcome.LANDED]


def test_an_address_that_demands_encryption_has_no_wire(encrypting: Server) -> None:
    with pytest.raises(NoWire, match="sslmode=require"):
        resolve(conninfo.make_conninfo(encrypting.dsn, sslmode="require"))


def test_a_server_that_demands_encryption_has_no_wire(encrypting: Server) -> None:
    # The address leaves it open: with encryption it would connect.
    with pytest.raises(NoWire, match="takes no connection without encryption"):
        resolve(conninfo.make_conninfo(encrypting.dsn, sslmode="prefer"))


@pytest.fixture
def encrypting(postgres_source: PostgresSource, tmp_path: Path) -> Iterator[Server]:
    """A server that takes encrypted connections only."""
    openssl = shutil.which("openssl")
    if openssl is None or postgres_source.bin_dir is None:
        pytest.skip("it takes openssl and a server of our own")
    with Server(postgres_source) as server:
        folder = server.data_dir
        files = {"ssl_cert_file": folder / "test.crt", "ssl_key_file": folder / "test.key"}
        made = ["req", "-new", "-x509", "-nodes", "-subj", "/CN=localhost", "-newkey", "rsa:2048"]
        outputs = ["-out", str(files["ssl_cert_file"]), "-keyout", str(files["ssl_key_file"])]
        subprocess.run([openssl, *made, *outputs], check=True, capture_output=True)
        for path in files.values():
            path.chmod(0o600)
            os.chown(path, folder.stat().st_uid, folder.stat().st_gid)
        hba = folder / "pg_hba.conf"
        with psycopg.connect(server.dsn, autocommit=True) as session:
            for name, value in {**files, "ssl": "on"}.items():
                try:
                    session.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), str(value)))
                except psycopg.errors.InvalidParameterValue:
                    pytest.skip("this server was built without TLS")
            hba.write_text(re.sub(r"(?m)^host\s", "hostssl ", hba.read_text()))
        server.restart()
        yield server


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_address_of_a_worker_is_on_the_wire_whatever_the_harness_was_given(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    given = conninfo.conninfo_to_dict(pg_dsn)
    password = str(given.pop("password"))
    monkeypatch.setenv("PGPASSWORD", password)
    given["host"] = host
    target = resolve(conninfo.make_conninfo("", **given))
    through = conninfo.conninfo_to_dict(target.dsn_through(7, "w1#2"))

    assert target.address == resolve(pg_dsn).address
    assert (through["hostaddr"], through["port"], through["application_name"]) == ("127.0.0.1", "7", "noeta w1#2")
    assert (through["user"], through["dbname"], through["password"]) == (given["user"], given["dbname"], password)
    assert (through["sslmode"], through["channel_binding"]) == ("disable", "disable")
    assert password not in repr(target)


@pytest.mark.parametrize("directory", ["/tmp/x", "@x"])
def test_a_server_behind_a_socket_in_the_file_system_is_reached(tmp_path: Path, directory: str) -> None:
    directory = directory.replace("/tmp/x", str(tmp_path))
    path = f"{directory}/.s.PGSQL.7"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{path[1:]}" if path.startswith("@") else path)
        with pytest.raises(ConnectionRefusedError):
            Address(directory, 7).connecting()
        server.listen()
        with Address(directory, 7).connecting() as client:
            assert client.getpeername() == server.getsockname()
