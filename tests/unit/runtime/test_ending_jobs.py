"""Jobs that are alive when somebody else must end them: a step that does not hear that its task is to end, and a worker
that stops with many claims kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from noeta.core.events import Event, JobEnded, JobLost, MessageTaken, StepAttemptAbandoned, TaskCancelled, TaskSuspended
from noeta.core.jobs import JobSpec, JobTable
from noeta.core.store import Appended, Claim, Commit, End
from noeta.core.task import Status
from noeta.core.tool import ToolContext
from noeta.core.wake import NEXT_GOAL, ControlReceived, HumanResponseReceived
from noeta.core.world import World
from noeta.runtime.giving_back import give_back
from noeta.runtime.threads import ThreadWorld
from noeta.runtime.worker import ORDER_GRACE_SECONDS
from tests.actors import PATIENCE_SECONDS, Beats, Effect, Model, asks, engine, says, wait_until
from tests.unit.runtime.fake_jobs import SOME_JOB, FakeJobs, FakeTable, StartsJob
from tests.unit.runtime.jobs import stage
from tests.unit.runtime.scene import Scene

LEASE = 600.0
REST = HumanResponseReceived(NEXT_GOAL)
TASKS = 3


class Deaf(Scene):
    """A task ``t`` that has started a job, with its step in a tool that hears no order until it is let go."""

    def __init__(self, table: JobTable, spec: JobSpec = SOME_JOB, *, interactive: bool = False) -> None:
        self.table = table
        self.started, self.go_on, self.gone = threading.Event(), threading.Event(), threading.Event()
        self.beats = Beats()
        self.seconds = 0.0
        agent = engine(
            Model((asks("background", "deaf"), says("done"))), StartsJob(spec), Effect("deaf", [], after=self._ignore)
        )
        super().__init__(
            agent,
            methods={"jobs": table},
            lease_seconds=LEASE,
            heartbeat_wait=self.beats,
            clock=lambda: self.seconds,
        )
        self.create(interactive=interactive)
        self._ticking = threading.Thread(target=self.loop.tick, daemon=True)

    def _ignore(self, ctx: ToolContext) -> None:
        self.started.set()
        wait_until(self.go_on, "the end of the deaf step")
        self.gone.set()

    @contextmanager
    def in_its_step(self) -> Iterator[None]:
        """The step runs; afterwards it was let go."""
        self._ticking.start()
        wait_until(self.started, "the tool's start")
        try:
            yield
        finally:
            self.go_on.set()
            wait_until(self.gone, "the deaf step's end")
            self.beats.end()

    def order(self, action: str) -> None:
        """Somebody ends the task; the keeper hears of it, the step does not, and its grace is over."""
        self.memory.post("t", ControlReceived(action, "enough"), "order")
        self.beats.beat()
        self.seconds += ORDER_GRACE_SECONDS
        self._ticking.join(PATIENCE_SECONDS)
        assert not self._ticking.is_alive(), "the loop still waits for the step"

    def before_append(self, look: Callable[[Sequence[Event]], None]) -> None:
        """See the entries of each commit before they are durable."""
        append = self.memory.append

        def looked_at(claim: Claim, expected_seq: int, commit: Commit) -> Appended:
            look([*commit.entries, *([commit.next.entry] if isinstance(commit.next, End) else [])])
            return append(claim, expected_seq, commit)

        self.memory.append = looked_at  # type: ignore[method-assign]


# -- a step that is cut for an order -----------------------------------------------------------------------


def test_a_task_that_ends_without_its_step_ends_its_job_first() -> None:
    """In one commit, under the claim that the step had. Keeps: jobs-told-once, terminal-is-final."""
    table = FakeTable(ThreadWorld())
    scene = Deaf(table)

    with scene.in_its_step():
        scene.order("cancel")

        assert scene.events()[-3:] == [
            MessageTaken(1, ControlReceived("cancel", "enough")),
            JobEnded("3-0", "stopped", None, None, "a line\n"),
            TaskCancelled("enough"),
        ]
        written = len(scene.events())
    row = scene.memory.task("t")
    assert (row.status, row.epoch, len(scene.events())) == (Status.TERMINAL, 1, written)
    assert scene.signals.kinds() == []
    assert [jobs.live() for jobs in table.by_claim.values()] == [frozenset()]


def test_a_turn_that_ends_without_its_step_keeps_no_claim_for_its_job() -> None:
    """Nobody would go on with it: the loop has given the claim of the cut step up. Keeps: never-stuck."""
    table = FakeTable(ThreadWorld())
    scene = Deaf(table, interactive=True)

    with scene.in_its_step():
        scene.order("close")

        assert scene.events()[-4:] == [
            MessageTaken(1, ControlReceived("close", "enough")),
            StepAttemptAbandoned(7, "close"),
            JobEnded("3-0", "stopped", None, None, "a line\n"),
            TaskSuspended(REST, reason="closed: enough"),
        ]
    row = scene.memory.task("t")
    assert (row.status, row.kept, row.wake_on, row.worker) == (Status.SUSPENDED, False, REST, None)
    scene.memory.post("t", HumanResponseReceived(text="go on"), "m")
    assert scene.loop.tick(), "it is claimable at once"
    assert scene.events()[-1] == TaskSuspended(REST, "done")
    assert not any(isinstance(event, JobLost) for event in scene.events())


@pytest.mark.parametrize("action", ["cancel", "close"])
def test_a_job_that_will_not_end_leaves_the_task_to_its_lease(action: str) -> None:
    """Nothing is recorded that is not so. Keeps: jobs-told-once."""
    table = FakeTable(ThreadWorld())
    table.end_when_stopped = False
    scene = Deaf(table, interactive=True)

    with scene.in_its_step():
        before = len(scene.events())
        scene.order(action)

        assert len(scene.events()) == before
        assert scene.memory.task("t").status is Status.RUNNING
        assert table.gone, "the guard is told that the claim is given up"


@pytest.mark.slow
def test_nothing_of_the_tree_is_left_when_the_end_is_recorded(tmp_path: Path) -> None:
    """Real processes: a shell with a child. Keeps: jobs-told-once."""
    trees = stage.Trees(tmp_path)
    mark = trees.marks["plain"]
    left: list[set[int]] = []

    def look(entries: Sequence[Event]) -> None:
        if any(isinstance(entry, JobEnded | TaskCancelled) for entry in entries):
            left.append(stage.alive(mark))

    with stage.job_table(lease_seconds=LEASE) as (table, _):
        scene = Deaf(table, JobSpec(trees.command("plain"), environment=trees.environment("plain")))
        scene.before_append(look)
        with scene.in_its_step():
            stage.wait_until(lambda: trees.stamps("plain") != [], "the job's first line")
            assert len(stage.alive(mark)) > 1
            scene.order("cancel")

            ended, terminal = scene.events()[-2:]
            assert isinstance(ended, JobEnded)
            assert (ended.job_id, ended.how, terminal) == ("3-0", "stopped", TaskCancelled("enough"))
            assert left == [set()]
            assert scene.memory.task("t").epoch == 1


# -- a worker that stops with many claims kept -------------------------------------------------------------


class Keeping(Scene):
    """A loop that keeps the claims of several tasks, each with a live job."""

    def __init__(self, kind: Callable[[World], FakeJobs] = FakeJobs) -> None:
        self.table = FakeTable(ThreadWorld(), kind)
        agent = engine(Model((asks("background"), says("it runs"))), StartsJob())
        super().__init__(agent, methods={"jobs": self.table}, lease_seconds=LEASE, heartbeat_interval=LEASE / 3)
        for n in range(TASKS):
            self.create(f"t{n}", interactive=True)
        while self.loop.tick():
            pass
        assert [row.kept for row in self.memory.tasks()] == [True] * TASKS

    @property
    def jobs(self) -> list[FakeJobs]:
        return list(self.table.by_claim.values())


def test_the_jobs_of_all_kept_claims_are_stopped_at_once() -> None:
    """Each ignores SIGTERM until its grace is over: one after another, a worker with fifty would outlive its own stop.
    Here none ends before all were told to."""
    told: list[FakeJobs] = []
    all_told = threading.Event()

    class Stubborn(FakeJobs):
        def stop(self, job_ids: Sequence[str] | None = None) -> bool:
            told.append(self)
            if len(told) == TASKS:
                all_told.set()
            return all_told.wait(PATIENCE_SECONDS) and super().stop(job_ids)

    scene = Keeping(Stubborn)
    scene.loop.stop()

    scene.loop.run_forever()

    assert len(told) == TASKS
    rows = list(scene.memory.tasks())
    assert [(row.status, row.kept, row.worker) for row in rows] == [(Status.PENDING, False, None)] * TASKS
    assert [jobs.live() for jobs in scene.jobs] == [frozenset()] * TASKS
    assert not scene.table.closed, "another loop may use it"


def test_a_claim_whose_job_will_not_end_is_left_to_its_lease_and_the_others_are_given_back() -> None:
    scene = Keeping()
    (stuck,) = [jobs for (task, _), jobs in scene.table.by_claim.items() if task == "t1"]
    stuck.ends_when_stopped = False

    assert give_back(scene.loop._process, scene.loop._dispatcher, scene.loop._process.kept.take_all(), 0.0) is False

    assert {row.id: (row.status, row.kept) for row in scene.memory.tasks()} == {
        "t0": (Status.PENDING, False),
        "t1": (Status.SUSPENDED, True),
        "t2": (Status.PENDING, False),
    }
    assert set(scene.table.gone) == set(scene.table.by_claim), "the guard kills what is left"
