"""Benches small enough for every run: counts, never times."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import psycopg
import pytest
from psycopg import conninfo

from bench import family, old_plans, round_trips, waiting
from bench.buffers import Scene, measure_scene
from bench.bulk import QUEUE, add_waiting
from bench.counters import deadlocks
from bench.round_trips import CANCEL_OF_A_CHILD
from bench.site import Place, Session, own_server, place
from noeta.core.task import Shape
from noeta.core.wake import condition_key, due_at
from noeta.testing.postgres import PostgresSource, Server


@pytest.fixture(scope="module")
def counting_server(postgres_source: PostgresSource) -> Iterator[Server]:
    """A server of our own, with the bench's settings."""
    if postgres_source.dsn is not None:
        pytest.skip("counting needs a server whose settings are ours")
    with own_server(postgres_source) as server:
        yield server


def refuse_without_tcp(server: Server) -> None:
    if str(conninfo.conninfo_to_dict(server.dsn).get("host", "/")).startswith("/"):
        pytest.skip("the relay needs a server with a TCP address")


def test_every_verb_is_one_round_trip_and_the_cancel_of_a_child_two(postgres_server: Server) -> None:
    refuse_without_tcp(postgres_server)

    found = round_trips.measure(partial(place, postgres_server), quick=True)

    expected = {CANCEL_OF_A_CHILD: 2}
    assert [f"{f.name}: {f.high}" for f in found if {f.low, f.high} != {expected.get(f.name, 1)}] == []
    assert len(found) == 28


def test_a_claim_and_an_append_touch_few_buffers(counting_server: Server) -> None:
    with place(counting_server) as somewhere:
        found = measure_scene(somewhere, Scene("few", idle=1_000, churned=200, held_snapshot=True), samples=10)

    assert [f.name for f in found if f.target] == ["claim, few", "append, few"]
    assert [f"{f.name}: {f.median}" for f in found if not f.holds] == []


def test_an_idle_loop_sends_as_much_beside_waiting_tasks_as_beside_none(postgres_server: Server) -> None:
    refuse_without_tcp(postgres_server)

    with place(postgres_server) as somewhere:
        beside_none = waiting.statements_of_own_minute(somewhere)
        with somewhere.session() as session:
            add_waiting(session, 500)
        beside_crowd = waiting.statements_of_own_minute(somewhere)

    assert beside_none == beside_crowd
    assert beside_none > 120  # the claims of a minute, at the least


def test_made_up_waiting_tasks_are_such_as_the_store_itself_leaves(postgres_server: Server) -> None:
    with place(postgres_server) as somewhere, somewhere.store() as store:
        with somewhere.session() as session:
            add_waiting(session, 10)

        rows = store.tasks(queue=QUEUE)

        assert len(rows) == 10
        for row in rows:
            assert row.wake_on is not None
            assert (row.shape, row.wake_key) == (Shape.SUSPENDED, condition_key(row.wake_on))
            due = due_at(row.wake_on)
            assert row.ready_at == (None if due is None else due * 1_000_000)
            assert (row.parent is not None) == ("." in row.id)
        assert len({row.wake_key for row in rows}) == 9  # timers share one key
        assert not store.claim("bench", [QUEUE], 1.0).claims


def test_a_deadlock_is_counted_once_and_only_a_deadlock(counting_server: Server) -> None:
    with place(counting_server) as somewhere, somewhere.session() as session:
        before = deadlocks(session, somewhere)
        assert deadlocks(session, somewhere) == before
        end_in_a_deadlock(somewhere)

        assert deadlocks(session, somewhere) == before + 1


def end_in_a_deadlock(somewhere: Place) -> None:
    """Two sessions take two locks crosswise; the server ends one of them."""
    with somewhere.session(autocommit=False) as one, somewhere.session(autocommit=False) as other:
        one.execute("SELECT pg_advisory_xact_lock(1)")
        other.execute("SELECT pg_advisory_xact_lock(2)")
        aborted: list[str] = []

        def cross(session: Session, key: int) -> None:
            try:
                session.execute("SELECT pg_advisory_xact_lock(%s)", [key])
            except psycopg.errors.DeadlockDetected as error:
                aborted.append(str(error))
            session.rollback()
            # By what a session last said it is known whose it was.
            session.execute(f'SELECT count(*) FROM "{somewhere.schema}".migration'.encode())

        threads = [threading.Thread(target=cross, args=args) for args in ((one, 2), (other, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30.0)
        assert len(aborted) == 1


def test_the_family_load_meets_no_deadlock(counting_server: Server) -> None:
    with place(counting_server) as somewhere:
        tally, aborted, _ = family.run(somewhere, 1.0, 1, 4)

    assert (aborted, tally.unavailable, tally.retries) == (0, 0, 0)
    assert {"end of a child", "cancel of a child", "post"} <= set(tally.calls)


def test_plans_made_on_small_tables_do_not_scan_grown_ones(counting_server: Server) -> None:
    with place(counting_server) as somewhere:
        found = old_plans.count(somewhere, 20_000)

    assert [f.name.partition(",")[0] for f in found] == [
        *("renew", "birth for the root", "end of a child", "failure of a child", "cancel of a child")
    ]
    assert [f"{f.name}: {f.median}" for f in found if not f.holds] == []
