"""The worker loop: what its page prints, its exception policy, and what it outlives."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, Literal, get_args

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.core import texts
from noeta.core.errors import BadInput, CommitUnknown, Conflict, InvalidLease, StoreUnavailable
from noeta.core.events import TaskCompleted, TaskFailed, TaskSuspended
from noeta.core.model import ProviderError
from noeta.core.runner import Engine
from noeta.core.store import Claims, Commit, Suspend
from noeta.core.task import Status
from noeta.core.wake import ControlReceived, ExternalEvent, HumanResponseReceived, TimerFired
from noeta.core.world import Event
from noeta.runtime.reliability import Kind as Signal
from noeta.runtime.reliability import ReliabilityEvent
from noeta.runtime.worker import DEFAULT_SHUTDOWN_GRACE_S, WorkerLoop, WorkerOutcome
from noeta.testing.faults import Fault, Kind
from tests.actors import Model, engine, says
from tests.unit.runtime.scene import LEASE, Host, Scene

# -- what the page prints ----------------------------------------------------------------------------------


@pytest.mark.holds("knob/grace-default", "knob/handle-default")
def test_the_constructors_defaults_are_the_printed_ones() -> None:
    parameters = inspect.signature(WorkerLoop.__init__).parameters

    assert {name: p.default for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY} == {
        "worker_id": "noeta-worker",
        "lease_seconds": 600.0,
        "poll_interval": 0.5,
        "heartbeat_interval": 30.0,
        "stale_sweep_interval": 10.0,
        "timer_poll_interval": 1.0,
        "shutdown_grace_s": 30.0,
        "sleep": None,
        "clock": None,
        "now_fn": None,
        "heartbeat_wait": None,
        "reliability_sink": None,
        "step_poll_s": 0.05,
        "next_goal_handle": None,
    }
    assert DEFAULT_SHUTDOWN_GRACE_S == 30.0


@pytest.mark.holds("member/running")
def test_a_new_loop_does_not_run() -> None:
    scene = Scene()

    assert (scene.loop.running, scene.loop.abandoned) == (False, False)


@pytest.mark.holds("outcome/names", "outcome/kinds")
def test_outcomes_and_signals_are_the_printed_ones() -> None:
    assert get_args(WorkerOutcome) == ("woken", "drained", "skipped", "cancelled", "stopped")
    assert get_args(Signal) == (
        "stale_requeued",
        "suspended_without_wake",
        "step_failed_retryable",
        "heartbeat_invalid_lease",
        "shutdown_abandoned",
        "timers_fired",
        "attempt_abandoned",
        "attempt_parked",
    )


@pytest.mark.holds("member/run-forever")
def test_an_iteration_sweeps_polls_timers_and_ticks_and_an_idle_one_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []

    def sleep(seconds: float) -> None:
        done.append(seconds)
        if done.count(seconds) == 2:
            loop.stop()

    def tick() -> bool:
        done.append("tick")
        return next(ticks)

    ticks = iter((True, False, False))
    loop = WorkerLoop(Host(MemoryStore(), engine(Model(()))), poll_interval=0.7, sleep=sleep)
    monkeypatch.setattr(loop, "maybe_sweep", lambda: done.append("sweep"))
    monkeypatch.setattr(loop, "maybe_poll_timers", lambda: done.append("timers"))
    monkeypatch.setattr(loop, "tick", tick)

    loop.run_forever()

    busy = ["sweep", "timers", "tick"]
    assert done == [*busy, *busy, 0.7, *busy, 0.7]


def test_a_tick_with_nothing_to_do_is_false() -> None:
    assert Scene().loop.tick() is False


@pytest.mark.holds("status/one-shot-completes")
def test_a_tick_drives_one_task_to_its_rest() -> None:
    scene = Scene()
    scene.create("a")
    scene.create("b")

    assert scene.loop.tick() is True

    assert scene.events("a")[-1] == TaskCompleted("done")
    assert scene.memory.task("b").status is Status.PENDING
    assert scene.loop.tick() is True
    assert scene.loop.tick() is False


def test_a_bad_lease_or_interval_is_refused() -> None:
    for knobs in (
        {"lease_seconds": 0},
        {"lease_seconds": 20.0, "heartbeat_interval": 20.0},
        {"poll_interval": 0},
        {"step_poll_s": -1},
    ):
        with pytest.raises(BadInput):
            WorkerLoop(Host(MemoryStore(), engine(Model(()))), **knobs)


# -- sweeps and timers -------------------------------------------------------------------------------------


@pytest.mark.holds("wake/timers-need-nobody")
def test_sweep_and_timer_poll_wait_for_their_interval() -> None:
    now = [0.0]
    scene = Scene(clock=lambda: now[0], stale_sweep_interval=10.0, timer_poll_interval=1.0)
    scene.create("asleep")
    (claim,) = scene.memory.claim("w0", None, 60.0).claims
    wait = TimerFired(scene.clock.seconds + 1.0)
    scene.memory.append(claim, 1, Commit((TaskSuspended(wait),), Suspend(wait)))
    scene.create("lapsed")
    scene.memory.claim("w0", None, 1.0)
    scene.clock.seconds += 1.0
    assert (scene.loop.maybe_sweep(), scene.loop.maybe_poll_timers()) == (False, False)
    assert [row.status for row in scene.memory.tasks()] == [Status.SUSPENDED, Status.RUNNING]

    now[0] = 1.0
    assert (scene.loop.maybe_sweep(), scene.loop.maybe_poll_timers()) == (False, True)
    assert [row.status for row in scene.memory.tasks()] == [Status.PENDING, Status.RUNNING]
    assert scene.loop.maybe_poll_timers() is False
    now[0] = 10.0
    assert scene.loop.maybe_sweep() is True
    assert [row.status for row in scene.memory.tasks()] == [Status.PENDING, Status.PENDING]
    assert scene.loop.maybe_sweep() is False


@pytest.mark.parametrize("interval", [0.0, -1.0])
def test_an_interval_of_zero_disables_only_that(interval: float) -> None:
    now = [0.0]
    scene = Scene(clock=lambda: now[0], stale_sweep_interval=interval, timer_poll_interval=1.0)
    now[0] = 1e6

    assert (scene.loop.maybe_sweep(), scene.loop.maybe_poll_timers()) == (False, True)


@pytest.mark.holds("wait/timer-delivered", "outcome/proves")
def test_sweeps_timers_and_takeovers_are_signalled_whoever_did_them() -> None:
    now = [0.0]
    scene = Scene(clock=lambda: now[0])
    for id in ("lapsed", "lapsed too"):
        scene.create(id)
        scene.memory.claim("dead", None, 10.0)
    scene.create("timed")
    (claim,) = scene.memory.claim("w0", None, 10.0).claims
    wait = TimerFired(scene.clock.seconds + 5)
    scene.memory.append(claim, 1, Commit((TaskSuspended(wait),), Suspend(wait)))
    scene.clock.seconds += 10
    now[0] = 100.0

    scene.loop.maybe_poll_timers()
    scene.loop.maybe_sweep()

    assert [(event.kind, event.task_id) for event in scene.signals.events] == [
        ("timers_fired", None),
        ("stale_requeued", None),
    ]
    assert scene.signals.events[0].detail == {"count": 1, "task_ids": ("timed",)}
    assert scene.signals.events[1].detail == {"count": 2, "task_ids": ("lapsed", "lapsed too")}


@pytest.mark.holds("outcome/signals")
def test_a_claim_signals_the_lease_it_took_over() -> None:
    scene = Scene()
    scene.create()
    scene.memory.claim("dead", None, 10.0)
    scene.clock.seconds += 10

    scene.loop.tick()

    assert scene.signals.kinds() == ["stale_requeued"]


# -- the exception policy ----------------------------------------------------------------------------------


def _raise(error: Exception) -> Callable[[object], Engine]:
    def resolve(task: object) -> Engine:
        raise error

    return resolve


@pytest.mark.holds("error/loop-lives", "error/any-other", "outcome/proves")
def test_an_error_that_escapes_a_step_is_retried_and_bounded() -> None:
    """Keeps: bounded."""
    scene = Scene(methods={"resolve_engine": _raise(KeyError("no such agent"))})
    scene.create()

    for _ in range(3):
        assert scene.loop.tick() is True
        scene.clock.seconds += 60

    assert scene.loop.tick() is False
    assert scene.events()[-1] == TaskFailed(texts.TOO_MANY_FAILURES, "KeyError: 'no such agent'")
    assert scene.signals.kinds() == ["step_failed_retryable"] * 3
    assert scene.signals.events[0].detail == {"reason": "KeyError: 'no such agent'"}


@pytest.mark.holds("error/invalid-lease")
@pytest.mark.parametrize(
    "error",
    [InvalidLease("gone"), Conflict("gone"), StoreUnavailable("down"), CommitUnknown("who knows")],
    ids=lambda error: type(error).__name__,
)
def test_a_lost_claim_or_store_charges_nobody(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """No release, no fail: the lease runs out."""
    caplog.set_level(logging.INFO, "noeta.worker")
    scene = Scene(methods={"resolve_engine": _raise(error)})
    scene.create()

    assert scene.loop.tick() is True

    assert (scene.store.calls("fail"), scene.store.calls("release")) == (0, 0)
    assert "task t" in caplog.text and str(error) in caplog.text
    assert scene.memory.task("t").fail_attempts == 0
    assert scene.signals.kinds() == []


@pytest.mark.holds("error/fail-raises", "error/next-task")
def test_a_failure_that_cannot_be_recorded_does_not_stop_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    """Also twice in a row: nothing is tried a second time that would end the loop."""
    bad = {"s", "t"}

    def resolve(task: Any) -> Engine:
        if task.task_id in bad:
            raise ValueError("poison")
        return engine(Model((says(),)))

    scene = Scene(None, Fault(Kind.UNAVAILABLE, "fail", times=2), methods={"resolve_engine": resolve})
    for id in ("s", "t", "u"):
        scene.create(id)

    assert [scene.loop.tick() for _ in range(3)] == [True] * 3

    assert scene.store.unfired() == ()
    assert "recording a failure failed" in caplog.text
    assert scene.events("u")[-1] == TaskCompleted("done")


@pytest.mark.holds("error/next-task")
def test_an_innocent_task_is_not_charged_for_its_neighbour() -> None:
    """https://github.com/contribsys/faktory/issues/99"""

    def resolve(task: Any) -> Engine:
        if task.task_id == "bad":
            raise ValueError("poison")
        return engine(Model((says(),)))

    scene = Scene(methods={"resolve_engine": resolve})
    scene.create("bad")
    for n in range(5):
        scene.create(f"good{n}")

    while scene.loop.tick():
        pass

    assert {row.fail_attempts for row in scene.memory.tasks() if row.id != "bad"} == {0}
    assert len(scene.memory.tasks(status=Status.TERMINAL)) == 5


@pytest.mark.holds("error/provider", "error/provider-translated", "error/provider-counted-once")
def test_a_provider_error_never_reaches_the_backstop() -> None:
    def refuse(request: object) -> None:
        raise ProviderError("overloaded", retryable=False)

    scene = Scene(engine(Model((says(),), before=refuse)))
    scene.create()

    scene.loop.tick()

    assert scene.store.calls("fail") == 0
    assert scene.events()[-1] == TaskFailed("llm_error", "overloaded")


@pytest.mark.holds("wake/still-waiting", "outcome/skipped")
def test_a_task_without_its_wake_is_skipped_and_signalled() -> None:
    scene = Scene()
    scene.create(interactive=True)
    (claim,) = scene.memory.claim("w0", None, LEASE).claims
    scene.memory.post("t", ExternalEvent("unrelated"))
    wait = HumanResponseReceived()
    scene.memory.append(claim, 1, Commit((TaskSuspended(wait),), Suspend(wait), inbox_seen=0))

    assert scene.loop.tick() is True

    assert scene.signals.kinds() == ["suspended_without_wake"]
    assert scene.memory.task("t").status is Status.SUSPENDED
    assert scene.loop.tick() is False


# -- what the loop outlives --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.UNAVAILABLE, Kind.NOT_LANDED])
def test_the_loop_outlives_a_store_that_is_away(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    """Claims, sweeps and polls raise, the loop goes on, and the log is not flooded.

    https://github.com/bensheldon/good_job/issues/296
    """
    outage = 30
    now, pauses = [0.0], []
    scene: Scene

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds
        if len(pauses) == outage + 5:
            scene.loop.stop()

    scene = Scene(
        None,
        Fault(Kind.UNAVAILABLE, "tasks", times=2 * outage),
        *[Fault(kind, verb, times=outage) for verb in ("claim", "requeue_stale", "fire_due_timers")],
        clock=lambda: now[0],
        sleep=sleep,
        stale_sweep_interval=0.1,
        timer_poll_interval=0.1,
    )
    if kind is Kind.NOT_LANDED:
        scene.loop._dispatcher._adopt = _nothing_to_adopt  # type: ignore[method-assign]
    scene.create()

    with caplog.at_level(logging.WARNING):
        scene.loop.run_forever()

    assert scene.events()[-1] == TaskCompleted("done")
    assert max(pauses) <= 5.0 and sum(pauses[:10]) > 10 * 0.5
    assert len(caplog.records) <= now[0] / 5.0 + 5


def _nothing_to_adopt(token: str, error: CommitUnknown, lease_seconds: float, stop: Event) -> Claims:
    raise StoreUnavailable("nothing to adopt") from error


def test_a_sink_that_raises_is_swallowed() -> None:
    def sink(event: ReliabilityEvent) -> None:
        raise RuntimeError("the sink is broken")

    scene = Scene(methods={"resolve_engine": _raise(ValueError("x"))}, reliability_sink=sink)
    scene.create()

    assert scene.loop.tick() is True
    assert scene.memory.task("t").fail_attempts == 1


def test_without_a_sink_signals_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(methods={"resolve_engine": _raise(ValueError("x"))}, reliability_sink=None)
    scene.create()

    with caplog.at_level(logging.WARNING, "noeta.reliability"):
        scene.loop.tick()

    assert "task t: its step failed, and is tried again within its bound: ValueError: x (step_failed_retryable)" in (
        caplog.text
    )


@pytest.mark.holds("outcome/signals")
def test_signals_are_never_in_a_log() -> None:
    scene = Scene(methods={"resolve_engine": _raise(ValueError("x"))})
    scene.create()

    scene.loop.tick()

    assert len(scene.events()) == 1


# -- the duck-typed methods --------------------------------------------------------------------------------


def test_the_hosts_resolver_chooses_the_engine() -> None:
    other = Model((says("from the other"),))
    scene = Scene(methods={"resolve_engine": lambda task: engine(other)})
    scene.create()

    scene.loop.tick()

    assert scene.events()[-1] == TaskCompleted("from the other")


def test_subtasks_are_settled_after_a_step_and_a_prelude_runs_before_it() -> None:
    told: list[str] = []
    scene = Scene(
        methods={
            "settle_subtasks_after_step": lambda id: told.append(f"settle {id}"),
            "take_pending_prelude": lambda id: lambda: told.append(f"prelude {id}"),
        }
    )
    scene.create()

    scene.loop.tick()

    assert told == ["prelude t", "settle t"]


@pytest.mark.holds("knob/handle")
def test_a_cancel_ends_the_task_if_no_handle_is_named() -> None:
    scene = ordered("cancel", None)

    assert scene.memory.task("t").status is Status.TERMINAL


@pytest.mark.holds("knob/handle")
@pytest.mark.parametrize("action", ["cancel", "close"])
def test_with_a_handle_an_order_leaves_the_task_to_be_reopened_by_typing(action: Literal["cancel", "close"]) -> None:
    scene = ordered(action, "desk")
    row = scene.memory.task("t")
    assert (row.status, row.wake_on) == (Status.SUSPENDED, HumanResponseReceived("desk"))

    scene.memory.wake("t", HumanResponseReceived("desk", "go on"))
    scene.loop.tick()

    assert scene.events()[-1] == TaskSuspended(HumanResponseReceived(), "again")


def ordered(action: Literal["cancel", "close"], handle: str | None) -> Scene:
    """A task that was ordered to end in its first model call, and came to rest."""
    model = Model((says("first"), says("again")))
    scene = Scene(engine(model), next_goal_handle=handle)
    scene.create(interactive=True)

    def order(request: object) -> None:
        if len(model.requests) == 1:
            scene.memory.post("t", ControlReceived(action, "enough"))

    model.before = order
    while scene.loop.tick():
        pass
    return scene
