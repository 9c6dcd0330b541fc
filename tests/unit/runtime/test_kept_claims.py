"""A task with live jobs keeps its claim while it rests: who hears of what, who goes on, and what is left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from noeta.core import texts
from noeta.core.errors import StoreUnavailable
from noeta.core.events import (
    JobEnded,
    JobLost,
    JobStarted,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    ToolFinished,
)
from noeta.core.model import ModelReply, ModelRequest, RequestedCall, UserSaid
from noeta.core.runner import Engine
from noeta.core.store import Appended, Claim, Commit, Resumed
from noeta.core.task import Status
from noeta.core.tool import ToolContext
from noeta.core.wake import NEXT_GOAL, ControlReceived, HumanResponseReceived
from noeta.plugins import AgentGroup, AskUser, ScheduleWakeup
from noeta.runtime.threads import ThreadWorld
from noeta.runtime.worker import WorkerLoop
from tests.actors import Effect, Model, asks, engine, says
from tests.unit.runtime.fake_jobs import FakeJobs, FakeTable, StartsJob
from tests.unit.runtime.scene import Host, Scene

LEASE = 600.0
SECONDS = 1_000_000


class Stage(Scene):
    """A loop whose process runs jobs, over a task ``t`` whose first reply starts one."""

    def __init__(self, agent: Engine, **fields: Any) -> None:
        self.table = FakeTable(ThreadWorld())
        super().__init__(agent, methods={"jobs": self.table}, lease_seconds=LEASE, clock=lambda: self.clock.seconds)
        self.create(**fields)

    @property
    def jobs(self) -> FakeJobs:
        (jobs,) = self.table.by_claim.values()
        return jobs

    def before_append(self, look: Callable[[Commit], None]) -> None:
        """See each commit before it is sent."""
        append = self.memory.append

        def looked_at(claim: Claim, expected_seq: int, commit: Commit) -> Appended:
            look(commit)
            return append(claim, expected_seq, commit)

        self.memory.append = looked_at  # type: ignore[method-assign]

    def beat(self) -> None:
        """The keeper's next beat."""
        self.loop._process._keeper.beat()

    def other(self) -> WorkerLoop:
        """A worker on another machine over the same store, which has jobs of its own."""
        host = Host(self.store, self.agent, jobs=FakeTable(ThreadWorld()))
        return WorkerLoop(host, worker_id="w2", lease_seconds=LEASE)


def chat(*replies: ModelReply, interactive: bool = True) -> Stage:
    """An agent that starts a job in its first reply, and then says what is given."""
    agent = engine(Model((asks("background"), *replies)), StartsJob(), AskUser(), ScheduleWakeup())
    return Stage(agent, interactive=interactive)


def kinds(scene: Scene) -> list[str]:
    return [type(event).__name__ for event in scene.events()]


def test_a_job_starts_once_its_record_is_durable_and_the_task_keeps_its_claim() -> None:
    stage = chat(says("it runs"))

    assert stage.loop.tick()

    row = stage.memory.task("t")
    assert (row.status, row.kept, row.epoch) == (Status.SUSPENDED, True, 1)
    assert stage.jobs.started.keys() == {"3-0"}
    assert kinds(stage)[3:6] == ["ToolStarted", "ToolFinished", "JobStarted"]
    assert stage.loop.tick() is False, "it rests, and nobody claims it"


def test_a_job_whose_record_did_not_land_is_not_started() -> None:
    """Keeps: jobs-told-once."""
    stage = chat(says())

    def lose(commit: Commit) -> None:
        if any(isinstance(entry, JobStarted) for entry in commit.entries):
            raise StoreUnavailable("planted: the store is away")

    stage.before_append(lose)
    stage.loop.tick()

    assert stage.jobs.started == {}


def test_the_end_of_a_job_wakes_the_task_under_the_same_epoch_and_is_told_once() -> None:
    """Keeps: jobs-told-once."""
    stage = chat(says("it runs"), says("it is done"))
    stage.loop.tick()

    stage.jobs.finish("3-0")
    assert stage.loop.tick()

    row = stage.memory.task("t")
    assert (row.status, row.kept, row.epoch) == (Status.SUSPENDED, False, 1)
    assert [event for event in stage.events() if isinstance(event, JobEnded)] == [
        JobEnded("3-0", "exited", 0, None, "a line\n")
    ]
    assert stage.jobs.known() == frozenset()
    assert told(stage) == ["Job 3-0 exited with code 0. Its output:\na line\n"]


def test_a_message_is_heard_with_the_beat_and_answered_under_the_same_epoch() -> None:
    stage = chat(says("it runs"), says("yes?"))
    stage.loop.tick()

    stage.memory.post("t", HumanResponseReceived(text="hello"), "m")
    assert stage.loop.tick() is False, "a kept wait stays with its owner, who has not heard"
    stage.beat()
    assert stage.loop.tick()

    row = stage.memory.task("t")
    assert (row.kept, row.epoch) == (True, 1)
    assert kinds(stage).count("TaskWoken") == 1
    assert stage.jobs.live() == {"3-0"}


def test_its_owner_fires_the_timer_of_a_kept_task() -> None:
    """Keeps: timers-once."""
    stage = chat(_nap(60), says("awake"))
    stage.loop.tick()
    assert stage.memory.task("t").kept
    assert stage.loop.tick() is False

    stage.clock.seconds += 61
    assert stage.memory.fire_due_timers() == (), "nobody else fires it"
    assert stage.loop.tick()

    assert kinds(stage).count("TaskWoken") == 1
    assert stage.memory.task("t").epoch == 1


def test_a_job_that_ends_while_the_task_waits_for_an_answer_is_recorded_and_the_wait_goes_on() -> None:
    stage = chat(_question(), says("thanks"))
    stage.loop.tick()
    waits = stage.memory.task("t").wake_on

    stage.jobs.finish("3-0", code=3)
    assert stage.loop.tick()

    row = stage.memory.task("t")
    assert (row.status, row.kept, row.wake_on) == (Status.SUSPENDED, False, waits), (
        "no job is left: the claim is not kept"
    )
    assert isinstance(stage.events()[-1], JobEnded)


def test_a_one_shot_task_stops_its_jobs_before_it_ends() -> None:
    """Keeps: jobs-told-once."""
    stage = chat(says("done"), interactive=False)

    stage.loop.tick()

    assert [type(event) for event in stage.events()][-2:] == [JobEnded, TaskCompleted]
    assert stage.events()[-2] == JobEnded("3-0", "stopped", None, None, "a line\n")
    assert stage.jobs.live() == frozenset()


def test_a_job_that_will_not_end_costs_the_claim_and_not_the_promise() -> None:
    """Its task does not end while it lives: the lease runs out, and with it the job."""
    stage = chat(says("done"), interactive=False)
    stage.table.end_when_stopped = False
    stage.loop.tick()

    assert not any(isinstance(event, TaskCompleted) for event in stage.events())
    assert stage.table.gone, "the guard is told that the claim is lost"


def test_a_cancel_of_a_kept_task_is_heard_and_stops_its_jobs() -> None:
    stage = chat(says("it runs"))
    stage.loop.tick()

    posted = stage.memory.post("t", ControlReceived("cancel", "enough"), "c")
    stage.beat()
    stage.loop.tick()

    assert posted.outcome == "stored"
    assert [type(event) for event in stage.events()][-2:] == [JobEnded, TaskCancelled]
    assert stage.jobs.live() == frozenset()


def test_a_close_leaves_the_job_and_the_next_step_is_not_cancelled() -> None:
    stage = chat(says("it runs"), says("again"))
    stage.loop.tick()
    stage.memory.post("t", ControlReceived("close", "stop talking"), "c")
    stage.beat()
    stage.loop.tick()
    assert (stage.memory.task("t").kept, stage.events()[-1]) == (
        True,
        TaskSuspended(HumanResponseReceived(NEXT_GOAL), reason="closed: stop talking"),
    )

    stage.memory.post("t", HumanResponseReceived(text="go on"), "m")
    stage.beat()
    stage.loop.tick()

    assert stage.events()[-1] == TaskSuspended(HumanResponseReceived(NEXT_GOAL), "again")


@pytest.mark.holds("lost/kept-too")
def test_a_lost_claim_stops_its_jobs_and_the_next_owner_finds_them_lost() -> None:
    """Keeps: jobs-told-once."""
    stage = chat(says("it runs"), says("lost, then"))
    stage.loop.tick()
    (key,) = stage.table.by_claim

    stage.clock.seconds += LEASE + 1
    other = stage.other()
    assert other.tick(), "the lease alone makes it claimable"
    stage.beat()
    assert set(stage.table.gone) == {key}, "the keeper stops its jobs, whenever the loop looks"
    stage.loop.tick()

    row = stage.memory.task("t")
    assert (row.epoch, row.kept) == (2, False)
    assert [event for event in stage.events() if isinstance(event, JobLost | JobEnded)] == [JobLost("3-0")]
    assert set(stage.table.gone) == {key}
    assert told(stage) == [texts.JOB_LOST.format(job="3-0")]


@pytest.mark.holds("lost/shutdown-kept")
def test_a_worker_that_stops_ends_its_jobs_and_releases_the_kept_claim() -> None:
    stage = chat(says("it runs"), says("lost, then"))
    stage.loop.tick()

    stage.loop.stop()
    stage.loop.run_forever()

    row = stage.memory.task("t")
    assert (row.status, row.kept, row.epoch, row.worker) == (Status.PENDING, False, 1, None)
    assert stage.jobs.live() == frozenset()
    assert not stage.table.closed, "another loop may use it"
    other = stage.other()
    assert other.tick(), "it is claimable at once"
    assert [event for event in stage.events() if isinstance(event, JobLost | JobEnded)] == [JobLost("3-0")]


def test_a_loop_that_stops_leaves_the_jobs_of_another_over_the_same_table_alone() -> None:
    """Both make a process of their own over the table of their host, which closes it. Keeps: jobs-told-once."""
    stage = chat(says("it runs"), says("it is done"))
    stage.loop.tick()
    beside = WorkerLoop(stage.host, worker_id="w2", lease_seconds=LEASE)

    beside.stop()
    beside.run_forever()

    assert not stage.table.closed
    assert stage.jobs.live() == {"3-0"}
    stage.jobs.finish("3-0")
    assert stage.loop.tick()
    assert [event for event in stage.events() if isinstance(event, JobEnded)] == [
        JobEnded("3-0", "exited", 0, None, "a line\n")
    ]


def test_a_message_that_comes_before_the_rest_is_answered_without_one() -> None:
    """The suspending commit answers that the inbox moved: the row stays running under the same claim."""
    stage = chat(says("it runs"), says("yes?"))

    def say_first(commit: Commit) -> None:
        if any(isinstance(entry, TaskSuspended) for entry in commit.entries):
            stage.memory.post("t", HumanResponseReceived(text="wait"), "m")

    stage.before_append(say_first)
    stage.loop.tick()
    stage.loop.tick()

    row = stage.memory.task("t")
    assert (row.kept, row.epoch, row.inbox_seq) == (True, 1, 1)
    assert stage.events()[-1] == TaskSuspended(HumanResponseReceived(NEXT_GOAL), "yes?")


def test_a_failing_task_stops_its_jobs() -> None:
    stage = chat(interactive=False)  # the model has nothing more to say: a bug, twice

    for _ in range(4):
        stage.loop.tick()
        stage.clock.seconds += 60

    assert [type(event) for event in stage.events()][-2:] == [JobEnded, TaskFailed]
    assert stage.jobs.live() == frozenset()


@pytest.mark.holds("stopping/who-counts")
def test_a_kept_task_may_rest_longer_than_a_step_may_run() -> None:
    """The cap of renewals is for steps."""
    stage = chat(says("it runs"), says("yes?"))
    stage.loop.tick()

    for _ in range(400):
        stage.beat()

    assert stage.memory.task("t").kept
    assert stage.table.gone == []


def test_a_job_of_a_worker_that_runs_none_is_refused() -> None:
    scene = Scene(engine(Model((asks("background"), says())), StartsJob()))
    scene.create()

    scene.loop.tick()

    (refused,) = [event for event in scene.events() if isinstance(event, ToolFinished)]
    assert refused.is_error and "runs no background jobs" in refused.output
    assert not any(isinstance(event, JobStarted) for event in scene.events())


def told(stage: Stage) -> list[str]:
    """What the model was told of jobs, in its last request."""
    assert isinstance(stage.agent.provider, Model)
    request: ModelRequest = stage.agent.provider.requests[-1]
    texts_said = [said.text for said in request.said if isinstance(said, UserSaid)]
    return [text for text in texts_said if text.startswith("Job 3-0")]


def _nap(seconds: float) -> ModelReply:
    return ModelReply("", (RequestedCall("ScheduleWakeup", {"delay_seconds": seconds}),), "tool_use")


def _question() -> ModelReply:
    return ModelReply("", (RequestedCall("AskUser", {"question": "well?"}),), "tool_use")


def test_what_comes_while_the_answer_of_the_suspending_commit_is_on_its_way_is_heard() -> None:
    """A beat may tell of it before the runner knows that the claim is kept. Keeps: wake-once, never-stuck."""
    stage = chat(says("it runs"), says("yes?"))
    append = stage.memory.append

    def late_answer(claim: Claim, expected_seq: int, commit: Commit) -> Appended:
        answer = append(claim, expected_seq, commit)
        if any(isinstance(entry, TaskSuspended) for entry in commit.entries):
            stage.memory.append = append  # type: ignore[method-assign]
            stage.memory.post("t", HumanResponseReceived(text="wait"), "m")
            stage.beat()
        return answer

    stage.memory.append = late_answer  # type: ignore[method-assign]
    stage.loop.tick()
    stage.loop.tick()

    assert kinds(stage).count("TaskWoken") == 1


def test_a_cancel_that_can_be_reopened_stops_the_jobs_and_waits_for_a_person_alone() -> None:
    stage = chat(says("it runs"), says("again"))
    stage.loop._next_goal_handle = "reopen"
    stage.loop.tick()
    stage.memory.post("t", ControlReceived("cancel", "enough"), "c")
    stage.beat()

    stage.loop.tick()

    assert [type(event) for event in stage.events()][-2:] == [JobEnded, TaskSuspended]
    row = stage.memory.task("t")
    assert (row.kept, row.wake_on) == (False, HumanResponseReceived("reopen"))
    assert stage.loop.tick() is False, "no end of a job opens it again"


def test_a_task_that_cannot_be_resumed_is_left_alone_for_a_while() -> None:
    """No loop spins on a store that refuses one verb."""
    stage = chat(says("it runs"), says("done"))
    stage.loop.tick()
    tries: list[int] = []

    def unavailable(claim: Claim) -> Resumed:
        tries.append(1)
        raise StoreUnavailable("planted: the store is away")

    stage.memory.resume = unavailable  # type: ignore[method-assign]
    stage.jobs.finish("3-0")
    for _ in range(20):
        stage.loop.tick()

    assert len(tries) == 1
    assert stage.loop._process.kept.pause(10.0) > 0


def test_a_group_that_was_complete_before_the_rest_is_gone_on_with() -> None:
    """Its members ended while another call of the reply ran, and were seen: the row stays running. Keeps: never-stuck,
    children-once."""
    stages: list[Stage] = []

    def children_end(ctx: ToolContext) -> None:
        other = stages[0].other()
        assert other.tick() and other.tick()
        stages[0].beat()

    members = {"members": [{"agent": "agent", "prompt": prompt} for prompt in ("a", "b")]}
    group = ModelReply("", (RequestedCall("AgentGroup", members), RequestedCall("slow", {})), "tool_use")
    parent = Model((asks("background"), group, says("both")))

    class Family:
        def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
            goal = request.said[0]
            assert isinstance(goal, UserSaid)
            return says("ended") if goal.text in "ab" else parent.call(request, attempt=attempt)

    agent = engine(parent, StartsJob(), AgentGroup(), Effect("slow", [], after=children_end))
    stages.append(Stage(replace(agent, provider=Family()), interactive=True))

    stages[0].loop.tick()
    stages[0].loop.tick()

    assert stages[0].events()[-1] == TaskSuspended(HumanResponseReceived(NEXT_GOAL), "both")
