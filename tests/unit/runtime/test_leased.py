"""One leased task outside a loop: bounds of loading, the keeper around a block, the faces of the store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.core import texts
from noeta.core.errors import BadInput, Conflict, InvalidLease, StoreUnavailable, UnreadableLog
from noeta.core.events import ModelCalled, ModelReplied, TaskCompleted, TaskFailed, TaskSuspended, TaskWoken
from noeta.core.fold import TaskState
from noeta.core.store import Child, Commit, NewTask, Suspend
from noeta.core.task import LOAD_ATTEMPTS, TAKEOVERS_MAX, Status
from noeta.core.wake import ControlReceived, HumanResponseReceived, SubtaskCompleted
from noeta.runtime.dispatcher import Dispatcher
from noeta.runtime.leased import keep_lease_alive, resolve_engine, run_leased_task
from noeta.runtime.worker import WorkerLoop
from noeta.testing.faults import Fault, FaultyStore, Kind
from noeta.testing.profile import bundle
from tests.actors import Model, Signals, engine, says

LEASE = 60.0
WAIT = HumanResponseReceived()


class Scene:
    def __init__(self, *faults: Fault) -> None:
        self.seconds = 1_700_000_000.0
        self.memory = MemoryStore(lambda: self.seconds)
        self.store = FaultyStore(self.memory, faults)
        self.model = Model((says("hi"), says("again"), says("more")))
        self.rt = bundle(self.store, engine(self.model))
        self.dispatcher = self.rt.dispatcher

    def lease(self) -> Any:
        lease = self.dispatcher.lease(worker_id="w1", lease_seconds=LEASE)
        assert lease is not None
        return lease

    def events(self, id: str = "t") -> list[object]:
        return [entry.event for entry in self.memory.read(id).entries]

    def damage(self, body: str) -> None:
        """An entry that this version cannot read, as only a newer version or a bad disk writes it."""
        task = self.memory._tasks["t"]
        task.entries.append((1, 0, body))
        task.row = replace(task.row, last_seq=len(task.entries))


def test_a_leased_task_is_driven_to_its_end() -> None:
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))

    assert run_leased_task(scene.rt, scene.lease()) == "drained"
    assert scene.events()[-1] == TaskCompleted("hi")


def test_an_engine_given_is_the_one_used() -> None:
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))

    run_leased_task(scene.rt, scene.lease(), engine=engine(Model((says("other"),))))

    assert scene.events()[-1] == TaskCompleted("other")
    assert scene.model.requests == []


def test_a_prelude_runs_before_the_drive() -> None:
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))
    seen: list[int] = []

    run_leased_task(scene.rt, scene.lease(), prelude=lambda: seen.append(len(scene.model.requests)))

    assert seen == [0]


@pytest.mark.holds("wake/arrives", "wake/lease-carries-it", "wake/delivered-again", "outcome/ordered")
@pytest.mark.parametrize(
    ("handle", "outcome", "status"), [(None, "cancelled", Status.TERMINAL), ("desk", "stopped", Status.SUSPENDED)]
)
@pytest.mark.parametrize("action", ["cancel", "close"])
def test_an_order_in_mid_turn_is_told_as_what_it_left(
    action: Literal["cancel", "close"], handle: str | None, outcome: str, status: Status
) -> None:
    """Of a task that nobody could speak to, a close leaves nothing to reopen."""
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))
    lease = scene.lease()
    scene.model.before = lambda request: _ignore(scene.memory.post("t", ControlReceived(action, "enough")))

    assert run_leased_task(scene.rt, lease, next_goal_handle=handle) == outcome

    assert scene.memory.task("t").status is status


def _ignore(answer: object) -> None:
    pass


def test_a_lease_carries_its_wake_until_it_is_recorded() -> None:
    """Keeps: wake-once."""
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal", interactive=True))
    assert run_leased_task(scene.rt, scene.lease()) == "woken"
    reply = HumanResponseReceived(text="go on")
    assert scene.dispatcher.wake("t", reply) is True
    assert scene.dispatcher.wake("t", reply) is False

    first = scene.lease()
    assert first.wake_event == reply
    scene.seconds += LEASE
    second = scene.lease()
    assert second.wake_event == reply
    assert run_leased_task(scene.rt, second) == "woken"

    assert sum(isinstance(event, TaskWoken) for event in scene.events()) == 1
    assert scene.dispatcher.lease(worker_id="w1") is None


@pytest.mark.holds("wake/lease-carries-it")
def test_a_lease_without_a_wake_carries_none() -> None:
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))

    assert scene.lease().wake_event is None


# -- bounds of loading -------------------------------------------------------------------------------------


def test_a_task_taken_over_too_often_is_ended_without_being_loaded() -> None:
    """And its parent hears of it. Keeps: bounded, children-once. https://github.com/sidekiq/sidekiq/issues/4633"""
    scene = Scene()
    scene.memory.create(NewTask("p", "agent", "goal"))
    (parent,) = scene.memory.claim("w0", None, LEASE).claims
    scene.memory.append(parent, 1, Commit(children=(Child("p.2-0.0", "agent", "goal"),)))
    wait = SubtaskCompleted("p.2-0.0")
    scene.memory.append(parent, 1, Commit((TaskSuspended(wait),), Suspend(wait)))
    for _ in range(TAKEOVERS_MAX):
        assert scene.memory.claim("dies", None, 1.0).claims
        scene.seconds += 1
        scene.memory.requeue_stale()
        scene.seconds += 60
    lease = scene.lease()
    assert lease.claim.takeovers == TAKEOVERS_MAX
    reads = scene.store.calls("read")

    assert run_leased_task(scene.rt, lease) == "drained"

    assert scene.store.calls("read") == reads
    ending = scene.events("p.2-0.0")[-1]
    assert isinstance(ending, TaskFailed) and ending.reason == texts.TOO_MANY_TAKEOVERS and "10" in ending.message
    assert scene.memory.task("p").status is Status.PENDING


def test_below_the_bound_of_takeovers_a_task_is_run() -> None:
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))
    for _ in range(TAKEOVERS_MAX - 1):
        scene.memory.claim("dies", None, 1.0)
        scene.seconds += 1
        scene.memory.requeue_stale()
        scene.seconds += 60

    assert run_leased_task(scene.rt, scene.lease()) == "drained"
    assert scene.events()[-1] == TaskCompleted("hi")


@pytest.mark.parametrize(
    "body", ['{"type":"ToolStarted"}', "no json", '{"type":"ToolStarted","call_id":"9-9","start":1}']
)
def test_a_log_that_cannot_be_read_ends_the_task_after_three_claims(body: str) -> None:
    """Written nothing before, the evidence kept. Keeps: bounded."""
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))
    scene.damage(body)
    loop = WorkerLoop(scene.rt, lease_seconds=LEASE, reliability_sink=Signals())
    for n in range(1, LOAD_ATTEMPTS + 1):
        assert scene.memory.task("t").status is not Status.TERMINAL, n
        assert scene.memory.task("t").last_seq == 2
        assert loop.tick() is True
        scene.seconds += LEASE
        scene.memory.requeue_stale()
        scene.seconds += LEASE

    task = scene.memory._tasks["t"]
    assert (task.row.status, task.row.fail_attempts) == (Status.TERMINAL, 0)
    assert task.entries[1][2] == body
    assert f'"reason":"{texts.UNREADABLE_LOG}"' in task.entries[2][2]
    assert loop.tick() is False


def test_a_log_of_a_newer_version_is_left_to_a_newer_worker() -> None:
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))
    scene.damage('{"type":"TaskTeleported"}')
    loop = WorkerLoop(scene.rt, lease_seconds=LEASE, reliability_sink=Signals())

    for _ in range(3 * TAKEOVERS_MAX):
        assert loop.tick()
        scene.seconds += LEASE
        scene.memory.requeue_stale()
        scene.seconds += LEASE

    row = scene.memory.task("t")
    assert (row.last_seq, row.fail_attempts, row.takeovers) == (2, 0, 0)
    assert row.status is not Status.TERMINAL


def test_without_a_process_an_unreadable_log_is_the_callers_to_judge() -> None:
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))
    scene.damage("no json")

    with pytest.raises(UnreadableLog):
        run_leased_task(scene.rt, scene.lease())


# -- a lease kept alive ------------------------------------------------------------------------------------


def test_a_lease_is_kept_alive_while_the_block_runs() -> None:
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))
    lease = scene.lease()
    renewed = scene.rt.world.event()
    real = scene.memory.renew

    def renew(*args: Any) -> Any:
        answer = real(*args)
        renewed.set()
        return answer

    scene.memory.renew = renew  # type: ignore[method-assign, assignment]
    with keep_lease_alive(scene.dispatcher, lease, interval=0.01, lease_seconds=LEASE) as held:
        assert renewed.wait(30.0)
        assert held is lease.held
    assert lease.held.lost is None


def test_a_lease_kept_alive_has_an_interval_below_it() -> None:
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))
    lease = scene.lease()

    with pytest.raises(BadInput), keep_lease_alive(scene.dispatcher, lease, interval=9.0, lease_seconds=9.0):
        pass


# -- faces -------------------------------------------------------------------------------------------------


def test_the_resolver_of_the_host_comes_before_its_engine() -> None:
    scene = Scene()
    other = engine(Model(()))
    assert resolve_engine(scene.rt, TaskState("t")) is scene.rt.engine

    object.__setattr__(scene.rt, "resolve_engine", lambda task: other)

    assert resolve_engine(scene.rt, TaskState("t")) is other


def test_a_heartbeat_extends_and_says_when_it_cannot() -> None:
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))
    lease = scene.lease()
    scene.seconds += 10

    assert scene.dispatcher.heartbeat(lease, lease_seconds=LEASE) == round((scene.seconds + LEASE) * 1e6)

    scene.seconds += LEASE
    with pytest.raises(InvalidLease):
        scene.dispatcher.heartbeat(lease, lease_seconds=LEASE)
    with pytest.raises(InvalidLease):
        scene.rt.event_log.append(lease, 1, ModelCalled("h", 1))


def test_a_log_is_appended_to_under_a_lease_and_read_page_by_page() -> None:
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))
    lease = scene.lease()
    appended = scene.rt.event_log.append(lease, 1, *[ModelReplied(str(n)) for n in range(999)])
    scene.rt.event_log.append(lease, appended.last_seq, *[ModelReplied(str(n)) for n in range(500)])

    assert [entry.seq for entry in scene.rt.event_log.read("t", 700)] == list(range(701, 1_501))
    with pytest.raises(Conflict):
        scene.rt.event_log.append(lease, 3, ModelReplied("late"))


def test_contents_are_put_and_found() -> None:
    scene = Scene()
    ref = scene.rt.content_store.put(b"body", media_type="text/plain")

    assert (ref.media_type, scene.rt.content_store.get(ref)) == ("text/plain", b"body")


def test_a_claim_of_unknown_outcome_that_took_nothing_says_so() -> None:
    """Looked up at once, and again when it must have ended. Keeps: acked-stays."""
    scene = Scene(Fault(Kind.NOT_LANDED, "claim"))
    scene.memory.create(NewTask("t", "agent", "goal"))
    pauses: list[float] = []

    class Hasty(type(scene.rt.world)):  # type: ignore[misc]
        def event(self) -> Any:
            made = super().event()
            made.wait = pauses.append
            return made

    dispatcher = Dispatcher(scene.store, world=Hasty())
    with pytest.raises(StoreUnavailable):
        dispatcher.claim(worker_id="w1", lease_seconds=LEASE)

    assert scene.store.calls("tasks") == 2
    assert pauses == [6.0]
    assert scene.memory.task("t").status is Status.PENDING


def test_releasing_and_failing_through_the_dispatcher() -> None:
    scene = Scene()
    scene.memory.create(NewTask("t", "agent", "goal"))

    assert scene.dispatcher.release(scene.lease()) is Status.PENDING
    assert scene.dispatcher.fail(scene.lease(), reason=None).fail_attempts == 1
    scene.seconds += 60
    assert scene.dispatcher.fail(scene.lease(), retryable=False, reason="no").status is Status.TERMINAL
    assert scene.events()[-1] == TaskFailed(texts.TOO_MANY_FAILURES, "no")
