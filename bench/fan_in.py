"""A parent that waits for a full group: what each child's end and the wake cost, and how soon the parent wakes.

The ends of all children post to one row. Buffers are counted call by call, on one connection: a child's end must not
get dearer with every sibling that ended before it. Then four processes of `noeta worker` drain such families: from the
first child's end to the parent's ``TaskWoken``, by the store's clock, beside as many tasks without a parent in the same
rounds. Deadlocks are counted by the server. Target: none.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from bench.agents import HAND, LEAD
from bench.bulk import add_pending, store_now
from bench.counters import BufferCounter, deadlocks
from bench.report import Figure, Target, figure, ratios
from bench.site import Place, Places, Session
from bench.workers import WorkerProcess, worker_process
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.events import TaskCompleted, TaskWoken, ToolParked
from noeta.core.ids import MICROS_PER_SECOND, child_id
from noeta.core.limits import GROUP_MEMBERS_MAX
from noeta.core.store import Child, Claim, Commit, End, LogPage, NewTask, Suspend
from noeta.core.wake import SubtaskGroupCompleted, find_wake

NAME: Final = "fan_in"
QUEUE: Final = "family"
WORKERS: Final = 4
ROUNDS: Final = 5
ROUNDS_QUICK: Final = 1
LEASE_SECONDS: Final = 600.0
ROUND_SECONDS_MAX: Final = 120.0
CALL: Final = "3-0"
NONE: Final = Target("at most", 0)
NOT_DEARER: Final = Target("at most", 1.25)
FEW: Final = Target("at most", 80)
"""Two appends: the child's own, and the parent's row with its inbox."""

READ: Final = 'SELECT e.seq, e.epoch, e.at, e.body FROM "{schema}".entry e'
_ENDS: Final = """
SELECT min(at), max(at), count(*) FROM entry
WHERE starts_with(task_id, %s) AND body ->> 'type' = 'TaskCompleted'
"""
_WOKEN: Final = "SELECT at FROM entry WHERE task_id = %s AND body ->> 'type' = 'TaskWoken'"


def measure(places: Places, *, quick: bool) -> list[Figure]:
    """Buffers first, then the race."""
    with places() as place:
        found = count_buffers(place)
    with places() as place:
        found += race(place, ROUNDS_QUICK if quick else ROUNDS)
    return found


def count_buffers(place: Place) -> list[Figure]:
    """Two families, the second one counted: by then every statement has its plan, made on small tables."""
    with place.session() as session, place.store(place.counted_dsn) as store:
        costs = [_family_costs(place, session, store, f"lead-{number}") for number in (1, 2)][-1]
    return [
        figure(NAME, f"a child's end, {GROUP_MEMBERS_MAX} in a group", "buffers", costs.ends, FEW),
        figure(NAME, "the last ten ends / the first ten", "ratio", [costs.growth], NOT_DEARER),
        figure(NAME, "the parent's wake: claim", "buffers", [costs.claim]),
        figure(NAME, f"the parent's wake: read of {GROUP_MEMBERS_MAX} results", "buffers", [costs.read]),
        figure(NAME, f"the parent's wake: append that takes {GROUP_MEMBERS_MAX}", "buffers", [costs.append]),
    ]


@dataclass(frozen=True, slots=True)
class Costs:
    """Buffers of one family: of every child's end in order, and of the parent's wake."""

    ends: list[int]
    claim: int
    read: int
    append: int

    @property
    def growth(self) -> float:
        """How many times as much the last tenth of the ends costs as the first tenth."""
        tenth = len(self.ends) // 10
        return sum(self.ends[-tenth:]) / sum(self.ends[:tenth])


def _family_costs(place: Place, session: Session, store: PostgresStore, lead: str) -> Costs:
    """Call by call: every child's end, then the parent's claim, read and ``TaskWoken``."""
    store.create(NewTask(lead, LEAD, "bench", queue=QUEUE))
    (parent,) = store.claim("bench", [QUEUE], LEASE_SECONDS).claims
    group = f"{lead}.{CALL}"
    wake_on = SubtaskGroupCompleted(group, GROUP_MEMBERS_MAX)
    ids = tuple(child_id(lead, CALL, n) for n in range(1, GROUP_MEMBERS_MAX + 1))
    children = tuple(Child(id, HAND, "bench", group=group) for id in ids)
    parked = Commit((ToolParked(CALL, wake_on, ids),), Suspend(wake_on), children=children)
    store.append(parent, parent.last_seq, parked)
    claims: list[Claim] = []
    while len(claims) < GROUP_MEMBERS_MAX:
        claims += store.claim("bench", [QUEUE], LEASE_SECONDS, limit=GROUP_MEMBERS_MAX).claims
    done = Commit(next=End(TaskCompleted("done")))
    ending = BufferCounter(session, place, "append_2")
    ends = [ending.count(partial(store.append, claim, claim.last_seq, done)).touched for claim in claims]
    woken: list[Claim] = []
    claiming = BufferCounter(session, place, "claim_1").count(
        lambda: woken.extend(store.claim("bench", [QUEUE], LEASE_SECONDS).claims)
    )
    pages: list[LogPage] = []
    reading = BufferCounter(session, place, "", text=READ.format(schema=place.schema)).count(
        lambda: pages.append(store.read(lead))
    )
    page = pages[0]
    wake = find_wake(wake_on, [(item.number, item.item) for item in page.unread])
    assert wake is not None and len(wake[0]) == GROUP_MEMBERS_MAX, wake
    commit = Commit((TaskWoken(*wake),), inbox_seen=page.inbox_seen)
    appending = BufferCounter(session, place, "append_1").count(
        lambda: store.append(woken[0], page.row.last_seq, commit)
    )
    return Costs(ends, claiming.touched, reading.touched, appending.touched)


def race(place: Place, rounds: int) -> list[Figure]:
    """Worker processes on a family and on as many tasks that have no parent, in turn."""
    to_wake, from_last, alone = [], [], []
    with place.session() as session:
        before = deadlocks(session, place)
        with ExitStack() as stack:
            store = stack.enter_context(place.store())
            workers = [
                stack.enter_context(worker_process(place.dsn, place.schema, "--queue", QUEUE)) for _ in range(WORKERS)
            ]
            for number in range(1 + rounds):  # the first warms up
                tasks, lead = f"alone-{number}", f"lead-{number}"
                add_together(place, tasks)
                first, last = _wait_for_ends(session, f"{tasks}-", workers[0])
                store.create(NewTask(lead, LEAD, "bench", queue=QUEUE))
                first_child, last_child = _wait_for_ends(session, f"{lead}.", workers[0])
                woken = _wait_for_wake(session, lead, workers[0])
                if number:
                    alone.append((last - first) / MICROS_PER_SECOND)
                    to_wake.append((woken - first_child) / MICROS_PER_SECOND)
                    from_last.append((woken - last_child) / MICROS_PER_SECOND)
        found = deadlocks(session, place) - before
    what = f"{GROUP_MEMBERS_MAX} children, {WORKERS} processes"
    return [
        figure(NAME, f"{what}: first end to TaskWoken", "seconds", to_wake),
        figure(NAME, f"{what}: last end to TaskWoken", "seconds", from_last),
        figure(NAME, f"{what}: first end to TaskWoken / the same tasks alone", "ratio", ratios(to_wake, alone)),
        figure(NAME, f"{what}: deadlocks", "deadlocks", [found], NONE),
    ]


def add_together(place: Place, name: str) -> None:
    """As many tasks without a parent as a family has children, claimable from one instant on."""
    with place.session(autocommit=False) as session:
        add_pending(session, name, GROUP_MEMBERS_MAX, apart_micros=1, before=store_now(session), queue=QUEUE)
        session.commit()


def _wait_for_ends(session: Session, prefix: str, worker: WorkerProcess) -> tuple[int, int]:
    """The instants of the first and of the last end, once all have ended."""
    found: list[tuple[int, int, int]] = []

    def all_ended() -> bool:
        row = session.execute(_ENDS, [prefix]).fetchone()
        assert row is not None
        found.append(row)
        return bool(row[2] == GROUP_MEMBERS_MAX)

    worker.wait_until(all_ended, f"the ends of {prefix}*", ROUND_SECONDS_MAX)
    return found[-1][0], found[-1][1]


def _wait_for_wake(session: Session, task: str, worker: WorkerProcess) -> int:
    found: list[int] = []

    def has_woken() -> bool:
        found.extend(row[0] for row in session.execute(_WOKEN, [task]))
        return bool(found)

    worker.wait_until(has_woken, f"the wake of {task}", ROUND_SECONDS_MAX)
    return found[0]
