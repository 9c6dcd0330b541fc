"""Random families on the reference store: parents, children, timers, answers and cancels, in any order.

Whatever the store lets happen to a writer that follows the log is a run of a correct store, so no law may find an
anomaly in it. Each tampering is what one kind of broken store or runner would leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariants import Answer, Attempt, FinalRow, LogEntry, RunFacts, Sample, Sent, ToolKind, Verb, Verdict, check_all
from invariants import gather as gather_evidence
from noeta.backends.stores.memory import MemoryStore
from noeta.chaos.recording import MemorySink, RecordingStore, sent_of
from noeta.core import ids
from noeta.core.errors import Conflict
from noeta.core.events import (
    Event,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolCall,
    ToolFinished,
    ToolParked,
    ToolStarted,
)
from noeta.core.fold import TaskState, fold
from noeta.core.runner.outcome import answered
from noeta.core.store import Child, Claim, Commit, Continue, End, LogPage, NewTask, Next, Suspend
from noeta.core.task import Status
from noeta.core.wake import (
    BACKGROUND,
    NEXT_GOAL,
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
    find_wake,
    matches_wake,
)

LAWS = (
    "one-writer",
    "epochs-rise",
    "gapless-log",
    "acked-stays",
    "terminal-is-final",
    "row-agrees",
    "taken-once",
    "wake-once",
    "calls-pair",
    "children-once",
    "timers-once",
    "never-stuck",
    "waiting-is-free",
)
LEASE = 3.0
ROOT = "t"
STEPS = st.lists(st.tuples(st.sampled_from("ccwwwwwwwwlppttfsr"), st.integers(0, 6)), min_size=10, max_size=80)
FAMILY = (("c", 0), ("w", 0), ("w", 0), ("c", 0), ("w", 5), ("c", 0), ("w", 0), ("w", 2), ("c", 0), ("w", 5))
"""A child is born, its parent waits, it ends, its parent is woken and bears another one; that ends, too."""
TIMER = (("c", 0), ("w", 3), ("w", 0), ("t", 6), ("c", 0), ("w", 0))
ITEMS: tuple[Item, ...] = (
    HumanResponseReceived(NEXT_GOAL, "go on"),
    ExternalEvent("rain", 1),
    ControlReceived("cancel", "enough"),
    HumanResponseReceived(NEXT_GOAL, "and then"),
    ExternalEvent("rain", 2),
)


@dataclass
class Family:
    """A root and whatever is born below it, and all that would be recorded of them."""

    now: float = 1_000.0
    claims: list[Claim] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    log: list[LogEntry] = field(default_factory=list)
    finals: list[FinalRow] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.memory = MemoryStore(clock=lambda: self.now)
        self.sink = MemorySink()
        self.store = RecordingStore(self.memory, self.sink, process="p#1", clock=lambda: ids.micros(self.now))
        self.store.create(NewTask(ROOT, "agent", "goal", interactive=True))

    def live(self, steps: Sequence[tuple[str, int]]) -> Family:
        for what, choice in steps:
            self.now += 0.25
            self.step(what, choice)
            for row in self.memory.tasks():
                page = self.memory.read(row.id)
                self.samples.append(FinalRow(ids.micros(self.now), page.row, page.unread).as_sample())
        for row in self.memory.tasks():
            page = self.memory.read(row.id)
            stamped = tuple(one.number for one in self.memory._tasks[row.id].items if one.unread_at is not None)
            self.finals.append(FinalRow(ids.micros(self.now), page.row, page.unread, stamped))
            for one in page.entries:
                self.log.append(LogEntry(row.id, one.seq, one.epoch, one.at, one.event, ids.sha256_text(one.body)))
        return self

    def step(self, what: str, choice: int) -> None:
        match what:
            case "c":
                self.claims += self.store.claim(f"w{choice}", None, LEASE).claims
            case "w" if self.claims:
                self.write(self.claims[-1], choice)
            case "l" if self.claims:  # a frozen worker wakes up and writes under the claim it remembers
                self.write(self.claims[choice % len(self.claims)], choice)
            case "p":
                rows = self.memory.tasks()
                task, item, key = rows[choice % len(rows)].id, ITEMS[choice % len(ITEMS)], f"k{choice}"
                self.sent.append(sent_of(task, key, item, self.store.post(task, item, key), ids.micros(self.now)))
            case "t":
                self.now += choice
            case "f":
                self.store.fire_due_timers()
            case "s":
                self.store.requeue_stale()
            case "r" if self.claims:
                try:
                    self.store.release(self.claims[-1])
                except Conflict:
                    return
            case _:
                return

    def write(self, claim: Claim, choice: int) -> None:
        """What a worker would write next; one that was frozen read the log in time, so it may be refused."""
        page = self.memory.read(claim.task_id)
        state = fold(claim.task_id, page.entries)
        if state.status is Status.TERMINAL:
            return
        unread = [(one.number, one.item) for one in page.unread]
        children: tuple[Child, ...] = ()
        next: Next = Continue()
        entries: tuple[Event, ...] = ()
        orders = [(number, item) for number, item in unread if isinstance(item, ControlReceived)]
        waiting, woken = state.waiting_call(), state.answered_call()
        if state.status is Status.SUSPENDED:
            assert state.wake_on is not None
            found = find_wake(state.wake_on, unread)
            entries = () if found is None else (TaskWoken(*found),)
            next = Continue() if found else Suspend(state.wake_on, known=tuple(item for _, item in unread))
        elif state.cancel is not None or orders:
            entries = tuple(MessageTaken(number, item) for number, item in orders)
            next = End(TaskCancelled((state.cancel or orders[0][1]).reason))
        elif woken is not None:
            entries = (answered(woken),)
        elif waiting is not None and waiting.parked is not None:
            known = tuple(item for _, item in unread)
            entries, next = (TaskSuspended(waiting.parked),), Suspend(waiting.parked, known=known)
        elif any(_is_taken(state, item) for _, item in unread):
            entries = tuple(MessageTaken(number, item) for number, item in unread if _is_taken(state, item))
        elif choice < 5:
            entries, children = self.calls(state, choice)
        elif state.task_id == ROOT and choice == 5:
            wake_on = HumanResponseReceived(NEXT_GOAL)
            entries, next = (TaskSuspended(wake_on, "said"),), Suspend(wake_on)
        else:
            next = End(TaskCompleted("done") if choice == 5 else TaskFailed("llm_error", "it is down"))
        seen = page.inbox_seen
        if isinstance(next, Suspend):  # an item that would end the wait at once was not taken into account
            ready = [number for number, item in unread if matches_wake(next.wake_on, item)]
            seen = min([seen, *(number - 1 for number in ready)])
        self.append(claim, page, Commit(entries, next, seen, children))

    def calls(self, state: TaskState, choice: int) -> tuple[tuple[Event, ...], tuple[Child, ...]]:
        """A reply with one call, which is started and ends at once: parked, or with children in the background."""
        call = ids.call_id(state.last_seq + 2, 0)
        tool = "wait" if choice == 3 else "ask"
        asked = (
            ModelCalled("r", 1),
            ModelReplied("", (ToolCall(call, tool, {"seconds": 2.0} if choice == 3 else {}),), "tool_use"),
            ToolStarted(call, 1),
        )
        many = 2 if choice == 1 else 1
        named = tuple(ids.child_id(state.task_id, call, number) for number in range(1, many + 1))
        group = f"{state.task_id}.{call}" if choice == 1 else BACKGROUND if choice == 2 else None
        parent = state.root_task_id if choice == 2 else None
        children = tuple(
            Child(
                one, "agent", "goal", group=group, parent=parent, root=state.root_task_id, depth=state.subtask_depth + 1
            )
            for one in named
        )
        wake_on: WakeCondition = SubtaskCompleted(named[0])
        match choice:
            case 1:
                wake_on = SubtaskGroupCompleted(f"{state.task_id}.{call}", many)
            case 2:
                return (*asked, ToolFinished(call, "started", children=named)), children
            case 3:
                return (*asked, ToolParked(call, TimerFired(self.now + 2.0))), ()
            case 4:
                return (*asked, ToolParked(call, ExternalEvent("rain", timeout_at=self.now + 1.5))), ()
            case _:
                pass
        return (*asked, ToolParked(call, wake_on, named)), children

    def append(self, claim: Claim, page: LogPage, commit: Commit) -> None:
        if len(commit.children) and page.row.id.count(".") > 4:
            return  # deep enough
        try:
            self.store.append(claim, page.row.last_seq, commit)
        except Conflict:
            return

    def verdicts(self, *, attempts: Sequence[Attempt] | None = None) -> dict[str, Verdict]:
        tools = {
            "wait": ToolKind("wait", journals=False, timer_field="seconds"),
            "ask": ToolKind("ask", journals=False),
        }
        evidence = gather_evidence(
            RunFacts(renewals_recorded=True, still=True, tools=tools, lease=ids.micros(LEASE)),
            log=self.log,
            attempts=self.sink.attempts if attempts is None else attempts,
            samples=self.samples,
            finals=self.finals,
            sent=self.sent,
        )
        return {one.law.key: one.verdict for one in check_all(evidence).laws}

    def change(self, task: str, seq: int, event: Event) -> None:
        """Another event in the place of the one that the log has there."""
        self.log = [replace(one, event=event) if (one.task, one.seq) == (task, seq) else one for one in self.log]

    def first(self, kind: type[Event]) -> LogEntry:
        """The first entry of this kind."""
        return next(one for one in self.log if isinstance(one.event, kind))


def _is_taken(state: TaskState, item: Item) -> bool:
    """What a worker takes while its task runs: messages, and what no call waits for any more."""
    is_message = isinstance(item, HumanResponseReceived) and item.handle == NEXT_GOAL
    return is_message or (isinstance(item, SubtaskCompleted | TimerFired) and not state.awaits(item))


@settings(deadline=None, max_examples=300)
@given(STEPS)
def test_nothing_that_a_correct_store_lets_happen_to_a_family_breaks_a_law(steps: list[tuple[str, int]]) -> None:
    verdicts = Family().live(steps).verdicts()

    assert [key for key in LAWS if verdicts[key] is Verdict.INVALID] == []


def forgets_a_child(family: Family) -> None:
    (child,) = family.first(ToolParked).event.children  # type: ignore[union-attr]
    family.log = [one for one in family.log if one.task != child]
    family.finals = [one for one in family.finals if one.row.id != child]


def forgets_who_bore_a_child(family: Family) -> None:
    entry = family.first(ToolParked)
    assert isinstance(entry.event, ToolParked)
    family.change(entry.task, entry.seq, msgspec.structs.replace(entry.event, children=()))


def tells_another_result(family: Family) -> None:
    entry = family.first(TaskWoken)
    assert isinstance(entry.event, TaskWoken)
    family.change(
        entry.task, entry.seq, TaskWoken(entry.event.numbers, SubtaskCompleted(f"{ROOT}.3-0.1", "completed", ""))
    )


def tells_a_result_again(family: Family) -> None:
    entry = family.first(TaskWoken)
    assert isinstance(entry.event, TaskWoken)
    last = [one for one in family.log if one.task == entry.task][-1]
    family.log.append(replace(last, seq=last.seq + 1, event=MessageTaken(9, entry.event.event), body_hash="again"))


def fires_early(family: Family) -> None:
    entry = family.first(TaskWoken)
    family.log = [replace(one, at=one.at - 9_000_000) if one is entry else one for one in family.log]


def keeps_a_lease_while_it_waits(family: Family) -> None:
    waits = next(one for one in family.samples if one.status is Status.SUSPENDED)
    family.samples = [replace(one, leased=True) if one is waits else one for one in family.samples]


@pytest.mark.parametrize(
    ("tampers", "law", "story"),
    [
        (forgets_a_child, "children-once", FAMILY),
        (forgets_who_bore_a_child, "children-once", FAMILY),
        (tells_another_result, "children-once", FAMILY),
        (tells_a_result_again, "children-once", FAMILY),
        (fires_early, "timers-once", TIMER),
        (keeps_a_lease_while_it_waits, "waiting-is-free", TIMER),
    ],
)
def test_tampering_with_a_family_is_found_by_its_law(
    tampers: Callable[[Family], None], law: str, story: Sequence[tuple[str, int]]
) -> None:
    family = Family().live(story)
    assert family.verdicts()[law] is Verdict.VALID

    tampers(family)

    assert family.verdicts()[law] is Verdict.INVALID


def test_a_cancelled_end_is_explained_by_its_post_and_by_nothing_less() -> None:
    family = Family().live([("p", 2)])
    (post,) = [one for one in family.sink.attempts if one.verb is Verb.POST]
    assert (post.outcome, post.epoch, post.answer_seq, len(post.hashes)) == ("cancelled", 1, 2, 1)
    assert family.verdicts()["one-writer"] is Verdict.VALID

    others = [one for one in family.sink.attempts if one is not post]
    never_answered = replace(post, answer=None, epoch=None, answer_seq=None, expected_seq=None, outcome=None)

    assert family.verdicts(attempts=others)["one-writer"] is Verdict.INVALID
    assert family.verdicts(attempts=[*others, never_answered])["one-writer"] is Verdict.VALID
    assert family.verdicts(attempts=[*others, replace(never_answered, answer=Answer.REFUSED)])["one-writer"] is (
        Verdict.INVALID
    )
