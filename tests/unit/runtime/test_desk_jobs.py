"""The jobs of a task at the desk of one drive: when one is started, and whose ends are noted or forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.core.events import JobEnded, JobStarted, StepAttemptAbandoned
from noeta.core.jobs import OUTPUT_CHARS_TOLD, JobEnd, JobOutput
from noeta.core.runner.desk import Desk
from noeta.core.runner.lease import ClaimLost, Held
from noeta.core.store import Appended, Claim, Commit, Continue, NewTask
from noeta.core.task import Status
from noeta.core.tool import ToolContext, ToolResult
from noeta.runtime.seams import SeamWorld
from noeta.runtime.threads import ThreadWorld
from tests.actors import Model, asks, engine, says
from tests.unit.runtime.fake_jobs import SOME_JOB, FakeJobs, FakeTable, StartsJob
from tests.unit.runtime.scene import Scene

LEASE = 600.0


class Front:
    """A claimed task, and the desk of a drive of it. ``append_seconds``: how long a commit is on its way."""

    def __init__(self) -> None:
        self.seconds = self.append_seconds = 0.0
        self.seals: list[dict[str, Any]] = []
        world = SeamWorld(ThreadWorld(), monotonic=lambda: self.seconds)
        self.memory = MemoryStore()
        self.memory.create(NewTask("t", "agent", "goal"))
        (claim,) = self.memory.claim("w1", None, LEASE).claims
        self.held = Held(world, self, claim, self.seconds + LEASE)  # type: ignore[arg-type]
        self.jobs = self.held.jobs = FakeJobs(world)
        self.desk = Desk(self.memory, self.held, self._sealed)
        self.desk.load()

    def append(self, claim: Claim, expected_seq: int, commit: Commit) -> Appended:
        self.seconds += self.append_seconds
        return self.memory.append(claim, expected_seq, commit)

    def _sealed(self, reason: str, seq: int) -> None:
        self.seals.append(dict(self.jobs.started))

    def note_start(self, job_id: str = "3-0") -> None:
        self.desk.note(JobStarted(job_id, SOME_JOB.command), job=SOME_JOB)


# -- starts ------------------------------------------------------------------------------------------------


def test_a_worker_that_stops_starts_no_job_whose_record_was_on_its_way() -> None:
    """It would only be killed: the claim is about to be given back."""
    front = Front()
    front.note_start()
    front.held.stop()

    front.desk.flush(Continue())

    assert isinstance(front.memory.read("t").entries[-1].event, JobStarted)
    assert front.jobs.started == {}


def test_a_job_is_not_started_once_the_lease_may_be_over() -> None:
    """Its record was on its way for as long as the lease had left. Keeps: one-writer."""
    front = Front()
    front.note_start()
    front.append_seconds = LEASE

    with pytest.raises(ClaimLost, match="its lease is over"):
        front.desk.flush(Continue())

    assert isinstance(front.memory.read("t").entries[-1].event, JobStarted)
    assert front.jobs.started == {}


def test_a_job_is_started_before_anybody_hears_of_what_was_recorded_beside_it() -> None:
    """Who hears of a seal is the host's: it may take long, and the job is said to run."""
    front = Front()
    front.desk.note(StepAttemptAbandoned(1, "auto_redrive"))
    front.note_start()

    front.desk.flush(Continue())

    assert front.seals == [{"3-0": SOME_JOB}]


# -- ends --------------------------------------------------------------------------------------------------


def test_the_end_of_a_job_that_the_log_does_not_know_is_forgotten() -> None:
    front = Front()
    front.jobs.start("beside", SOME_JOB)
    assert not front.desk.note_jobs()
    assert front.jobs.known() == {"beside"}, "it runs"

    front.jobs.finish("beside")

    assert not front.desk.note_jobs(), "there is nothing to tell"
    assert (front.jobs.known(), front.desk.has_notes) == (frozenset(), False)


def test_an_end_that_is_noted_is_kept_until_it_is_durable() -> None:
    front = Front()
    front.note_start()
    front.desk.flush(Continue())
    front.jobs.finish("3-0")
    assert front.desk.note_jobs()

    assert not front.desk.note_jobs()
    assert front.jobs.known() == {"3-0"}
    front.desk.flush(Continue())

    assert front.jobs.known() == frozenset()
    assert isinstance(front.memory.read("t").entries[-1].event, JobEnded)


@pytest.mark.parametrize("start", [83_616, 0])
def test_the_end_says_how_much_came_before_what_it_tells_of(start: int) -> None:
    """By the bytes that the job wrote, whatever they became as text."""
    front = Front()
    front.note_start()
    front.desk.flush(Continue())
    front.jobs.finish("3-0")
    told = JobOutput("\ufffd" * (100_000 - start), start, 100_000)
    front.jobs.over["3-0"] = JobEnd("3-0", "exited", 0, None, told)

    front.desk.note_jobs()
    front.desk.flush(Continue())

    event = front.memory.read("t").entries[-1].event
    assert isinstance(event, JobEnded)
    assert event.output == "[cut: 83616 bytes before this]\n" + told.text[-OUTPUT_CHARS_TOLD:]


class WarmsUp(StartsJob):
    """Starts a second job beside the one that it names, and waits for none of them."""

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        assert ctx.jobs is not None
        ctx.jobs.start("beside", SOME_JOB)
        return super().run(input, ctx)


def test_a_kept_task_rests_again_after_the_end_of_a_job_that_a_tool_ran_beside_the_log() -> None:
    """Or it would be driven again and again, as fast as the store answers. Keeps: bounded."""
    table = FakeTable(ThreadWorld())
    scene = Scene(engine(Model((asks("background"), says("it runs"))), WarmsUp()), methods={"jobs": table})
    scene.create(interactive=True)
    scene.loop.tick()
    (jobs,) = table.by_claim.values()
    assert jobs.live() == {"3-0", "beside"}

    jobs.finish("beside")
    scene.loop.tick()

    assert scene.loop.tick() is False, "it rests"
    row = scene.memory.task("t")
    assert (row.status, row.kept, row.epoch) == (Status.SUSPENDED, True, 1)
    assert jobs.live() == {"3-0"}
