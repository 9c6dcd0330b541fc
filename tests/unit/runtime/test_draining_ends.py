"""What ends while a loop drains: a child of its task, the step itself and a background job, also when the answer of the
commit that records it is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from noeta.core.events import JobEnded, JobLost, MessageTaken, TaskCompleted, ToolFinished
from noeta.core.model import UserSaid
from noeta.core.runner import Engine
from noeta.core.task import Status
from noeta.core.tool import ToolContext
from noeta.core.wake import HumanResponseReceived
from noeta.runtime.service import ReleasingLoop
from noeta.runtime.threads import ThreadWorld
from noeta.runtime.worker import WorkerLoop
from noeta.testing.faults import Fault, Kind
from tests.actors import PATIENCE_SECONDS, Effect, Model, asks, engine, says, wait_until
from tests.unit.runtime.fake_jobs import FakeJobs, FakeTable, StartsJob
from tests.unit.runtime.machines import Site, delegates, helper_agent, main_agent

LEASE = 20 * PATIENCE_SECONDS

LOOPS = pytest.mark.parametrize("loop", [WorkerLoop, ReleasingLoop])
LOST_ANSWERS = pytest.mark.parametrize(
    ("kind", "later_calls"), [(Kind.LANDED, None), (Kind.NOT_LANDED, None), (Kind.LANDS_LATER, 1)]
)
"""What became of the commit whose answer was lost."""


class Drain(Site):
    """A task whose tool ``work`` is under way while the loop ``w1`` drains. ``paid``: the starts of the tool."""

    def __init__(
        self, loop: type[WorkerLoop], agent: Callable[[Effect], Engine], *, interactive: bool = True, **helpers: Engine
    ) -> None:
        self._started, self._told, self._go_on = threading.Event(), threading.Event(), threading.Event()
        self._is_told = issubclass(loop, ReleasingLoop)
        self.paid: list[tuple[str, int]] = []
        super().__init__(main=agent(Effect("work", self.paid, after=self._work)), **helpers)
        self.create(interactive=interactive)
        machine: Any = self.machine()
        self._table = machine.jobs = FakeTable(ThreadWorld())
        self.loop = loop(
            machine,
            worker_id="w1",
            poll_interval=0.01,
            step_poll_s=0.01,
            lease_seconds=LEASE,
            heartbeat_interval=LEASE / 3,
            shutdown_grace_s=10 * PATIENCE_SECONDS,
        )
        self._running = ThreadWorld().spawn("loop", self.loop.run_forever)
        wait_until(self._started, "the step")
        self.loop.stop()
        if self._is_told:
            wait_until(self._told, "word of the stop")

    @property
    def jobs(self) -> FakeJobs:
        (jobs,) = self._table.by_claim.values()
        return jobs

    def end(self) -> None:
        """The step ends, and with it the loop."""
        self._go_on.set()
        assert self._running.done.wait(PATIENCE_SECONDS), "the loop did not end"
        if self._is_told:
            assert self.row().status is Status.PENDING, "it is given back at once"
            assert not self.loop.left_to_lease

    def goes_on(self) -> None:
        """Another worker does what is left, at the latest when the lease is over."""
        if self.row().status is Status.RUNNING:
            self.seconds += LEASE
        self.machine("w2").rest()

    @property
    def landed(self) -> bool:
        """Whether the commit whose answer was lost did."""
        assert self.store.unfired() == ()
        (fired,) = self.store.fired
        return fired.fault.kind is Kind.LANDED or any(landing.refusal is None for landing in self.store.landings)

    def _work(self, ctx: ToolContext) -> None:
        self._started.set()
        if self._is_told:
            assert ctx.wait(PATIENCE_SECONDS)
            self._told.set()
        wait_until(self._go_on, "the end of the step")


@LOOPS
def test_the_result_of_a_child_that_ends_during_the_drain_is_told_once(loop: type[WorkerLoop]) -> None:
    """By whoever goes on with its parent. Keeps: children-once, taken-once.

    https://github.com/procrastinate-org/procrastinate/issues/1598
    """
    drain = Drain(
        loop,
        lambda work: main_agent(delegates("helper", background=True), asks("work"), says("turn over"), more=[work]),
        helper=helper_agent("the child's word"),
    )
    child = "t.3-0.1"
    assert drain.row(child).status is Status.PENDING

    assert drain.machine("w2").loop.tick()
    assert drain.row(child).status is Status.TERMINAL
    assert drain.row().status is Status.RUNNING
    drain.end()
    drain.goes_on()

    items = [event.message for event in drain.events() if isinstance(event, MessageTaken)] + drain.woken()
    told = [item for item in items if isinstance(item, HumanResponseReceived)]
    assert [(item.sender, "the child's word" in item.text) for item in told] == [(child, True)]
    assert drain.store.read("t").unread == ()
    assert len(drain.paid) == 1


@LOOPS
@LOST_ANSWERS
def test_a_step_that_ends_during_the_drain_is_not_run_again_although_the_answer_is_lost(
    loop: type[WorkerLoop], kind: Kind, later_calls: int | None
) -> None:
    """It is given back at once, or left to its lease. Keeps: acked-stays.

    https://github.com/celery/celery/issues/3802 , https://github.com/PrefectHQ/prefect/pull/23016
    """
    drain = Drain(loop, lambda work: engine(Model((asks("work"), says())), work))
    drain.store.add(Fault(kind, "append", later_calls=later_calls))

    drain.end()
    drain.goes_on()

    finished = [event.source for event in drain.events() if isinstance(event, ToolFinished)]
    assert finished == ["ran" if drain.landed else "unknown"]
    assert drain.paid == [("t:3-0", 1)]
    assert drain.results()[0].startswith("work ran") == drain.landed


@LOST_ANSWERS
def test_a_task_that_ends_during_the_drain_ends_once_although_the_answer_is_lost(
    kind: Kind, later_calls: int | None
) -> None:
    """Keeps: terminal-is-final. https://github.com/celery/celery/issues/3802"""
    drain = Drain(WorkerLoop, lambda work: engine(Model((asks("work"), says())), work), interactive=False)
    drain.store.add(Fault(kind, "append", 2, later_calls=later_calls))

    drain.end()
    drain.goes_on()

    assert drain.landed == (kind is not Kind.NOT_LANDED)
    assert [type(event) for event in drain.events()].count(TaskCompleted) == 1
    assert drain.events()[-1] == TaskCompleted("done")
    assert drain.paid == [("t:3-0", 1)]


@LOOPS
@LOST_ANSWERS
def test_a_job_that_ends_during_the_drain_is_told_once_although_the_answer_is_lost(
    loop: type[WorkerLoop], kind: Kind, later_calls: int | None
) -> None:
    """As it ended, or as lost if the worker gave its task back before that was recorded. Keeps: jobs-told-once.

    https://github.com/celery/celery/issues/3802
    """
    model = Model((asks("background"), asks("work"), says()))
    drain = Drain(loop, lambda work: engine(model, StartsJob(), work))
    drain.store.add(Fault(kind, "append", later_calls=later_calls))

    drain.jobs.finish("3-0")
    drain.end()
    drain.goes_on()

    recorded = [type(event) for event in drain.events() if isinstance(event, JobEnded | JobLost)]
    assert recorded in ([JobEnded], [JobLost])
    if loop is WorkerLoop:
        assert recorded == [JobEnded if drain.landed else JobLost]
    told = [said.text for said in model.requests[-1].said if isinstance(said, UserSaid)]
    assert len([text for text in told if text.startswith("Job 3-0")]) == 1
