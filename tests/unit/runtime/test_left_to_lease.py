"""What a worker that stops says of the tasks it could not give back, and records of their jobs before it does."""

from __future__ import annotations

from noeta.backends.stores.memory import MemoryStore
from noeta.core.errors import CommitUnknown
from noeta.core.events import JobEnded, JobLost
from noeta.core.store import Appended, Claim, Commit, NewTask
from noeta.core.task import Status
from noeta.runtime.service import ReleasingLoop
from noeta.runtime.threads import ThreadWorld
from noeta.runtime.worker import WorkerLoop
from noeta.testing.faults import Fault, FaultyStore, Kind
from noeta.testing.profile import bundle
from tests.actors import PATIENCE_SECONDS, Model, asks, engine, says
from tests.unit.runtime.fake_jobs import StartsJob
from tests.unit.runtime.test_draining_ends import Drain


def test_a_task_whose_step_lost_the_store_during_the_drain_is_said_to_be_left() -> None:
    """`left_to_lease`: "some task may still be claimed by this loop though it stopped"."""
    drain = Drain(WorkerLoop, lambda work: engine(Model((asks("work"), says())), work))
    drain.store.add(Fault(Kind.LANDED, "append"))

    drain.end()

    assert drain.row().status is Status.RUNNING
    assert drain.loop.left_to_lease


def test_a_job_that_ended_before_its_running_task_is_given_back_is_not_told_as_lost() -> None:
    model = Model((asks("background"), asks("work"), says()))
    drain = Drain(ReleasingLoop, lambda work: engine(model, StartsJob(), work))

    drain.jobs.finish("3-0")
    drain.end()
    drain.goes_on()

    recorded = [type(event) for event in drain.events() if isinstance(event, JobEnded | JobLost)]
    assert recorded == [JobEnded]


def test_a_stop_that_comes_while_a_commit_loses_its_answer_gives_the_task_back() -> None:
    """`noeta worker`'s own loop: the step ends before the loop has told it to stop."""
    memory = MemoryStore()
    memory.create(NewTask("t", "agent", "goal"))
    store = FaultyStore(memory)
    loop = ReleasingLoop(bundle(store, engine(Model((says(),)))), poll_interval=0.01, lease_seconds=600.0)
    append = memory.append

    def stop_and_lose(claim: Claim, expected_seq: int, commit: Commit) -> Appended:
        append(claim, expected_seq, commit)
        loop.stop()
        raise CommitUnknown("planted")

    memory.append = stop_and_lose  # type: ignore[method-assign]
    assert ThreadWorld().spawn("loop", loop.run_forever).done.wait(PATIENCE_SECONDS)

    assert memory.task("t").status is Status.PENDING or loop.left_to_lease
