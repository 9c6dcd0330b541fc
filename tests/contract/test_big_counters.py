"""Counters near 2**31, 2**53 and 2**63: epoch, seq and inbox number go on counting.

https://github.com/graphile/worker/issues/619 , https://github.com/janbjorge/pgqueuer/issues/671
"""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.core.events import MessageTaken, ModelCalled, TaskCompleted
from noeta.core.store import Commit, End, Store, Suspend
from noeta.core.task import Status
from noeta.core.wake import HumanResponseReceived
from noeta.testing.store_contract import Stage, StoreFactory
from tests.contract.factories import PostgresFactory, SqliteFactory

LEASE = 60.0


def set_counters(factory: StoreFactory, store: Store, value: int) -> None:
    """Make the only task a very old one. Its log before that is not needed by any verb."""
    if isinstance(store, MemoryStore):
        task = store._tasks["t"]
        task.row = replace(task.row, epoch=value, last_seq=value, inbox_seq=value, takeovers=value, fail_attempts=value)
        return
    columns = ("epoch", "last_seq", "inbox_seq", "takeovers", "fail_attempts")
    if isinstance(factory, SqliteFactory):
        with contextlib.closing(sqlite3.connect(factory.path, isolation_level=None)) as session:
            session.execute(f"UPDATE task SET {', '.join(f'{column} = ?' for column in columns)}", [value] * 5)
        return
    assert isinstance(factory, PostgresFactory)
    factory.execute(f"UPDATE {{schema}}.task SET {', '.join(f'{column} = %s' for column in columns)}", *[value] * 5)


@pytest.fixture
def old_task(any_factory: StoreFactory, stage: Stage, value: int) -> Stage:
    stage.create()
    set_counters(any_factory, stage.store, value)
    return stage


@pytest.mark.parametrize("value", [2**31 - 2, 2**31 - 1, 2**32 - 1, 2**53 - 1, 2**53, 2**62])
def test_every_verb_counts_on_beyond_any_width(old_task: Stage, value: int) -> None:
    stage, store = old_task, old_task.store

    claim = stage.claim()
    assert (claim.epoch, claim.last_seq, claim.inbox_seq) == (value + 1, value, value)
    assert (claim.takeovers, claim.fail_attempts) == (value, value)
    message = store.post("t", _message(), key="m")
    assert message.number == value + 1
    assert store.renew(claim, LEASE)[0].inbox_seq == value + 1

    landed = store.append(claim, value, Commit((MessageTaken(value + 1, _message()), ModelCalled("h", 1))))
    assert (landed.first_seq, landed.last_seq, landed.inbox_seq) == (value + 1, value + 2, value + 1)
    assert [entry.seq for entry in store.read("t", value).entries] in (
        [value + 1, value + 2],
        [],
    )  # memory keeps no gap
    wait = store.append(claim, value + 2, Commit((), Suspend(_message()), value + 1))
    assert wait.status is Status.SUSPENDED
    assert store.wake("t", _message()).number == value + 2

    claim = stage.claim()
    assert claim.epoch == value + 2
    store.release(claim)
    claim = stage.claim()
    stage.clock.advance(LEASE)
    assert store.requeue_stale() == ("t",)
    claim = stage.claim()
    ended = store.append(claim, value + 2, Commit(next=End(TaskCompleted()), inbox_seen=value + 2))
    assert (ended.last_seq, ended.status) == (value + 3, Status.TERMINAL)
    assert store.task("t").epoch == value + 4


@pytest.mark.parametrize("value", [2**31 - 1, 2**53, 2**62])
def test_a_lapse_and_a_failure_after_very_many_rest_as_long_as_the_ceiling(old_task: Stage, value: int) -> None:
    """No ``2 ** retry_count``."""
    stage, store = old_task, old_task.store
    stage.claim()
    stage.clock.advance(LEASE)
    store.requeue_stale()
    row = store.task("t")
    assert row.takeovers == value + 1
    assert row.ready_at is not None and row.ready_at - stage.now <= 30_000_000
    stage.clock.advance(30)

    failed = store.fail(stage.claim(), "again", attempts_max=3)

    assert (failed.status, failed.fail_attempts, failed.last_seq) == (Status.TERMINAL, value + 1, value + 1)


def _message() -> HumanResponseReceived:
    return HumanResponseReceived(text="hi")
