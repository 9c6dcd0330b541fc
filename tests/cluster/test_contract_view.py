"""What the harness reads through the contract alone is what it reads in SQL: rows, clock, stamped items, final rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from invariants.evidence import FinalRow
from noeta.backends.stores.memory import MemoryStore
from noeta.backends.stores.pg_migrate import migrate
from noeta.backends.stores.postgres import PostgresStore
from noeta.chaos import contract_view
from noeta.chaos.board import Seen
from noeta.chaos.contract_view import ContractView, StoreClock
from noeta.chaos.pg_view import PgView
from noeta.chaos.store_view import StoreView, ViewUnavailable
from noeta.core import limits
from noeta.core.events import MessageTaken, ModelCalled, ModelReplied, TaskFailed, TaskSuspended
from noeta.core.store import Claim, Commit, End, LogPage, NewTask, Store, Suspend
from noeta.core.task import Status
from noeta.core.wake import HumanResponseReceived

CLOCK_SLACK = 5_000_000
"""Microseconds between two readings of one clock, on a machine under load."""


def claim(store: Store, task: str) -> Claim:
    (taken,) = store.claim("w1", [task], 60.0).claims
    return taken


def say(store: Store, task: str, *words: str) -> list[int]:
    numbers = [store.post(task, HumanResponseReceived(text=word), f"{task}-{word}").number for word in words]
    return [number for number in numbers if number is not None]


def fill(store: Store) -> None:
    """Tasks of every status, each in a queue of its name; items taken, unread, and stamped unread."""
    for task in ("ended", "failed", "fresh", "runs", "waits", "woken"):
        store.create(NewTask(task, "agent", "goal", queue=task, interactive=task in ("waits", "woken")))
    asked = (ModelCalled("h", 1), ModelReplied("bye"))
    wait = HumanResponseReceived()
    for task in ("waits", "woken"):
        store.append(claim(store, task), 1, Commit((*asked, TaskSuspended(wait, "bye")), Suspend(wait)))
    say(store, "woken", "up")
    claim(store, "runs")
    say(store, "runs", "one", "two", "three")
    for task in ("ended", "failed"):
        held = claim(store, task)
        first, *_ = say(store, task, "taken", "late", "later")
        taken = MessageTaken(first, HumanResponseReceived(text="taken"))
        words = () if task == "failed" else (taken,)
        store.append(held, 1, Commit(words, End(TaskFailed("no_more", "enough")), inbox_seen=first))
    say(store, "fresh", "hello")


@pytest.fixture
def store(pg_schema: tuple[str, str]) -> Iterator[PostgresStore]:
    migrate(*pg_schema)
    store = PostgresStore(pg_schema[0], schema=pg_schema[1])
    try:
        fill(store)
        yield store
    finally:
        store.close()


def rows_of(view: StoreView, leave_out: tuple[str, ...] = ()) -> list[Seen]:
    """Without the instants of the looks, which differ."""
    rows, now = view.rows(leave_out)
    assert all(abs(one.sample.at - now) < CLOCK_SLACK for one in rows)
    return [replace(one, sample=replace(one.sample, at=0)) for one in rows]


def final_of(view: StoreView, page: LogPage) -> FinalRow:
    return replace(view.final(page), at=0)


def test_both_views_answer_the_same(
    store: PostgresStore, pg_schema: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PAGE_ROWS", "PAGE_ENTRIES"):
        monkeypatch.setattr(contract_view, name, 2)
    with PgView(*pg_schema) as by_sql, ContractView(store, StoreClock(store)) as by_contract:
        rows = rows_of(by_sql)
        tasks = [one.sample.task for one in rows]

        assert tasks == ["ended", "failed", "fresh", "runs", "waits", "woken"]
        assert {one.sample.status for one in rows} == set(Status)
        assert [one.sample.unread for one in rows] == [0, 0, 1, 3, 0, 1]
        assert rows_of(by_contract) == rows
        assert rows_of(by_contract, ("ended", "failed", "runs")) == rows_of(by_sql, ("ended", "failed", "runs"))
        assert [by_contract.stamped(task) for task in tasks] == [by_sql.stamped(task) for task in tasks]
        assert (by_sql.stamped("ended"), by_sql.stamped("failed")) == ((2, 3), (1, 2, 3))
        pages = [store.read(task) for task in tasks]
        assert [final_of(by_contract, page) for page in pages] == [final_of(by_sql, page) for page in pages]
        earlier = by_contract.clock()  # asked first: it is never ahead of the store's own
        assert 0 <= by_sql.clock() - earlier < CLOCK_SLACK

        say(store, "runs", "four")
        assert rows_of(by_contract) == rows_of(by_sql) != rows


def test_an_inbox_longer_than_a_page_is_counted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMMIT_PARTS_MAX", 3)
    store = MemoryStore(lambda: 1.0)
    store.create(NewTask("t", "agent", "goal"))
    say(store, "t", *(str(number) for number in range(8)))

    with ContractView(store, StoreClock(store)) as view:
        (row,), _ = view.rows()

    assert row.sample.unread == 8


def test_an_inbox_is_read_again_only_when_it_or_the_log_has_moved() -> None:
    reads: list[str] = []

    class Counting(MemoryStore):
        def read(self, task_id: str, after: int = 0, *, limit: int = 1_000, inbox_after: int = 0) -> LogPage:
            reads.append(task_id)
            return super().read(task_id, after, limit=limit, inbox_after=inbox_after)

    store = Counting(lambda: 1.0)
    fill(store)
    with ContractView(store, StoreClock(store)) as view:
        view.rows()
        first = len(reads)
        view.rows()

        assert len(reads) == first
        say(store, "runs", "four")
        view.rows()
        assert reads[first:] == ["runs"]


def test_a_store_that_cannot_be_asked_is_named_so() -> None:
    store = MemoryStore(lambda: 1.0)
    store.create(NewTask("t", "agent", "goal"))
    view = ContractView(store, StoreClock(store))
    view.close()

    with pytest.raises(ViewUnavailable):
        view.rows()


def test_the_clock_goes_on_from_what_the_store_told_once() -> None:
    mine = [100.0]
    store = MemoryStore(lambda: 5_000.0)
    clock = StoreClock(store, lambda: mine[0])
    mine[0] += 2.5

    assert clock.now() == 5_002_500_000
