"""While a loop drains: orders are heard, messages kept, leases renewed, and a task is given back or honestly left."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.core.events import MessageTaken, TaskCancelled, TaskCompleted, ToolFinished
from noeta.core.runner import Held, LeaseKeeper
from noeta.core.store import NewTask
from noeta.core.task import Status
from noeta.core.tool import StepCancelled, ToolContext
from noeta.core.wake import CANCEL, NEXT_GOAL, ControlReceived, HumanResponseReceived
from noeta.core.world import Spawned
from noeta.runtime.service import ReleasingLoop
from noeta.runtime.threads import ThreadWorld
from noeta.runtime.worker import WorkerLoop
from noeta.testing.faults import Fault, FaultyStore, Kind
from noeta.testing.profile import bundle
from tests.actors import PATIENCE_SECONDS, Effect, Model, SetWorld, Signals, asks, engine, says, wait_until

FOR_EVER = 10 * PATIENCE_SECONDS
CANCELLING = ControlReceived(CANCEL, "enough")


class Scene:
    """A loop on a thread of its own, with one task whose tool does what ``work`` says."""

    def __init__(
        self,
        work: Callable[[ToolContext], None],
        *faults: Fault,
        loop: type[WorkerLoop] = ReleasingLoop,
        grace: float = FOR_EVER,
    ) -> None:
        self.memory = MemoryStore()
        self.store = FaultyStore(self.memory, faults)
        self.started = threading.Event()
        self.signals = Signals()

        def begin(ctx: ToolContext) -> None:
            self.started.set()
            work(ctx)

        self.agent = engine(Model((asks("work"), says())), Effect("work", [], after=begin))
        self.memory.create(NewTask("t", "agent", "goal"))
        self.loop = loop(
            bundle(self.store, self.agent),
            poll_interval=0.01,
            step_poll_s=0.01,
            lease_seconds=10 * FOR_EVER,
            heartbeat_interval=FOR_EVER,  # nothing is heard in time unless draining asks more often
            shutdown_grace_s=grace,
            reliability_sink=self.signals,
        )
        self.running: Spawned = ThreadWorld().spawn("loop", self.loop.run_forever)
        wait_until(self.started, "the step")

    def end(self) -> None:
        assert self.running.done.wait(PATIENCE_SECONDS), "the loop did not end"

    def events(self) -> list[object]:
        return [entry.event for entry in self.memory.read("t").entries]


def heed(ctx: ToolContext) -> None:
    assert ctx.wait(PATIENCE_SECONDS)
    raise StepCancelled


# -- orders and messages -----------------------------------------------------------------------------------


def test_a_cancel_during_the_drain_ends_the_task_instead_of_giving_it_back() -> None:
    """https://github.com/procrastinate-org/procrastinate/issues/1598: no abort is heard once SIGTERM was."""
    go_on = threading.Event()
    scene = Scene(lambda ctx: wait_until(go_on, "the end of the step"))

    scene.loop.stop()
    scene.memory.post("t", CANCELLING, "k")
    go_on.set()
    scene.end()

    assert scene.events()[-1] == TaskCancelled("enough")
    assert (scene.store.calls("release"), scene.loop.left_to_lease) == (0, False)


def test_a_cancel_during_the_drain_ends_the_task_of_a_step_that_heeds_the_stop() -> None:
    stopped, go_on = threading.Event(), threading.Event()

    def tidy_up(ctx: ToolContext) -> None:
        assert ctx.wait(PATIENCE_SECONDS)
        stopped.set()
        wait_until(go_on, "the end of tidying up")
        raise StepCancelled

    scene = Scene(tidy_up)
    scene.loop.stop()
    wait_until(stopped, "the stop")
    scene.memory.post("t", CANCELLING, "k")
    go_on.set()
    scene.end()

    assert scene.events()[-1] == TaskCancelled("enough")
    assert not any(isinstance(event, ToolFinished) for event in scene.events())


def test_a_cancel_during_the_drain_is_heard_by_a_step_that_is_let_finish() -> None:
    """`WorkerLoop` as printed: the stop does not cancel the step, the order does, within the grace."""
    scene = Scene(heed, loop=WorkerLoop)

    scene.loop.stop()
    scene.memory.post("t", CANCELLING, "k")
    scene.end()

    assert scene.events()[-1] == TaskCancelled("enough")
    assert scene.signals.kinds() == []


def test_a_cancelled_task_whose_step_does_not_end_is_ended_when_the_grace_is_over() -> None:
    never = threading.Event()
    scene = Scene(lambda ctx: wait_until(never, "nothing"), grace=2.0)

    scene.loop.stop()
    scene.memory.post("t", CANCELLING, "k")
    scene.end()

    assert scene.events()[-1] == TaskCancelled("enough")
    assert (scene.loop.abandoned, scene.loop.left_to_lease) == (False, False)


def test_a_message_during_the_drain_is_there_for_the_next_owner() -> None:
    stopping, go_on = threading.Event(), threading.Event()

    def finish(ctx: ToolContext) -> None:
        assert ctx.wait(PATIENCE_SECONDS)
        stopping.set()
        wait_until(go_on, "the message")

    scene = Scene(finish)

    scene.loop.stop()
    wait_until(stopping, "the step that hears of the stop")
    scene.memory.post("t", HumanResponseReceived(NEXT_GOAL, "and this"), "k")
    go_on.set()
    scene.end()
    assert scene.memory.task("t").status is Status.PENDING
    assert WorkerLoop(bundle(scene.memory, scene.agent)).tick()

    taken = [event.message for event in scene.events() if isinstance(event, MessageTaken)]
    assert taken == [HumanResponseReceived(NEXT_GOAL, "and this")]
    assert scene.events()[-1] == TaskCompleted("done")


# -- giving back -------------------------------------------------------------------------------------------


def test_a_release_that_fails_is_tried_again_while_the_grace_lasts() -> None:
    scene = Scene(heed, Fault(Kind.UNAVAILABLE, "release", times=2))

    scene.loop.stop()
    scene.end()

    assert (scene.store.calls("release"), scene.memory.task("t").status) == (3, Status.PENDING)
    assert not scene.loop.left_to_lease


def test_a_release_whose_answer_was_lost_is_not_said_to_be_left() -> None:
    scene = Scene(heed, Fault(Kind.LANDED, "release"))

    scene.loop.stop()
    scene.end()

    assert (scene.memory.task("t").status, scene.loop.left_to_lease) == (Status.PENDING, False)


def test_a_task_that_could_not_be_given_back_is_said_to_be_left() -> None:
    scene = Scene(heed, Fault(Kind.UNAVAILABLE, "release", times=99), grace=0.3)

    scene.loop.stop()
    scene.end()

    assert (scene.memory.task("t").status, scene.loop.left_to_lease) == (Status.RUNNING, True)
    assert not scene.loop.abandoned


def test_a_claim_that_may_have_been_made_while_the_loop_stopped_is_said_to_be_left() -> None:
    """The claim lands when its loop has given up on it: nobody here runs the task, and its lease is over some day."""
    memory, agent = MemoryStore(), engine(Model((says(),)))
    memory.create(NewTask("t", "agent", "goal"))
    store = FaultyStore(memory, [Fault(Kind.LANDS_LATER, "claim")])
    loop = ReleasingLoop(bundle(store, agent), poll_interval=0.01, lease_seconds=10 * FOR_EVER)
    running = ThreadWorld().spawn("loop", loop.run_forever)
    while not store.fired:
        running.done.wait(0.01)

    loop.stop()

    assert running.done.wait(PATIENCE_SECONDS)
    assert loop.left_to_lease


def test_a_step_whose_last_commit_failed_is_given_back_all_the_same() -> None:
    go_on = threading.Event()
    # The third append: the result of the tool.
    scene = Scene(lambda ctx: wait_until(go_on, "the step"), Fault(Kind.UNAVAILABLE, "append", 3))

    scene.loop.stop()
    go_on.set()
    scene.end()

    assert (scene.memory.task("t").status, scene.loop.left_to_lease) == (Status.PENDING, False)


# -- the lease ---------------------------------------------------------------------------------------------


@pytest.mark.holds("stopping/lease-alive")
def test_leases_are_renewed_while_a_step_is_waited_for() -> None:
    renewed = threading.Event()
    go_on = threading.Event()
    scene = Scene(lambda ctx: wait_until(go_on, "the end of the step"), loop=WorkerLoop)
    real = scene.memory.renew

    def renew(*args: object, **more: object) -> object:
        answer = real(*args, **more)  # type: ignore[arg-type]
        renewed.set()
        return answer

    scene.memory.renew = renew  # type: ignore[assignment, method-assign]
    until = scene.memory.task("t").lease_until
    scene.loop.stop()
    wait_until(renewed, "a renewal")

    later = scene.memory.task("t").lease_until
    assert later is not None and until is not None and later > until
    go_on.set()
    scene.end()


@pytest.mark.holds("stopping/bound")
def test_what_is_renewed_early_while_draining_does_not_count_against_the_step() -> None:
    """Keeps: bounded. A step's hold is interval × heartbeat_max, however often it is renewed."""
    world = SetWorld()
    store = MemoryStore(lambda: world.seconds)
    keeper = LeaseKeeper(world, store, lease_seconds=60.0, interval=20.0, wait=lambda seconds: True)
    store.create(NewTask("t", "agent", "goal"))
    held = Held(world, store, store.claim("w1", None, 60.0).claims[0], world.seconds + 60.0)
    keeper.keep(held)
    keeper.drain()

    for _ in range(40):
        keeper.beat()
        world.seconds += 1.0

    assert held.renewals == 2


def test_a_second_stop_is_harmless() -> None:
    scene = Scene(heed)

    scene.loop.stop()
    scene.loop.stop()
    scene.end()
    scene.loop.stop()

    assert scene.memory.task("t").status is Status.PENDING
