"""Claims that are given up before their lease is over: what a busy worker, and one that stops, leaves to others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from noeta.core import texts
from noeta.core.errors import StoreUnavailable
from noeta.core.events import JobEnded, JobLost, StepAttemptAbandoned, TaskCancelled, ToolFinished
from noeta.core.model import ModelReply, ModelRequest
from noeta.core.task import Status
from noeta.core.tool import ToolContext
from noeta.core.wake import ControlReceived, HumanResponseReceived
from noeta.runtime.kept import RESUME_PAUSE_SECONDS, UNHEARD_SECONDS
from noeta.runtime.process import Process
from noeta.runtime.service import ReleasingLoop
from noeta.runtime.threads import ThreadWorld
from noeta.runtime.worker import WorkerLoop
from tests.actors import Effect, Model, asks, engine, says, wait_until
from tests.unit.runtime.fake_jobs import FakeTable, StartsJob
from tests.unit.runtime.jobs import stage
from tests.unit.runtime.scene import Scene

LEASE = 600.0
GRACE = 30.0
ENDED = JobEnded("3-0", "exited", 0, None, "a line\n")


class Busy(Scene):
    """A worker of one loop, which keeps the claim of ``t`` for the sake of a job, and drives ``s``, whose tool goes on
    until it is let go."""

    def __init__(self) -> None:
        self.table = FakeTable(ThreadWorld())
        self.seconds = 0.0
        self.started, self.go_on = threading.Event(), threading.Event()
        self.ends = threading.Event()
        self.model = Model((asks("background"), says("it runs"), says("too early")))
        agents = {
            "t": engine(self.model, StartsJob()),
            "s": engine(Model((asks("long"), says("done"))), Effect("long", [], after=self._work)),
        }
        super().__init__(
            methods={"jobs": self.table, "resolve_engine": lambda task: agents[task.task_id]},
            lease_seconds=LEASE,
            shutdown_grace_s=GRACE,
            heartbeat_wait=lambda seconds: self.ends.wait(),
            clock=lambda: self.seconds,
        )
        self.create(interactive=True)
        assert self.loop.tick()
        (self.jobs,) = self.table.by_claim.values()
        self.create("s")

    def _work(self, ctx: ToolContext) -> None:
        self.started.set()
        wait_until(self.go_on, "the end of the long step")

    @contextmanager
    def in_its_step(self) -> Iterator[None]:
        """``s`` is driven; afterwards it was let go, and the loop has ended."""
        running = threading.Thread(target=self.loop.run_forever, daemon=True)
        running.start()
        wait_until(self.started, "the tool's start")
        try:
            yield
            assert self.memory.task("s").status is Status.RUNNING, "the loop had no time meanwhile"
        finally:
            self.loop.stop()
            self.go_on.set()
            self.ends.set()
            running.join(stage.WAIT_SECONDS)
            assert not running.is_alive()

    def beat(self) -> None:
        """The keeper's next beat; after it, so long that a loop with time would have taken what it heard of."""
        self.loop._process._keeper.beat()
        self.loop._process.kept.take_unheard()
        self.seconds += UNHEARD_SECONDS

    def until(self, status: Status, what: str) -> None:
        stage.wait_until(lambda: self.memory.task("t").status is status, what)


def test_a_busy_worker_ends_a_kept_task_that_is_cancelled() -> None:
    """Its shell does not run on for as long as somebody else's step takes. Keeps: jobs-told-once, never-stuck."""
    scene = Busy()
    with scene.in_its_step():
        scene.memory.post("t", ControlReceived("cancel", "enough"), "order")
        scene.beat()

        scene.until(Status.TERMINAL, "the end of the cancelled task")

        assert scene.events()[-2:] == [JobEnded("3-0", "stopped", None, None, "a line\n"), TaskCancelled("enough")]
        assert (scene.memory.task("t").epoch, scene.jobs.live()) == (1, frozenset())


def test_a_busy_worker_closes_a_kept_turn_and_goes_on_keeping_it() -> None:
    """What was said after the order begins a turn, and waits for a loop that has time."""
    scene = Busy()
    with scene.in_its_step():
        scene.memory.post("t", ControlReceived("close", "enough"), "order")
        scene.memory.post("t", HumanResponseReceived(text="go on"), "m")
        scene.beat()

        stage.wait_until(lambda: "closed" in str(scene.events()[-1]), "the end of the turn")

        kept = scene.loop._process.kept
        stage.wait_until(lambda: bool(kept), "the end of the order's step")
        assert len(scene.model.requests) == 2
        assert (scene.memory.task("t").epoch, scene.jobs.live()) == (1, frozenset({"3-0"}))
        (lease,) = kept._leases.values()
        lease.held.resumed()
        assert not lease.held.stopping, "the next step is not told to stop"


def test_a_busy_worker_gives_back_what_nothing_is_alive_for_any_more() -> None:
    """The job's end is recorded, so that nobody takes it for lost, and who has time may go on. Keeps:
    jobs-told-once, never-stuck."""
    scene = Busy()
    with scene.in_its_step():
        scene.jobs.finish("3-0")
        scene.beat()

        scene.until(Status.PENDING, "the release of the kept task")

        assert scene.events()[-1] == ENDED


def test_a_step_is_none_the_worse_if_no_activity_can_be_had_for_a_kept_task() -> None:
    """It is seen to once there is one. Keeps: never-stuck."""
    scene = Busy()
    spawn, refused = scene.host.world.spawn, threading.Event()

    def none_to_be_had(name: str, run: Any) -> Any:
        if name.startswith("attend") and not refused.is_set():
            refused.set()
            raise RuntimeError("planted: can't start new thread")
        return spawn(name, run)

    scene.loop._world.spawn = none_to_be_had  # type: ignore[method-assign]
    with scene.in_its_step():
        scene.memory.post("t", ControlReceived("cancel", "enough"), "order")
        scene.beat()
        wait_until(refused, "the activity that could not be had")
        kept = scene.loop._process.kept
        stage.wait_until(lambda: bool(kept), "the kept task's return")
        scene.seconds += RESUME_PAUSE_SECONDS
        kept.take_unheard()
        scene.seconds += UNHEARD_SECONDS

        scene.until(Status.TERMINAL, "the end of the cancelled task")

    assert scene.memory.task("s").fail_attempts == 0


def test_kept_claims_are_given_back_also_where_no_activity_can_be_had() -> None:
    scene = Busy()

    def none_to_be_had(name: str, run: Any) -> Any:
        raise RuntimeError("planted: can't start new thread")

    scene.loop._process.world.spawn = none_to_be_had  # type: ignore[method-assign]
    scene.loop.stop()

    scene.loop.run_forever()

    assert (scene.memory.task("t").status, scene.loop.left_to_lease) == (Status.PENDING, False)


def test_an_order_that_could_not_be_obeyed_during_a_stop_is_said_to_be_left() -> None:
    scene = Busy()
    (lease,) = scene.loop._process.kept.take_all()
    scene.memory.post("t", ControlReceived("cancel", "enough"), "order")
    scene.loop._process._keeper.beat()
    lease.held.order()

    def away(*args: Any) -> Any:
        raise StoreUnavailable("planted: away")

    scene.memory.append = away  # type: ignore[method-assign, assignment]
    scene.loop.stop()
    scene.loop._see_to(lease)

    assert scene.memory.task("t").status is Status.RUNNING
    assert scene.loop.left_to_lease


def test_a_live_job_is_not_stopped_for_a_message_that_no_loop_has_time_for() -> None:
    scene = Busy()
    with scene.in_its_step():
        scene.memory.post("t", HumanResponseReceived(text="how is it?"), "m")
        scene.beat()

        kept = scene.loop._process.kept
        assert kept.take_unheard() is None
        assert scene.jobs.live() == {"3-0"}


def test_what_a_loop_may_still_take_is_left_to_it() -> None:
    """Another loop of the process would go on under the same epoch."""
    scene = Busy()
    scene.jobs.finish("3-0")
    kept = scene.loop._process.kept

    assert kept.take_unheard() is None
    scene.seconds += UNHEARD_SECONDS / 2
    assert kept.take_unheard() is None
    assert kept.take() is not None


def test_a_kept_task_does_not_wait_for_the_step_of_a_worker_that_stops() -> None:
    scene = Busy()
    with scene.in_its_step():
        scene.loop.stop()

        scene.until(Status.PENDING, "the release of the kept task")

        assert scene.jobs.live() == frozenset()


def test_a_job_that_ended_before_its_worker_stopped_is_not_told_as_lost() -> None:
    """Keeps: jobs-told-once."""
    scene = Busy()
    scene.jobs.finish("3-0")
    scene.loop.stop()

    scene.loop.run_forever()

    assert scene.events()[-1] == ENDED
    assert not any(isinstance(event, JobLost) for event in scene.events())
    assert (scene.memory.task("t").status, scene.loop.left_to_lease) == (Status.PENDING, False)


@pytest.mark.parametrize("grace", [GRACE, None])
def test_a_kept_claim_is_released_again_while_the_grace_lasts(grace: float | None) -> None:
    scene = Busy()
    scene.loop._grace = grace
    release, failures = scene.memory.release, [StoreUnavailable("planted: away for one call")]

    def away_once(claim: Any) -> Status:
        if failures:
            raise failures.pop()
        return release(claim)

    scene.memory.release = away_once  # type: ignore[method-assign]
    scene.loop.stop()

    scene.loop.run_forever()

    assert scene.loop.left_to_lease is (grace is None), "without a grace there is one try"
    assert scene.memory.task("t").kept is (grace is None)


def test_the_last_loop_of_a_shared_process_gives_kept_tasks_back() -> None:
    """While another one runs, it goes on with them. Keeps: never-stuck."""
    scene = Busy()
    process = scene.loop._process
    object.__setattr__(scene.host, "process", process)
    other = WorkerLoop(scene.host, worker_id="w2", lease_seconds=LEASE)
    process.enter(other._stop)
    scene.loop._owns_process = False
    scene.loop.stop()

    scene.loop.run_forever()
    assert scene.memory.task("t").kept

    process.leave(other._stop)
    other.stop()
    other.run_forever()
    assert scene.memory.task("t").status is Status.PENDING


def test_a_worker_without_renewals_runs_no_jobs() -> None:
    """Nobody would hear of anything that comes for a task whose claim it keeps."""
    agent = engine(Model((asks("background"), says())), StartsJob())
    scene = Scene(agent, methods={"jobs": FakeTable(ThreadWorld())}, heartbeat_interval=0.0)
    scene.create()

    scene.loop.tick()

    (refused,) = [event for event in scene.events() if isinstance(event, ToolFinished)]
    assert refused.is_error and "runs no background jobs" in refused.output


# -- a step that hangs while its worker stops --------------------------------------------------------------


class Hanging:
    """A provider that answers with these, and then does not answer any more."""

    def __init__(self, *replies: ModelReply) -> None:
        self.replies = list(replies)
        self.asked, self.go_on = threading.Event(), threading.Event()

    def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
        if self.replies:
            return self.replies.pop(0)
        self.asked.set()
        wait_until(self.go_on, "the end of the model call")
        return says("too late")


def _stopped(provider: Hanging, hangs: threading.Event, *tools: Any) -> Scene:
    """A ``noeta worker`` whose only step hangs when it is told to stop, after its grace."""
    seconds = [0.0]
    scene = Scene(replace(engine(Model(()), *tools), provider=provider))
    scene.loop = ReleasingLoop(
        scene.host, lease_seconds=LEASE, shutdown_grace_s=GRACE, step_poll_s=0.01, clock=lambda: seconds[0]
    )
    scene.create()
    running = threading.Thread(target=scene.loop.run_forever, daemon=True)
    running.start()
    wait_until(hangs, "what hangs")
    scene.loop.stop()
    stage.wait_until(lambda: scene.loop._stopped_at is not None, "word of the stop")
    seconds[0] = GRACE
    running.join(stage.WAIT_SECONDS)
    assert not running.is_alive()
    return scene


def test_a_task_whose_model_call_hangs_is_claimable_when_its_worker_has_stopped() -> None:
    """A provider that stalls holds up nobody, and what it answers later is not recorded. Keeps: one-writer.

    https://github.com/vercel/workflow/pull/3064, https://github.com/elie222/rakazo/pull/865
    """
    provider = Hanging()

    scene = _stopped(provider, provider.asked)

    assert (scene.memory.task("t").status, scene.loop.left_to_lease) == (Status.PENDING, False)
    assert scene.events()[-1] == StepAttemptAbandoned(2, texts.WORKER_STOPPED)
    written = len(scene.events())
    provider.go_on.set()
    assert scene.memory.claim("w2", None, LEASE).claims
    assert len(scene.events()) == written


def test_a_task_whose_tool_hangs_is_left_to_its_lease() -> None:
    """Whoever took it would run beside the tool. Keeps: effect-at-most-once."""
    hangs, go_on = threading.Event(), threading.Event()

    def hang(ctx: ToolContext) -> None:
        hangs.set()
        wait_until(go_on, "the end of the tool")

    scene = _stopped(Hanging(asks("slow")), hangs, Effect("slow", [], after=hang))

    assert (scene.memory.task("t").status, scene.loop.left_to_lease) == (Status.RUNNING, True)
    go_on.set()


def test_a_process_ends_when_all_its_loops_are_told_to() -> None:
    world = ThreadWorld()
    process = Process(world, Scene().store, lease_seconds=LEASE, heartbeat_interval=1.0)
    one, two = world.event(), world.event()
    process.enter(one)
    process.enter(two)

    one.set()
    is_ending = [process.is_ending]
    two.set()
    assert [*is_ending, process.is_ending] == [False, True]
    assert (process.leave(one), process.leave(two)) == (False, True)
