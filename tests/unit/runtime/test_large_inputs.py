"""What a store has acknowledged, a later fold can process: floods and the largest bodies."""

from __future__ import annotations

from typing import Any

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.core import limits
from noeta.core.errors import BadInput, Conflict
from noeta.core.events import MessageTaken, TaskCompleted, TaskSuspended, TaskWoken, ToolFinished
from noeta.core.model import ModelReply
from noeta.core.store import NewTask
from noeta.core.task import Status
from noeta.core.tool import OUTPUT_BYTES_MAX, ToolContext, ToolFlags, ToolResult
from noeta.core.wake import ExternalEvent, HumanResponseReceived, Item
from noeta.runtime.worker import WorkerLoop
from noeta.testing.profile import bundle
from tests.actors import Model, asks, engine, says


def run(store: MemoryStore, *replies: ModelReply, tools: tuple[Any, ...] = ()) -> WorkerLoop:
    loop = WorkerLoop(bundle(store, engine(Model(replies), *tools)), lease_seconds=600)
    while loop.tick():
        pass
    return loop


def taken(store: MemoryStore, task_id: str) -> list[int]:
    numbers = []
    after = 0
    while True:
        page = store.read(task_id, after)
        for entry in page.entries:
            if isinstance(entry.event, MessageTaken):
                numbers.append(entry.event.number)
            if isinstance(entry.event, TaskWoken):
                numbers += entry.event.numbers
        after += len(page.entries)
        if not page.more:
            return numbers


def test_two_and_a_half_thousand_messages_are_each_taken_once() -> None:
    """https://github.com/temporalio/temporal/issues/4137: a flooded task. Keeps: taken-once."""
    store = MemoryStore()
    store.create(NewTask("t", "agent", "goal"))
    for number in range(2_500):
        store.post("t", HumanResponseReceived(text=f"m{number}"))

    run(store, says())

    assert store.task("t").status is Status.TERMINAL
    assert isinstance(store.read("t", store.task("t").last_seq - 1).entries[0].event, TaskCompleted)
    assert taken(store, "t") == list(range(1, 2_501))


def test_messages_of_more_bytes_than_one_commit_are_taken_in_several() -> None:
    store = MemoryStore()
    store.create(NewTask("t", "agent", "goal"))
    for number in range(8):
        store.post("t", HumanResponseReceived(text=f"{number}" * 3_500_000))

    run(store, says())

    assert store.task("t").status is Status.TERMINAL
    assert taken(store, "t") == list(range(1, 9))


def test_the_awaited_message_is_found_behind_a_thousand_other_items() -> None:
    """Keeps: never-stuck, wake-once."""
    store = MemoryStore()
    store.create(NewTask("t", "agent", "goal", interactive=True))
    loop = run(store, says(), says("again"))
    for number in range(limits.COMMIT_PARTS_MAX + 200):
        store.post("t", ExternalEvent("noise", number))
    store.post("t", HumanResponseReceived(text="hello"))

    while loop.tick():
        pass

    row = store.task("t")
    last = store.read("t", row.last_seq - 1).entries[0].event
    assert isinstance(last, TaskSuspended) and last.answer == "again"
    assert row.status is Status.SUSPENDED


@pytest.mark.parametrize(
    "item",
    [HumanResponseReceived(text="x" * (limits.ITEM_BYTES_MAX - 100)), HumanResponseReceived(text="\x00" * 600_000)],
)
def test_the_largest_item_that_can_be_posted_can_be_taken(item: Item) -> None:
    store = MemoryStore()
    store.create(NewTask("t", "agent", "goal"))
    store.post("t", item)

    run(store, says())

    assert taken(store, "t") == [1]


def test_an_item_that_no_entry_could_hold_is_refused() -> None:
    store = MemoryStore()
    store.create(NewTask("t", "agent", "goal"))

    with pytest.raises(BadInput, match=str(limits.ITEM_BYTES_MAX)):
        store.post("t", HumanResponseReceived(text="x" * limits.ITEM_BYTES_MAX))


@pytest.mark.parametrize("character", ["\x00", '"', "é", "x"])
def test_a_large_output_is_cut_before_it_is_recorded_and_says_so(character: str) -> None:
    """The side effect has run: its result must be recordable. https://github.com/kestra-io/kestra/pull/10653"""

    class Loud:
        name = "loud"
        flags = ToolFlags()

        def run(self, input: Any, ctx: ToolContext) -> ToolResult:
            return ToolResult(character * 3_000_000)

    store = MemoryStore()
    store.create(NewTask("t", "agent", "goal"))

    run(store, asks("loud"), says(), tools=(Loud(),))

    (finished,) = (e.event for e in store.read("t").entries if isinstance(e.event, ToolFinished))
    assert finished.output.startswith(character * 100)
    assert "[cut: the output had 3000000 characters" in finished.output
    assert OUTPUT_BYTES_MAX // 2 < len(store.read("t").entries[4].body.encode()) < limits.BODY_BYTES_MAX
    assert isinstance(store.read("t", store.task("t").last_seq - 1).entries[0].event, TaskCompleted)


def test_a_keeper_outlives_an_error_nobody_thought_of() -> None:
    """https://github.com/rails/solid_queue/pull/778: every claim of the process hangs on its next beat."""
    store = MemoryStore()
    store.create(NewTask("t", "agent", "goal"))
    renewals: list[str] = []
    real = store.renew

    def renew(claims: Any, lease_seconds: float) -> Any:
        renewals.append("asked")
        if len(renewals) == 1:
            raise Conflict("nobody thought of this")
        return real(claims, lease_seconds)

    store.renew = renew  # type: ignore[method-assign]

    class Slow:
        name = "slow"
        flags = ToolFlags()

        def run(self, input: Any, ctx: ToolContext) -> ToolResult:
            while len(renewals) < 3:
                ctx.wait(0.01)
            return ToolResult("slept")

    loop = WorkerLoop(
        bundle(store, engine(Model((asks("slow"), says())), Slow())), lease_seconds=30, heartbeat_interval=0.05
    )
    loop.tick()

    assert len(renewals) >= 3
    assert store.task("t").status is Status.TERMINAL


def test_a_loop_goes_on_when_no_thread_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    store.create(NewTask("t", "agent", "goal"))
    runtime = bundle(store, engine(Model((says(),))))
    real = runtime.world.spawn
    refused: list[str] = []

    def spawn(name: str, body: Any) -> Any:
        if name.startswith("step") and not refused:
            refused.append(name)
            raise RuntimeError("can't start new thread")
        return real(name, body)

    monkeypatch.setattr(runtime.world, "spawn", spawn)
    loop = WorkerLoop(runtime, lease_seconds=600)

    assert loop.tick() is True

    row = store.task("t")
    assert (row.status, row.fail_attempts) == (Status.PENDING, 1)


def test_loops_that_share_a_process_share_its_lease() -> None:
    from noeta.runtime.process import Process
    from noeta.runtime.threads import ThreadWorld

    store = MemoryStore()
    process = Process(ThreadWorld(), store, lease_seconds=30, heartbeat_interval=10)

    with pytest.raises(BadInput, match="30 s"):
        WorkerLoop(bundle(store, engine(Model(())), process=process), lease_seconds=0.5, heartbeat_interval=0.1)
