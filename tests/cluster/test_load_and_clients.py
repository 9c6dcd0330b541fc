"""Loader, clients and drain over the memory store: every operation is on record, and repeated until it is known."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from invariants import Answer, Sample
from noeta.backends.stores.memory import MemoryStore
from noeta.chaos.board import Board, Seen
from noeta.chaos.clients import Clients
from noeta.chaos.drain import Drain, Drained, DrainLimits
from noeta.chaos.evidence_dir import HISTORY, RunDir
from noeta.chaos.evidence_reader import sent_posts
from noeta.chaos.history import History, HistoryLine, OpAnswered, OpSent
from noeta.chaos.load import Loader, LoadPlan
from noeta.core.errors import CommitUnknown, StoreUnavailable
from noeta.core.store import Created, NewTask, Posted
from noeta.core.task import Status, TaskRow
from noeta.core.wake import HumanResponseReceived, Item, WakeCondition
from scripted_model import ScheduledMessage, workload

T = TypeVar("T")
STORE_TIME = 1_000_000_000


class Trouble(MemoryStore):
    """The first call of each verb is not sent; the second one lands and its answer is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, int] = {}

    def create(self, task: NewTask) -> Created:
        return self._hurt("create", lambda: MemoryStore.create(self, task))

    def post(self, task_id: str, item: Item, key: str | None = None) -> Posted:
        return self._hurt("post", lambda: MemoryStore.post(self, task_id, item, key))

    def _hurt(self, verb: str, ask: Callable[[], T]) -> T:
        self.calls[verb] = self.calls.get(verb, 0) + 1
        if self.calls[verb] == 1:
            raise StoreUnavailable("not sent")
        answer = ask()
        if self.calls[verb] == 2:
            raise CommitUnknown("the answer was lost")
        return answer


def seen(row: TaskRow, *, at: int = STORE_TIME, unread: int = 0) -> Seen:
    sample = Sample(
        at,
        row.id,
        row.status,
        row.kept,
        row.epoch,
        row.worker,
        row.token,
        row.last_seq,
        row.inbox_seq,
        row.wake_on,
        unread,
    )
    return Seen(sample, row.queue, row.ready_at, row.lease_until)


def history_of(run: RunDir) -> list[HistoryLine]:
    return [msgspec.json.decode(raw, type=HistoryLine) for raw in run.path(HISTORY).read_bytes().splitlines()]


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_a_creation_is_recorded_before_it_is_sent_and_repeated_until_it_is_known(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    lines = run.lines(HISTORY)
    tasks = workload(1, 3).tasks
    loader = Loader(Trouble(), LoadPlan(tasks, (), 3, 1.0), Board(), History(lines), wants_more=lambda: False)

    assert loader.load_start() == 3

    assert loader.created == [task.id for task in tasks]
    recorded = [(line.task, type(line).__name__, getattr(line, "answer", None)) for line in history_of(run)]
    first = tasks[0].id
    assert recorded[:6] == [
        (first, "OpSent", None),
        (first, "OpAnswered", Answer.UNAVAILABLE),
        (first, "OpSent", None),
        (first, "OpAnswered", Answer.UNKNOWN),
        (first, "OpSent", None),
        (first, "OpAnswered", Answer.OK),
    ]


def test_tasks_trickle_and_the_reserve_comes_only_while_more_is_wanted(tmp_path: Path) -> None:
    store, board = MemoryStore(), Board()
    tasks, reserve = workload(1, 10).tasks, workload(2, 10, prefix="x").tasks
    wanted = [True]
    loader = Loader(
        store,
        LoadPlan(tasks, reserve, live_min=7, storm_seconds=0.3),
        board,
        History(RunDir(tmp_path).lines(HISTORY)),
        wants_more=lambda: wanted[0],
    )
    assert loader.load_start() == 7
    loader.start()
    wait_until(lambda: len(loader.created) == 10)

    # All of them come to rest: the loader fills up from the reserve, and only to the wanted number.
    board.show([seen(_ended(store.task(task))) for task in loader.created], STORE_TIME)
    wait_until(lambda: len(loader.created) == 17)
    wanted[0] = False
    board.show([seen(_ended(store.task(task))) for task in loader.created], STORE_TIME)
    time.sleep(0.3)

    assert loader.finish(5.0)
    assert len(loader.created) == 17


def test_no_task_comes_by_time_alone_while_too_many_are_unfinished(tmp_path: Path) -> None:
    loader = Loader(
        MemoryStore(),
        LoadPlan(workload(1, 12).tasks, (), live_min=4, storm_seconds=0.1),
        Board(),
        History(RunDir(tmp_path).lines(HISTORY)),
        wants_more=lambda: False,
    )
    loader.load_start()
    loader.start()
    wait_until(lambda: len(loader.created) == 6)
    time.sleep(0.3)

    assert len(loader.created) == 6
    assert loader.finish(5.0)
    assert len(loader.created) == 12


def test_what_is_left_of_the_workload_is_loaded_at_the_end(tmp_path: Path) -> None:
    loader = Loader(
        MemoryStore(),
        LoadPlan(workload(1, 9).tasks, (), live_min=2, storm_seconds=1_000.0),
        Board(),
        History(RunDir(tmp_path).lines(HISTORY)),
        wants_more=lambda: False,
    )
    loader.load_start()
    loader.start()

    assert loader.finish(5.0)
    assert len(loader.created) == 9


def _ended(row: TaskRow) -> TaskRow:
    from dataclasses import replace

    return replace(row, status=Status.TERMINAL)


def _suspended(row: TaskRow, wake_on: WakeCondition) -> TaskRow:
    from dataclasses import replace

    return replace(row, status=Status.SUSPENDED, wake_on=wake_on)


MESSAGES = (
    ScheduledMessage("t", 1, "note", 1, "note 1: hello", posts=2),
    ScheduledMessage("t", 2, "turn", 2, "turn 2: go on"),
)


def test_messages_are_posted_in_order_when_their_time_comes_and_under_their_key(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    store, board = Trouble(), Board()
    MemoryStore.create(store, NewTask("t", "a", "g"))
    clients = Clients(store, MESSAGES, board, History(run.lines(HISTORY)))
    clients.start()
    board.show([seen(store.task("t"))], STORE_TIME)
    time.sleep(0.2)
    assert history_of(run) == []  # pending: neither is due

    waits = _suspended(store.task("t"), HumanResponseReceived())
    board.show([seen(waits)], STORE_TIME)
    wait_until(lambda: len(clients.unsaid(["t"])) == 1)
    board.show([seen(waits)], STORE_TIME)  # may have begun before the post
    board.show([seen(store.task("t"), unread=1)], STORE_TIME)
    time.sleep(0.2)
    assert clients.unsaid(["t"]) == [MESSAGES[1].key]  # the note woke the task: the next turn must wait

    board.show([seen(waits, unread=1)], STORE_TIME)  # beside something that nobody waits for
    wait_until(lambda: not clients.unsaid(["t"]))
    assert clients.stop()

    posts = list(sent_posts(history_of(run)))
    assert [(one.key, one.outcome) for one in posts] == [
        (MESSAGES[0].key, "unknown"),
        (MESSAGES[0].key, "repeat"),
        (MESSAGES[0].key, "repeat"),
        (MESSAGES[1].key, "stored"),
    ]
    assert clients.told.retries == 2
    assert store.task("t").inbox_seq == 2


def test_an_operation_without_an_answer_is_a_post_of_unknown_outcome() -> None:
    from invariants import Verb

    lost = OpSent("c/1", "c", Verb.POST, "t", 1, "k")
    refused: list[HistoryLine] = [
        OpSent("c/2", "c", Verb.POST, "t", 1, "k"),
        OpAnswered("c/2", "t", 2, Answer.UNAVAILABLE),
    ]

    assert [one.outcome for one in sent_posts([lost])] == ["unknown"]
    assert list(sent_posts(refused)) == []


# -- drain -------------------------------------------------------------------------------------------------


def drained(
    board: Board,
    feed: Callable[[int], list[Seen]],
    *,
    loops: tuple[str, ...] = ("w1-1",),
    unsaid: tuple[str, ...] = (),
    limits: DrainLimits | None = None,
    stop_at: int | None = None,
) -> Drained:
    """Drain with samples of one second each of the store's time, as fast as the drain looks."""
    stop, over = threading.Event(), threading.Event()

    def sample() -> None:
        number = 0
        while not over.wait(0.01):
            number += 1
            board.show(feed(number), STORE_TIME + number * 1_000_000)
            if number == stop_at:
                stop.set()

    thread = threading.Thread(target=sample)
    thread.start()
    drain = Drain(
        board,
        limits or DrainLimits(soft=3.0, hard=6.0, stuck_after=5.0),
        queue="q",
        loops=lambda: loops,
        created=lambda: ("t",),
        unsaid=lambda tasks: unsaid,
        clock=time.monotonic,
    )
    try:
        return drain.run(stop, lambda unfinished, unsaid: None)
    finally:
        over.set()
        thread.join()


@pytest.fixture
def row() -> TaskRow:
    store = MemoryStore()
    store.create(NewTask("t", "a", "g", queue="q"))
    from dataclasses import replace

    return replace(store.task("t"), ready_at=STORE_TIME)


def at(number: int) -> int:
    return STORE_TIME + number * 1_000_000


def test_a_board_at_rest_is_quiet(row: TaskRow) -> None:
    result = drained(Board(), lambda n: [seen(_ended(row), at=at(n))])

    assert result.ended == "quiet"
    assert result.unfinished == ()


def test_a_task_that_waits_for_a_person_rests_and_beside_an_unread_item_only_after_a_while(row: TaskRow) -> None:
    """Whether that item should have ended its wait is for the law ``never-stuck`` to say, which had time to see it."""
    waits = _suspended(row, HumanResponseReceived())
    calm = drained(Board(), lambda n: [seen(waits, at=at(n))])
    beside = drained(Board(), lambda n: [seen(waits, at=at(n), unread=1)])

    early = drained(Board(), lambda n: [seen(waits, at=at(n), unread=1)], stop_at=5)

    assert (calm.ended, beside.ended) == ("quiet", "quiet")
    assert [one.task for one in early.unfinished] == ["t"]


def test_a_due_task_beside_an_idle_worker_is_stuck_before_the_deadline(row: TaskRow) -> None:
    result = drained(Board(), lambda n: [seen(row, at=at(n))])

    assert result.ended == "stuck"
    assert [(one.task, one.pace) for one in result.unfinished] == [("t", "stuck")]
    assert "q" in result.idle_since


def test_without_an_idle_worker_nobody_calls_it_stuck_early(row: TaskRow) -> None:
    result = drained(Board(), lambda n: [seen(row, at=at(n))], loops=(), limits=DrainLimits(0.5, 1.0, 5.0))

    assert result.ended == "deadline"
    assert result.idle_since == {}


def test_a_task_that_still_moves_gets_the_longer_deadline_and_is_called_slow(row: TaskRow) -> None:
    from dataclasses import replace

    result = drained(
        Board(),
        lambda n: [seen(replace(row, last_seq=n), at=at(n))],
        loops=(),
        limits=DrainLimits(soft=0.3, hard=1.0, stuck_after=5.0),
    )

    assert result.ended == "deadline"
    assert result.seconds >= 1.0
    assert [one.pace for one in result.unfinished] == ["slow"]


def test_an_unsaid_message_is_waited_for_and_told(row: TaskRow) -> None:
    result = drained(Board(), lambda n: [seen(_ended(row), at=at(n))], unsaid=("k",), limits=DrainLimits(0.3, 0.6, 5.0))

    assert result.ended == "deadline"
    assert result.unsaid == ("k",)


def test_an_interrupt_ends_the_drain(row: TaskRow) -> None:
    result = drained(Board(), lambda n: [seen(row, at=at(n))], loops=(), stop_at=3)

    assert result.ended == "interrupted"
