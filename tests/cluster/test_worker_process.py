"""`noeta worker` as a real process: shutdown, an unreachable database, rows locked from outside, a freeze."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql

from noeta.backends.stores.pg_migrate import migrate
from noeta.core.task import Status
from noeta.testing.postgres import PostgresSource, Server
from tests.cluster.site import DEADLINE_SECONDS, LEASE_SECONDS, SCHEMA, Site

STATEMENT_TIMEOUT_SECONDS = 5.0
"""What a worker's sessions set: the longest that a frozen worker's statement can hold a row."""

STORE_CALLS = ("claim", "read", "append", "renew", "release", "requeue_stale", "fire_due_timers")
"""Every verb that a worker uses without a fault."""


@pytest.fixture
def site(postgres_source: PostgresSource, tmp_path: Path) -> Iterator[Site]:
    if postgres_source.bin_dir is None:
        pytest.skip("needs a server of its own to stop: the one given by DSN is never touched")
    with Server(postgres_source) as server:
        migrate(server.dsn, SCHEMA)
        site = Site(server, tmp_path)
        try:
            yield site
        finally:
            site.close()


@pytest.mark.holds("lost/shutdown-releases")
def test_sigterm_gives_the_task_back_at_once(site: Site) -> None:
    """The step is cancelled and the task released: claimable by another worker without waiting for a lease."""
    site.create("t1", until="never")
    worker = site.start_worker("w1")
    site.wait_for("the tool runs", lambda: site.started("t1"))

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(DEADLINE_SECONDS) == 0
    row = site.store.task("t1")
    assert (row.status, row.token, row.takeovers) == (Status.PENDING, None, 0)


def test_the_next_worker_finishes_what_a_stopped_one_gave_back(site: Site) -> None:
    site.create("t1", until="gate")
    first = site.start_worker("w1")
    site.wait_for("the tool runs", lambda: site.started("t1"))
    first.send_signal(signal.SIGTERM)
    first.wait(DEADLINE_SECONDS)

    site.open_gate("gate")
    site.start_worker("w2")

    site.wait_for("the task ends", lambda: site.has_ended("t1"))


def test_worker_started_before_its_database_waits_for_it(site: Site) -> None:
    """https://github.com/bensheldon/good_job/issues/296: started before the database, broken for good."""
    site.create("t1", until="gate")
    site.open_gate("gate")
    site.server.stop()
    worker = site.start_worker("w1")
    site.wait_for("the worker says what is wrong", lambda: any("failed" in line for line in site.log("w1")))

    site.server.start()

    site.wait_for("the task ends", lambda: site.has_ended("t1"))
    assert worker.poll() is None


def test_database_gone_for_three_leases_loses_no_task_and_floods_no_log(site: Site) -> None:
    """https://github.com/bensheldon/good_job/issues/296: a hot error loop while the database is down."""
    ids = [f"t{i}" for i in range(8)]
    site.create(*ids, until="gate")
    workers = {name: site.start_worker(name, concurrency=4) for name in ("w1", "w2")}
    site.wait_for("all tools run", lambda: all(site.started(i) for i in ids))

    began = time.monotonic()
    site.server.stop("immediate")
    away = time.monotonic() + 3 * LEASE_SECONDS
    site.wait_for("three leases pass", lambda: time.monotonic() >= away)
    site.server.start()
    site.open_gate("gate")

    site.wait_for("every task ends", lambda: all(site.has_ended(i) for i in ids))
    seconds = time.monotonic() - began
    assert [worker.poll() for worker in workers.values()] == [None, None]
    for name in workers:
        losses = sum("lost its claim" in line for line in site.log(name))
        assert losses <= 4, "each claim is told once"
        assert 1 <= len(site.log(name)) - losses <= seconds + 2, "\n".join(site.log(name))


@pytest.mark.holds("writer/pg-others-wait")
def test_row_locked_from_outside_costs_exactly_that_claim(site: Site) -> None:
    """One of twenty held rows is locked for three leases: renewals of the others go on. Keeps: one-writer."""
    ids = [f"t{i:02d}" for i in range(20)]
    site.create(*ids, until="gate")
    site.start_worker("w1", concurrency=20)
    site.wait_for("all tools run", lambda: all(site.started(i) for i in ids))
    epochs = {row.id: row.epoch for row in site.store.tasks()}

    with psycopg.connect(site.server.dsn) as outside:
        row = sql.SQL("SELECT 1 FROM {}.task WHERE id = %s FOR UPDATE").format(sql.Identifier(SCHEMA))
        outside.execute(row, ["t07"])
        locked = time.monotonic() + 3 * LEASE_SECONDS
        site.wait_for("three leases pass", lambda: time.monotonic() >= locked)

    site.open_gate("gate")
    site.wait_for("every task ends", lambda: all(site.has_ended(i) for i in ids))
    taken_over = {row.id for row in site.store.tasks() if row.epoch != epochs[row.id]}
    assert taken_over == {"t07"}


def test_two_signals_at_once_end_a_worker_once(site: Site) -> None:
    """https://github.com/janbjorge/pgqueuer/issues/630: SIGINT and SIGTERM together."""
    site.create("t1", until="never")
    worker = site.start_worker("w1")
    site.wait_for("the tool runs", lambda: site.started("t1"))

    worker.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGINT)
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(DEADLINE_SECONDS) == 0
    assert site.store.task("t1").status is Status.PENDING


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("verb", STORE_CALLS)
def test_a_worker_frozen_at_a_store_call_holds_no_row(site: Site, verb: str, side: str) -> None:
    """SIGSTOP around every store call: others lock its rows without waiting for it. Keeps: frozen-holds-nothing."""
    site.create("t1", until="never" if verb in ("renew", "release", "requeue_stale") else "gate")
    site.open_gate("gate")
    worker = site.start_worker("w1", concurrency=2, stop_at=f"{verb}.{side}")
    if verb == "release":
        site.wait_for("the tool runs", lambda: site.started("t1"))
        worker.send_signal(signal.SIGTERM)
    frozen = psutil.Process(worker.pid)
    site.wait_for("the worker is frozen", lambda: frozen.status() == psutil.STATUS_STOPPED)

    # Without SIGCONT, within one statement timeout (a statement under way may have to run into it).
    row = sql.SQL("SELECT id FROM {}.task WHERE id = %s FOR UPDATE NOWAIT").format(sql.Identifier(SCHEMA))
    deadline = time.monotonic() + STATEMENT_TIMEOUT_SECONDS
    with psycopg.connect(site.server.dsn, autocommit=True) as outside:
        while True:
            try:
                found = outside.execute(row, ["t1"]).fetchone()
                break
            except psycopg.errors.LockNotAvailable:
                assert time.monotonic() < deadline, f"frozen at {verb}.{side}, the worker holds its row"

    assert found == ("t1",)
    assert frozen.status() == psutil.STATUS_STOPPED
